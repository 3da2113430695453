// A canary: policies on trial for some of the runs, judged window by window against the others, and what is decided about it.
import {
  type BothArms,
  type CanaryGuard,
  type CanaryMetric,
  canaryMetrics,
  familiesOf,
  findingText,
  type GuardFinding,
  judgeGuard,
  measure,
  mergedArms,
  noSamplesAtAll,
  type SampleFamily,
  samplesOf,
  shown,
} from "./canary-guard.ts";
import type { PolicyName } from "./policy.ts";
import type { Policies, TenantId } from "./tenant.ts";

/** `starting`: its rollout may not be set yet. `rolling_back` and `keeping`: decided, and any process may finish it. */
export type CanaryState =
  | ("starting" | "running" | "rolling_back" | "keeping")
  | ("rolled_back" | "kept" | "inconclusive" | "stopped");

export type Canary = {
  readonly id: string;
  /** Absent: of all tenants that leave these policies to the platform. */
  readonly tenant?: TenantId;
  readonly policies: Partial<Policies>;
  readonly percent: number;
  readonly startedBy: string;
  readonly startedAtMs: number;
  readonly endsAtMs: number;
  readonly windowMs: number;
  readonly guards: readonly CanaryGuard[];
  /** Of each side, before anything is decided. */
  readonly samplesMin: number;
  readonly windowsInARow: number;
  readonly state: CanaryState;
  /** How `rolling_back` ends when neither side was found to be worse. */
  readonly endsAs?: "inconclusive";
  /** Why it was decided so. */
  readonly reason?: string;
  readonly decidedBy?: string;
  readonly endedAtMs?: number;
  /** What had been measured by then, and up to which window: a process that starts later goes on from it. */
  readonly totals?: { readonly atMs: number; readonly through?: number; readonly arms: BothArms };
};

export function isOver({ state }: Pick<Canary, "state">): boolean {
  return state === "rolled_back" || state === "kept" || state === "inconclusive" || state === "stopped";
}

/** The last window whose samples have all come by then; -1 before the first. */
export function windowsThrough(
  { startedAtMs, windowMs }: Pick<Canary, "startedAtMs" | "windowMs">,
  nowMs: number,
  graceMs: number,
): number {
  return Math.max(0, Math.floor((nowMs - graceMs - startedAtMs) / windowMs)) - 1;
}

export type SampledWindow = { readonly window: number; readonly arms: BothArms };

/** What a process knows of a canary's samples. */
export type CanaryBook = {
  readonly totals: BothArms;
  /** The latest, in ascending order. */
  readonly windows: readonly SampledWindow[];
};

export type GuardStanding = {
  readonly guard: CanaryGuard;
  /** In the latest window with enough samples. */
  readonly latest: GuardFinding;
  readonly overall: GuardFinding;
  /** The latest windows with enough samples, as far back as it was broken in each. */
  readonly brokenInARow: number;
};

type CanaryVerdict =
  | { readonly kind: "go_on" }
  | { readonly kind: "roll_back"; readonly reason: string }
  | { readonly kind: "keep"; readonly reason: string }
  /** Nothing speaks against it, and not enough for it: the rollout is removed. */
  | { readonly kind: "inconclusive"; readonly reason: string };

/** `nowMs` in the store's time; the verdict at the end waits for samples that are still on their way. */
export function judgeCanary(
  canary: Canary,
  book: CanaryBook,
  nowMs: number,
  endGraceMs: number,
): CanaryVerdict {
  const broken = standings(canary, book).find((standing) => isBroken(canary, book, standing));
  if (broken !== undefined) {
    const { guard, latest, brokenInARow } = broken;
    const reason = `${findingText(guard, latest)}, broken in ${brokenInARow} windows in a row; ${counts(canary, book)}`;
    return { kind: "roll_back", reason };
  }
  return nowMs < canary.endsAtMs + endGraceMs ? { kind: "go_on" } : judgeEnd(canary, book);
}

function isBroken(canary: Canary, { totals }: CanaryBook, { guard, brokenInARow }: GuardStanding): boolean {
  if (brokenInARow < canary.windowsInARow) return false;
  return hasEnough(canaryMetrics[guard.metric].family, totals, canary.samplesMin);
}

/** How every guard stands now. */
export function standings(canary: Canary, { totals, windows }: CanaryBook): readonly GuardStanding[] {
  return canary.guards.map((guard) => {
    const { family } = canaryMetrics[guard.metric];
    const filled = filledWindows(windows, family, windowSamplesMin(canary));
    const findings = filled.map(({ arms }) => judgeGuard(guard, arms));
    const lastGood = findings.findLastIndex(({ verdict }) => verdict !== "broken");
    return {
      guard,
      latest: findings.at(-1) ?? { verdict: "unknown" },
      overall: judgeGuard(guard, totals),
      brokenInARow: findings.length - 1 - lastGood,
    };
  });
}

