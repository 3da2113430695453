// The operations that admit, create, load and end runs as script calls.
import type { RunHeader, RunId, RunRecord, RunStatus, TerminalStatus } from "../../domain/run.ts";
import type { WaitPolicy } from "../../domain/tenant.ts";
import type { NewRun, RequestOf, StoreSettings } from "../../ports/store.ts";
import type { TenantKeys } from "./keys.ts";
import { parseReplayed } from "./reservation-calls.ts";
import { guardArgs, opaqueWord, type Reply, type ScriptCall, unexpected } from "./script-call.ts";

export const admit: ScriptCall<"admit"> = {
  keys(keys, { run }) {
    const always = runKeys(keys, run);
    if (run.key === undefined) return always;
    return [...always, keys.reservation(run.key.digest), keys.admissionLock, keys.runPrefix];
  },
  args: ({ run }, settings) => runArgs(run, settings),
  parse(reply, { run }) {
    switch (reply[0]) {
      case "admitted":
        return { kind: "admitted", ...parseCreated(reply, run) };
      case "replayed":
        return parseReplayed(reply);
      case "limit_reached":
        return parseLimitReached(reply);
      case "use_lock_strategy":
        return reply[2] === ""
          ? { kind: "use_lock_strategy" }
          : { kind: "use_lock_strategy", wait: reply[2] as WaitPolicy };
      case "tenant_stopped":
      case "key_reused":
      case "in_flight":
        return { kind: reply[0] };
      default:
        return unexpected("admit", reply);
    }
  },
};

export const createRun: ScriptCall<"createRun"> = {
  keys(keys, { guard, run }) {
    const guarded = [...runKeys(keys, run), keys.lock(guard.lock), keys.grant(guard.lock)];
    return run.key === undefined ? guarded : [...guarded, keys.reservation(run.key.digest)];
  },
  args: ({ guard, run }, settings) => [...guardArgs(guard), ...runArgs(run, settings)],
  parse(reply, { run }) {
    switch (reply[0]) {
      case "created":
        return { kind: "created", ...parseCreated(reply, run) };
      case "limit_reached":
        return parseLimitReached(reply);
      case "tenant_stopped":
      case "stale_fence":
      case "reservation_lost":
        return { kind: reply[0] };
      default:
        return unexpected("createRun", reply);
    }
  },
};

export const countActive: ScriptCall<"countActive"> = {
  keys: (keys) => [keys.active, keys.tenant],
  args: () => [],
  parse(reply) {
    if (reply[0] !== "counted") return unexpected("countActive", reply);
    return { kind: "counted", ...slots(reply[2], reply[3]), stopped: reply[4] === "true" };
  },
};

export const listActive: ScriptCall<"listActive"> = {
  keys: (keys) => [keys.active],
  args: ({ limit }) => [String(limit)],
  parse(reply) {
    if (reply[0] !== "listed") return unexpected("listActive", reply);
    return { kind: "listed", runIds: reply[2] as readonly RunId[] };
  },
};

export const loadRun: ScriptCall<"loadRun"> = {
  keys: (keys, { runId }) => [keys.run(runId)],
  args({ records }) {
    if (records === undefined) return ["all"];
    return ["named", ...headerFields, ...records.map(recordField)];
  },
  parse(reply, request) {
    switch (reply[0]) {
      case "run":
        return request.records === undefined
          ? parseWholeRun(request, reply[2] as readonly string[])
          : parseNamedRecords(request, request.records, reply[2] as readonly (string | null)[]);
      case "not_found":
        return { kind: "not_found" };
      default:
        return unexpected("loadRun", reply);
    }
  },
};

export const endRun: ScriptCall<"endRun"> = {
  keys: (keys, { guard, runId }) => [
    keys.run(runId),
    keys.active,
    keys.events,
    keys.lock(guard.lock),
    keys.grant(guard.lock),
    keys.reservationPrefix,
  ],
  args: ({ guard, runId, status, actor, keyRetentionMs }, { eventsPerTenantMax }) => [
    ...guardArgs(guard),
    runId,
    status,
    actor,
    String(eventsPerTenantMax),
    // A key in Redis lives for a millisecond at least.
    keyRetentionMs === undefined ? "" : String(Math.max(1, Math.floor(keyRetentionMs))),
  ],
  parse(reply) {
    switch (reply[0]) {
      case "ended":
      case "already_ended":
        return { kind: reply[0], status: reply[2] as TerminalStatus };
      case "not_found":
      case "stale_fence":
        return { kind: reply[0] };
      default:
        return unexpected("endRun", reply);
    }
  },
};

