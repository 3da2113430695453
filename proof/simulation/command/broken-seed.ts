// What to read, and what to type, when a seed has broken an invariant.

import { invariants } from "../invariants/invariants.ts";
import type { BrokenSeed } from "./batch.ts";
import { asOptions, type SeedWork, simulateWork } from "./seed-work.ts";
import { shrink } from "./shrink.ts";
import { linesAbout, readableTrace } from "./trace.ts";

export function describeBroken({ seed, violation, hash }: BrokenSeed, work: SeedWork = {}): string {
  const { invariant, event, atMs, what } = violation;
  return [
    `seed ${seed} broke ${invariant} in event ${event}, at ${atMs.toFixed(3)} ms (trace ${hash})`,
    `  must hold: ${invariants[invariant].statement}`,
    `  happened:  ${what}`,
    `  replay:    ${replayCommand(seed, work)}`,
  ].join("\n");
}

export function replayCommand(seed: number, work: SeedWork): string {
  return `npm run sim -- --seed ${seed} --trace${asOptions(work)}`;
}

/** The last of what happened to what the violation names, from a replay of the seed. */
export async function tellStory({ seed, violation }: BrokenSeed, work: SeedWork): Promise<string> {
  const lines: string[] = [];
  const trace = readableTrace((line) => lines.push(line));
  await simulateWork(seed, work, trace);
  trace.end();
  const about = linesAbout(lines, violation.what);
  const head = `  the last ${about.length} of ${lines.length} lines of its trace, about what it names:`;
  return [head, ...about.map((line) => `    ${line}`)].join("\n");
}

/** A smaller world that breaks the same invariant, and how to see it. */
export async function describeShrunk(broken: BrokenSeed, work: SeedWork): Promise<Told> {
  const shrunk = await shrink(broken, work);
  const { reduce, tries } = shrunk;
  if (reduce.length === (work.reduce ?? []).length) {
    return { text: `  nothing of it can be left out (${tries} tries)`, broken, work };
  }
  const smaller = { ...work, reduce };
  const { violation, events } = shrunk.broken;
  const text = [
    `  shrunk to ${events} events in ${tries} tries: ${reduce.join(", ")}`,
    `  happened:  ${violation.what}`,
    `  replay:    ${replayCommand(broken.seed, smaller)}`,
  ].join("\n");
  return { text, broken: shrunk.broken, work: smaller };
}

type Told = { readonly text: string; readonly broken: BrokenSeed; readonly work: SeedWork };
