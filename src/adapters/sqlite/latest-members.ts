// Which members of a scope cannot be in the file: new ones nearly always follow all others, so that most need not be looked for.

/** About as many runs as begin within some milliseconds: only those of the same millisecond come in no order. */
const knownMax = 128;

/** Starts from the greatest member that the file has; every member that is written after that has to be added. */
export class LatestMembers {
  #before: string;
  readonly #known = new Set<string>();

  constructor(greatest: string) {
    this.#before = greatest;
  }

  isNew(member: string): boolean {
    return member > this.#before && !this.#known.has(member);
  }

  add(member: string): void {
    if (member <= this.#before) return;
    this.#known.add(member);
    if (this.#known.size < knownMax) return;
    for (const known of this.#known) if (known > this.#before) this.#before = known;
    this.#known.clear();
  }
}