/** What a new run touches, whichever operation creates it. */
function runKeys(keys: TenantKeys, run: NewRun): string[] {
  return [keys.tenant, keys.run(run.runId), keys.active, keys.events];
}

function runArgs(run: NewRun, { eventsPerTenantMax }: StoreSettings): string[] {
  return [run.runId, String(eventsPerTenantMax), fingerprintOf(run), ...runFields(run)];
}

function parseCreated(reply: Reply, run: NewRun) {
  return { runId: run.runId, status: reply[2] as RunStatus, ...slots(reply[3], reply[4]) };
}

function fingerprintOf({ key }: NewRun): string {
  return key === undefined ? "" : opaqueWord("fingerprint", key.fingerprint);
}

/** Begins with workflow and actor: the scripts name them in the event row as well. */
function runFields({ workflow, actor, key, records }: NewRun): string[] {
  const fields = ["workflow", workflow, "actor", actor];
  if (key !== undefined) fields.push("reservation", key.digest);
  for (const record of records) fields.push(recordField(record.key), record.body);
  return fields;
}

const recordPrefix = "record:";

function recordField(key: string): string {
  return recordPrefix + key;
}

/** In Redis an absent limit is an empty text. */
function slots(active: unknown, limit: unknown) {
  return limit === "" ? { active: Number(active) } : { active: Number(active), limit: Number(limit) };
}

function parseLimitReached(reply: Reply) {
  return { kind: "limit_reached", limit: Number(reply[2]), active: Number(reply[3]) } as const;
}

const headerFields = [
  "workflow",
  "status",
  "actor",
  "admittedAt",
  "endedAt",
  "endedByFence",
  "reservation",
] as const;
type HeaderField = (typeof headerFields)[number];

/** As many as the specification returns without naming them. */
const recordsMax = 1000;

function parseWholeRun(request: RequestOf<"loadRun">, namesAndValues: readonly string[]) {
  const header = new Map<string, string>();
  const records: RunRecord[] = [];
  for (let index = 0; index < namesAndValues.length; index += 2) {
    const [name = "", value = ""] = namesAndValues.slice(index, index + 2);
    if (name.startsWith(recordPrefix)) records.push({ key: name.slice(recordPrefix.length), body: value });
    else header.set(name, value);
  }
  records.sort((left, right) => (left.key < right.key ? -1 : 1));
  return { kind: "run", header: headerFrom(request, header), records: records.slice(0, recordsMax) } as const;
}

function parseNamedRecords(
  request: RequestOf<"loadRun">,
  keys: readonly string[],
  values: readonly (string | null)[],
) {
  const header = new Map<string, string>();
  for (const [index, name] of headerFields.entries()) {
    const value = values[index];
    if (typeof value === "string") header.set(name, value);
  }
  const records = keys.flatMap((key, index) => {
    const body = values[headerFields.length + index];
    return typeof body === "string" ? [{ key, body }] : [];
  });
  return { kind: "run", header: headerFrom(request, header), records } as const;
}

function headerFrom({ tenant, runId }: RequestOf<"loadRun">, fields: ReadonlyMap<string, string>): RunHeader {
  const field = (name: HeaderField) => fields.get(name);
  const endedAt = field("endedAt");
  const endedByFence = field("endedByFence");
  const reservation = field("reservation");
  return {
    runId,
    tenant,
    workflow: field("workflow") ?? "",
    status: field("status") as RunStatus,
    actor: field("actor") ?? "",
    admittedAtMs: Number(field("admittedAt")),
    ...(reservation === undefined ? {} : { reservation }),
    ...(endedAt === undefined ? {} : { endedAtMs: Number(endedAt) }),
    ...(endedByFence === undefined ? {} : { endedByFence: Number(endedByFence) }),
  };
}
