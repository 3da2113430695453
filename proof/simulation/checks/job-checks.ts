// Jobs: claimed only when they may be, reported once, never forgotten while they can be worked on (INV-11, 20, 21, 22).
import { type JobState, orderedNumber } from "../../../src/adapters/operations/records.ts";
import { type JobSpec, parseJobId } from "../../../src/domain/job.ts";
import { isTerminal } from "../../../src/domain/run.ts";
import { partitionLabel, partitionOf, type TenantId } from "../../../src/domain/tenant.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import type { GrantChecks } from "./grant-checks.ts";
import type { ChangeOf, JournaledRecords } from "./journaled-records.ts";
import type { KnownState } from "./known-state.ts";
import { runOfScope } from "./run-checks.ts";

type JobChange = { readonly before: JobState; readonly after: JobState };

export class JobChecks {
  readonly #known: KnownState;
  readonly #records: JournaledRecords;
  readonly #grants: GrantChecks;
  readonly #marks: Marks;
  /** Every job there ever was. */
  readonly #seen = new Set<string>();
  /** The attempt of each step that is being worked on: there is never a second one beside it. */
  readonly #openAttempts = new Map<string, string>();

  /** When each job was reported, by the store's clock. */
  readonly #reportedAtMs = new Map<string, number>();
  readonly #duplicateWindowMs: number;

  constructor(
    known: KnownState,
    records: JournaledRecords,
    grants: GrantChecks,
    marks: Marks,
    duplicateWindowMs: number,
  ) {
    this.#duplicateWindowMs = duplicateWindowMs;
    this.#known = known;
    this.#records = records;
    this.#grants = grants;
    this.#marks = marks;
  }

  judge(execution: StoreExecution, { before, after, scope, member }: ChangeOf<"job">): void {
    const tenant = scope.slice(0, scope.indexOf("/")) as TenantId;
    if (after === undefined) {
      const run = this.#known.run(runOfScope(scope));
      const legal = run !== undefined && isTerminal(run.status);
      mustHold(legal, "INV-20", () => `${execution.name} removed job ${member} of a run that goes on`);
      return;
    }
    if (before === undefined) this.#create(execution, tenant, after);
    else this.#change(execution, tenant, { before, after });
    this.#checkIndexes(tenant, after);
  }

