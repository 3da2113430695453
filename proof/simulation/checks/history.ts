// Compares callers' answers with what exists: a definite answer must stay true (INV-6 to INV-9, INV-18).
import type { AdmissionAnswer } from "../../../src/control/admission/start-run.ts";
import type { Fingerprint, ReservationDigest } from "../../../src/domain/fingerprint.ts";
import type { RunId, TerminalStatus } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { EndAnswer } from "../end-bare-run.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import type { Acknowledged } from "./acknowledged.ts";
import type { KnownRun, KnownState } from "./known-state.ts";

/** One request; `actor` is different for every one, so that the run it made can be recognised. */
export type StartAttempt = {
  readonly actor: string;
  readonly tenant: TenantId;
  readonly key?: AttemptKey;
};

export type AttemptKey = {
  readonly text: string;
  readonly digest: ReservationDigest;
  readonly fingerprint: Fingerprint;
};

/** One end; `commitId` is different for every one. */
export type EndAttempt = {
  readonly commitId: string;
  readonly tenant: TenantId;
  readonly runId: RunId;
  readonly status: TerminalStatus;
};

export class History {
  readonly #known: KnownState;
  readonly #marks: Marks;
  readonly #acknowledged: Acknowledged;
  /** Requests that were definitely refused, with the refusal. */
  readonly #refused = new Map<string, string>();
  readonly #endRefused = new Set<string>();
  /** The runs that callers with one key were told of: more than one only after the key had been freed. */
  readonly #answeredRuns = new Map<string, Set<RunId>>();
  readonly #runsOfKey = new Map<string, Set<RunId>>();
  /** Keys whose last answer was that the outcome is unknown. */
  readonly #unresolved = new Set<string>();
  readonly #keys = new Map<string, { readonly tenant: TenantId; readonly key: AttemptKey }>();

  constructor(known: KnownState, marks: Marks, acknowledged: Acknowledged) {
    this.#known = known;
    this.#marks = marks;
    this.#acknowledged = acknowledged;
  }

  /** What exists is to be learnt again; what callers were told stays. */
  startOver(): void {
    this.#runsOfKey.clear();
  }

