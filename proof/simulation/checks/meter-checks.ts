// Budgets by the claims themselves: what each reserves, uses and leaves, against the ledgers that the store counts by (INV-35, 36).
import { type JobState, orderedNumber } from "../../../src/adapters/operations/records.ts";
import type { BudgetId } from "../../../src/domain/budgets.ts";
import type { JobId } from "../../../src/domain/job.ts";
import { partitionLabel, partitionOf, type TenantId } from "../../../src/domain/tenant.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import type { Change, ChangeOf, JournaledRecords } from "./journaled-records.ts";
import type { KnownState } from "./known-state.ts";
import { RateChecks } from "./rate-checks.ts";
import { type Asked, askedBy, hasRoom, partsOf, periodOf, resultIn, UsageBook } from "./usage-book.ts";

const keptMs = 35 * 86_400_000;

export class MeterChecks {
  readonly #known: KnownState;
  readonly #records: JournaledRecords;
  readonly #marks: Marks;
  readonly #book = new UsageBook();
  readonly #rates: RateChecks;

  constructor(known: KnownState, records: JournaledRecords, marks: Marks) {
    this.#known = known;
    this.#records = records;
    this.#marks = marks;
    this.#rates = new RateChecks(marks);
  }

  /** To be called of every operation, when runs and settings are known as they are now. */
  judge(execution: StoreExecution, changes: readonly Change[]): void {
    this.#rates.tick(execution);
    this.#judgeRefusal(execution);
    const jobs = changes.filter((change): change is ChangeOf<"job"> => change.kind === "job");
    this.#hear(execution);
    for (const change of jobs) this.#end(execution, change);
    this.#hearLate(execution);
    for (const change of jobs) this.#begin(execution, change);
    for (const change of changes) {
      if (change.kind === "run") this.#rates.judgeRun(execution, change);
      else if (change.kind === "ledger") this.#judgeLedger(execution, change);
      else if (change.kind === "parked" || change.kind === "parkedLine") this.#judgeLine(execution, change);
    }
    this.#compareTouched(execution);
  }

