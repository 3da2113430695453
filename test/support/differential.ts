// Plays random operation sequences on several stores: all must give the same outcomes, also when calls are executed twice.
import { systemClock } from "../../src/adapters/system/system.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import { isTerminal, type RunHeader, unchanged } from "../../src/domain/run.ts";
import { partitionOf, type TenantId } from "../../src/domain/tenant.ts";
import type { Clock } from "../../src/ports/ports.ts";
import {
  executeOn,
  type OperationName,
  type RequestOf,
  type Store,
  type StoreSettings,
} from "../../src/ports/store.ts";
import { call, key, only } from "../../src/testing/conformance/harness.ts";
import { type CallCommand, type Command, ttls } from "./differential-commands.ts";
import { type Exchange, Knowledge } from "./differential-knowledge.ts";
import { requestOf } from "./differential-requests.ts";

/** Few are kept, so that old ones are dropped within a sequence; what becomes due does so at once, on every store. */
export const differentialSettings: StoreSettings = {
  eventsPerTenantMax: 5,
  auditRecordsPerTenantMax: 4,
  timelineRowsMax: 3,
  keysPerTenantMax: 2,
  keyRetentionMs: 600_000,
  runRetentionMs: 0,
  deadLetterRetentionMs: 0,
  republishAfterMs: 0,
  republishAfterMaxMs: 0,
  sweepEveryMs: 0,
  setAsideAfterMs: 0,
  attentionMs: 0,
  proveEveryMs: 0,
  runsPerRootMax: 4,
  queuedPerTenantMax: 2,
  quotas: {
    ...{ api_keys: 2, workflows: 2, definitions: 2 },
    ...{ active_runs: 2, locks: 1, lock_tickets: 2 },
  },
};

/** Room for those that wait, and for what they tell. */
export const queueSettings: StoreSettings = {
  ...differentialSettings,
  ...{ eventsPerTenantMax: 40, queuedPerTenantMax: 4 },
  quotas: { ...differentialSettings.quotas, active_runs: 7 },
};

/** Longer than any short time: a pending reservation lives for twice the ttl of its lock. */
const waitMs = 2.5 * ttls.short;

/** A store under comparison. Only the first, the reference, executes every call exactly once. */
export type Candidate = { readonly name: string; readonly store: Store };

export type Verdict = { readonly kind: "same" } | { readonly kind: "too_slow" };

/** Throws on the first difference. `unique` keeps the tenants of one sequence apart from all others. */
export async function compare(
  candidates: readonly Candidate[],
  commands: readonly Command[],
  unique: string,
  clock: Pick<Clock, "monotonicMs" | "sleep"> = systemClock,
): Promise<Verdict> {
  const players = candidates.map((candidate, index) => new Player(candidate, unique, index > 0));
  const verdict = await playAll(players, commands, clock);
  for (const player of players) await player.tidyUp();
  return verdict;
}

async function playAll(
  players: readonly Player[],
  commands: readonly Command[],
  clock: Pick<Clock, "monotonicMs" | "sleep">,
): Promise<Verdict> {
  let shortSinceMs: number | undefined;
  for (const [step, command] of commands.entries()) {
    const isLate = shortSinceMs !== undefined && clock.monotonicMs() - shortSinceMs > ttls.short * 0.4;
    if (command.kind === "wait" || isLate) {
      await clock.sleep(waitMs);
      shortSinceMs = undefined;
    }
    if (command.kind === "wait") continue;
    const startedMs = clock.monotonicMs();
    const outcomes: string[] = [];
    for (const player of players) outcomes.push(await player.play(command, step));
    if (command.kind === "again" || command.ttl === "short") shortSinceMs ??= startedMs;
    const endedMs = clock.monotonicMs();
    // A short time may be over on one store and not yet on another: nothing follows from such a sequence.
    if (shortSinceMs !== undefined && endedMs - shortSinceMs > ttls.short * 0.8) return { kind: "too_slow" };
    const different = outcomes.findIndex((outcome) => outcome !== outcomes[0]);
    if (different !== -1) {
      throw new Error(
        `step ${step}: ${players[0]?.name} answered ${outcomes[0]}, ` +
          `${players[different]?.name} answered ${outcomes[different]}`,
      );
    }
    // What one store does in one millisecond and another in two would be ordered differently.
    if (endedMs - startedMs < 2) await clock.sleep(2);
  }
  return { kind: "same" };
}

