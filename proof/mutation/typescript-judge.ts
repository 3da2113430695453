// Says which mutants of an area no test notices: all of them are compiled in once, and each test file is loaded once for all of them.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { createVitest, type Reporter, type TestSpecification, type Vitest } from "vitest/node";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { Judgement, Mutant } from "./mutation.ts";
import { addRow, isKill, isOwnTest, type Plan, type Row, readRows } from "./typescript-plan.ts";
import { type Numbered, withSwitches } from "./typescript-switch.ts";

type Setting = {
  readonly root: string;
  /** Where the rows of this run are kept. */
  readonly folder: string;
  /** What its rows say of an earlier run is believed. */
  readonly resume: boolean;
  readonly tests: readonly string[];
  /** Where it is known which test file is to kill a mutant. */
  readonly only?: Readonly<Record<string, string>> | undefined;
  readonly setupFiles: readonly string[];
  /** So long a mutant's tests may take, if they usually take less than a fifth of it. */
  readonly limitMsMin?: number;
};

const workers = 2;

/** The tests that reach a mutant in the midst of the engine take two minutes. Whatever notices it does so early. */
const eachMsMax = 10_000;

/** So long after the end of its time a worker is still given to notice it itself. */
const graceMs = 10_000;
const watchMs = 1_000;

export async function judgeMutants(
  mutants: readonly Mutant[],
  setting: Setting,
): Promise<ReadonlyMap<string, Judgement>> {
  if (!setting.resume) rmSync(setting.folder, { recursive: true, force: true });
  mkdirSync(setting.folder, { recursive: true });
  const plan = {
    folder: setting.folder,
    ids: mutants.map(({ id }) => id),
    files: mutants.map(({ mutation }) => mutation.file),
    eachMsMax,
    limitMsMin: setting.limitMsMin ?? 5_000,
    only: setting.only ?? {},
  };
  const vitest = await open(plan, mutants, setting);
  const stopWatching = watchWorkers(plan);
  try {
    const specifications = await vitest.globTestSpecifications();
    const importing = specifications.filter(importersOf(mutants, setting));
    let waiting = inOrder(setting, mutants, notDone(setting, plan, importing));
    while (waiting.length > 0) {
      const before = readRows(plan).length;
      await vitest.runTestSpecifications(waiting);
      noteDead(plan);
      const left = notDone(setting, plan, waiting);
      if (readRows(plan).length === before) {
        throw new Error(`no progress in ${left.map(({ moduleId }) => moduleId).join(", ")}`);
      }
      waiting = left;
    }
  } finally {
    stopWatching();
    await vitest.close();
  }
  noteTests(setting, plan);
  const found = findingsOf(plan);
  rmSync(setting.folder, { recursive: true, force: true });
  return found;
}

async function open(plan: Plan, mutants: readonly Mutant[], setting: Setting): Promise<Vitest> {
  const silent: Reporter = {};
  return await createVitest(
    "test",
    {
      ...{ config: false, watch: false, root: setting.root, include: [...setting.tests] },
      setupFiles: [...setting.setupFiles],
      runner: join(import.meta.dirname, "typescript-runner.ts"),
      ...{ pool: "forks", maxWorkers: workers, reporters: [silent], silent: true },
      ...{ testTimeout: 120_000, hookTimeout: 120_000, expect: { poll: { timeout: 30_000 } } },
      ...{ dangerouslyIgnoreUnhandledErrors: true, passWithNoTests: true },
      sequence: { sequencer: InThisOrder },
      provide: { mutationPlan: plan },
    },
    { plugins: [switches(mutants, setting.root)], logLevel: "silent" },
  );
}

class InThisOrder {
  sort(files: TestSpecification[]): TestSpecification[] {
    return files;
  }
  shard(files: TestSpecification[]): TestSpecification[] {
    return files;
  }
}

/** Before types are removed, since places are those of the file as it is written. */
function switches(mutants: readonly Mutant[], root: string) {
  const byFile = new Map<string, Numbered[]>();
  for (const [number, { mutation }] of mutants.entries()) {
    const known = byFile.get(mutation.file) ?? [];
    known.push({ number, mutation });
    byFile.set(mutation.file, known);
  }
  return {
    name: "mutation-switches",
    enforce: "pre" as const,
    transform(code: string, id: string) {
      const path = relative(root, id.split("?")[0] ?? id);
      if (!path.startsWith("src/") || !path.endsWith(".ts")) return undefined;
      return { code: withSwitches(path, code, byFile.get(path) ?? []), map: null };
    },
  };
}

type Began = Extract<Row, { readonly kind: "began" }>;

/** What was begun and has no verdict: of a worker that is at it, or has ended. */
function unfinished(plan: Plan): readonly Began[] {
  const open = new Map<string, Began>();
  for (const row of readRows(plan)) {
    if (row.kind === "began") open.set(row.test, row);
    else open.delete(row.test);
  }
  return [...open.values()];
}

/**
 * A loop without a call in it does not look at its time, and a test may wait longer than its mutant is given. Twice the
 * time, since the tests run again without the mutant.
 */