  #hear({ name, request, outcome }: StoreExecution): void {
    if (name !== "heartbeatJobs" || outcome.kind !== "judged") return;
    for (const [index, { jobId, token, usage }] of request.beats.entries()) {
      const answer = outcome.answers[index];
      if (answer?.kind !== "extended" || usage === undefined) continue;
      this.#book.hear(jobId, token, usage);
      this.#marks.hit("usage_by_heartbeat");
      if (answer.overBudget === undefined) continue;
      this.#noteUnpaid(jobId);
    }
  }

  #end({ name, request }: StoreExecution, { member, before, after }: ChangeOf<"job">): void {
    const jobId = member as JobId;
    if (before?.state === "claimed" && after?.state !== "claimed") {
      const entry = resultIn(name, request);
      const used = this.#book.end(jobId, entry?.jobId === jobId ? entry : undefined);
      if (used !== undefined) this.#rates.settle(jobId, used);
    }
    if (after === undefined) this.#book.forget(jobId);
  }

  /** Refused, and counted all the same. */
  #hearLate({ name, request, outcome }: StoreExecution): void {
    const entry = resultIn(name, request);
    if (entry === undefined || (outcome.kind !== "stale_claim" && outcome.kind !== "run_ended")) return;
    const attempt = this.#book.attempt(entry.jobId);
    const used =
      "tenant" in request && attempt?.tenant === request.tenant
        ? this.#book.correct(entry.jobId, entry)
        : undefined;
    if (used === undefined || attempt?.shares.length === 0) return;
    this.#rates.settle(entry.jobId, used);
    this.#marks.hit("late_usage_counted");
  }

  #begin(execution: StoreExecution, { scope, before, after }: ChangeOf<"job">): void {
    const tenant = scope.slice(0, scope.indexOf("/")) as TenantId;
    if (after?.state === "parked" && before?.state === "ready") this.#park(execution, tenant, after);
    if (before?.state === "parked" && after?.state === "ready") this.#marks.hit("parked_job_goes_on");
    if (after?.state === "claimed" && before?.state !== "claimed") this.#claim(execution, tenant, after);
  }

  #claim(execution: StoreExecution, tenant: TenantId, job: JobState): void {
    const { name, storeTimeMs } = execution;
    const { jobId, topic, claim, meter } = job;
    const asked = this.#askedBy(tenant, job, storeTimeMs);
    const estimate = meter?.estimate ?? {};
    if (claim?.overBudget !== undefined) {
      this.#judgeOver(execution, tenant, job, asked);
      return;
    }
    for (const { ledger, unit, amount } of asked) {
      const sums = this.#book.sumsOf(tenant, ledger);
      mustHold(
        amount === undefined || hasRoom(sums, amount, estimate[unit] ?? 0),
        "INV-36",
        () =>
          `${name} claimed ${jobId} for ${estimate[unit]} of ${ledger}, of whose ${amount} ${JSON.stringify(sums)} are taken`,
      );
      this.#marks.hit("budget_reserved");
    }
    this.#book.claim(tenant, job, asked);
    const { topicRates = {} } = this.#known.tenant(tenant).settings;
    this.#rates.claim(execution, tenant, { jobId, topic, estimate }, topicRates[topic] ?? []);
  }

  /** No waiting helps, or its budget fails its jobs. */
  #judgeOver({ name }: StoreExecution, tenant: TenantId, job: JobState, asked: readonly Asked[]): void {
    const budget = job.claim?.overBudget;
    const { ledger = "", unit = "", amount, atLimit } = asked.find((each) => each.budget === budget) ?? {};
    const estimate = job.meter?.estimate[unit] ?? 0;
    const isOver = amount !== undefined && !hasRoom(this.#book.sumsOf(tenant, ledger), amount, estimate);
    mustHold(
      isOver && (atLimit === "stop" || estimate > amount),
      "INV-36",
      () => `${name} granted ${job.jobId} as one that ${budget} cannot pay for, of which ${amount} are set`,
    );
    this.#noteUnpaid(job.jobId);
    this.#marks.hit("claim_over_budget");
  }

  /** Its step fails, whatever its worker would have said. */
  #noteUnpaid(jobId: JobId): void {
    const run = this.#known.run(jobId.slice(0, jobId.indexOf(":")));
    if (run !== undefined) run.unpaid = true;
  }

  #park({ name, storeTimeMs }: StoreExecution, tenant: TenantId, job: JobState): void {
    const asked = this.#askedBy(tenant, job, storeTimeMs).find(({ budget }) => budget === job.parkedFor);
    const { ledger = "", unit = "", amount } = asked ?? {};
    const sums = this.#book.sumsOf(tenant, ledger);
    mustHold(
      amount !== undefined && !hasRoom(sums, amount, job.meter?.estimate[unit] ?? 0),
      "INV-36",
      () =>
        `${name} parked ${job.jobId} for ${job.parkedFor}, of whose ${amount} ${JSON.stringify(sums)} are taken`,
    );
    this.#marks.hit("job_parked");
  }

  #judgeRefusal({ name, request, outcome, storeTimeMs }: StoreExecution): void {
    if (outcome.kind === "start_rate_exceeded") this.#marks.hit("start_rate_refused");
    if (name === "claimJobs" && outcome.kind === "judged") {
      const waits = outcome.answers.some(
        (answer) => answer.kind === "refused" && answer.because === "topic_rate",
      );
      if (waits) this.#marks.hit("topic_rate_refused");
    }
    if (outcome.kind !== "budget_exhausted" || (name !== "admit" && name !== "createRun")) return;
    const { tenant } = request;
    const budgets = request.run.budgets ?? [];
    const asked = this.#askedBy(tenant, { meter: { estimate: {}, budgets } }, storeTimeMs);
    const found = asked.find(({ budget }) => budget === outcome.budget);
    const sums = this.#book.sumsOf(tenant, found?.ledger ?? "");
    mustHold(
      found?.amount !== undefined && found.atLimit === "reject" && !hasRoom(sums, found.amount, 0),
      "INV-36",
      () => `${name} refused a start for ${outcome.budget}, of which ${JSON.stringify(sums)} are taken`,
    );
    this.#marks.hit("budget_exhausted");
  }

  #judgeLedger({ name, storeTimeMs }: StoreExecution, { scope, member, after }: ChangeOf<"ledger">): void {
    if (after !== undefined) {
      this.#compare(name, scope as TenantId, member);
      return;
    }
    const { endMs } = periodOf(partsOf(member).per, Number(member.slice(-16)));
    mustHold(
      storeTimeMs >= endMs + keptMs,
      "INV-36",
      () => `${name} removed ${member} of ${scope} too early`,
    );
    this.#book.forgetLedger(scope as TenantId, member);
  }

  #compareTouched(execution: StoreExecution): void {
    const { name, storeTimeMs } = execution;
    for (const { tenant, ledger, change } of this.#book.touched.values()) {
      this.#compare(name, tenant, ledger);
      if (change < 0) this.#judgeHead(execution, tenant, ledger);
      const isOfNow = Number(ledger.slice(-16)) === periodOf(partsOf(ledger).per, storeTimeMs).startMs;
      if (!isOfNow) this.#marks.hit("settled_in_another_period");
    }
    this.#book.touched.clear();
  }

  #compare(name: string, tenant: TenantId, ledger: string): void {
    const stored = this.#records.get("ledger", tenant, ledger) ?? { spent: 0, reserved: 0 };
    const { spent, reserved } = this.#book.sumsOf(tenant, ledger);
    mustHold(
      stored.spent === spent && stored.reserved === reserved,
      "INV-36",
      () =>
        `${name} left ${stored.spent} spent and ${stored.reserved} reserved of ${ledger} of ${tenant}; by its claims these are ${spent} and ${reserved}`,
    );
  }

  /** More is left than before: whoever waits for it is looked at now, and not at the end of the period. */
  #judgeHead({ name, storeTimeMs }: StoreExecution, tenant: TenantId, ledger: string): void {
    const budget = ledger.slice(0, -17) as BudgetId;
    const [head] = this.#records.scan("parked", `${tenant}/${budget}`, "", 1);
    if (head === undefined) return;
    const job = this.#records.get(
      "job",
      `${tenant}/${head.member.slice(17, head.member.lastIndexOf(":"))}`,
      head.member.slice(17),
    );
    const asked = this.#askedBy(tenant, { meter: job?.meter }, storeTimeMs).find(
      (each) => each.budget === budget,
    );
    const { amount, unit = "" } = asked ?? {};
    const sums = this.#book.sumsOf(tenant, asked?.ledger ?? "");
    // One sweep may end a claim and look at who waits: whoever does not fit waits on.
    if (amount !== undefined && !hasRoom(sums, amount, job?.meter?.estimate[unit] ?? 0)) return;
    const planned = this.#records.get("parkedLine", tenant, budget)?.dueAtMs ?? Number.POSITIVE_INFINITY;
    mustHold(
      planned <= storeTimeMs,
      "INV-36",
      () => `${name} left more of ${ledger}, and nobody looks at ${head.member}, which waits for it`,
    );
  }

  /** A line that holds somebody is visited; one that holds nobody is none. */
  #judgeLine({ name }: StoreExecution, change: ChangeOf<"parked"> | ChangeOf<"parkedLine">): void {
    const [tenant, budget] =
      change.kind === "parkedLine" ? [change.scope, change.member] : change.scope.split("/");
    const waits = this.#records.size("parked", `${tenant}/${budget}`) > 0;
    const dueAtMs = this.#records.get("parkedLine", tenant as TenantId, budget as string)?.dueAtMs;
    const due = `${orderedNumber(dueAtMs ?? 0)} budget ${tenant} ${budget}`;
    const isVisited =
      this.#records.get("due", partitionLabel(partitionOf(tenant as TenantId)), due) !== undefined;
    mustHold(
      waits === (dueAtMs !== undefined) && (!waits || isVisited),
      "INV-36",
      () => `${name} left jobs that wait for ${budget} of ${tenant} where nobody looks: ${waits}, ${dueAtMs}`,
    );
  }

  #askedBy(
    tenant: TenantId,
    { meter }: { readonly meter?: JobState["meter"] | undefined },
    atMs: number,
  ): readonly Asked[] {
    const { settings } = this.#known.tenant(tenant);
    const amountOf = (workflow: string, spec: string) =>
      this.#records.get("document", `${tenant}/workflow`, workflow)?.limits?.[`budget.${spec}`];
    return askedBy({ settings, meter, atMs, amountOf });
  }
}
