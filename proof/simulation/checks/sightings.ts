// Situations that must sometimes occur, recognised from the changes alone: repeats, dead letters, parked runs and children at a full limit.
import { isTerminal } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import type { Change } from "./journaled-records.ts";
import type { KnownState } from "./known-state.ts";

export class Sightings {
  readonly #known: KnownState;
  readonly #marks: Marks;
  /** Whether the process with this name has crashed. */
  readonly #isCrashed: (process: string) => boolean;
  /** The process that enqueued each job, and so was the first to publish it. */
  readonly #putUpBy = new Map<string, string>();

  constructor(known: KnownState, marks: Marks, isCrashed: (process: string) => boolean) {
    this.#known = known;
    this.#marks = marks;
    this.#isCrashed = isCrashed;
  }

  see(execution: StoreExecution, changes: readonly Change[]): void {
    const { name, request, outcome, caller } = execution;
    if (name === "commit" && outcome.kind === "committed" && changes.length === 0) {
      if (isTerminal(request.change.status)) this.#marks.hit("end_repeated");
    }
    for (const change of changes) {
      if (change.kind === "run") this.#seeRun(change);
      if (change.kind === "job" && change.before === undefined) this.#putUpBy.set(change.member, caller);
      if (change.kind === "job" && change.before !== undefined)
        this.#seeJob(change.before.republished, change.after?.republished, change.member);
      if (change.kind === "running" && change.after === undefined) this.#marks.hit("place_freed");
      if (change.kind === "document" && change.before === undefined && change.scope.endsWith("/deadLetter"))
        this.#marks.hit("dead_letter_written");
    }
  }

  /** Outbox after a crash: the process that should have published the job is gone, and the sweep does it. */
  #seeJob(before: number, after: number | undefined, jobId: string): void {
    if (after === undefined || after <= before) return;
    if (this.#isCrashed(this.#putUpBy.get(jobId) ?? "")) this.#marks.hit("job_published_again_after_crash");
  }

  #seeRun({ scope, before, after }: Extract<Change, { readonly kind: "run" }>): void {
    const { settings, active } = this.#known.tenant(scope as TenantId);
    const full = active.size >= (settings.maxConcurrentRuns ?? Number.POSITIVE_INFINITY);
    if (!full || after === undefined) return;
    if (before === undefined && after.parent !== undefined) this.#marks.hit("child_at_the_limit");
    if (before !== undefined && before.status !== "waiting" && after.status === "waiting")
      this.#marks.hit("parked_at_the_limit");
    if (before?.status === "waiting" && after.status === "running") this.#marks.hit("resumed_at_the_limit");
  }
}
