// The operations on a tenant, and those that admit, reserve, create and count runs, as script calls.
import type { EventRow, EventType } from "../../domain/audit.ts";
import { hasLimits } from "../../domain/job.ts";
import type { RunId, RunStatus } from "../../domain/run.ts";
import { storeQuotaNames, type TenantSettings } from "../../domain/tenant.ts";
import type { NewRun } from "../../ports/admission-operations.ts";
import type { RequestOf, StoreOf, StoreSettings } from "../../ports/store.ts";
import { parseClaims } from "./job-format.ts";
import { encode, type TenantKeys } from "./keys.ts";
import { changeArgs, headerFields, packEntry, parseHeaders } from "./run-format.ts";
import {
  credentialWord,
  duration,
  type Fields,
  guardArgs,
  jsonWord,
  opaqueWord,
  type ScriptCalls,
  word,
} from "./script-call.ts";

export const tenantCalls: ScriptCalls<keyof StoreOf<"tenants">> = {
  getTenant: {
    keys: (keys) => [keys.tenant],
    args: () => [],
    read: {
      tenant: ([version, settings]) => ({
        record: { settings: JSON.parse(String(settings)) as TenantSettings, version: Number(version) },
      }),
    },
  },
  setTenant: {
    keys: (keys) => [keys.tenant, keys.events, keys.trail],
    args({ tenant, settings, expectedVersion, changeId, actor, credential }, store) {
      const { maxConcurrentRuns, admissionStrategy, admissionWait, stopped } = settings;
      const { revokedKeyIds = [], quotas = {} } = settings;
      return [
        tenant,
        String(expectedVersion),
        changeId,
        actor,
        String(store.eventsPerTenantMax),
        maxConcurrentRuns === undefined ? "" : String(maxConcurrentRuns),
        admissionStrategy ?? "",
        admissionWait ?? "",
        stopped === undefined ? "" : String(stopped),
        revokedKeyIds.length === 0 ? "" : ` ${revokedKeyIds.map(jsonWord).join(" ")} `,
        JSON.stringify(settings),
        limitsText(settings),
        credentialWord(credential),
        settings.removed === true ? "true" : "",
        String(store.auditRecordsPerTenantMax),
        ...storeQuotaNames.flatMap((name) => [`quota:${name}`, String(quotas[name] ?? "")]),
      ];
    },
  },
  readEvents: {
    keys: (keys, { of }) => [of === "trail" ? keys.trail : keys.events],
    args: ({ after, limit, of }, { eventsPerTenantMax, auditRecordsPerTenantMax }) => [
      String(after),
      String(limit),
      String(of === "trail" ? auditRecordsPerTenantMax : eventsPerTenantMax),
    ],
    read: {
      events: ([rows, first, last]) => ({
        events: (rows as readonly StreamRow[]).map(parseEvent),
        first: Number(first),
        last: Number(last),
      }),
    },
  },
  dropTrail: {
    keys: (keys) => [keys.events, keys.trail],
    args: ({ tenant, below, actor }, { eventsPerTenantMax, auditRecordsPerTenantMax }) => [
      tenant,
      String(below),
      actor,
      String(eventsPerTenantMax),
      String(auditRecordsPerTenantMax),
    ],
  },
  countUsage: {
    keys: (keys) => [
      ...(["apiKey", "workflow", "definition"] as const).map((each) => keys.documentIds(each)),
      ...[keys.active, keys.keyed, keys.held, keys.waiting],
    ],
    args: () => [],
    read: {
      counted(fields) {
        const [api_keys, workflows, definitions, active_runs, idempotency_keys, locks, lock_tickets] =
          fields as CountedFields;
        const documents = { api_keys, workflows, definitions };
        return { used: { ...documents, active_runs, idempotency_keys, locks, lock_tickets } };
      },
    },
  },
};

type CountedFields = readonly [number, number, number, number, number, number, number];

/** As lua/parts/places.lua describes it. Two spaces at least when there is any limit, so that it differs from none. */
function limitsText(settings: TenantSettings): string {
  if (!hasLimits(settings)) return "";
  const { topics = {}, pools = {} } = settings;
  const words = Object.entries(topics).map(([topic, { maxRunning }]) => `t:${encode(topic)}=${maxRunning}`);
  for (const [name, { maxRunning, draining, topics: only }] of Object.entries(pools)) {
    const pool = encode(name);
    if (maxRunning !== undefined) words.push(`p:${pool}=${maxRunning}`);
    if (draining === true) words.push(`d:${pool}`);
    if (only !== undefined) words.push(`r:${pool}`, ...only.map((topic) => `o:${pool}/${encode(topic)}`));
  }
  return ` ${words.join(" ")} `;
}

/** As XRANGE gives it: the id `0-<sequence>`, then names and values in turn. */
type StreamRow = readonly [id: string, fields: readonly string[]];

