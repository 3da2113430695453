// Budgets: how much of a unit may be spent in a period; what a claim reserves, and what its result settles.
import { dateOf, daysSinceEpoch } from "./engine/rfc3339.ts";
import type { ClaimToken } from "./job.ts";
import type { TakenUnits } from "./rates.ts";
import type { Brand } from "./tenant.ts";

/**
 * `workflow.<workflow>.<name>~<unit>~<per>.<hash of the key's value, or ->` or `tenant.<name>~<unit>~<per>`. With another unit
 * or period it is another budget, so that sums are never of two kinds.
 */
export type BudgetId = Brand<string, "BudgetId">;

/** A budget in one of its periods: `<budget> <start of the period, 16 digits>`. */
export type LedgerId = Brand<string, "LedgerId">;

export const periods = ["hour", "day", "week", "month"] as const;
/** In UTC; weeks begin on Monday. */
export type Period = (typeof periods)[number];

/**
 * At its end: `reject` refuses starts (and holds jobs), `hold` holds jobs until there is more, `stop` fails the steps that would
 * go beyond it.
 */
export const atBudgetChoices = ["reject", "hold", "stop"] as const;
export type AtBudget = (typeof atBudgetChoices)[number];

/** Amounts by unit, in millionths: whole numbers of at most 2^53 - 1. */
export type Amounts = Readonly<Record<string, number>>;

export const millionths = 1_000_000;

export type TenantBudget = {
  readonly unit: string;
  /** In millionths, as all amounts here. */
  readonly amount: number;
  readonly per: Period;
  readonly atLimit: AtBudget;
};

/** A budget of the root's workflow, as the jobs of its runs carry it; those of the tenant count for all jobs. */
export type RunBudget = { readonly budget: BudgetId; readonly atLimit: AtBudget };

/** What a job is expected to use, and who pays for it. */
export type JobMeter = { readonly estimate: Amounts; readonly budgets: readonly RunBudget[] };

export type Ledger = {
  readonly spent: number;
  /** By claims that are under way. */
  readonly reserved: number;
  /** The highest of `crossings` that `spent` has reached. */
  readonly crossed: number;
  readonly firstAtMs: number;
};

/** What a claim has reserved and taken; kept until its result, and after a lost claim for one late report. */
export type Charge = {
  readonly token: ClaimToken;
  readonly estimate: Amounts;
  /** The most that heartbeats have told, by unit. */
  readonly heard: Amounts;
  readonly rates: readonly TakenUnits[];
  readonly ledgers: ReadonlyArray<{
    readonly ledger: LedgerId;
    readonly atLimit: AtBudget;
    readonly reserved: number;
  }>;
  /** The claim was lost or voided: what was settled then, by unit. A late report corrects it once. */
  readonly settled?: Amounts;
};

/** Percents of the amount at which an event says so. */
const crossings = [50, 80, 100] as const;

export function crossedBy(spent: number, amount: number): number {
  return crossings.findLast((percent) => spent * 100 >= amount * percent) ?? 0;
}

/** Whether a claim may reserve so much. Nothing passes a budget that is used up, not even what is estimated to cost nothing. */
export function fitsBudget(
  { spent, reserved }: Pick<Ledger, "spent" | "reserved">,
  amount: number,
  estimate: number,
) {
  const taken = spent + reserved;
  return taken < amount && taken + estimate <= amount;
}

type BudgetParts = {
  /** Absent for one of the tenant's settings. */
  readonly workflow?: string;
  readonly name: string;
  readonly unit: string;
  readonly per: Period;
};

export function tenantBudgetId(name: string, { unit, per }: Pick<TenantBudget, "unit" | "per">): BudgetId {
  return `tenant.${budgetSpec(name, unit, per)}` as BudgetId;
}

/** `keyHash` as in the ids of gates; absent for a budget without a key. */
export function workflowBudgetId(workflow: string, spec: string, keyHash = "-"): BudgetId {
  return `workflow.${workflow}.${spec}.${keyHash}` as BudgetId;
}

/** Under this name, after `budget.`, the limits beside a workflow have the amount. */
export function budgetSpec(name: string, unit: string, per: Period): string {
  return `${name}~${unit}~${per}`;
}

const budgetPattern =
  /^(?:tenant|workflow\.(?<workflow>[A-Za-z0-9._-]{1,64}))\.(?<name>[A-Za-z0-9_-]{1,64})~(?<unit>[A-Za-z0-9_-]{1,64})~(?<per>hour|day|week|month)(?:\.(?:-|[0-9a-f]{32}))?$/;

export function readBudgetId(text: string): BudgetParts | undefined {
  const { workflow, name = "", unit = "", per } = budgetPattern.exec(text)?.groups ?? {};
  if (per === undefined) return undefined;
  return { ...(workflow === undefined ? {} : { workflow }), name, unit, per: per as Period };
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** The first Monday of the epoch is its fifth day. */
const mondayMs = 4 * dayMs;

export function periodAt(per: Period, nowMs: number): { readonly startMs: number; readonly endMs: number } {
  if (per === "month") {
    const { year, month } = dateOf(Math.floor(nowMs / dayMs));
    const next = month === 12 ? { year: year + 1, month: 1 } : { year, month: month + 1 };
    const startMs = daysSinceEpoch({ year, month, day: 1 }) * dayMs;
    return { startMs, endMs: daysSinceEpoch({ ...next, day: 1 }) * dayMs };
  }
  const [lengthMs, firstMs] = { hour: [hourMs, 0], day: [dayMs, 0], week: [7 * dayMs, mondayMs] }[per] as [
    number,
    number,
  ];
  const startMs = Math.floor((nowMs - firstMs) / lengthMs) * lengthMs + firstMs;
  return { startMs, endMs: startMs + lengthMs };
}

export function ledgerId(budget: BudgetId, periodStartMs: number): LedgerId {
  return `${budget} ${String(periodStartMs).padStart(16, "0")}` as LedgerId;
}

/** Amounts are cumulative, and a late heartbeat takes nothing back. */
export function mostOf(heard: Amounts, usage: Amounts): Amounts {
  const units = [...new Set([...Object.keys(heard), ...Object.keys(usage)])];
  return Object.fromEntries(units.map((unit) => [unit, Math.max(heard[unit] ?? 0, usage[unit] ?? 0)]));
}

/** The crossings that are new, the lowest first. */
export function newCrossings(before: number, spent: number, amount: number): readonly number[] {
  const reached = crossedBy(spent, amount);
  return crossings.filter((percent) => percent > before && percent <= reached);
}

/** Of a claim that ended: what its result said, or what its heartbeats did, or what was expected. */
export function settledUsage(
  { estimate, heard }: Charge,
  end: "reported" | "handed_back" | "gone",
  usage: Amounts = {},
): Amounts {
  const units = new Set([...Object.keys(estimate), ...Object.keys(heard), ...Object.keys(usage)]);
  const settled = [...units].map((unit) => {
    const told = usage[unit] ?? heard[unit];
    const expected = end === "handed_back" ? 0 : (estimate[unit] ?? 0);
    return [unit, end === "gone" ? Math.max(expected, told ?? 0) : (told ?? expected)] as const;
  });
  return Object.fromEntries(settled);
}
