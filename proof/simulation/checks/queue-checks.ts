// The queues of locks, by what was answered and when: first come, first served, and nobody gets a lock who has left (ADR 16).
import { ticketLifeMs, ticketsMax } from "../../../src/domain/lock.ts";
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
  /** Tokens whose grant was given back or taken away, and tokens that left a queue. */
  readonly #ended = new Set<string>();

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

  hasEnded(request: Named): boolean {
    return this.#ended.has(`${keyOf(request)} ${request.token}`);
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
    const place = index === -1 ? (queues && !isFull ? live.length : undefined) : index;
    mustHold(
      outcome.ahead === place,
      "queue",
      () => `${request.token} is told that ${outcome.ahead} are ahead of it for ${key}, and it is ${place}`,
    );
    if (!queues || place === undefined) return;
    const { token, instance, ttlMs, ticketMs = 0, credential } = request;
    live[place] = { token, instance, ttlMs, untilMs: storeTimeMs + ticketLifeMs(ticketMs), credential };
    this.#queues.set(key, live);
    this.#ended.delete(`${key} ${token}`);
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

  left(request: Named): void {
    this.#drop(keyOf(request), request.token);
    this.#ended.add(`${keyOf(request)} ${request.token}`);
  }

  /** A lock that its holder gave back, or that was taken from it, goes to the first who is there and may have it. */
  handedOn(execution: Ended, endedToken: string): (Ticket & { readonly fence: number }) | undefined {
    const { name, request, storeTimeMs } = execution;
    const key = keyOf(request);
    this.#ended.add(`${key} ${endedToken}`);
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
