// Two whole numbers to 32 bits that look random. Sets are told apart by the exclusive or of two such values for each member: 64 bits.
// Of a million sets two would look alike once in 40 million searches, and a search that takes them for one finds less, never more.
export function scatter(first: number, second: number): number {
  let mixed = Math.imul(first + 0x9e3779b9, 0x85ebca6b) ^ Math.imul(second + 0x7f4a7c15, 0xc2b2ae35);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
  return mixed ^ (mixed >>> 15);
}