/** Both in one partition, so that one sweep is for both. */
function tenantsOf(unique: string): readonly TenantId[] {
  const first = `t0-${unique}` as TenantId;
  for (let index = 0; ; index += 1) {
    const second = `t1-${unique}-${index}` as TenantId;
    if (partitionOf(second) === partitionOf(first)) return [first, second];
  }
}

type Sent = { readonly name: OperationName; readonly request: RequestOf<OperationName> };

/** Plays commands on one store and puts its outcomes into a form that can be compared. */
class Player {
  readonly #candidate: Candidate;
  readonly #repeats: boolean;
  readonly #tenants: readonly TenantId[];
  readonly #known: Knowledge;
  readonly #sent: Sent[] = [];
  /** Fences in the order in which they were first seen: outcomes name a grant by its place. */
  readonly #fences: number[] = [];

  constructor(candidate: Candidate, unique: string, repeats: boolean) {
    this.#candidate = candidate;
    this.#repeats = repeats;
    this.#tenants = tenantsOf(unique);
    this.#known = new Knowledge(unique, this.#tenants);
  }

  get name(): string {
    return this.#candidate.name;
  }

  /** The outcome, as a text. */
  async play(command: CallCommand | Extract<Command, { kind: "again" }>, step: number): Promise<string> {
    const sent = command.kind === "again" ? this.#earlier(command.back) : this.#newCall(command, step);
    if (sent === undefined) return "nothing";
    const first = await this.#execute(sent);
    if (command.kind === "again" || !command.twice || !this.#repeats || !isRepeatable(sent)) return first;
    const second = await this.#execute(sent);
    return isSameAnswer(sent, first, second) ? first : `${first}, and repeated ${second}`;
  }

  #newCall(command: CallCommand, step: number): Sent {
    const tenant = this.#tenants[command.tenant] as TenantId;
    const sent = { name: command.name, request: requestOf(command, this.#known, { tenant, step }) };
    this.#sent.push(sent);
    return sent;
  }

  /** A run that was removed must not be created again: with the times of this test its id would name two runs. */
  #earlier(back: number): Sent | undefined {
    const sent = this.#sent.at(-1 - back);
    if (sent?.name !== "admit" && sent?.name !== "createRun") return sent;
    const { tenant, run } = sent.request as RequestOf<"admit">;
    return this.#known.isCurrent(tenant, run.runId) ? sent : undefined;
  }

  async #execute({ name, request }: Sent): Promise<string> {
    const answer = await executeOn(this.#candidate.store)(name, request, call);
    this.#known.learn({ name, request, answer } as Exchange);
    if (name === "sweep" && this.#known.mustAskWhatIsLeft) await this.#askWhatIsLeft();
    const outcome = this.#comparable(name === "sweep" ? this.#ownPart(answer) : answer);
    return `${name} ${JSON.stringify(outcome)}`;
  }

  async #askWhatIsLeft(): Promise<void> {
    for (const tenant of this.#tenants) {
      const { runs } = only(await this.#candidate.store.listRuns({ tenant, limit: 100 }, call), "listed");
      this.#known.left(
        tenant,
        runs.map(({ runId }) => runId),
      );
    }
  }

  /** What a sweep found of these tenants: the store may hold others in the same partition. */
  #ownPart(answer: object): object {
    return Object.fromEntries(
      Object.entries(answer).map(([name, value]) => {
        if (!Array.isArray(value)) return [name, value];
        const own = value.filter(({ tenant }: { tenant: TenantId }) => this.#tenants.includes(tenant));
        return [name, own.sort((left, right) => (JSON.stringify(left) < JSON.stringify(right) ? -1 : 1))];
      }),
    );
  }

  #comparable(value: unknown, name = ""): unknown {
    if (Array.isArray(value)) return value.map((each) => this.#comparable(each));
    if (typeof value === "object" && value !== null) {
      const fields = Object.entries(value).filter(([field]) => field !== "storeTimeMs");
      fields.sort(([left], [right]) => (left < right ? -1 : 1));
      return Object.fromEntries(fields.map(([field, each]) => [field, this.#comparable(each, field)]));
    }
    if (typeof value !== "number") return value;
    if (name === "fence") return `grant ${this.#placeOf(value)}`;
    if (name === "expiresInMs" || name === "freeInMs") return value > 1_000 ? "long" : "short";
    if (name === "heldForMs") return "time";
    // Times of the requests are 1 or far in the future; all others are the store's.
    return /AtMs$|^(at|since)Ms$/.test(name) && value > 1 && value < 8_000_000_000_000 ? "time" : value;
  }

  #placeOf(fence: number): number {
    if (!this.#fences.includes(fence)) this.#fences.push(fence);
    return this.#fences.indexOf(fence);
  }

  /** Ends and deletes all runs, so that the next sequence in this partition finds nothing due. */
  async tidyUp(): Promise<void> {
    const { store } = this.#candidate;
    for (const tenant of this.#tenants) {
      await this.#endThoseThatWait(tenant);
      const { runs } = only(await store.listRuns({ tenant, limit: 100 }, call), "listed");
      for (const run of runs) await this.#remove(run);
      for (const index of [0, 1, 2]) {
        const { digest } = key(`key${index}`);
        const pending = await store.inspectReservation({ tenant, digest }, call);
        if (pending.kind !== "pending") continue;
        for (const number of [0, 1, 2]) {
          const token = `token${number}` as LockToken;
          await store.cancelReservation({ tenant, digest, runId: pending.runId, token }, call);
        }
      }
    }
    await store.sweep({ partition: partitionOf(this.#tenants[0] as TenantId) }, call);
  }

  /** Nobody gets a place meanwhile. */
  async #endThoseThatWait(tenant: TenantId): Promise<void> {
    const { store } = this.#candidate;
    const { runs } = only(await store.listRuns({ tenant, limit: 100, status: "queued" }, call), "listed");
    if (runs.length === 0) return;
    const { record } = only(await store.getTenant({ tenant }, call), "tenant");
    const change = { expectedVersion: record.version, changeId: "tidying", actor: "tidying" };
    only(await store.setTenant({ tenant, settings: { stopped: true }, ...change }, call), "saved");
    for (const { runId } of runs) {
      const take = { token: "tidying" as LockToken, instance: "host:3", ttlMs: ttls.long };
      const entry = { kind: "cancel", entryId: "tidying", actor: "tidying", reason: "over" } as const;
      const delivery = { tenant, runId, entry, take, whenBusy: "append", records: [] } as const;
      only(await store.deliver(delivery, call), "applied");
    }
  }

  async #remove({ tenant, runId, status, version }: RunHeader): Promise<void> {
    const { store } = this.#candidate;
    const facts = this.#known.run(runId);
    if (!isTerminal(status)) {
      const lock = { namespace: "run", name: runId } as const;
      for (const owner of facts.owners)
        await store.releaseLock({ tenant, lock, token: owner as LockToken }, call);
      const token = "tidying" as LockToken;
      const ttlMs = ttls.long;
      const grant = await store.acquireLock({ tenant, lock, token, instance: "host:3", ttlMs }, call);
      const guard = { lock, token, fence: only(grant, "acquired").fence, policy: "fence", ttlMs } as const;
      const change = { ...unchanged, status: "cancelled", timeline: "", voidJobs: facts.jobs } as const;
      const commit = { guard, commitId: "tidying", expectedVersion: version, consumed: 0, change };
      only(await store.commit({ tenant, runId, ...commit }, call), "committed");
    }
    only(await store.deleteRun({ tenant, runId, actor: "tidying" }, call), "deleted");
  }
}

/** A sweep handles something else each time, hands on and moves another run; a removal finds nothing when it is repeated. */
function isRepeatable({ name }: Sent): boolean {
  return !unrepeatable.includes(name);
}

const unrepeatable: readonly OperationName[] = [
  "sweep",
  "deleteRun",
  "removeDocument",
  "handOn",
  "moveQueued",
];

/** A timer handed over is gone when it is delivered again. */
function isSameAnswer({ name, request }: Sent, first: string, second: string): boolean {
  if (first === second) return true;
  if (name === "deliver" && (request as RequestOf<"deliver">).entry.kind === "timer")
    return first.includes("handed_over") && second.includes("timer_not_due");
  // That another key gave way before its time, and who was woken, is told once.
  const toldOnce = /"evictedEarly":true,|,"woken":\[[^\]]*\]/g;
  if (first.replace(toldOnce, "") === second) return true;
  // Whom the lock was handed on to is told once.
  if (name === "releaseLock" && first.includes('"granted"'))
    return second === `releaseLock {"kind":"released"}`;
  if (name === "breakLock" && first.includes('"granted"')) return second === `breakLock {"kind":"broken"}`;
  return false;
}
