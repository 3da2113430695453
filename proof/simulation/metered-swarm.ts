// Seeds that are about rates and budgets: what workflows and tenants are limited to, what work uses, and how such seeds end.
import type { Amounts, AtBudget, TenantBudget } from "../../src/domain/budgets.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { TopicRate } from "../../src/domain/rates.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { topics } from "./people/workflow-shapes.ts";
import type { Swarm } from "./swarm.ts";

/** A part of those with gates: a choice by number leaves all other seeds as they are. */
export function isMeteredSeed(seed: number): boolean {
  return seed % 20 === 8 || seed % 40 === 27 || seed % 40 === 20;
}

export type MeterLoad = {
  /** What budgets do at their end. */
  readonly answers: readonly AtBudget[];
  /** Of tokens, an amount that a seed uses up, and one that it hardly does. */
  readonly amounts: readonly number[];
  /** When the first hour of the store ends, so that claims of one period are settled in the next. */
  readonly hourEndsMs?: number;
};

export function withMeters(random: SeededRandom, swarm: Swarm): Swarm {
  const { workflows } = swarm;
  if (workflows === undefined) return swarm;
  const answers = random.pick<readonly AtBudget[]>([
    ["hold"],
    ["hold", "reject"],
    ["hold", "reject", "stop"],
    ["stop", "stop", "hold"],
  ]);
  const amounts = random.pick([
    [4, 12, 60],
    [2, 30],
    [8, 200],
  ]);
  // The clock of an embedded store follows no step of the wall clock.
  const crosses = !swarm.calm && swarm.embedded === undefined && random.chance(0.7);
  const hour = crosses ? { hourEndsMs: random.integer(200, swarm.chaosMs) } : {};
  return {
    ...swarm,
    meters: { answers, amounts, ...hour },
    workflows: { ...workflows, authors: 1, workers: Math.max(2, workflows.workers) },
  };
}

const millionths = 1_000_000;
const perMs = 400;

/** What a workflow says of rates, budgets and the needs of its work. */
export function drawFlowLimits(
  random: SeededRandom,
  definition: JsonValue,
  { answers, amounts }: MeterLoad,
): JsonValue {
  const at_limit = () => random.pick(["queue", "queue", "reject"]);
  const rates = [
    {
      limit: random.integer(1, 3),
      per_sec: perMs / 1_000,
      burst: random.integer(1, 2),
      at_limit: at_limit(),
    },
    { key: "${input.what}", limit: 2, per_sec: perMs / 1_000, at_limit: at_limit() },
  ].filter(() => random.chance(0.4));
  const budget = () => ({ unit: "tokens", amount: random.pick(amounts), at_limit: random.pick(answers) });
  const budgets = [
    { name: "own", per: "hour", ...budget() },
    { name: "each", per: "day", key: "${input.what}", ...budget() },
  ].filter(() => random.chance(0.5));
  const { steps, ...rest } = definition as { readonly steps: Readonly<Record<string, JsonValue>> };
  const estimated = Object.entries(steps).map(([id, step]) => [id, withEstimate(random, step)]);
  return {
    ...rest,
    steps: Object.fromEntries(estimated),
    ...(rates.length === 0 ? {} : { rate: rates }),
    ...(budgets.length === 0 ? {} : { budgets }),
  };
}

function withEstimate(random: SeededRandom, step: JsonValue): JsonValue {
  const { type } = step as { readonly type: string };
  if (type !== "worker" || random.chance(0.25)) return step;
  const tokens = random.pick([1, 2, 2, 3.5, 9]);
  return { ...(step as object), estimate: random.chance(0.2) ? { tokens, calls: 1 } : { tokens } };
}

/** The operator's changes: now there is more, now less, and at times nothing is limited. */
export function drawMeterLimits(
  random: SeededRandom,
  settings: TenantSettings,
  { answers, amounts }: MeterLoad,
): TenantSettings {
  const { startRate: _rate, topicRates: _rates, budgets: _budgets, ...rest } = settings;
  const budget = (): TenantBudget => ({
    ...{ unit: "tokens", per: "hour", amount: 2 * random.pick(amounts) * millionths },
    atLimit: random.pick(answers),
  });
  const all = random.chance(0.5) ? { all: budget() } : {};
  const calls = random.chance(0.3) ? { few: { ...budget(), unit: "calls", per: "week" as const } } : {};
  const atLimit = random.pick(["queue", "reject"] as const);
  const startRate = { limit: random.integer(2, 5), perMs, burst: random.integer(1, 4), atLimit };
  return {
    ...rest,
    ...(random.chance(0.3) ? { startRate } : {}),
    ...(random.chance(0.7) ? { topicRates: drawTopicRates(random) } : {}),
    budgets: { ...all, ...calls },
  };
}

function drawTopicRates(random: SeededRandom): Readonly<Record<string, readonly TopicRate[]>> {
  const claims = () => ({ limit: random.integer(2, 6), perMs, burst: random.integer(1, 2) });
  const tokens = () => ({
    unit: "tokens",
    limit: random.pick([2, 6, 12]),
    perMs,
    burst: random.pick([3, 6]),
  });
  const drawn = topics.map((topic) => [topic, random.pick([[claims()], [tokens()], [claims(), tokens()]])]);
  return Object.fromEntries(drawn);
}

/** When the faults are over the rates stay, and the budgets are raised: whatever is held must be let go because of that. */
export function peacefulMeters({ meters }: Swarm, settings: TenantSettings): TenantSettings {
  if (meters === undefined) return settings;
  const budget = { unit: "tokens", per: "hour", amount: plenty * millionths, atLimit: "hold" } as const;
  const rates = [
    { limit: 20, perMs, burst: 4 },
    { unit: "tokens", limit: 60, perMs, burst: 10 },
  ];
  return {
    ...settings,
    topicRates: Object.fromEntries(topics.map((topic) => [topic, rates])),
    budgets: { all: budget },
  };
}

const plenty = 1_000_000;

/** What authors do when their runs are held at the end: as before, and with more to spend. */
export const raised: MeterLoad = { answers: ["hold"], amounts: [plenty] };

export type UsageHabit = "as estimated" | "twice" | "half" | "in beats" | "never";

export const usageHabits: readonly UsageHabit[] = ["as estimated", "twice", "half", "in beats", "never"];

/** What an attempt tells of having used, in millionths. */
export function drawUsage(habit: UsageHabit, estimate: Amounts = {}): Amounts {
  const expected = Object.keys(estimate).length === 0 ? { tokens: millionths } : estimate;
  const factor = { "as estimated": 1, twice: 2, half: 0.5, "in beats": 4, never: 1 }[habit];
  return Object.fromEntries(
    Object.entries(expected).map(([unit, amount]) => [unit, Math.round(amount * factor)]),
  );
}
