// The operations that admit, create and count runs as script calls.
import type { RunId, RunStatus } from "../../domain/run.ts";
import type { NewRun } from "../../ports/admission-operations.ts";
import type { RequestOf, StoreSettings } from "../../ports/store.ts";
import { changeArgs } from "./change-args.ts";
import { parseClaims } from "./job-format.ts";
import type { TenantKeys } from "./keys.ts";
import { parseReplayed } from "./reservation-calls.ts";
import { headerFields, packEntry, parseHeader } from "./run-format.ts";
import {
  credentialWord,
  guardArgs,
  opaqueWord,
  parseFailure,
  type Reply,
  type ScriptCall,
  unexpected,
} from "./script-call.ts";

export const admit: ScriptCall<"admit"> = {
  keys: (keys, { run }) => [...runKeys(keys, run), ...keyKeys(keys, run)],
  args: (request, settings) => [
    ...runArgs(request, settings),
    ...changeArgs(request.run.runId, request.run.change, settings),
  ],
  parse(reply, { run }) {
    if (reply[0] === "admitted") return parseAdmitted(reply, run);
    return reply[0] === "replayed" ? parseReplayed(reply) : parseFailure("admit", reply);
  },
};

export const createRun: ScriptCall<"createRun"> = {
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
  parse(reply, { run }) {
    if (reply[0] === "admitted") return parseAdmitted(reply, run);
    return reply[0] === "reservation_lost" ? { kind: reply[0] } : parseFailure("createRun", reply);
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

export const countUsage: ScriptCall<"countUsage"> = {
  keys: (keys) => [
    ...(["apiKey", "workflow", "definition"] as const).map((each) => keys.documentIds(each)),
    ...[keys.active, keys.keyed, keys.held, keys.waiting],
  ],
  args: () => [],
  parse(reply) {
    if (reply[0] !== "counted") return unexpected("countUsage", reply);
    const [, , api_keys, workflows, definitions, active_runs, idempotency_keys, locks, lock_tickets] =
      reply as unknown as CountedReply;
    const documents = { api_keys, workflows, definitions };
    return { kind: "counted", used: { ...documents, active_runs, idempotency_keys, locks, lock_tickets } };
  },
};

type CountedReply = readonly [string, string, number, number, number, number, number, number, number];

export const listActive: ScriptCall<"listActive"> = {
  keys: (keys) => [keys.active, keys.runPrefix],
  args: ({ limit, describe = 0 }) => [String(limit), String(describe), ...headerFields],
  parse(reply, { tenant }) {
    if (reply[0] !== "listed") return unexpected("listActive", reply);
    const rows = reply[3] as ReadonlyArray<readonly [RunId, readonly (string | null)[]]>;
    const runs = rows.map(([runId, values]) => parseHeader({ tenant, runId }, values));
    return { kind: "listed", runIds: reply[2] as readonly RunId[], runs };
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

function parseAdmitted(reply: Reply, run: NewRun) {
  return {
    kind: "admitted" as const,
    runId: run.runId,
    status: reply[2] as RunStatus,
    ...slots(reply[3], reply[4]),
    claims: parseClaims(reply[5] as readonly string[]),
  };
}

/** In Redis an absent limit is an empty text. */
function slots(active: unknown, limit: unknown) {
  return limit === "" ? { active: Number(active) } : { active: Number(active), limit: Number(limit) };
}
