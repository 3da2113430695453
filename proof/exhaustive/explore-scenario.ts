// The table of scenarios, and what can be done with one: explore all its schedules, or replay one of them.
import { systemClock } from "../../src/adapters/system/system-clock.ts";
import type { Swap } from "../planted/planted-bug.ts";
import { admissionScenarios } from "./admission-scenarios.ts";
import { type Bounds, type Exploration, explore, type Failure, following } from "./explorer.ts";
import { playScenario, type Scenario } from "./stage.ts";
import { workScenarios } from "./work-scenarios.ts";

export const scenarios: Readonly<Record<string, Scenario>> = { ...admissionScenarios, ...workScenarios };

export type ScenarioReport = Exploration & { readonly name: string; readonly seconds: number };

export async function exploreScenario(name: string, bounds: Bounds, bug?: Swap): Promise<ScenarioReport> {
  const scenario = scenarioOf(name);
  const startMs = systemClock.monotonicMs();
  const planted = bug === undefined ? {} : { bug };
  const found = await explore(bounds, (guide) => playScenario(scenario, guide, planted));
  return { name, seconds: (systemClock.monotonicMs() - startMs) / 1_000, ...found };
}

export type Replayed = { readonly lines: readonly string[]; readonly broken?: Omit<Failure, "schedule"> };

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
