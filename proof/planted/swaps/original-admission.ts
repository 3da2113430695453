// The original way to admit a run: an unfenced lock per tenant, polled every 10 ms; reserve, count, create; cleanup by a plain delete.
import { MemoryRecords } from "../../../src/adapters/memory-store.ts";
import { type Operations, operations } from "../../../src/adapters/operations/perform.ts";
import { type Context, neverMs } from "../../../src/adapters/operations/records.ts";
import { eraseReservation, putReservation } from "../../../src/adapters/operations/reservations.ts";
import type { AdmissionAnswer, Gate, startRun } from "../../../src/control/admission/start-run.ts";
import { digestOf, type Reservation, type ReservationDigest } from "../../../src/domain/fingerprint.ts";
import { admissionLock, type Fence, type Guard, type LockToken } from "../../../src/domain/lock.ts";
import { makeRunId, orderedUnique, type RunId } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { NewRun } from "../../../src/ports/admission-operations.ts";
import type { Answer, OperationName } from "../../../src/ports/store.ts";
import { noLimitInCreateRun, releaseWithoutToken } from "./broken-operations.ts";
import { mapping, over } from "./broken-records.ts";

export type OriginalAdmission = {
  /** Between two tries of a busy lock; `none` has no lock at all. */
  readonly wait: "fixed" | "jitter" | "none";
  /** Whether a reservation is deleted when its start fails. */
  readonly cleanup: boolean;
  /** After this time a key is free again, whatever became of its run. */
  readonly keyTtlMs?: number;
  /** One key is one run for all tenants, as the key of the reservation has no tenant in it. */
  readonly keysOf: "everybody" | "tenant";
};

const pollMs = 10;

/** Times are in the proportions of the original: a ttl of 10 s, 2 s to wait, 3 s for a call, 1 s for a release. */
function timesOf({ config }: Gate) {
  const ttlMs = config["locks.admission.ttlMs"];
  return { ttlMs, waitMs: ttlMs / 5, callMs: 0.3 * ttlMs, releaseMs: ttlMs / 10 };
}

export function originalStart(variant: OriginalAdmission): typeof startRun {
  return async (gate, request, signal) => {
    const { ports } = gate;
    const { tenant, key, credential: _credential, ...rest } = request;
    const unique = orderedUnique(ports.clock.wallMs(), ports.random.token());
    const runId = makeRunId(tenant, unique);
    const named =
      key === undefined
        ? {}
        : { key: { digest: digestOf("start_run", key.text), fingerprint: key.fingerprint } };
    const start: Start = { gate, variant, tenant, run: { ...rest, runId, ...named }, signal };
    if (variant.wait === "none") return decide(start, unguarded);
    const lock = await acquire(start);
    if (lock.kind !== "locked") return refused(`admission lock busy: ${lock.kind}`);
    try {
      return await decide(start, lock.guard);
    } finally {
      const { releaseMs } = timesOf(gate);
      const release = { tenant, lock: admissionLock, token: lock.guard.token };
      await ports.store.releaseLock(release, { deadlineMs: releaseMs });
    }
  };
}

type Start = {
  readonly gate: Gate;
  readonly variant: OriginalAdmission;
  readonly tenant: TenantId;
  readonly run: NewRun;
  readonly signal: AbortSignal | undefined;
};

/** Nobody compares it: it stands in the requests because they have a place for it. */
const unguarded: Guard = {
  lock: admissionLock,
  token: "none" as LockToken,
  fence: 0 as Fence,
  policy: "continue",
  ttlMs: 1,
};

type Acquired = { readonly kind: "locked"; readonly guard: Guard } | { readonly kind: "error" | "busy" };

/** A try without an answer ends the wait: its token is forgotten, and the lock may be held by nobody for its ttl. */
async function acquire({ gate, tenant, signal, variant }: Start): Promise<Acquired> {
  const { store, clock, random, instance } = gate.ports;
  const { ttlMs, waitMs } = timesOf(gate);
  const startedMs = clock.monotonicMs();
  for (;;) {
    const leftMs = waitMs - (clock.monotonicMs() - startedMs);
    if (leftMs <= 0) return { kind: "busy" };
    const token = random.token() as LockToken;
    const request = { tenant, lock: admissionLock, token, instance, ttlMs };
    const answer = await orGone(store.acquireLock(request, { deadlineMs: leftMs }), signal);
    if (answer === "gone" || answer.kind === "unknown" || answer.kind === "unavailable")
      return { kind: "error" };
    if (answer.kind === "acquired") {
      return { kind: "locked", guard: { ...unguarded, token, fence: answer.fence, ttlMs } };
    }
    await clock.sleep(variant.wait === "jitter" ? 2 * pollMs * random.fraction() : pollMs, signal);
  }
}

async function decide(start: Start, guard: Guard): Promise<AdmissionAnswer> {
  const { gate, tenant, run, signal } = start;
  const { store } = gate.ports;
  const options = { deadlineMs: timesOf(gate).callMs };
  if (run.key !== undefined) {
    const reserve = { tenant, runId: run.runId, key: run.key, guard };
    const reserved = await orGone(store.reserve(reserve, options), signal);
    if (reserved === "gone" || isTrouble(reserved)) return doubtful(run.runId);
    if (reserved.kind === "replayed") {
      return { kind: "replayed", runId: reserved.runId, status: reserved.status };
    }
  }
  const counted = await orGone(store.countActive({ tenant }, options), signal);
  if (counted === "gone" || counted.kind !== "counted") {
    await cleanUp(start);
    return refused("failed to enforce max concurrent runs");
  }
  const { active, limit } = counted;
  if (limit !== undefined && active >= limit) {
    await cleanUp(start);
    return { kind: "max_concurrent_runs_reached", limit, active };
  }
  const created = await orGone(store.createRun({ tenant, run, guard }, options), signal);
  if (created === "gone" || created.kind !== "admitted") {
    await cleanUp(start);
    return created !== "gone" && created.kind === "tenant_stopped" ? created : doubtful(run.runId);
  }
  const { runId, status, claims, storeTimeMs } = created;
  return { kind: "admitted", runId, status, claims, active: created.active, storeTimeMs };
}

