// The worker of the mutation judge: runs a test file as it is, notes which tests pass which mutant, then runs those with each of them.

import { readFileSync } from "node:fs";
import {
  inject,
  type RunnerTask,
  type RunnerTestCase,
  type RunnerTestFile,
  type RunnerTestSuite,
  TestRunner,
  vi,
} from "vitest";
import { startTests } from "vitest/internal/browser";
import { addRow, isKill, isOwnTest, newRows } from "./typescript-plan.ts";

/** What the tests of a mutant may take, in times of what they take without it. */
const limitFactor = 5;

const plan = inject("mutationPlan");

/** What the instrumented code calls. */
const hits = new Uint8Array(plan.ids.length);
const state = { active: -1, deadlineMs: Number.POSITIVE_INFINITY, ticks: 0 };
Object.assign(globalThis, {
  __mutant(number: number): boolean {
    hits[number] = 1;
    return number === state.active;
  },
  __tick(): void {
    state.ticks += 1;
    // A test that never ends never reaches the place where its time is looked at.
    if ((state.ticks & 4095) === 0 && performance.now() > state.deadlineMs) throw new Error("out of time");
  },
});

/** While a test file runs without a mutant: what was passed by each test, and by what belongs to all of them. */
const seen = {
  collecting: new Set<number>(),
  hooks: new Set<number>(),
  tests: [] as { readonly tookMs: number; readonly cpuMs: number; readonly passed: ReadonlySet<number> }[],
  cpu: process.cpuUsage(),
};

function takeHits(into: Set<number>): Set<number> {
  for (const [number, hit] of hits.entries()) if (hit === 1) into.add(number);
  hits.fill(0);
  return into;
}

/** One run of the tests of the file with a mutant, or without any. */
type Turn = { readonly tests: ReadonlySet<number>; readonly limitMs: number };

class MutationRunner extends TestRunner {
  /** The first run has none: it is the one whose answers the others are compared with. */
  turn: Turn | undefined;

  onBeforeRunFiles(files: RunnerTestFile[]): void {
    if (this.turn === undefined) takeHits(seen.collecting);
    else for (const file of files) chooseTests(file, this.turn);
  }

  override async onBeforeRunTask(test: RunnerTestCase): Promise<void> {
    if (this.turn === undefined) {
      takeHits(seen.hooks);
      seen.cpu = process.cpuUsage();
    } else if (performance.now() > state.deadlineMs) this.cancel("test-failure");
    await super.onBeforeRunTask(test);
  }

  override onAfterRunTask(test: RunnerTestCase): void {
    super.onAfterRunTask(test);
    if (this.turn === undefined) {
      const { user, system } = process.cpuUsage(seen.cpu);
      const tookMs = test.result?.duration ?? 0;
      seen.tests.push({ tookMs, cpuMs: (user + system) / 1_000, passed: takeHits(new Set()) });
    } else if (test.result?.state === "fail") this.cancel("test-failure");
  }

  override async onAfterRunSuite(suite: RunnerTestSuite): Promise<void> {
    await super.onAfterRunSuite(suite);
    if (this.turn !== undefined || !("filepath" in suite)) return;
    takeHits(seen.hooks);
    await judgeAll(this, suite as RunnerTestFile);
  }
}
export default MutationRunner;

function testsOf(task: RunnerTask): readonly RunnerTestCase[] {
  return task.type === "test" ? [task] : task.tasks.flatMap(testsOf);
}

function chooseTests(file: RunnerTestFile, { tests }: Turn): void {
  const all = testsOf(file);
  // A mutant may change how many tests there are: then their numbers mean nothing.
  if (all.length !== seen.tests.length) return;
  for (const [index, test] of all.entries()) if (!tests.has(index)) test.mode = "skip";
  skipEmptySuites(file);
}

function skipEmptySuites(task: RunnerTask): boolean {
  const isEmpty =
    task.type === "test" ? task.mode === "skip" : task.tasks.map(skipEmptySuites).every(Boolean);
  if (isEmpty) task.mode = "skip";
  return isEmpty;
}

async function judgeAll(runner: MutationRunner, file: RunnerTestFile): Promise<void> {
  const test = file.name;
  const tookMs = (file.result?.duration ?? 0) + (file.collectDuration ?? 0);
  if (file.result?.state !== "pass") {
    const failed = testsOf(file).find(({ result }) => result?.state === "fail");
    const cause = (failed?.result ?? file.result)?.errors?.[0]?.message ?? "it does not pass";
    addRow(plan, { kind: "broken", test, cause });
  }
  const all = new Set([
    ...seen.collecting,
    ...seen.hooks,
    ...seen.tests.flatMap(({ passed }) => [...passed]),
  ]);
  const ids = [...all].map((number) => plan.ids[number] as string);
  addRow(plan, { kind: "reached", test, ids });
  const text = readFileSync(file.filepath, "utf8");
  const known = knownOf(test);
  let isFirst = true;
  if (file.result?.state === "pass") {
    for (const number of [...all].sort((left, right) => left - right)) {
      const isOwn =
        plan.only[plan.ids[number] as string] === test || isOwnTest(text, plan.files[number] as string);
      const work = workOf(number, isOwn ? Number.POSITIVE_INFINITY : foreignMsMax);
      if (!known.isOpen(plan.ids[number] as string, work)) continue;
      // What an earlier mutant left in memory would be taken for the work of this one: another process goes on here.
      if ((await judge(runner, file, work, isFirst)) === "unclear") return;
      isFirst = false;
    }
  }
  addRow(plan, { kind: "done", test, tookMs });
}

/** To evaluate the test file again takes so long, or to evaluate all modules. */
const loadMs = { usual: 50, fresh: 500 };
const foreignMsMax = 1_000;