  /** What was accepted for a job is accepted once: no second entry about it ever waits. */
  #create(execution: StoreExecution, tenant: TenantId, job: JobState): void {
    const { name } = execution;
    const { jobId, runId } = job;
    const makers = ["admit", "createRun", "commit", "deliver"];
    const first = !this.#seen.has(jobId) && ["held", "ready", "claimed"].includes(job.state);
    mustHold(makers.includes(name) && first, "INV-17", () => `${name} made job ${jobId}, ${job.state}`);
    this.#seen.add(jobId);
    const step = stepOf(jobId);
    const open = this.#openAttempts.get(step);
    mustHold(open === undefined, "INV-22", () => `${name} enqueued ${jobId} beside ${open}`);
    this.#openAttempts.set(step, jobId);
    if (job.state !== "claimed") return;
    this.#marks.hit("job_born_claimed");
    const { stopped } = this.#known.tenant(tenant).settings;
    const cancelled = this.#known.run(runId)?.cancelRequested;
    mustHold(
      stopped !== true && cancelled === undefined,
      "INV-21",
      () => `${jobId} was born claimed, its tenant stopped: ${stopped}, its run cancelled by ${cancelled}`,
    );
    const credential = specsOf(execution).find((spec) => spec.jobId === jobId)?.claim?.credential;
    const { revokedKeyIds = [] } = this.#known.tenant(tenant).settings;
    mustHold(
      credential === undefined || !revokedKeyIds.includes(credential),
      "revocation",
      () => `${jobId} was born claimed for ${credential}, which is revoked`,
    );
    this.#grants.observeFence(tenant, job.claim?.fence ?? 0, jobId);
  }

  #change(execution: StoreExecution, tenant: TenantId, { before, after }: JobChange): void {
    const { name } = execution;
    const { jobId } = after;
    const what = () => `${name} took job ${jobId} from ${before.state} to ${after.state}`;
    mustHold(fixedPart(before) === fixedPart(after), "INV-17", () => `${name} changed what ${jobId} is`);
    if (name === "deliver" && isVerdict(execution, jobId)) this.#grants.observeVerdict(execution, true);
    switch (`${before.state} ${after.state}`) {
      case "ready ready":
        mustHold(name === "sweep" && after.republished === before.republished + 1, "INV-20", what);
        this.#marks.hit("job_published_again");
        return;
      case "ready claimed":
        this.#claim(execution, tenant, after);
        return;
      case "claimed claimed":
        mustHold(name === "heartbeatJobs" && before.claim?.token === after.claim?.token, "INV-21", what);
        return;
      case "claimed reported":
        this.#report(execution, { before, after });
        break;
      case "claimed lost":
        mustHold(
          name === "sweep" && (before.claim?.expiresAtMs ?? 0) <= execution.storeTimeMs,
          "INV-21",
          () => `${name} took ${jobId} from a worker that was in time`,
        );
        break;
      case "held held":
        mustHold(name === "sweep" || isVerdict(execution, after.jobId), "INV-20", what);
        if (name === "deliver" && after.checked?.verdict === "hold") this.#marks.hit("job_held_again");
        return;
      case "held ready":
        mustHold(name === "commit" || name === "deliver", "INV-17", what);
        mustHold(after.checked?.verdict === "allow", "INV-21", what);
        this.#marks.hit("job_released");
        return;
      case "ready parked":
        mustHold(name === "claimJobs" && after.parkedFor !== undefined, "INV-17", what);
        return;
      case "parked ready":
        mustHold(name === "sweep", "INV-17", what);
        return;
      case "held voided":
        this.#marks.hit("held_job_voided");
        mustHold(name === "commit" || name === "deliver", "INV-17", what);
        break;
      case "ready voided":
      case "parked voided":
      case "claimed voided":
        mustHold(name === "commit" || name === "deliver", "INV-17", what);
        this.#marks.hit("job_voided");
        break;
      default:
        mustHold(false, this.#isPastTheWindow(execution, jobId) ? "INV-24" : "INV-22", what);
    }
    this.#openAttempts.delete(stepOf(jobId));
  }

  /** INV-21: only what is ready, of a run that goes on and is not being cancelled, of a tenant that is not stopped. */
  #claim({ name, request }: StoreExecution, tenant: TenantId, job: JobState): void {
    const run = this.#known.run(job.runId);
    const { settings } = this.#known.tenant(tenant);
    const live = run !== undefined && !isTerminal(run.status) && run.cancelRequested === undefined;
    const asked =
      name === "claimJobs" &&
      request.claims.some(({ jobId, terms }) => jobId === job.jobId && terms.token === job.claim?.token);
    mustHold(
      asked && live && settings.stopped !== true,
      "INV-21",
      () =>
        `${name} claimed ${job.jobId} of a run that is ${run?.status}, cancelled by ${run?.cancelRequested}, stopped: ${settings.stopped}`,
    );
    this.#grants.observeFence(tenant, job.claim?.fence ?? 0, job.jobId);
  }

  #report({ name, request, storeTimeMs }: StoreExecution, { before, after }: JobChange): void {
    const entry = name === "deliver" ? request.entry : undefined;
    const ours =
      entry?.kind === "result" &&
      entry.jobId === after.jobId &&
      entry.token === before.claim?.token &&
      entry.entryId === after.reportId;
    mustHold(ours, "INV-22", () => `${name} took a result of ${after.jobId} from another claim`);
    this.#reportedAtMs.set(after.jobId, storeTimeMs);
  }

  /** A result that came again after the bus had forgotten the first: nothing but the job itself can still know it. */
  #isPastTheWindow({ storeTimeMs }: StoreExecution, jobId: string): boolean {
    const reportedAtMs = this.#reportedAtMs.get(jobId);
    return reportedAtMs !== undefined && storeTimeMs > reportedAtMs + this.#duplicateWindowMs;
  }

  /** INV-20: a job that can be claimed is where workers look, and the sweep will come to whatever is not final. */
  #checkIndexes(tenant: TenantId, job: JobState): void {
    const { jobId, state, createdAtMs, topic, publishAtMs, claim } = job;
    const member = `${orderedNumber(createdAtMs)} ${jobId}`;
    const listed = this.#records.get("ready", `${tenant}/${topic}`, member) !== undefined;
    mustHold(
      listed === (state === "ready"),
      "INV-20",
      () => `${jobId} is ${state} and ${listed ? "" : "not "}listed as ready`,
    );
    const due = (kind: string, atMs: number | undefined) => {
      const found = `${orderedNumber(atMs ?? 0)} ${kind} ${tenant} ${jobId}`;
      return this.#records.get("due", partitionLabel(partitionOf(tenant)), found) !== undefined;
    };
    if (state === "ready" || state === "held") {
      mustHold(due("unclaimed", publishAtMs), "INV-20", () => `${jobId} would never be published again`);
    }
    if (state === "claimed") {
      mustHold(due("claim", claim?.expiresAtMs), "INV-20", () => `the claim of ${jobId} would never run out`);
    }
  }
}

/** Whether the operation brought what the dispatch check says of this job. */
function isVerdict({ name, request }: StoreExecution, jobId: string): boolean {
  return name === "deliver" && request.entry.kind === "dispatch" && request.entry.jobId === jobId;
}

/** The jobs that a request asks for. */
function specsOf({ name, request }: StoreExecution): readonly JobSpec[] {
  if (name === "admit" || name === "createRun") return request.run.change.jobs;
  if (name === "commit") return request.change.jobs;
  return name === "deliver" ? (request.proposal?.change.jobs ?? []) : [];
}

/** `<run>:<step>`. */
function stepOf(jobId: string): string {
  const parts = parseJobId(jobId);
  return parts === undefined ? jobId : `${parts.runId}:${parts.step}`;
}

function fixedPart({ jobId, runId, step, attempt, topic, inputKey, createdAtMs }: JobState): string {
  return [jobId, runId, step, attempt, topic, inputKey, createdAtMs].join("\n");
}
