// Collects problems with their places: the first fifty are listed, the others counted.
import { excerptOf } from "../excerpt.ts";
import type { Problem } from "./compiled.ts";
import { placeIn } from "./place.ts";

const problemsMax = 50;

/** A message repeats what the caller sent. */
const messageCharactersMax = 600;

export class ProblemList {
  readonly #root: string;
  readonly #problems: Problem[] = [];
  readonly #path: (string | number)[] = [];
  #found = 0;

  constructor(root: string) {
    this.#root = root;
  }

  get found(): number {
    return this.#found;
  }

  /** From now on problems are those of an inner value, until `leave`. */
  enter(name: string | number): void {
    this.#path.push(name);
  }

  leave(): void {
    this.#path.pop();
  }

  add(message: string): void {
    this.#found += 1;
    if (this.#problems.length >= problemsMax) return;
    const path = this.#path.reduce<string>((place, name) => {
      if (typeof name === "number" || /^\d+$/.test(name)) return `${place}[${excerptOf(String(name))}]`;
      return placeIn(place, name);
    }, this.#root);
    this.#problems.push({ path, message: excerptOf(message, messageCharactersMax) });
  }

  /** Where no inner place is to blame. */
  addToWhole(message: string): void {
    const path = this.#path.splice(0);
    this.add(message);
    this.#path.push(...path);
  }

  addAt(name: string | number, message: string): void {
    this.enter(name);
    this.add(message);
    this.leave();
  }

  /** Forgets what was found since then: another way to fit was found. */
  forgetAfter(found: number): void {
    this.#found = Math.min(this.#found, found);
    this.#problems.length = Math.min(this.#problems.length, found);
  }

  listed(): readonly Problem[] {
    const more = this.#found - this.#problems.length;
    if (more === 0) return this.#problems;
    return [...this.#problems, { path: this.#root, message: `and ${more} more problems` }];
  }
}
