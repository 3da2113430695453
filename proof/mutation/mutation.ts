// What a mutation is, in any language: one text of a file replaced by another, known by its lines and not by their numbers.
import { createHash } from "node:crypto";

export type Mutation = {
  /** Below the root of the checkout. */
  readonly file: string;
  readonly kind: string;
  /** Counted from one, as editors do. */
  readonly line: number;
  readonly from: number;
  readonly to: number;
  readonly text: string;
};

export type Mutant = {
  /** The same as long as its lines are the same, wherever they stand. */
  readonly id: string;
  readonly mutation: Mutation;
  /** The lines as they were and as they are, as a patch shows them. */
  readonly was: string;
  readonly is: string;
  /** Which of the mutations of a file that look the same, counted from one. */
  readonly occurrence: number;
};

export type Judgement =
  | { readonly kind: "killed"; readonly by: string }
  /** Although so many cases or test files pass its place. */
  | { readonly kind: "survived"; readonly reached: number }
  /** It cannot be compiled. */
  | { readonly kind: "invalid" };

export function mutate(source: string, { from, to, text }: Mutation): string {
  return source.slice(0, from) + text + source.slice(to);
}

/** Mutations that look the same and stand in the same place are one. */
export function mutantsOf(source: string, mutations: readonly Mutation[]): readonly Mutant[] {
  const seen = new Set<string>();
  const occurrences = new Map<string, number>();
  return mutations.flatMap((mutation) => {
    const place = `${mutation.from} ${mutation.to} ${mutation.text}`;
    if (seen.has(place)) return [];
    seen.add(place);
    const lines = linesOf(source, mutation);
    const look = [mutation.file, mutation.kind, lines.was, lines.is].join("\n");
    const occurrence = (occurrences.get(look) ?? 0) + 1;
    occurrences.set(look, occurrence);
    const id = createHash("sha1").update(`${look}\n${occurrence}`).digest("hex").slice(0, 12);
    return [{ id, mutation, ...lines, occurrence }];
  });
}

function linesOf(source: string, mutation: Mutation): { readonly was: string; readonly is: string } {
  const start = source.lastIndexOf("\n", mutation.from - 1) + 1;
  const end = (text: string, from: number) => {
    const found = text.indexOf("\n", from);
    return found === -1 ? text.length : found;
  };
  const changed = mutate(source, mutation);
  return {
    was: source.slice(start, end(source, mutation.to)).trim(),
    is: changed.slice(start, end(changed, mutation.from + mutation.text.length)).trim(),
  };
}

/** For one who adds many mutations of one source: the line of a place, in logarithmic time. */
export function lineFinder(source: string): (at: number) => number {
  const starts = [0, ...[...source.matchAll(/\n/g)].map(({ index }) => index + 1)];
  return (at) => {
    let [low, high] = [0, starts.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if ((starts[middle] as number) <= at) low = middle;
      else high = middle;
    }
    return low + 1;
  };
}