/** What any process has found out until now. */
function knownOf(test: string) {
  const read = newRows(plan);
  const closed = new Set<string>();
  const spentMs = new Map<string, number>();
  return {
    isOpen(id: string, { costMs }: Work): boolean {
      if ((plan.only[id] ?? test) !== test) return false;
      for (const row of read()) {
        if (isKill(row) || (row.kind === "passed" && row.test === test)) closed.add(row.id);
        if (row.kind === "passed") spentMs.set(row.id, (spentMs.get(row.id) ?? 0) + row.costMs);
      }
      const spent = spentMs.get(id) ?? 0;
      return !closed.has(id) && (costMs === 0 || spent + costMs <= plan.eachMsMax);
    },
  };
}

/** What is to be run for a mutant. */
type Work = {
  readonly number: number;
  /** It acts while modules are evaluated: all of them are, again. */
  readonly isEarly: boolean;
  readonly tests: ReadonlySet<number>;
  /** By the clock, without the mutant. */
  readonly usualMs: number;
  /** Of the processor, which is the same while others use the machine; of a file that tests the module itself nothing counts. */
  readonly costMs: number;
};

/** The cheapest ones first; what a file that tests something else passes it takes for so long at most. */
function workOf(number: number, cpuMsMax: number): Work {
  const isEarly = seen.collecting.has(number);
  const isOfAll = isEarly || seen.hooks.has(number);
  const passing = [...seen.tests.entries()]
    .filter(([, { passed }]) => isOfAll || passed.has(number))
    .sort(([, left], [, right]) => left.cpuMs - right.cpuMs);
  const tests = new Set<number>();
  let [cpuMs, usualMs] = [0, 0];
  for (const [index, each] of passing) {
    if (cpuMs > 0 && cpuMs + each.cpuMs > cpuMsMax) break;
    tests.add(index);
    cpuMs += each.cpuMs;
    usualMs += each.tookMs;
  }
  const costMs = cpuMsMax === Number.POSITIVE_INFINITY ? 0 : cpuMs + (isEarly ? loadMs.fresh : loadMs.usual);
  return { number, isEarly, tests, usualMs, costMs };
}

async function judge(
  runner: MutationRunner,
  file: RunnerTestFile,
  { number, isEarly, tests, usualMs, costMs }: Work,
  isFirst: boolean,
): Promise<"judged" | "unclear"> {
  const id = plan.ids[number] as string;
  const test = file.name;
  const limitMs = Math.max(plan.limitMsMin, limitFactor * usualMs);
  addRow(plan, { kind: "began", test, id, pid: process.pid, limitMs, atMs: Date.now() });
  const outcome = await run(runner, file, { tests, limitMs }, number, isEarly);
  if (outcome.kind === "passed") {
    if (isEarly) vi.resetModules();
    addRow(plan, { kind: "passed", test, id, costMs: Math.round(costMs) });
    return "judged";
  }
  const again = outcome.failed === undefined || isEarly ? tests : new Set([outcome.failed]);
  const without = await run(runner, file, { tests: again, limitMs }, -1, isEarly);
  if (without.kind !== "passed" && !isFirst) return "unclear";
  addRow(plan, { kind: outcome.kind, test, id, by: outcome.by });
  return without.kind === "passed" ? "judged" : "unclear";
}

type Outcome =
  | { readonly kind: "passed" }
  | { readonly kind: "failed" | "late"; readonly by: string; readonly failed: number | undefined };

/** With the mutant of this number; `fresh` evaluates all modules again, since it acts while they are. */
async function run(
  first: MutationRunner,
  file: RunnerTestFile,
  turn: Turn,
  number: number,
  fresh: boolean,
): Promise<Outcome> {
  const runner = Object.assign(Object.create(first) as MutationRunner, {
    ...{ turn, cancelRun: false },
    config: { ...first.config, testTimeout: turn.limitMs, hookTimeout: turn.limitMs },
    // The judge has its own rows: nobody else is told.
    ...{
      onTaskUpdate: undefined,
      onCollected: undefined,
      onCollectStart: undefined,
      onAfterRunFiles: undefined,
    },
  });
  if (fresh) vi.resetModules();
  else forgetModule(first, file.filepath);
  state.active = number;
  state.deadlineMs = performance.now() + turn.limitMs;
  try {
    const [done] = await startTests([file.filepath], runner);
    if (done === undefined) throw new Error("no file was run");
    const isLate = performance.now() > state.deadlineMs;
    const failed = testsOf(done).findIndex(({ result }) => result?.state === "fail");
    if (failed === -1 && done.result?.state !== "fail" && !isLate) return { kind: "passed" };
    const by = testsOf(done)[failed]?.name ?? "what is around the tests";
    return { kind: isLate ? "late" : "failed", by, failed: failed === -1 ? undefined : failed };
  } finally {
    state.active = -1;
    state.deadlineMs = Number.POSITIVE_INFINITY;
  }
}

/** So that the next import evaluates the test file, and nothing else, again. */
function forgetModule(runner: TestRunner, filepath: string): void {
  type Module = { promise?: unknown; exports?: unknown; evaluated: boolean; importers: Set<string> };
  type Evaluated = { readonly fileToModulesMap: ReadonlyMap<string, ReadonlySet<Module>> };
  const inside = runner as unknown as { readonly workerState: { readonly evaluatedModules: Evaluated } };
  const { evaluatedModules } = inside.workerState;
  for (const module of evaluatedModules.fileToModulesMap.get(filepath) ?? []) {
    Object.assign(module, { promise: undefined, exports: undefined, evaluated: false });
    module.importers.clear();
  }
}