  /** Every key that a request ever carried. */
  keys(): ReadonlyArray<{ readonly tenant: TenantId; readonly key: AttemptKey }> {
    return [...this.#keys.values()];
  }

  startAsked({ tenant, key }: StartAttempt): void {
    if (key !== undefined && !this.#keys.has(`${tenant} ${key.text}`)) {
      this.#keys.set(`${tenant} ${key.text}`, { tenant, key });
    }
  }

  startAnswered(attempt: StartAttempt, answer: AdmissionAnswer): void {
    switch (answer.kind) {
      case "admitted":
      case "queued":
        this.#checkAdmitted(attempt, answer.runId);
        return;
      case "replayed":
        this.#marks.hit("replayed");
        this.#checkReplayed(attempt, answer.runId);
        return;
      case "outcome_unknown":
        this.#marks.hit("outcome_unknown");
        if (attempt.key !== undefined) this.#unresolved.add(`${attempt.tenant} ${attempt.key.text}`);
        return;
      case "idempotency_key_reused":
      case "idempotency_key_in_flight":
      case "max_concurrent_runs_reached":
      case "queue_full":
      case "tenant_stopped":
      case "concurrency_gate_unavailable":
      case "request_cancelled":
      case "idempotency_quota_reached":
      case "unauthenticated":
        this.#marks.hit(answer.kind);
        this.refused(attempt.actor, answer.kind);
        return;
      case "quota_reached":
      case "start_rate_exceeded":
      case "budget_exhausted":
      case "version_conflict":
        this.refused(attempt.actor, answer.kind);
        return;
    }
  }

  /** The request with this actor must not have made a run, and must never make one. */
  refused(actor: string, refusal: string): void {
    const run = this.#known.runOfActor(actor);
    mustHold(
      run === undefined,
      "INV-7",
      () => `${actor} was told ${refusal}, but its run ${run?.runId} exists`,
    );
    this.#refused.set(actor, refusal);
  }

  runCreated(run: KnownRun): void {
    const refusal = this.#acknowledged.isReplaying() ? undefined : this.#refused.get(run.actor);
    mustHold(
      refusal === undefined,
      "INV-7",
      () => `run ${run.runId} was made after ${run.actor} had been told ${refusal}`,
    );
    if (run.key === undefined) return;
    const name = `${run.tenant} ${run.key.digest}`;
    this.#runsOfKey.set(name, (this.#runsOfKey.get(name) ?? new Set()).add(run.runId));
  }

  endAnswered(attempt: EndAttempt, answer: EndAnswer): void {
    const run = this.#known.run(attempt.runId);
    const byUs = run?.endedBy === attempt.commitId;
    if (!byUs && this.#acknowledged.excuses(attempt.runId)) return;
    const wrong = () =>
      `${attempt.commitId} was told ${answer.kind}, but run ${attempt.runId} was ended by ${run?.endedBy}`;
    switch (answer.kind) {
      case "ended":
        mustHold(byUs && run.status === answer.status, "INV-18", wrong);
        this.#acknowledged.record({
          invariant: "INV-18",
          what: `${attempt.commitId} was told that ${attempt.runId} has ended`,
          holds: () => this.#known.run(attempt.runId)?.endedBy === attempt.commitId,
        });
        return;
      case "already_ended":
        this.#marks.hit("end_contended");
        if (!byUs && this.#acknowledged.excusesReading(attempt.runId)) return;
        mustHold(!byUs && run?.status === answer.status, "INV-18", wrong);
        return;
      case "not_found":
        // A run that the store had lost is there again once its start, still without an answer, has been repeated.
        if (this.#acknowledged.excusesReading(attempt.runId)) return;
        mustHold(run?.tenant !== attempt.tenant || run.removed, "INV-18", wrong);
        return;
      case "busy":
      case "unavailable":
        mustHold(!byUs, "INV-18", wrong);
        this.#endRefused.add(attempt.commitId);
        return;
      case "unknown":
        return;
    }
  }

  /** Ends that were definitely refused: none of them may still happen. */
  runEnded(run: KnownRun): void {
    if (this.#acknowledged.isReplaying()) return;
    mustHold(
      run.endedBy === undefined || !this.#endRefused.has(run.endedBy),
      "INV-18",
      () => `run ${run.runId} was ended after ${run.endedBy} had been refused`,
    );
  }

  #checkAdmitted({ actor, tenant, key }: StartAttempt, runId: RunId): void {
    if (this.#acknowledged.excuses(runId)) return;
    this.#promise(actor, runId);
    const run = this.#known.run(runId);
    mustHold(
      run !== undefined && run.actor === actor && run.tenant === tenant && run.key?.digest === key?.digest,
      "INV-18",
      () =>
        `${actor} was told that ${runId} was admitted, but it is ${run === undefined ? "not there" : `of ${run.actor}`}`,
    );
    if (key !== undefined) this.#checkOneRun(tenant, key, runId);
  }

  #checkReplayed({ actor, tenant, key }: StartAttempt, runId: RunId): void {
    if (this.#acknowledged.excuses(runId)) return;
    this.#promise(actor, runId);
    const run = this.#known.run(runId);
    // A key without a run is a key that nobody can use.
    mustHold(run !== undefined, "INV-7", () => `${actor} was given ${runId}, which does not exist`);
    if (run === undefined) return;
    mustHold(
      run.tenant === tenant,
      "INV-9",
      () => `${actor} of ${tenant} was given ${runId} of ${run.tenant}`,
    );
    if (run.tenant !== tenant) return;
    if (key === undefined) {
      mustHold(false, "INV-8", () => `${actor} sent no key and was given ${runId}`);
      return;
    }
    mustHold(
      run.key?.digest === key.digest && run.key.fingerprint === key.fingerprint,
      "INV-8",
      () => `${actor} was given ${runId}, which was started by another request`,
    );
    this.#checkOneRun(tenant, key, runId);
  }

  #promise(actor: string, runId: RunId): void {
    this.#acknowledged.record({
      invariant: "INV-18",
      what: `${actor} was told of ${runId}`,
      holds: () => this.#known.run(runId) !== undefined,
    });
  }

  #checkOneRun(tenant: TenantId, key: AttemptKey, runId: RunId): void {
    const name = `${tenant} ${key.text}`;
    const answered = this.#answeredRuns.get(name) ?? new Set();
    this.#answeredRuns.set(name, answered.add(runId));
    const keyed = this.#runsOfKey.get(`${tenant} ${key.digest}`) ?? new Set();
    mustHold(
      [...answered].every((answer) => keyed.has(answer) || this.#acknowledged.excuses(answer)),
      "INV-6",
      () => `key ${key.text} of ${tenant} was answered with ${[...answered].join()}`,
    );
    if (this.#unresolved.delete(name)) this.#marks.hit("outcome_unknown_resolved");
  }
}