/** 10 for the usual 200: a window with fewer on either side says too little. */
function windowSamplesMin({ samplesMin }: Pick<Canary, "samplesMin">): number {
  return Math.max(1, Math.ceil(samplesMin / 20));
}

/** With little traffic a window goes on until both sides have enough: several are taken together. */
export function filledWindows(
  windows: readonly SampledWindow[],
  family: SampleFamily,
  samplesMin: number,
): readonly SampledWindow[] {
  const filled: SampledWindow[] = [];
  let open: BothArms = noSamplesAtAll;
  for (const { window, arms } of windows) {
    open = mergedArms(open, arms);
    if (!hasEnough(family, open, samplesMin)) continue;
    filled.push({ window, arms: open });
    open = noSamplesAtAll;
  }
  return filled;
}

function hasEnough(family: SampleFamily, { canary, control }: BothArms, samplesMin: number): boolean {
  return samplesOf(family, canary) >= samplesMin && samplesOf(family, control) >= samplesMin;
}

/** The two measures that must both have got better. */
const decisive: Readonly<Record<SampleFamily, readonly [CanaryMetric, CanaryMetric]>> = {
  results: ["busy_retries_per_result", "result_latency_p95"],
  starts: ["busy_retries_per_start", "start_wait_p95"],
};

/** By at least this much, compared with control: less may be chance. What is zero on both sides cannot get better. */
const clearlyBetter = 0.95;

/** Kept only if both measures got better; rolled back if one got worse; otherwise nobody knows. */
export function judgeEnd(canary: Canary, { totals }: CanaryBook): CanaryVerdict {
  const families = familiesOf(Object.keys(canary.policies) as PolicyName[]);
  const thin = families.find((family) => !hasEnough(family, totals, canary.samplesMin));
  if (thin !== undefined) {
    const { canary: own, control } = totals;
    const amounts = `${samplesOf(thin, own)} canary and ${samplesOf(thin, control)} control ${thin}`;
    return {
      kind: "inconclusive",
      reason: `too few samples: ${amounts}, ${canary.samplesMin} of each are needed`,
    };
  }
  const compared = families.flatMap((family) => decisive[family]).map((metric) => compare(metric, totals));
  const measures = compared.map(({ text }) => text).join(", ");
  const worse = compared.find(({ finding }) => finding === "worse");
  if (worse !== undefined) return { kind: "roll_back", reason: `${worse.metric} got worse: ${measures}` };
  const same = compared.find(({ finding }) => finding !== "better");
  if (same !== undefined) {
    return { kind: "inconclusive", reason: `${same.metric} is not clearly better: ${measures}` };
  }
  return { kind: "keep", reason: `both measures got better: ${measures}` };
}

/** Of all these measures less is better. */
function compare(metric: CanaryMetric, { canary, control }: BothArms) {
  const [own, other] = [measure(metric, canary), measure(metric, control)];
  const text = `${metric} ${shown(metric, own)} against ${shown(metric, other)}`;
  if (own === undefined || other === undefined) return { metric, text, finding: "unknown" } as const;
  if (own > other) return { metric, text, finding: "worse" } as const;
  const isBetter = other > 0 && own <= other * clearlyBetter;
  return { metric, text, finding: isBetter ? "better" : "same" } as const;
}

/** What must still happen before anything is decided, in words. */
export function missing(canary: Canary, { totals, windows }: CanaryBook): readonly string[] {
  if (canary.state !== "running") return [];
  return familiesOf(Object.keys(canary.policies) as PolicyName[]).flatMap((family) => {
    const lacking = (["canary", "control"] as const).flatMap((arm) => {
      const left = canary.samplesMin - samplesOf(family, totals[arm]);
      return left > 0 ? [`${left} more ${family} of the side ${arm}`] : [];
    });
    const filled = filledWindows(windows, family, windowSamplesMin(canary)).length;
    const left = canary.windowsInARow - filled;
    return left > 0 ? [...lacking, `${left} more windows with enough ${family}`] : lacking;
  });
}

function counts({ policies }: Canary, { totals }: CanaryBook): string {
  return familiesOf(Object.keys(policies) as PolicyName[])
    .map((family) => {
      const [own, other] = [samplesOf(family, totals.canary), samplesOf(family, totals.control)];
      return `${own} canary and ${other} control ${family}`;
    })
    .join(", ");
}