/** The scripts write the fields in one order: at, type, subject, actor, detail. */
function parseEvent([id, fields]: StreamRow): EventRow {
  const [, atMs, , type, , subject = "", , actor = "", , detail = ""] = fields;
  return {
    sequence: Number(id.slice(2)),
    atMs: Number(atMs),
    type: type as EventType,
    subject,
    actor,
    detail,
  };
}

export const admissionCalls: ScriptCalls<keyof StoreOf<"admission">> = {
  admit: {
    keys: (keys, { run }) => [...runKeys(keys, run), ...keyKeys(keys, run)],
    args: (request, settings) => [
      ...runArgs(request, settings),
      ...changeArgs(request.run.runId, request.run.change, settings),
    ],
    read: { admitted: parseAdmitted },
  },
  createRun: {
    keys: (keys, { guard, run }) => [
      ...runKeys(keys, run),
      keys.lock(guard.lock),
      keys.grant(guard.lock),
      ...keyKeys(keys, run),
    ],
    args: (request, settings) => [
      ...guardArgs(request.guard),
      ...runArgs(request, settings),
      ...changeArgs(request.run.runId, request.run.change, settings),
    ],
    read: { admitted: parseAdmitted },
  },
  countActive: {
    keys: (keys) => [keys.active, keys.tenant],
    args: () => [],
    read: {
      counted: ([active, limit, stopped]) => ({ ...slots(active, limit), stopped: stopped === "true" }),
    },
  },
  listActive: {
    keys: (keys) => [keys.active, keys.runPrefix],
    args: ({ limit, describe = 0 }) => [String(limit), String(describe), ...headerFields],
    read: {
      listed: ([runIds, described], { tenant }) => ({
        runIds: runIds as readonly RunId[],
        runs: parseHeaders(tenant, described),
      }),
    },
  },
  reserve: {
    keys: (keys, { guard, key }) => [
      keys.lock(guard.lock),
      keys.grant(guard.lock),
      keys.reservation(key.digest),
      keys.admissionLock,
      keys.runPrefix,
      keys.keyed,
      keys.due,
      keys.reservationPrefix,
    ],
    args: ({ tenant, guard, runId, key }, settings) => [
      ...guardArgs(guard),
      word("run id", runId),
      opaqueWord("fingerprint", key.fingerprint),
      // Dead as soon as the lock is: twice its ttl only bounds how long the dead record stays.
      duration("twice the ttl", 2 * guard.ttlMs),
      tenant,
      key.digest,
      String(settings.keysPerTenantMax),
    ],
    read: { reserved: ([, early]) => (early === undefined ? {} : { evictedEarly: true }) },
  },
  cancelReservation: {
    keys: (keys, { digest }) => [keys.reservation(digest), keys.keyed],
    args: ({ runId, token, digest }) => [word("run id", runId), opaqueWord("token", token), digest],
  },
  inspectReservation: {
    keys: (keys, { digest }) => [keys.reservation(digest), keys.admissionLock],
    args: () => [],
  },
};

/** What a new run touches, whichever operation creates it. */
function runKeys(keys: TenantKeys, run: NewRun): string[] {
  return [keys.tenant, keys.run(run.runId), keys.active, keys.events, keys.runs, keys.due, keys.start];
}

function keyKeys(keys: TenantKeys, { key }: NewRun): string[] {
  return key === undefined ? [] : [keys.reservation(key.digest), keys.keyed];
}

/** All but the change, which comes last. */
function runArgs(
  { tenant, run, credential }: RequestOf<"admit"> | RequestOf<"createRun">,
  settings: StoreSettings,
): string[] {
  const { runId, workflow, revision, definition, actor, key, start } = run;
  return [
    runId,
    String(settings.eventsPerTenantMax),
    tenant,
    credentialWord(credential),
    workflow,
    revision === undefined ? "" : String(revision),
    definition,
    actor,
    key?.digest ?? "",
    key === undefined ? "" : opaqueWord("fingerprint", key.fingerprint),
    String(settings.keysPerTenantMax),
    start === "applied" ? "" : packEntry({ kind: "started", entryId: runId }),
    String(settings.attentionMs),
    String(settings.quotas.active_runs),
  ];
}

function parseAdmitted(fields: Fields, { run }: { readonly run: NewRun }) {
  const [status, active, limit, claims, keysKept, early] = fields;
  return {
    runId: run.runId,
    status: status as RunStatus,
    ...slots(active, limit),
    claims: parseClaims(claims as readonly string[]),
    ...(keysKept === "" ? {} : { keysKept: Number(keysKept) }),
    ...(early === "" ? {} : { evictedEarly: true as const }),
  };
}

/** In Redis an absent limit is an empty text. */
function slots(active: unknown, limit: unknown) {
  return limit === "" ? { active: Number(active) } : { active: Number(active), limit: Number(limit) };
}
