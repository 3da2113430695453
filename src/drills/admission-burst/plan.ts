// What the drill measures and how much of it: variants, sizes, and how clients retry.

import { type WaitShape, waitDelayMs } from "../../domain/lock.ts";
import type { WaitPolicy } from "../../domain/tenant.ts";
import { runtime } from "../../sdk/runtime.ts";
import { DrillImpossible, type DrillOptions, type Size } from "../drill.ts";
import type { TenantFields } from "../target/target.ts";

export const limit = 2;

export const variants = ["lock-fixed", "lock-jitter", "atomic"] as const;
export type Variant = (typeof variants)[number];

export const tenantFields: Readonly<Record<Variant, TenantFields>> = {
  "lock-fixed": { max_concurrent_runs: limit, admission_strategy: "lock", admission_wait: "fixed" },
  "lock-jitter": { max_concurrent_runs: limit, admission_strategy: "lock", admission_wait: "jitter" },
  atomic: { max_concurrent_runs: limit, admission_strategy: "atomic" },
};

/** How the clients themselves try again. */
export const clientPolicies = ["fixed", "jitter"] as const satisfies readonly WaitPolicy[];
export type ClientPolicy = (typeof clientPolicies)[number];
export const clientPolicyNames: Readonly<Record<ClientPolicy, string>> = {
  fixed: "fixed delay",
  jitter: "jittered exponential",
};

export type ClientTerms = {
  /** From its first try on; a client whose next try would come later gives up. 0: one try. */
  readonly budgetMs: number;
  /** The fixed delay, or the first ceiling of the jittered one and the last. */
  readonly shape: WaitShape;
  /** A slot is freed this often. */
  readonly freeEveryMs: number;
};

export function clientPauseMs(policy: ClientPolicy, shape: WaitShape, retry: number): number {
  return waitDelayMs(policy, shape, retry, runtime.fraction());
}

export type Plan = {
  readonly requests: number;
  /** Sizes of the bursts of clients that retry, with their names. */
  readonly bursts: ReadonlyArray<{ readonly name: string; readonly clients: number }>;
  readonly clients: ClientTerms;
  readonly sweep?: { readonly waitsMs: readonly number[]; readonly budgetsMs: readonly number[] };
};

/** Of one tenant 2,000 requests may be under way at once: a larger burst would measure that limit instead. */
const clientsMax = 1_500;

export function planOf(size: Size, { requests = 100, sweep }: DrillOptions): Plan {
  if (requests <= limit || requests > clientsMax)
    throw new DrillImpossible(
      `--requests ${requests}: it takes more than the limit of ${limit}, and no more than ${clientsMax}, since a gateway lets one tenant have 2000 under way.`,
    );
  const isQuick = size === "quick";
  const once = isQuick ? Math.ceil(requests / 10) : requests;
  const tenfold = Math.min(10 * once, clientsMax);
  const bursts = [
    { name: `1x, ${once} clients`, clients: once },
    ...(tenfold > once
      ? [{ name: `${shortNumber(tenfold / once)}x, ${tenfold} clients`, clients: tenfold }]
      : []),
  ];
  const clients: ClientTerms = isQuick
    ? { budgetMs: 600, shape: { kind: "exponential", baseMs: 100, maxMs: 400 }, freeEveryMs: 10 }
    : { budgetMs: 6_000, shape: { kind: "exponential", baseMs: 1_000, maxMs: 4_000 }, freeEveryMs: 40 };
  const grid = isQuick
    ? { waitsMs: [100, 600], budgetsMs: [0, 600] }
    : { waitsMs: [100, 500, 2_000, 5_000], budgetsMs: [0, 2_000, 6_000] };
  return { requests, bursts, clients, ...(sweep ? { sweep: grid } : {}) };
}

function shortNumber(value: number): string {
  return String(Math.round(value * 10) / 10);
}
