// Members of one scope in ascending order, in blocks of bounded length: adding and removing one costs the same in a large scope.

/** Past this length a block is split. 100,000 members take 2.4 µs each with 128, 2.0 with 512, 1.9 with 2,048, and 73 in one array. */
const blockLengthMax = 512;

export class OrderedMembers {
  /** Each block is ordered, none is empty, and all of a block is less than the first of the next. */
  readonly #blocks: string[][] = [];

  constructor(members: Iterable<string>) {
    const sorted = [...members].sort(byCodeUnits);
    for (let start = 0; start < sorted.length; start += blockLengthMax) {
      this.#blocks.push(sorted.slice(start, start + blockLengthMax));
    }
  }

  /** The member must not be present. */
  add(member: string): void {
    const index = Math.max(0, this.#blocksFrom(member) - 1);
    const block = this.#blocks[index];
    if (block === undefined) {
      this.#blocks.push([member]);
      return;
    }
    const at = countUpTo(block, member);
    if (block.length < blockLengthMax) {
      block.splice(at, 0, member);
      return;
    }
    // What is appended at the very end gets a new block, so that a scope that only grows has full ones.
    const isLast = at === block.length && index === this.#blocks.length - 1;
    const second = isLast ? [] : block.splice(block.length >>> 1);
    this.#blocks.splice(index + 1, 0, second);
    const target = isLast || at > block.length ? second : block;
    target.splice(countUpTo(target, member), 0, member);
  }

  /** The member must be present. */
  remove(member: string): void {
    const index = this.#blocksFrom(member) - 1;
    const block = this.#blocks[index] as string[];
    const at = countUpTo(block, member) - 1;
    if (at === 0) block.shift();
    else block.splice(at, 1);
    if (block.length === 0) this.#blocks.splice(index, 1);
    else this.#joinWithNext(index);
  }

  /** Members greater than `after` in ascending order, at most `limit`. */
  after(after: string, limit: number): string[] {
    const found: string[] = [];
    let index = Math.max(0, this.#blocksFrom(after) - 1);
    let start = countUpTo(this.#blocks[index] ?? [], after);
    for (; index < this.#blocks.length && found.length < limit; index += 1) {
      const block = this.#blocks[index] as string[];
      const end = Math.min(block.length, start + limit - found.length);
      for (let at = start; at < end; at += 1) found.push(block[at] as string);
      start = 0;
    }
    return found;
  }

  /** Members less than `before` in descending order, at most `limit`. */
  before(before: string, limit: number): string[] {
    const found: string[] = [];
    for (let index = this.#blocksFrom(before) - 1; index >= 0 && found.length < limit; index -= 1) {
      const block = this.#blocks[index] as string[];
      let at = countUpTo(block, before) - 1;
      if (block[at] === before) at -= 1;
      for (; at >= 0 && found.length < limit; at -= 1) found.push(block[at] as string);
    }
    return found;
  }

  /** Without it, removals all over would leave as many blocks as members. */
  #joinWithNext(index: number): void {
    const block = this.#blocks[index] as string[];
    const next = this.#blocks[index + 1];
    if (next === undefined || block.length + next.length > blockLengthMax / 2) return;
    block.push(...next);
    this.#blocks.splice(index + 1, 1);
  }

  /** How many blocks start with a member that is not greater. */
  #blocksFrom(member: string): number {
    let low = 0;
    let high = this.#blocks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (((this.#blocks[middle] as string[])[0] as string) <= member) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** How many members are not greater than `member`: where it would be inserted, or one past where it is. */
function countUpTo(ordered: readonly string[], member: string): number {
  let low = 0;
  let high = ordered.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ordered[middle] as string) <= member) low = middle + 1;
    else high = middle;
  }
  return low;
}

function byCodeUnits(one: string, other: string): number {
  return one < other ? -1 : 1;
}
