// The checks' own book of what claims reserve and use: kept from jobs, requests and answers, never from what the store has counted.
import type { JobState } from "../../../src/adapters/operations/records.ts";
import type { Amounts, AtBudget } from "../../../src/domain/budgets.ts";
import type { ClaimToken, JobId } from "../../../src/domain/job.ts";
import type { TenantId, TenantSettings } from "../../../src/domain/tenant.ts";
import type { OperationName, RequestOf } from "../../../src/ports/store.ts";

/** A budget that a claim asks, in the period of the claim. */
export type Asked = {
  readonly budget: string;
  readonly ledger: string;
  readonly unit: string;
  readonly atLimit: AtBudget;
  /** Absent: it is not set, and stops nobody. */
  readonly amount: number | undefined;
};

type Sums = { spent: number; reserved: number };

type Touched = { readonly tenant: TenantId; readonly ledger: string; readonly change: number };

type Share = { readonly ledger: string; readonly unit: string; reserved: number };

type Attempt = {
  readonly tenant: TenantId;
  readonly token: ClaimToken;
  readonly estimate: Amounts;
  readonly heard: Record<string, number>;
  readonly shares: readonly Share[];
  state: "open" | "gone" | "over";
  settled: Amounts;
};

type ResultEntry = Extract<RequestOf<"deliver">["entry"], { readonly kind: "result" }>;

export class UsageBook {
  readonly #attempts = new Map<JobId, Attempt>();
  readonly #sums = new Map<string, Sums>();
  /** Ledgers that the operation under way has changed: by how much less or more is taken of each now. */
  readonly touched = new Map<string, Touched>();

  sumsOf(tenant: TenantId, ledger: string): Readonly<Sums> {
    return this.#sums.get(`${tenant} ${ledger}`) ?? { spent: 0, reserved: 0 };
  }

  attempt(jobId: JobId): Attempt | undefined {
    return this.#attempts.get(jobId);
  }

  claim(tenant: TenantId, { jobId, claim, meter }: JobState, asked: readonly Asked[]): Attempt | undefined {
    if (claim === undefined) return undefined;
    const estimate = meter?.estimate ?? {};
    const shares = asked.map(({ ledger, unit }) => ({ ledger, unit, reserved: estimate[unit] ?? 0 }));
    const attempt: Attempt = {
      ...{ tenant, token: claim.token, estimate, heard: {}, shares, state: "open", settled: {} },
    };
    this.#attempts.set(jobId, attempt);
    for (const { ledger, reserved } of shares) {
      const name = `${tenant} ${ledger}`;
      if (!this.#sums.has(name)) this.#sums.set(name, { spent: 0, reserved: 0 });
      this.#add(tenant, ledger, { spent: 0, reserved });
    }
    return attempt;
  }

  hear(jobId: JobId, token: ClaimToken, usage: Amounts): void {
    const attempt = this.#attempts.get(jobId);
    if (attempt?.state !== "open" || attempt.token !== token) return;
    for (const [unit, amount] of Object.entries(usage))
      attempt.heard[unit] = Math.max(amount, attempt.heard[unit] ?? 0);
    for (const share of attempt.shares) {
      const more = Math.max(0, (attempt.heard[share.unit] ?? 0) - share.reserved);
      share.reserved += more;
      if (more > 0) this.#add(attempt.tenant, share.ledger, { spent: 0, reserved: more });
    }
  }

  /** The end of a claim: by its worker's word, or without it. */
  end(jobId: JobId, entry: ResultEntry | undefined): Amounts | undefined {
    const attempt = this.#attempts.get(jobId);
    if (attempt?.state !== "open") return undefined;
    const used = usedBy(attempt, entry);
    for (const { ledger, unit, reserved } of attempt.shares)
      this.#add(attempt.tenant, ledger, { spent: used[unit] ?? 0, reserved: -reserved });
    this.#close(attempt, used, entry === undefined ? "gone" : "over");
    return used;
  }

  /** The word of a worker whose claim is lost: it counts once. */
  correct(jobId: JobId, entry: ResultEntry): Amounts | undefined {
    const attempt = this.#attempts.get(jobId);
    if (attempt?.state !== "gone" || attempt.token !== entry.token) return undefined;
    const used = usedBy(attempt, entry);
    for (const { ledger, unit } of attempt.shares) {
      const spent = (used[unit] ?? 0) - (attempt.settled[unit] ?? 0);
      this.#add(attempt.tenant, ledger, { spent, reserved: 0 });
    }
    this.#close(attempt, used, "over");
    return used;
  }

  /** Its run is removed: a later word finds nothing. */
  forget(jobId: JobId): void {
    this.#attempts.delete(jobId);
  }

  forgetLedger(tenant: TenantId, ledger: string): void {
    this.#sums.delete(`${tenant} ${ledger}`);
  }

  #close(attempt: Attempt, used: Amounts, state: "gone" | "over"): void {
    attempt.state = state;
    attempt.settled = used;
  }

