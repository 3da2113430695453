// Repeatable randomness: one seed always gives the same draws, in streams that do not disturb each other; and the hash behind it.
import type { Random } from "../ports/ports.ts";

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

export type SeededRandom = Random & {
  /** Uniform over the whole numbers from `min` to `max`, both included. */
  integer(min: number, max: number): number;
  /** True with this probability; draws nothing when it is 0, so that a fault that is off costs no draw. */
  chance(probability: number): boolean;
  pick<Item>(items: readonly Item[]): Item;
  /** The stream of this name: the same one when asked again, and untouched by draws from any other. */
  stream(name: string): SeededRandom;
  /** Draws so far by this generator and every stream of the same seed. */
  draws(): number;
};

export function createSeededRandom(seed: number): SeededRandom {
  return new Stream(`seed ${seed}`, { draws: 0 });
}

/** Where the words of a token are put together: one text of four numbers, padded and joined, took 2 % of a simulation. */
const tokenBytes = Buffer.alloc(16);

/** Chris Doty-Humphrey's small fast counter, sfc32: 128 bits of state, which the path fills. */
class Stream implements SeededRandom {
  readonly #path: string;
  readonly #count: { draws: number };
  readonly #streams = new Map<string, Stream>();
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(path: string, count: { draws: number }) {
    this.#path = path;
    this.#count = count;
    this.#a = mix(path, 1);
    this.#b = mix(path, 2);
    this.#c = mix(path, 3);
    // The first words still show the likeness of similar paths.
    for (let round = 0; round < 12; round += 1) this.#next();
  }

  token(): string {
    for (let at = 0; at < tokenBytes.length; at += 4) tokenBytes.writeUInt32BE(this.#word(), at);
    return tokenBytes.toString("hex");
  }

  fraction(): number {
    return this.#word() / 2 ** 32;
  }

  integer(min: number, max: number): number {
    return min + Math.floor(this.fraction() * (max - min + 1));
  }

  chance(probability: number): boolean {
    return probability > 0 && this.fraction() < probability;
  }

  pick<Item>(items: readonly Item[]): Item {
    if (items.length === 0) throw new Error("cannot pick from nothing");
    return items[this.integer(0, items.length - 1)] as Item;
  }

  stream(name: string): SeededRandom {
    let stream = this.#streams.get(name);
    if (stream === undefined) {
      stream = new Stream(`${this.#path}/${name}`, this.#count);
      this.#streams.set(name, stream);
    }
    return stream;
  }

  draws(): number {
    return this.#count.draws;
  }

  #word(): number {
    this.#count.draws += 1;
    return this.#next();
  }

  #next(): number {
    const a = this.#a;
    const b = this.#b;
    const c = this.#c;
    const word = (((a + b) | 0) + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = b ^ (b >>> 9);
    this.#b = (c + (c << 3)) | 0;
    this.#c = (((c << 21) | (c >>> 11)) + word) | 0;
    return word >>> 0;
  }
}

/** A hash of the text, started differently for each of the words that fill the state. */
function mix(text: string, salt: number): number {
  let hash = fnv1a(fnv1aStart ^ Math.imul(salt, 0x9e3779b1), text);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) | 0;
}