function watchWorkers(plan: Plan): () => void {
  const look = () => {
    for (const { pid, limitMs, atMs } of unfinished(plan)) {
      if (systemClock.wallMs() - atMs > 2 * limitMs + graceMs) endProcess(pid);
    }
    cancel = systemClock.timer(watchMs, look);
  };
  let cancel = systemClock.timer(watchMs, look);
  return () => cancel();
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended meanwhile.
  }
}

/** What a worker was at when it ended: the mutant took its memory, or its time. */
function noteDead(plan: Plan): void {
  for (const { test, id, pid } of unfinished(plan)) {
    addRow(plan, { kind: "died", test, id, by: `the end of process ${pid}` });
  }
}

function findingsOf(plan: Plan): ReadonlyMap<string, Judgement> {
  const reached = new Map<string, Set<string>>();
  const kills = new Map<string, string>();
  for (const row of readRows(plan)) {
    if (row.kind === "reached") {
      for (const id of row.ids) reached.set(id, (reached.get(id) ?? new Set()).add(row.test));
    }
    if (isKill(row))
      kills.set(row.id, `${row.test}: ${row.by}${row.kind === "failed" ? "" : ` (${row.kind})`}`);
  }
  return new Map(
    plan.ids.map((id): [string, Judgement] => {
      const by = kills.get(id);
      const count = reached.get(id)?.size ?? 0;
      return [id, by === undefined ? { kind: "survived", reached: count } : { kind: "killed", by }];
    }),
  );
}

/** Whether a test file imports mutated modules, by way of whatever others: to run it otherwise would tell nothing. */
function importersOf(mutants: readonly Mutant[], { root }: Setting): (file: TestSpecification) => boolean {
  const mutated = new Set(mutants.map(({ mutation }) => join(root, mutation.file)));
  const imports = new Map<string, readonly string[]>();
  const importsOf = (path: string) => {
    const known = imports.get(path);
    if (known !== undefined) return known;
    const text = existsSync(path) ? readFileSync(path, "utf8") : "";
    const found = [...text.matchAll(/(?:from|import\(?)\s*"(\.[^"]+)"/g)].map(([, name = ""]) =>
      join(dirname(path), name),
    );
    imports.set(path, found);
    return found;
  };
  return ({ moduleId }) => {
    const seen = new Set([moduleId]);
    for (const path of seen) {
      if (mutated.has(path)) return true;
      for (const each of importsOf(path)) seen.add(each);
    }
    return false;
  };
}

type Known = { readonly tookMs: number; readonly kills: number };

/** What earlier runs know of the test files. */
const knownFile = ({ folder }: Setting) => join(dirname(folder), "mutation-tests.json");

function readKnown(setting: Setting): Readonly<Record<string, Known>> {
  const path = knownFile(setting);
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as Record<string, Known>) : {};
}

/**
 * What notices most in a moment goes first: files that are fast, that killed many before, and those that import mutated modules
 * themselves. A mutant meets the first of them only. Files whose time is not known yet go by their size.
 */
function inOrder(
  setting: Setting,
  mutants: readonly Mutant[],
  files: readonly TestSpecification[],
): TestSpecification[] {
  const known = readKnown(setting);
  const counts = new Map<string, number>();
  for (const { mutation } of mutants) counts.set(mutation.file, (counts.get(mutation.file) ?? 0) + 1);
  const costs = files.map((file) => {
    const text = readFileSync(file.moduleId, "utf8");
    const { tookMs = text.length / bytesEachMs, kills = 0 } =
      known[relative(setting.root, file.moduleId)] ?? {};
    const isOwn = (path: string) => isOwnTest(text, path) || isNamedAfter(file.moduleId, path);
    const own = [...counts].reduce((sum, [path, count]) => sum + (isOwn(path) ? count : 0), 0);
    return { file, cost: tookMs / (1 + ownFactor * own + killFactor * kills) };
  });
  return costs.sort((left, right) => left.cost - right.cost).map(({ file }) => file);
}

/** `sdk-fence.test.ts` is about what is in `src/sdk`. */
function isNamedAfter(test: string, path: string): boolean {
  const [first = ""] = basename(test).split("-");
  return dirname(path).split("/").includes(first);
}

const bytesEachMs = 20;
const ownFactor = 3;
const killFactor = 3;

function notDone({ root }: Setting, plan: Plan, files: readonly TestSpecification[]): TestSpecification[] {
  const done = new Set(readRows(plan).flatMap((row) => (row.kind === "done" ? [row.test] : [])));
  return files.filter(({ moduleId }) => !done.has(relative(root, moduleId)));
}

function noteTests(setting: Setting, plan: Plan): void {
  const known: Record<string, Known> = { ...readKnown(setting) };
  for (const row of readRows(plan)) {
    if (row.kind !== "done" && !isKill(row)) continue;
    const { tookMs, kills } = known[row.test] ?? { tookMs: 0, kills: 0 };
    if (row.kind === "done") known[row.test] = { tookMs: Math.round(row.tookMs), kills };
    else known[row.test] = { tookMs, kills: kills + 1 };
  }
  writeFileSync(knownFile(setting), JSON.stringify(known));
}
