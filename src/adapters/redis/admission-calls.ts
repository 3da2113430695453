// The operations on a tenant, and those that admit, reserve, create and count runs, as script calls.
import type { EventRow, EventType } from "../../domain/audit.ts";
import { budgetSpec } from "../../domain/budgets.ts";
import type { GateId } from "../../domain/gates.ts";
import { hasLimits } from "../../domain/job.ts";
import type { RateId } from "../../domain/rates.ts";
import type { RunId, RunStatus } from "../../domain/run.ts";
import { storeQuotaNames, type TenantSettings } from "../../domain/tenant.ts";
import type { NewRun } from "../../ports/admission-operations.ts";
import type { OutcomeOf, RequestOf, StoreOf } from "../../ports/store.ts";
import { parseClaims } from "./job-format.ts";
import { encode, unencoded } from "./keys.ts";
import {
  budgetsText,
  gatesText,
  headerFields,
  limitWords,
  packEntry,
  parseHeaders,
  parseWoken,
  pushChange,
  rateNumbers,
  ratesText,
  settingsArgs,
} from "./run-format.ts";
import {
  credentialWord,
  duration,
  type Fields,
  type GatheredCall,
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
    keys: (keys) => [keys.tenant, keys.events, keys.trail, keys.due, keys.parkedLines],
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
        limitWords(Object.entries(settings.gates ?? {}).map(([name, { max }]) => [name, max])),
        tenantBudgetWords(settings),
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
      ...[keys.active, keys.keyed, keys.held, keys.waiting, keys.queued],
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
  const { topics = {}, pools = {}, topicRates = {} } = settings;
  const words = Object.entries(topics).map(([topic, { maxRunning }]) => `t:${encode(topic)}=${maxRunning}`);
  for (const [name, { maxRunning, draining, topics: only }] of Object.entries(pools)) {
    const pool = encode(name);
    if (maxRunning !== undefined) words.push(`p:${pool}=${maxRunning}`);
    if (draining === true) words.push(`d:${pool}`);
    if (only !== undefined) words.push(`r:${pool}`, ...only.map((topic) => `o:${pool}/${encode(topic)}`));
  }
  for (const [topic, rates] of Object.entries(topicRates)) {
    for (const { unit = "-", ...rate } of rates) {
      words.push(`u:${encode(topic)}=${[...rateNumbers(rate), unencoded("unit", unit)].join(",")}`);
    }
  }
  return ` ${words.join(" ")} `;
}

/** Each `<name>~<unit>~<per>=<amount>,<at limit>` between two spaces; empty without any. */
function tenantBudgetWords({ budgets = {} }: TenantSettings): string {
  const words = Object.entries(budgets).map(([name, { unit, amount, per, atLimit }]) => {
    const spec = unencoded("budget", budgetSpec(name, unit, per));
    return `${spec}=${amount},${atLimit}`;
  });
  return words.length === 0 ? "" : ` ${words.join(" ")} `;
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

export const admitCall: GatheredCall<"admit"> = {
  push: pushRun,
  read: {
    admitted: parseAdmitted,
    queued([waitsFor, position, deadlineAtMs, keysKept, early, woken, left, startsAtMs], { run }) {
      return {
        runId: run.runId,
        ...(startsAtMs === undefined
          ? { gate: waitsFor as GateId }
          : { rate: waitsFor as RateId, startsAtMs: Number(startsAtMs) }),
        position: Number(position),
        deadlineAtMs: Number(deadlineAtMs),
        ...parseKept(keysKept, early),
        ...parseWoken(woken),
        ...parseRateLeft(left),
      };
    },
  },
};

export const admissionCalls: ScriptCalls<Exclude<keyof StoreOf<"admission">, "admit">> = {
  createRun: {
    keys: (keys, { guard }) => [keys.start, keys.due, keys.lock(guard.lock), keys.grant(guard.lock)],
    args(request, settings) {
      const args = [...settingsArgs(settings), ...guardArgs(request.guard).slice(0, 4)];
      pushRun(args, request);
      return args;
    },
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

/** A new run, whichever operation creates it. */
function pushRun(
  args: string[],
  { tenant, run, credential }: RequestOf<"admit"> | RequestOf<"createRun">,
): void {
  const { runId, workflow, revision, definition, actor, key, start, gates, rates, budgets, change } = run;
  args.push(
    tenant,
    unencoded("run id", runId),
    credentialWord(credential),
    workflow,
    revision === undefined ? "" : String(revision),
    definition,
    actor,
    key === undefined ? "" : unencoded("reservation digest", key.digest),
    key === undefined ? "" : opaqueWord("fingerprint", key.fingerprint),
    start === "applied" ? "" : packEntry({ kind: "started", entryId: runId }),
    gatesText(gates, actor),
    ratesText(rates),
    budgetsText(budgets),
  );
  pushChange(args, runId, change);
}

function parseAdmitted(fields: Fields, { run }: { readonly run: NewRun }) {
  const [status, active, limit, claims, keysKept, early, woken, left] = fields;
  return {
    runId: run.runId,
    status: status as RunStatus,
    ...slots(active, limit),
    claims: parseClaims(claims as readonly string[]),
    ...parseKept(keysKept, early),
    ...parseWoken(woken),
    ...parseRateLeft(left),
  };
}

/** Of a start without rates there is none. */
function parseRateLeft(left: unknown) {
  const [limit, perMs, remaining, resetMs] = (left ?? []) as readonly number[];
  return limit === undefined ? {} : { rateLeft: { limit, perMs, remaining, resetMs } as RateLeft };
}

type RateLeft = NonNullable<Extract<OutcomeOf<"admit">, { kind: "admitted" }>["rateLeft"]>;

function parseKept(keysKept: unknown, early: unknown) {
  return {
    ...(keysKept === "" ? {} : { keysKept: Number(keysKept) }),
    ...(early === "" ? {} : { evictedEarly: true as const }),
  };
}

/** In Redis an absent limit is an empty text. */
function slots(active: unknown, limit: unknown) {
  return limit === "" ? { active: Number(active) } : { active: Number(active), limit: Number(limit) };
}
