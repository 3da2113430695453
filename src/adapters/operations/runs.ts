// The operations that admit, create, load and end runs; slots are the members of the tenant's active index.
import type { ReservationDigest } from "../../domain/reservation.ts";
import { isTerminal, type RunHeader, type RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { NewRun, OutcomeOf, RequestOf } from "../../ports/store.ts";
import { type Context, nowMs } from "./context.ts";
import { judgeGuard, retakeLock } from "./locks.ts";
import { orderedNumber } from "./records.ts";
import { judgeKey, readReservation } from "./reservations.ts";
import { appendEvent, readTenant } from "./tenants.ts";

export function admit(context: Context, request: RequestOf<"admit">): OutcomeOf<"admit"> {
  const { tenant, run } = request;
  const existing = context.records.get("run", tenant, run.runId);
  if (existing !== undefined) return { kind: "admitted", ...described(context, tenant, existing) };
  const { settings } = readTenant(context, tenant);
  if (settings.admissionStrategy === "lock") {
    return settings.admissionWait === undefined
      ? { kind: "use_lock_strategy" }
      : { kind: "use_lock_strategy", wait: settings.admissionWait };
  }
  if (run.key !== undefined) {
    const verdict = judgeKey(context, tenant, run.runId, run.key);
    if (verdict.kind !== "unbound" && verdict.kind !== "ours") return verdict;
  }
  const refusal = judgeLimit(context, tenant);
  if (refusal !== undefined) return refusal;
  return { kind: "admitted", ...described(context, tenant, insertRun(context, tenant, run)) };
}

export function createRun(context: Context, request: RequestOf<"createRun">): OutcomeOf<"createRun"> {
  const { tenant, guard, run } = request;
  const existing = context.records.get("run", tenant, run.runId);
  if (existing !== undefined) return { kind: "created", ...described(context, tenant, existing) };
  const guardVerdict = judgeGuard(context, tenant, guard);
  if (guardVerdict === "stale") return { kind: "stale_fence" };
  if (run.key !== undefined) {
    const reservation = readReservation(context, tenant, run.key.digest);
    const ours =
      reservation?.state === "pending" &&
      reservation.runId === run.runId &&
      reservation.token === guard.token &&
      reservation.fingerprint === run.key.fingerprint;
    if (!ours) return { kind: "reservation_lost" };
  }
  const refusal = judgeLimit(context, tenant);
  if (refusal !== undefined) return refusal;
  if (guardVerdict === "retake") retakeLock(context, tenant, guard);
  return { kind: "created", ...described(context, tenant, insertRun(context, tenant, run)) };
}

export function countActive(context: Context, request: RequestOf<"countActive">): OutcomeOf<"countActive"> {
  const stopped = readTenant(context, request.tenant).settings.stopped === true;
  return { kind: "counted", ...slots(context, request.tenant), stopped };
}

export function listActive(context: Context, request: RequestOf<"listActive">): OutcomeOf<"listActive"> {
  const rows = context.records.scan("active", request.tenant, "", request.limit);
  return { kind: "listed", runIds: rows.map((row) => row.member.slice(17) as RunId) };
}

export function loadRun(context: Context, request: RequestOf<"loadRun">): OutcomeOf<"loadRun"> {
  const { tenant, runId } = request;
  const header = context.records.get("run", tenant, runId);
  if (header === undefined) return { kind: "not_found" };
  const scope = `${tenant}/${runId}`;
  if (request.records === undefined) {
    const rows = context.records.scan("runRecord", scope, "", recordsMax);
    return { kind: "run", header, records: rows.map((row) => ({ key: row.member, body: row.value.body })) };
  }
  const records = request.records.flatMap((key) => {
    const record = context.records.get("runRecord", scope, key);
    return record === undefined ? [] : [{ key, body: record.body }];
  });
  return { kind: "run", header, records };
}

/** More than any run admitted in one operation holds; larger runs are loaded by naming the records wanted. */
const recordsMax = 1000;

export function endRun(context: Context, request: RequestOf<"endRun">): OutcomeOf<"endRun"> {
  const { tenant, guard, runId, status, actor, keyRetentionMs } = request;
  const header = context.records.get("run", tenant, runId);
  if (header === undefined) return { kind: "not_found" };
  if (isTerminal(header.status)) {
    const ours = header.status === status && header.endedByFence === guard.fence;
    return { kind: ours ? "ended" : "already_ended", status: header.status };
  }
  const guardVerdict = judgeGuard(context, tenant, guard);
  if (guardVerdict === "stale") return { kind: "stale_fence" };
  if (guardVerdict === "retake") retakeLock(context, tenant, guard);
  const endedAtMs = nowMs(context);
  context.records.put("run", tenant, runId, { ...header, status, endedAtMs, endedByFence: guard.fence });
  context.records.erase("active", tenant, activeMember(header));
  if (header.reservation !== undefined) {
    const digest = header.reservation as ReservationDigest;
    const reservation = readReservation(context, tenant, digest);
    if (reservation?.state === "bound" && reservation.runId === runId) {
      const expiry = keyRetentionMs === undefined ? {} : { expiresAtMs: endedAtMs + keyRetentionMs };
      context.records.put("reservation", tenant, digest, { ...reservation, finalStatus: status, ...expiry });
    }
  }
  appendEvent(context, tenant, { type: "run_ended", subject: runId, actor, detail: status });
  return { kind: "ended", status };
}

type Slots = { readonly active: number; readonly limit?: number };

function slots(context: Context, tenant: TenantId): Slots {
  const active = context.records.size("active", tenant);
  const limit = readTenant(context, tenant).settings.maxConcurrentRuns;
  return limit === undefined ? { active } : { active, limit };
}

/** Both admit and createRun ask here, inside the operation: mixing the strategies can then not exceed the limit. */
function judgeLimit(
  context: Context,
  tenant: TenantId,
): { kind: "limit_reached"; limit: number; active: number } | { kind: "tenant_stopped" } | undefined {
  if (readTenant(context, tenant).settings.stopped === true) return { kind: "tenant_stopped" };
  const { active, limit } = slots(context, tenant);
  return limit !== undefined && active >= limit ? { kind: "limit_reached", limit, active } : undefined;
}

function insertRun(context: Context, tenant: TenantId, run: NewRun): RunHeader {
  const { runId, workflow, actor, key } = run;
  const base = { runId, tenant, workflow, status: "pending", actor, admittedAtMs: nowMs(context) } as const;
  const header: RunHeader = key === undefined ? base : { ...base, reservation: key.digest };
  const { records } = context;
  records.put("run", tenant, runId, header);
  for (const record of run.records) {
    records.put("runRecord", `${tenant}/${runId}`, record.key, { body: record.body });
  }
  records.put("active", tenant, activeMember(header), {});
  if (key !== undefined) {
    const { digest, fingerprint } = key;
    records.put("reservation", tenant, digest, { state: "bound", runId, fingerprint });
  }
  appendEvent(context, tenant, { type: "run_admitted", subject: runId, actor, detail: workflow });
  return header;
}

function activeMember(header: RunHeader): string {
  return `${orderedNumber(header.admittedAtMs)} ${header.runId}`;
}

function described(context: Context, tenant: TenantId, header: RunHeader) {
  return { runId: header.runId, status: header.status, ...slots(context, tenant) };
}
