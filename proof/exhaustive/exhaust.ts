// The exhaustive mode as a command: every scenario with all its schedules within the bounds, in words and numbers.
import { parseArgs } from "node:util";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { Swap } from "../planted/planted-bug.ts";
import { swaps } from "../planted/planted-bugs.ts";
import { admissionScenarios } from "./admission-scenarios.ts";
import { type Bounds, type Exploration, explore, type Failure, following } from "./explorer.ts";
import { gateScenarios } from "./gate-scenarios.ts";
import { playScenario, type Scenario } from "./stage.ts";
import { workScenarios } from "./work-scenarios.ts";

const usage =
  "npm run sim -- --exhaustive [--scenario NAME] [--bound N] [--cap N] [--schedule 0,0,2,1] [--bug NAME]";

class UsageError extends Error {}

type Asked = {
  readonly names: readonly string[];
  readonly bounds: Bounds;
  readonly schedule: readonly number[] | undefined;
  readonly bugName: string | undefined;
};

/** What `--exhaustive` does with the words that follow it; gives the exit code. */
export async function exhaust(words: readonly string[]): Promise<number> {
  try {
    const asked = readWords(words);
    return asked.schedule === undefined ? await exploreAll(asked) : await replay(asked, asked.schedule);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(`${error.message}\nUsage: ${usage}`);
    return 2;
  }
}

async function exploreAll({ names, bounds, bugName }: Asked): Promise<number> {
  const bug = bugName === undefined ? undefined : swaps[bugName];
  let failures = 0;
  for (const name of names) {
    const report = await exploreScenario(name, bounds, bug);
    console.log(described(report, bounds));
    if (report.failure === undefined) continue;
    failures += 1;
    const { invariant, what, schedule } = report.failure;
    console.log(`  broke ${invariant}: ${what}`);
    for (const step of await stepsOf(name, schedule, bugName)) console.log(`    ${step}`);
    const planted = bugName === undefined ? "" : ` --bug ${bugName}`;
    const replayed = `--scenario ${name} --schedule ${schedule.join() || "0"}${planted}`;
    console.log(`  replay: npm run sim -- --exhaustive ${replayed}`);
  }
  console.log(failures === 0 ? "No invariant was broken." : `${failures} scenarios broke an invariant.`);
  return failures === 0 ? 0 : 1;
}

function described(
  { name, schedules, choicePoints, states, seconds, complete, failure }: ScenarioReport,
  { overtakesMax }: Bounds,
): string {
  const counts = `${schedules} schedules, ${choicePoints} choice points, ${states} states, ${seconds.toFixed(1)} s`;
  const end = complete ? `complete within bound ${overtakesMax}` : "stopped at the cap";
  return `${name}: ${counts}, ${failure === undefined ? end : "stopped at a failure"}`;
}

async function replay({ names, bugName }: Asked, schedule: readonly number[]): Promise<number> {
  const [name] = names;
  if (name === undefined || names.length !== 1) throw new UsageError("--schedule needs --scenario.");
  const bug = bugName === undefined ? undefined : swaps[bugName];
  const { lines, broken } = await replaySchedule(name, schedule, bug);
  for (const line of lines) console.log(line);
  console.log(
    broken === undefined ? "No invariant was broken." : `broke ${broken.invariant}: ${broken.what}`,
  );
  return broken === undefined ? 0 : 1;
}

/** The steps that were chosen, and what the store answered: what came before and after them is always the same. */
async function stepsOf(
  name: string,
  schedule: readonly number[],
  bugName: string | undefined,
): Promise<readonly string[]> {
  const bug = bugName === undefined ? undefined : swaps[bugName];
  const { lines } = await replaySchedule(name, schedule, bug);
  const from = lines.findIndex((line) => line.endsWith(" prepared"));
  return lines.slice(from + 1);
}

function readWords(words: readonly string[]): Asked {
  const { scenario, bound = "1", cap = "20000", schedule, bug } = parse(words);
  if (scenario !== undefined && !Object.hasOwn(scenarios, scenario)) {
    throw new UsageError(
      `There is no scenario ${scenario}. There are: ${Object.keys(scenarios).join(", ")}.`,
    );
  }
  if (bug !== undefined && !Object.hasOwn(swaps, bug)) {
    throw new UsageError(`There is no bug named ${bug}.`);
  }
  const bounds = {
    overtakesMax: wholeNumber("--bound", bound),
    faultsMax: 1,
    schedulesMax: wholeNumber("--cap", cap),
  };
  return {
    names: scenario === undefined ? Object.keys(scenarios) : [scenario],
    bounds,
    schedule: schedule?.split(",").map((choice) => wholeNumber("--schedule", choice)),
    bugName: bug,
  };
}

function parse(words: readonly string[]) {
  const text = { type: "string" } as const;
  const options = { scenario: text, bound: text, cap: text, schedule: text, bug: text } as const;
  try {
    return parseArgs({ args: [...words], options }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function wholeNumber(option: string, value: string): number {
  const number = Number(value);
  if (!/^\d+$/.test(value) || !Number.isSafeInteger(number)) {
    throw new UsageError(`${option} must be a whole number, not ${value}.`);
  }
  return number;
}

export const scenarios: Readonly<Record<string, Scenario>> = {
  ...admissionScenarios,
  ...workScenarios,
  ...gateScenarios,
};

type ScenarioReport = Exploration & { readonly name: string; readonly seconds: number };

export async function exploreScenario(name: string, bounds: Bounds, bug?: Swap): Promise<ScenarioReport> {
  const scenario = scenarioOf(name);
  const startMs = systemClock.monotonicMs();
  const planted = bug === undefined ? {} : { bug };
  const found = await explore(bounds, (guide) => playScenario(scenario, guide, planted));
  return { name, seconds: (systemClock.monotonicMs() - startMs) / 1_000, ...found };
}

type Replayed = { readonly lines: readonly string[]; readonly broken?: Omit<Failure, "schedule"> };

/** One schedule with everything that happened in it. */
export async function replaySchedule(
  name: string,
  schedule: readonly number[],
  bug?: Swap,
): Promise<Replayed> {
  const lines: string[] = [];
  const planted = bug === undefined ? {} : { bug };
  const noting = { ...planted, onNote: (line: string) => void lines.push(line) };
  const broken = await playScenario(scenarioOf(name), following(schedule), noting);
  return broken === undefined ? { lines } : { lines, broken };
}

function scenarioOf(name: string): Scenario {
  const scenario = Object.hasOwn(scenarios, name) ? scenarios[name] : undefined;
  if (scenario === undefined) throw new Error(`no scenario is named ${name}`);
  return scenario;
}
