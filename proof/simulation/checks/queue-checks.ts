// The queues of locks, by what was answered and when: first come, first served, and nobody gets a lock who has left (ADR 16).
import { endingMemoryMs, ticketLifeMs, ticketsMax } from "../../../src/domain/lock.ts";
import type { TenantId, TenantSettings } from "../../../src/domain/tenant.ts";
import type { LockGrant } from "../../../src/ports/lock-operations.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";

type ExecutionOf<Name extends StoreExecution["name"]> = Extract<StoreExecution, { readonly name: Name }>;
type Acquire = ExecutionOf<"acquireLock">;
type Ended = ExecutionOf<"releaseLock" | "breakLock">;

/** The terms by which a waiting caller will hold the lock. */
type Ticket = {
  readonly token: string;
  readonly instance: string;
  readonly ttlMs: number;
  readonly untilMs: number;
  readonly credential: string | undefined;
};

export class QueueChecks {
  readonly #marks: Marks;
  readonly #settingsOf: (tenant: TenantId) => TenantSettings;
  readonly #queues = new Map<string, Ticket[]>();
  /** Tokens whose grant has ended, and tokens that were released while they waited. */
  readonly #ended = new Map<string, { readonly how: "given" | "over"; readonly atMs: number }>();

  constructor(marks: Marks, settingsOf: (tenant: TenantId) => TenantSettings) {
    this.#marks = marks;
    this.#settingsOf = settingsOf;
  }

  startOver(): void {
    this.#queues.clear();
    this.#ended.clear();
  }

  /** Whether somebody else is next for a lock that nobody holds. */
  isNextSomebodyElse({ request, storeTimeMs }: Acquire): boolean {
    const [first] = this.#live(keyOf(request), storeTimeMs);
    return first !== undefined && first.token !== request.token;
  }

  hasEnded(named: Named): boolean {
    return this.#ended.has(`${keyOf(named)} ${named.token}`);
  }

  wasGivenBack(named: Named): boolean {
    return this.#ended.get(`${keyOf(named)} ${named.token}`)?.how === "given";
  }

  /** A token that has had its turn neither gets the lock again nor queues for it, as long as that is remembered. */
  mustBeNew(named: Named, storeTimeMs: number): void {
    const key = keyOf(named);
    const { atMs } = this.#ended.get(`${key} ${named.token}`) ?? { atMs: Number.NEGATIVE_INFINITY };
    mustHold(
      storeTimeMs > atMs + endingMemoryMs,
      "queue",
      () => `${named.token} comes for ${key} again, and had its turn`,
    );
  }

  hasTicket({ request, storeTimeMs }: ExecutionOf<"releaseLock">): boolean {
    return this.#live(keyOf(request), storeTimeMs).some(({ token }) => token === request.token);
  }

  /** Told of its place: the same one as before, or the last. */
  busy(execution: Acquire): void {
    const { request, outcome, storeTimeMs } = execution;
    if (outcome.kind !== "busy") return;
    const key = keyOf(request);
    const live = this.#live(key, storeTimeMs);
    const index = live.findIndex(({ token }) => token === request.token);
    const queues = request.ticketMs !== undefined && request.lock.namespace !== "run";
    const isFull = index === -1 && live.length >= ticketsMax;
    const place = !queues || isFull ? undefined : index === -1 ? live.length : index;
    mustHold(
      outcome.ahead === place,
      "queue",
      () => `${request.token} is told that ${outcome.ahead} are ahead of it for ${key}, and it is ${place}`,
    );
    // Who asks without a ticket gives up its place.
    if (!queues) this.#drop(key, request.token);
    if (place === undefined) return;
    const { token, instance, ttlMs, ticketMs = 0, credential } = request;
    live[place] = { token, instance, ttlMs, untilMs: storeTimeMs + ticketLifeMs(ticketMs), credential };
    this.#queues.set(key, live);
    this.mustBeNew(request, storeTimeMs);
    this.#marks.hit("public_lock_queued");
  }

  /** Nobody overtakes those who wait. */
  acquired({ request, storeTimeMs }: Acquire): void {
    const key = keyOf(request);
    const [first] = this.#live(key, storeTimeMs);
    mustHold(
      first === undefined || first.token === request.token,
      "queue",
      () => `${request.token} was granted ${key}, and ${first?.token} was next`,
    );
    this.#drop(key, request.token);
  }

  left(named: Named, storeTimeMs: number): void {
    this.#drop(keyOf(named), named.token);
    this.ended(named, "given", storeTimeMs);
  }

  ended(named: Named, how: "given" | "over", atMs: number): void {
    this.#ended.set(`${keyOf(named)} ${named.token}`, { how, atMs });
  }

  /** A lock that its holder gave back, or that was taken from it, goes to the first who is there and may have it. */
  handedOn(execution: Ended, endedToken: string): (Ticket & { readonly fence: number }) | undefined {
    const { name, request, storeTimeMs } = execution;
    const key = keyOf(request);
    this.#ended.set(`${key} ${endedToken}`, {
      how: name === "breakLock" ? "over" : "given",
      atMs: storeTimeMs,
    });
    const granted = grantedBy(execution);
    const heir = this.#heir(request, storeTimeMs);
    mustHold(
      granted?.token === heir?.token && granted?.expiresInMs === heir?.ttlMs,
      "queue",
      () => `${name} gave ${key} to ${granted?.token}, and ${heir?.token} was next`,
    );
    if (granted === undefined || heir === undefined) return undefined;
    this.#drop(key, heir.token);
    this.#marks.hit("public_lock_handed_on");
    return { ...heir, fence: granted.fence };
  }

  #heir(request: Target, storeTimeMs: number): Ticket | undefined {
    const { stopped, revokedKeyIds = [] } = this.#settingsOf(request.tenant);
    if (stopped === true && request.lock.namespace === "public") return undefined;
    return this.#live(keyOf(request), storeTimeMs).find(
      ({ credential }) => credential === undefined || !revokedKeyIds.includes(credential),
    );
  }

  /** Who asked in time, first come first. */
  #live(key: string, storeTimeMs: number): Ticket[] {
    return (this.#queues.get(key) ?? []).filter(({ untilMs }) => storeTimeMs <= untilMs);
  }

  #drop(key: string, token: string): void {
    const left = (this.#queues.get(key) ?? []).filter((ticket) => ticket.token !== token);
    this.#queues.set(key, left);
  }
}

type Target = {
  readonly tenant: TenantId;
  readonly lock: { readonly namespace: string; readonly name: string };
};
type Named = Target & { readonly token: string };

function grantedBy({ outcome }: Ended): LockGrant | undefined {
  return outcome.kind === "released" || outcome.kind === "broken" ? outcome.granted : undefined;
}

function keyOf({ tenant, lock }: Target): string {
  return `${tenant} ${lock.namespace}/${lock.name}`;
}
