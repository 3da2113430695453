// Seeds that once broke something, with why: they are simulated first, for ever.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { invariants } from "../invariants/invariants.ts";
import type { BrokenSeed } from "./batch.ts";
import type { SeedWork } from "./seed-work.ts";

type Regression = Pick<SeedWork, "reduce" | "store"> & { readonly seed: number; readonly why: string };

/** The checkout that this file is in, or its compiled copy. */
export const root = checkoutAround(import.meta.dirname);

const regressionsPath = join(root, "test", "simulation", "regressions.json");

export function readRegressions(path: string = regressionsPath): readonly Regression[] {
  return JSON.parse(readFileSync(path, "utf8")) as readonly Regression[];
}

/** Adds it unless the same one is there. */
export function keepRegression(
  { seed, violation }: BrokenSeed,
  { reduce, store }: SeedWork,
  path: string = regressionsPath,
): "kept" | "there" {
  const known = readRegressions(path);
  const isSame = (other: Regression) =>
    other.seed === seed && other.store === store && (other.reduce ?? []).join() === (reduce ?? []).join();
  if (known.some(isSame)) return "there";
  const why = `${violation.invariant}, ${invariants[violation.invariant].statement} ${violation.what}`;
  const added: Regression = {
    seed,
    why,
    ...(reduce === undefined ? {} : { reduce }),
    ...(store === undefined ? {} : { store }),
  };
  writeFileSync(path, `${JSON.stringify([...known, added], null, 2)}\n`);
  return "kept";
}

function checkoutAround(folder: string): string {
  return existsSync(join(folder, "npm-shrinkwrap.json")) ? folder : checkoutAround(dirname(folder));
}
