// The operations on a tenant's settings and event rows as script calls.
import type { EventRow, EventType } from "../../domain/audit.ts";
import { hasLimits } from "../../domain/job.ts";
import { storeQuotaNames, type TenantSettings } from "../../domain/tenant.ts";
import { encode } from "./keys.ts";
import { credentialWord, jsonWord, type ScriptCall, unexpected } from "./script-call.ts";

export const getTenant: ScriptCall<"getTenant"> = {
  keys: (keys) => [keys.tenant],
  args: () => [],
  parse(reply) {
    if (reply[0] !== "tenant") return unexpected("getTenant", reply);
    const settings = JSON.parse(String(reply[3])) as TenantSettings;
    return { kind: "tenant", record: { settings, version: Number(reply[2]) } };
  },
};

export const setTenant: ScriptCall<"setTenant"> = {
  keys: (keys) => [keys.tenant, keys.events],
  args({ tenant, settings, expectedVersion, changeId, actor, credential }, { eventsPerTenantMax }) {
    const { maxConcurrentRuns, admissionStrategy, admissionWait, stopped } = settings;
    const { revokedKeyIds = [], quotas = {} } = settings;
    return [
      tenant,
      String(expectedVersion),
      changeId,
      actor,
      String(eventsPerTenantMax),
      maxConcurrentRuns === undefined ? "" : String(maxConcurrentRuns),
      admissionStrategy ?? "",
      admissionWait ?? "",
      stopped === undefined ? "" : String(stopped),
      revokedKeyIds.length === 0 ? "" : ` ${revokedKeyIds.map(jsonWord).join(" ")} `,
      JSON.stringify(settings),
      limitsText(settings),
      credentialWord(credential),
      settings.removed === true ? "true" : "",
      ...storeQuotaNames.flatMap((name) => [`quota:${name}`, String(quotas[name] ?? "")]),
    ];
  },
  parse(reply) {
    switch (reply[0]) {
      case "saved":
      case "version_conflict":
        return { kind: reply[0], version: Number(reply[2]) };
      case "unauthenticated":
        return { kind: "unauthenticated" };
      default:
        return unexpected("setTenant", reply);
    }
  },
};

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

export const readEvents: ScriptCall<"readEvents"> = {
  keys: (keys) => [keys.events],
  args: ({ after, limit }, { eventsPerTenantMax }) => [
    String(after),
    String(limit),
    String(eventsPerTenantMax),
  ],
  parse(reply) {
    if (reply[0] !== "events") return unexpected("readEvents", reply);
    const events = (reply[2] as readonly StreamRow[]).map(parseEvent);
    return { kind: "events", events, first: Number(reply[3]), last: Number(reply[4]) };
  },
};

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
