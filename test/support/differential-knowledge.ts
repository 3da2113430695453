// What a player of the differential test has learnt from its store's answers: grants, versions, jobs, claims, what has ended.
import type { ApprovalId } from "../../src/domain/approval.ts";
import type { ClaimToken, JobId } from "../../src/domain/job.ts";
import type { Fence, LockName } from "../../src/domain/lock.ts";
import { isTerminal, makeRunId, type RunChange, type RunId, type RunStatus } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { Answer, OperationName, RequestOf } from "../../src/ports/store.ts";

/** A request with its name and, once known, its answer; one variant per operation. */
export type Exchange = {
  [Name in OperationName]: {
    readonly name: Name;
    readonly request: RequestOf<Name>;
    readonly answer: Answer<Name>;
  };
}[OperationName];

type RunFacts = {
  version: number;
  ended: boolean;
  readonly owners: Set<string>;
  readonly jobs: JobId[];
  readonly approvals: ApprovalId[];
  readonly children: RunId[];
};

const runs: readonly number[] = [0, 1, 2, 3, 4, 5, 6, 7];

export class Knowledge {
  readonly #unique: string;
  readonly #tenants: readonly TenantId[];
  readonly #runs = new Map<RunId, RunFacts>();
  readonly #fences = new Map<string, Fence>();
  readonly #owners = new Map<string, string>();
  readonly #claims = new Map<JobId, ClaimToken>();
  readonly #tenantVersions = new Map<TenantId, number>();
  readonly #revisions = new Map<string, number>();
  /** A run that was removed is not created again under its id: the next one has another. */
  readonly #lives = new Map<string, number>();
  #usesGates = false;

  constructor(unique: string, tenants: readonly TenantId[]) {
    this.#unique = unique;
    this.#tenants = tenants;
  }

  runId(tenant: TenantId, run: number): RunId {
    const life = this.#lives.get(`${tenant} ${run}`) ?? 0;
    return makeRunId(tenant, `run${run}x${life}x${this.#tenants.indexOf(tenant)}x${this.#unique}`);
  }

  /** The facts of a run; a new one is at version 0 and has nothing. */
  run(runId: RunId): RunFacts {
    let facts = this.#runs.get(runId);
    if (facts === undefined) {
      facts = { version: 0, ended: false, owners: new Set(), jobs: [], approvals: [], children: [] };
      this.#runs.set(runId, facts);
    }
    return facts;
  }

  fence(tenant: TenantId, lock: LockName, token: string): Fence {
    return this.#fences.get(grantKey(tenant, lock, token)) ?? (1 as Fence);
  }

  /** The last token that was granted a lock. */
  owner(tenant: TenantId, lock: LockName): string | undefined {
    return this.#owners.get(grantKey(tenant, lock, ""));
  }

  /** The run asked for if it exists, else another one that does. */
  existing(tenant: TenantId, wanted: number): RunId {
    const runIds = [wanted, ...runs].map((run) => this.runId(tenant, run));
    return runIds.find((runId) => this.run(runId).version > 0) ?? this.runId(tenant, wanted);
  }

  /** A run so many generations below this one, or as far down as there is one. */
  descendant(runId: RunId, generation: number): RunId {
    const child = this.run(runId).children.at(-1);
    return generation === 0 || child === undefined ? runId : this.descendant(child, generation - 1);
  }

  claimToken(jobId: JobId): ClaimToken | undefined {
    return this.#claims.get(jobId);
  }

  tenantVersion(tenant: TenantId): number {
    return this.#tenantVersions.get(tenant) ?? 0;
  }

  revision(tenant: TenantId, collection: string, id: string): number {
    return this.#revisions.get(`${tenant} ${collection} ${id}`) ?? 0;
  }

  isCurrent(tenant: TenantId, runId: RunId): boolean {
    return runs.some((run) => this.runId(tenant, run) === runId);
  }

  /** Runs that wait are ended by what happens to others: only the store knows which of them a sweep has removed. */
  get mustAskWhatIsLeft(): boolean {
    return this.#usesGates;
  }

  left(tenant: TenantId, runIds: readonly RunId[]): void {
    for (const run of runs) {
      const runId = this.runId(tenant, run);
      if (this.run(runId).version > 0 && !runIds.includes(runId)) this.#forget(tenant, runId);
    }
  }

  learn(exchange: Exchange): void {
    const { name } = exchange;
    if (name === "acquireLock" && exchange.answer.kind === "acquired") {
      const { tenant, lock, token } = exchange.request;
      this.#granted(tenant, lock, token, exchange);
    }
    if (name === "releaseLock" || name === "breakLock") this.#learnHandOver(exchange);
    if (name === "setTenant") this.#learnSettings(exchange);
    if (name === "putDocument") this.#learnRevision(exchange);
    if (name === "admit" || name === "createRun") this.#learnStart(exchange);
    if (name === "takeRun") this.#learnOwner(exchange.request, exchange.answer);
    if (name === "deliver") this.#learnDelivery(exchange);
    if (name === "commit") this.#learnCommit(exchange);
    if (name === "claimJobs") this.#learnClaims(exchange);
    if (name === "deleteRun" && exchange.answer.kind === "deleted")
      this.#forget(exchange.request.tenant, exchange.request.runId);
    if (name === "sweep" && exchange.answer.kind === "swept") this.#forgetEnded();
  }