  #add(tenant: TenantId, ledger: string, { spent, reserved }: Readonly<Sums>): void {
    const sums = this.#sums.get(`${tenant} ${ledger}`);
    if (sums === undefined) return;
    sums.spent += spent;
    sums.reserved += reserved;
    const name = `${tenant} ${ledger}`;
    const change = (this.touched.get(name)?.change ?? 0) + spent + reserved;
    this.touched.set(name, { tenant, ledger, change });
  }
}

/** A result: what it says, or its heartbeats, or what was expected. Handed back: nothing is expected. No word: the larger of both. */
function usedBy({ estimate, heard }: Attempt, entry: ResultEntry | undefined): Amounts {
  const told: Amounts = { ...heard, ...entry?.usage };
  const used: Record<string, number> = { ...told };
  for (const [unit, expected] of Object.entries(estimate)) {
    if (entry === undefined) used[unit] = Math.max(expected, told[unit] ?? 0);
    else used[unit] = told[unit] ?? (entry.outcome === "handed_back" ? 0 : expected);
  }
  return used;
}

export function resultIn(name: OperationName, request: object): ResultEntry | undefined {
  const entry = name === "deliver" ? (request as RequestOf<"deliver">).entry : undefined;
  return entry?.kind === "result" ? entry : undefined;
}

type BudgetParts = {
  readonly workflow?: string;
  readonly spec: string;
  readonly unit: string;
  readonly per: string;
};

export function partsOf(budget: string): BudgetParts {
  const parts = /^(?:tenant|workflow\.(\w+))\.(\w+~(\w+)~(\w+))/.exec(budget);
  const [, workflow, spec = "", unit = "", per = ""] = parts ?? [];
  return { ...(workflow === undefined ? {} : { workflow }), spec, unit, per };
}

const dayMs = 86_400_000;

/** In UTC; the epoch was a Thursday, and weeks begin on Monday. No seed has a budget by month. */
export function periodOf(per: string, atMs: number): { readonly startMs: number; readonly endMs: number } {
  const lengthMs = per === "hour" ? dayMs / 24 : per === "day" ? dayMs : 7 * dayMs;
  const sinceStartMs = (atMs + (per === "week" ? 3 * dayMs : 0)) % lengthMs;
  return { startMs: atMs - sinceStartMs, endMs: atMs - sinceStartMs + lengthMs };
}

type AskedParts = {
  readonly settings: TenantSettings;
  readonly meter: JobState["meter"];
  readonly atMs: number;
  readonly amountOf: (workflow: string, spec: string) => number | undefined;
};

/** The budgets of the tenant and of the root's workflow, as they are set now. */
export function askedBy({ settings, meter, atMs, amountOf }: AskedParts): readonly Asked[] {
  const ofTenant = Object.entries(settings.budgets ?? {}).map(([name, { unit, per, atLimit, amount }]) => ({
    ...{ budget: `tenant.${name}~${unit}~${per}`, atLimit, amount },
  }));
  const ofWorkflow = (meter?.budgets ?? []).map(({ budget, atLimit }) => {
    const { workflow = "", spec } = partsOf(budget);
    return { budget: budget as string, atLimit, amount: amountOf(workflow, spec) };
  });
  return [...ofTenant, ...ofWorkflow].map((each) => {
    const { unit, per } = partsOf(each.budget);
    const ledger = `${each.budget} ${String(periodOf(per, atMs).startMs).padStart(16, "0")}`;
    return { ...each, unit, ledger };
  });
}

/** Whether so much may be reserved besides what is taken. */
export function hasRoom({ spent, reserved }: Readonly<Sums>, amount: number, estimate: number): boolean {
  return spent + reserved < amount && spent + reserved + estimate <= amount;
}
