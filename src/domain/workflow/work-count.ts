// Counts the work that reading a definition takes: the same number on every machine, with a limit, and a pause now and then.
import type { Sliced } from "../slices.ts";
import type { Problem } from "./compiled.ts";
import type { SchemaMode } from "./json-schema.ts";

/** What the work is done for, as its author knows it. */
type WorkPart = "text" | "steps" | "links" | "schemas" | "expressions" | "references";

/** One is about a microsecond on a machine of 2025. */
export type Work = {
  readonly mode: SchemaMode;
  readonly counts: Record<WorkPart, number>;
  readonly max: number;
  sincePause: number;
};

/**
 * A definition of 256 KiB full of expressions counts 400,000, one of 1,000 ordinary steps 150,000. What counts more reads
 * many places that many steps write, or has schemas that are costly to make ready.
 */
const workMax = 1_000_000;

/** Between two pauses: about 5 ms, so that a machine four times as slow still pauses every 20. */
const sliceMax = 5_000;

/** What is stored already was valid when it was saved, and is read however long it takes. */
export function newWork(mode: SchemaMode = "new"): Work {
  const counts = { text: 0, steps: 0, links: 0, schemas: 0, expressions: 0, references: 0 };
  return { mode, counts, max: mode === "new" ? workMax : Number.POSITIVE_INFINITY, sincePause: 0 };
}

export function spend(work: Work, part: WorkPart, amount: number): void {
  work.counts[part] += amount;
  work.sincePause += amount;
}

/** Pauses when it is time to; small definitions never do. */
export function* pause(work: Work): Sliced<void> {
  if (work.sincePause < sliceMax) return;
  work.sincePause = 0;
  yield;
}

export function countOf({ counts }: Work): number {
  return Math.ceil(Object.values(counts).reduce((sum, count) => sum + count, 0));
}

export function isTooMuch(work: Work): boolean {
  return countOf(work) > work.max;
}

const meanings: Readonly<Record<WorkPart, string>> = {
  text: "its length",
  steps: "its steps",
  links: "the names of steps that its steps wait for or begin",
  schemas: "its schemas and their patterns",
  expressions: "its expressions",
  references: "its expressions that read places in ctx which many steps write",
};

/** Names what costs most. */
export function problemOfWork(work: Work): Problem {
  const [costliest = "text", count = 0] =
    (Object.entries(work.counts) as [WorkPart, number][]).toSorted(
      ([, left], [, right]) => right - left,
    )[0] ?? [];
  const most = `${meanings[costliest]} (${Math.ceil(count)})`;
  const message = `takes too much work to read: ${countOf(work)} units of work by then, where ${work.max} are allowed, most of it for ${most}; split the workflow, or simplify these`;
  return { path: costliest === "steps" || costliest === "text" ? "" : "steps", message };
}