  #learnSettings({ request, answer }: Extract<Exchange, { name: "setTenant" }>): void {
    if (answer.kind === "saved" || answer.kind === "version_conflict")
      this.#tenantVersions.set(request.tenant, answer.version);
  }

  #granted(tenant: TenantId, lock: LockName, token: string, { answer }: { readonly answer: object }): void {
    this.#fences.set(grantKey(tenant, lock, token), (answer as { fence: Fence }).fence);
    this.#owners.set(grantKey(tenant, lock, ""), token);
    if (lock.namespace === "run") this.run(lock.name as RunId).owners.add(token);
  }

  #learnHandOver({ request, answer }: Extract<Exchange, { name: "releaseLock" | "breakLock" }>): void {
    if (!("granted" in answer) || answer.granted === undefined) return;
    this.#granted(request.tenant, request.lock, answer.granted.token, { answer: answer.granted });
  }

  #learnRevision({ request, answer }: Extract<Exchange, { name: "putDocument" }>): void {
    if (answer.kind !== "saved" && answer.kind !== "revision_conflict") return;
    this.#revisions.set(`${request.tenant} ${request.collection} ${request.id}`, answer.revision);
  }

  #learnStart({ request, answer }: Extract<Exchange, { name: "admit" | "createRun" }>): void {
    if (request.run.gates !== undefined) this.#usesGates = true;
    if (answer.kind !== "admitted" && answer.kind !== "queued") return;
    const facts = this.run(request.run.runId);
    if (facts.version === 0) this.#changed(request.run.runId, 1, request.run.change);
  }

  #learnOwner(request: RequestOf<"takeRun"> | RequestOf<"deliver">, answer: { readonly kind: string }): void {
    if (answer.kind !== "owned") return;
    const lock = { namespace: "run", name: request.runId } as const;
    this.#granted(request.tenant, lock, request.take.token, { answer });
  }

  #learnDelivery({ request, answer }: Extract<Exchange, { name: "deliver" }>): void {
    if (answer.kind === "delivered") this.#learnOwner(request, answer.run);
    // Opened again, as only a retry can do.
    if (answer.kind === "delivered" && answer.run.kind === "owned") this.run(request.runId).ended = false;
    if (answer.kind !== "applied") return;
    if (request.entry.kind === "cancel" && answer.status === "cancelled")
      this.run(request.runId).ended = true;
    else if (request.proposal !== undefined)
      this.#changed(request.runId, answer.version, request.proposal.change);
  }

  #learnCommit({ request, answer }: Extract<Exchange, { name: "commit" }>): void {
    if (answer.kind === "committed") this.#changed(request.runId, answer.version, request.change);
    if (answer.kind === "stale_version") this.run(request.runId).version = answer.version;
  }

  #learnClaims({ request, answer }: Extract<Exchange, { name: "claimJobs" }>): void {
    if (answer.kind !== "judged") return;
    for (const [index, { jobId, terms }] of request.claims.entries())
      if (answer.answers[index]?.kind === "claimed") this.#claims.set(jobId, terms.token);
  }

  #changed(runId: RunId, version: number, change: RunChange): void {
    const facts = this.run(runId);
    if (version <= facts.version) return;
    facts.version = version;
    facts.ended = isTerminal(change.status as RunStatus);
    for (const { jobId, claim } of change.jobs) {
      facts.jobs.push(jobId);
      if (claim !== undefined) this.#claims.set(jobId, claim.token);
    }
    for (const { approvalId } of change.approvals) facts.approvals.push(approvalId);
    for (const child of change.children) {
      if (!facts.children.includes(child.runId)) facts.children.push(child.runId);
      const born = this.run(child.runId);
      born.version = Math.max(1, born.version);
    }
  }

  #forget(tenant: TenantId, runId: RunId): void {
    for (const run of runs) {
      if (this.runId(tenant, run) !== runId) continue;
      const place = `${tenant} ${run}`;
      this.#lives.set(place, (this.#lives.get(place) ?? 0) + 1);
    }
  }

  /** Retention is over at once in this test: every sweep removes all runs that have ended. */
  #forgetEnded(): void {
    for (const [runId, facts] of this.#runs) {
      if (!facts.ended) continue;
      for (const tenant of this.#tenants) this.#forget(tenant, runId);
    }
  }
}

function grantKey(tenant: string, lock: LockName, token: string): string {
  return `${tenant} ${lock.namespace} ${lock.name} ${token}`;
}
