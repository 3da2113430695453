// The FNV-1a hash over text, one piece after the other: small, fast and the same everywhere.
export const fnv1aStart = 0x811c9dc5;

export function fnv1a(hash: number, text: string): number {
  let mixed = hash;
  for (let index = 0; index < text.length; index += 1) {
    mixed = Math.imul(mixed ^ text.charCodeAt(index), 0x01000193);
  }
  return mixed;
}

export function fnv1aText(hash: number): string {
  return (hash >>> 0).toString(16).padStart(8, "0");
}