/** With the caller's own connection: when that is gone, so is the cleanup. What it deletes is whatever stands there. */
async function cleanUp({ gate, variant, tenant, run, signal }: Start): Promise<void> {
  if (!variant.cleanup || run.key === undefined || signal?.aborted) return;
  const request = { tenant, digest: run.key.digest, runId: run.runId, token: unguarded.token };
  await gate.ports.store.cancelReservation(request, { deadlineMs: timesOf(gate).callMs });
}

function orGone<Value>(call: Promise<Value>, signal: AbortSignal | undefined): Promise<Value | "gone"> {
  if (signal === undefined) return call;
  if (signal.aborted) return Promise.resolve("gone");
  return new Promise((resolve, reject) => {
    const gone = () => resolve("gone");
    signal.addEventListener("abort", gone, { once: true });
    call.then(resolve, reject).finally(() => signal.removeEventListener("abort", gone));
  });
}

function isTrouble(
  answer: Answer<OperationName>,
): answer is Extract<typeof answer, { kind: "unknown" | "unavailable" }> {
  return answer.kind === "unknown" || answer.kind === "unavailable";
}

/** 503: its caller is told that nothing has happened. */
function refused(cause: string): AdmissionAnswer {
  return { kind: "concurrency_gate_unavailable", cause };
}

/** 500: its caller is told nothing that could be wrong. */
function doubtful(runId: RunId): AdmissionAnswer {
  return { kind: "outcome_unknown", runId };
}

/** The commands of the original as operations: none looks at the lock, and none at more than it must. */
export function originalCommands(variant: OriginalAdmission): Operations {
  return {
    ...operations,
    reserve: (context, { tenant, runId, key }) => {
      const found = findKey(context, variant, tenant, key.digest);
      if (found !== undefined) {
        const { runId: boundTo } = found.reservation;
        const status = context.records.get("run", found.tenant, boundTo)?.status ?? "pending";
        return { kind: "replayed", runId: boundTo, status };
      }
      const { fingerprint } = key;
      const expiresAtMs = Math.min(
        neverMs,
        Math.floor(context.nowUs / 1_000) + (variant.keyTtlMs ?? neverMs),
      );
      const pending = { state: "pending", runId, fingerprint, token: unguarded.token, expiresAtMs } as const;
      putReservation(context, tenant, key.digest, pending);
      return { kind: "reserved" };
    },
    cancelReservation: (context, { tenant, digest }) => {
      const found = findKey(context, variant, tenant, digest);
      if (found !== undefined) eraseReservation(context, found.tenant, digest);
      return { kind: "cancelled" };
    },
    createRun: (context, request) => {
      const { tenant, run } = request;
      const digest = run.key?.digest;
      const first = digest === undefined ? undefined : findKey(context, variant, tenant, digest);
      return noLimitInCreateRun.createRun(
        asFirst(asHeld(context, request), request, first?.reservation),
        request,
      );
    },
  };
}

/** The same with a release that deletes whatever lock is there. */
export function withPlainRelease(commands: Operations): Operations {
  return { ...commands, releaseLock: releaseWithoutToken.releaseLock };
}

type FoundKey = { readonly tenant: TenantId; readonly reservation: Reservation };

function findKey(
  context: Context,
  { keysOf }: OriginalAdmission,
  tenant: TenantId,
  digest: ReservationDigest,
): FoundKey | undefined {
  const { records, nowUs } = context;
  const live = (reservation: Reservation | undefined) =>
    reservation !== undefined && (reservation.expiresAtMs ?? neverMs) >= nowUs / 1_000;
  const own = records.get("reservation", tenant, digest);
  if (own !== undefined && live(own)) return { tenant, reservation: own };
  if (keysOf === "tenant" || !(records instanceof MemoryRecords)) return undefined;
  for (const { scope, member, value } of records.all("reservation")) {
    if (member === digest && live(value)) return { tenant: scope as TenantId, reservation: value };
  }
  return undefined;
}

type Creation = { readonly tenant: TenantId; readonly run: NewRun; readonly guard: Guard };

/** Every grant looks like the one that the request carries. */
function asHeld(context: Context, { guard }: Creation): Context {
  const { token, fence } = guard;
  return mapping(
    context,
    "lock",
    () => ({ token, fence, instance: "", expiresAtMs: neverMs, released: false }),
    (grant) => grant,
  );
}

/** The key looks like this run's own while the run is made, and stays whose it was if it was another's. */
function asFirst(context: Context, { run, guard }: Creation, first: Reservation | undefined): Context {
  const { records } = context;
  const { key, runId } = run;
  if (key === undefined) return context;
  const ours = {
    state: "pending",
    runId,
    fingerprint: key.fingerprint,
    token: guard.token,
    expiresAtMs: neverMs,
  };
  const isOthers = first !== undefined && first.runId !== runId;
  return over(context, {
    get: (kind, scope, member) => {
      const isKey = kind === "reservation" && member === key.digest;
      return isKey
        ? (ours as unknown as ReturnType<typeof records.get<typeof kind>>)
        : records.get(kind, scope, member);
    },
    put: (kind, scope, member, value) => {
      const isKey = (kind === "reservation" || kind === "keyed") && member.endsWith(key.digest);
      if (!(isKey && isOthers)) records.put(kind, scope, member, value);
    },
  });
}
