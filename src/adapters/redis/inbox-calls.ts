// The operations on a run's inbox as script calls: deliver, take, commit.
import type { Approval } from "../../domain/approval.ts";
import { decisionDetail } from "../../domain/audit.ts";
import {
  drainEntriesMax,
  drainsMax,
  type InboxEntry,
  type NewEntry,
  retriesWaitingMax,
} from "../../domain/inbox.ts";
import type { Fence } from "../../domain/lock.ts";
import type { RunStatus } from "../../domain/run.ts";
import type { DeliveryRefused, OwnedRun, Proposal, TakeTerms } from "../../ports/run-operations.ts";
import type { RequestOf, StoreSettings } from "../../ports/store.ts";
import { parseApproval } from "./approval-format.ts";
import { changeArgs } from "./change-args.ts";
import { parseClaims, parseFreed, verdictWords } from "./job-format.ts";
import { headerFields, packEntry, parseEntry, parseHeader, parseRecords, recordField } from "./run-format.ts";
import {
  credentialWord,
  duration,
  grantMemory,
  guardArgs,
  jsonWord,
  opaqueWord,
  type Reply,
  type ScriptCall,
  unexpected,
  word,
} from "./script-call.ts";

export const deliver: ScriptCall<"deliver"> = {
  keys(keys, { runId, entry }) {
    const lock = { namespace: "run", name: runId } as const;
    return [
      keys.tenant,
      keys.run(runId),
      keys.active,
      keys.events,
      keys.lock(lock),
      keys.grant(lock),
      keys.fence,
      keys.due,
      keys.inbox(runId),
      keys.start,
      ...(entry.kind === "decision" ? [keys.approval(entry.approvalId)] : []),
      ...(entry.kind === "dispatch" ? [keys.lock({ namespace: "job", name: entry.jobId })] : []),
    ];
  },
  args(request, settings) {
    const { tenant, runId, entry, take, whenBusy, records, proposal, credential } = request;
    return [
      tenant,
      runId,
      credentialWord(credential),
      ...takeArgs(take),
      whenBusy,
      String(settings.eventsPerTenantMax),
      String(settings.attentionMs),
      String(drainsMax),
      String(drainEntriesMax),
      String(settings.deadLetterRetentionMs),
      entry.kind,
      packEntry(entryToKeep(entry)),
      proposal === undefined ? "" : baseWords(proposal),
      ...entryArgs(entry, settings),
      String(headerFields.length + records.length),
      ...wantedFields(records),
      ...(proposal === undefined ? [] : changeArgs(proposal.commitId, proposal.change, settings)),
    ];
  },
  parse(reply, request) {
    switch (reply[0]) {
      case "owned":
        return {
          kind: "delivered",
          run: parseOwned(reply, request),
          ...parseFreed(reply[5]),
          ...parseDecided(reply[6], request.entry),
        };
      case "handed_over":
        return {
          kind: "delivered",
          run: { kind: "handed_over" },
          ...parseFreed(reply[2]),
          ...parseDecided(reply[3], request.entry),
        };
      case "run_busy":
        return { kind: "run_busy", instance: String(reply[2]) };
      case "applied":
        return {
          kind: "applied",
          version: Number(reply[2]),
          status: reply[3] as RunStatus,
          claims: parseClaims(reply[4] as readonly string[]),
          ...parseFreed(reply[5]),
          ...parseDecided(reply[6], request.entry),
        };
      case "refused":
        return { kind: reply[2], ...parseDecided(reply[3], request.entry) } as DeliveryRefused;
      default:
        return unexpected("deliver", reply);
    }
  },
};

/** What a proposal was decided upon: a version, and the commit that made it if the sender knows. */
function baseWords({ expectedVersion, expectedCommitId }: Proposal): string {
  return expectedCommitId === undefined
    ? String(expectedVersion)
    : `${expectedVersion} ${jsonWord(expectedCommitId)}`;
}

export const takeRun: ScriptCall<"takeRun"> = {
  keys(keys, { runId }) {
    const lock = { namespace: "run", name: runId } as const;
    return [
      keys.run(runId),
      keys.inbox(runId),
      keys.lock(lock),
      keys.grant(lock),
      keys.fence,
      keys.due,
      keys.start,
    ];
  },
  args: ({ tenant, runId, take, records }, settings) => [
    tenant,
    runId,
    ...takeArgs(take),
    String(settings.attentionMs),
    String(drainsMax),
    String(drainEntriesMax),
    String(settings.deadLetterRetentionMs),
    ...wantedFields(records),
  ],
  parse(reply, request) {
    switch (reply[0]) {
      case "owned":
        return parseOwned(reply, request);
      case "handed_over":
      case "empty":
      case "not_found":
        return { kind: reply[0] };
      default:
        return unexpected("takeRun", reply);
    }
  },
};

export const commit: ScriptCall<"commit"> = {
  keys: (keys, { runId, guard }) => [
    keys.run(runId),
    keys.active,
    keys.events,
    keys.lock(guard.lock),
    keys.grant(guard.lock),
    keys.due,
    keys.inbox(runId),
    keys.start,
  ],
  args: ({ tenant, runId, guard, expectedVersion, consumed, commitId, change }, settings) => [
    ...guardArgs(guard),
    tenant,
    runId,
    String(settings.eventsPerTenantMax),
    String(settings.attentionMs),
    String(expectedVersion),
    String(consumed),
    String(drainEntriesMax),
    ...changeArgs(commitId, change, settings),
  ],
  parse(reply) {
    switch (reply[0]) {
      case "committed":
        return {
          kind: "committed",
          version: Number(reply[2]),
          entries: parseEntries(reply[3]),
          claims: parseClaims(reply[4] as readonly string[]),
        };
      case "stale_version":
        return { kind: "stale_version", version: Number(reply[2]) };
      case "tree_full":
      case "not_found":
      case "stale_fence":
        return { kind: reply[0] };
      default:
        return unexpected("commit", reply);
    }
  },
};

/** What the inbox keeps, with its fields in the order of the specification: dead letters show this text. */
function entryToKeep(entry: NewEntry): InboxEntry {
  switch (entry.kind) {
    case "result": {
      const { entryId, jobId, outcome, payload } = entry;
      return { kind: "result", entryId, jobId, outcome, payloadKey: payload.key };
    }
    case "decision": {
      const { entryId, approvalId, decision, decidedBy, reason = "" } = entry;
      return { kind: "decision", entryId, approvalId, decision, decidedBy, reason };
    }
    case "cancel":
    case "timer":
      return entry;
    case "retry": {
      const { entryId, jobId, actor } = entry;
      return { kind: "retry", entryId, jobId, actor };
    }
    case "dispatch": {
      const { entryId, jobId, verdict, reason } = entry;
      return { kind: "dispatch", entryId, jobId, verdict, reason };
    }
  }
}

/** Always ten, so that what follows has its place. */
function entryArgs(entry: NewEntry, settings: StoreSettings): string[] {
  const args = ownArgs(entry, settings);
  return [...args, ...new Array<string>(10 - args.length).fill("")];
}

function ownArgs(entry: NewEntry, { proveEveryMs }: StoreSettings): string[] {
  switch (entry.kind) {
    case "result": {
      const { jobId, token, entryId, payload } = entry;
      return [jobId, jsonWord(token), jsonWord(entryId), recordField(payload.key), payload.body];
    }
    case "decision": {
      const { approvalId, entryId, hash, decision, decidedBy, decider, reason, unlessSeparate } = entry;
      const because = reason === undefined ? ["", ""] : ["because", reason];
      const decided = [decisionDetail(entry), decider === undefined ? "" : JSON.stringify(decider)];
      const condition = unlessSeparate === undefined ? "" : "unless_separate";
      return [approvalId, entryId, hash, decision, decidedBy, ...because, ...decided, condition];
    }
    case "cancel":
      return [entry.entryId, entry.actor, entry.reason];
    case "timer":
      return [entry.timerId];
    case "retry":
      return [entry.letterId, entry.actor, String(proveEveryMs), String(retriesWaitingMax)];
    case "dispatch": {
      const { jobId, guard } = entry;
      return [jobId, opaqueWord("token", guard.token), String(guard.fence), ...verdictWords(entry)];
    }
  }
}

function takeArgs({ token, instance, ttlMs }: TakeTerms): string[] {
  return [opaqueWord("token", token), word("instance", instance), duration("ttlMs", ttlMs), grantMemory];
}

function wantedFields(records: readonly string[]): string[] {
  return [...headerFields, ...records.map(recordField)];
}

function parseOwned(reply: Reply, request: RequestOf<"takeRun"> | RequestOf<"deliver">): OwnedRun {
  const values = reply[3] as readonly (string | null)[];
  return {
    kind: "owned",
    fence: Number(reply[2]) as Fence,
    header: parseHeader(request, values),
    records: parseRecords(request.records, values),
    entries: parseEntries(reply[4]),
  };
}

function parseEntries(entries: unknown): InboxEntry[] {
  return (entries as readonly string[]).map(parseEntry);
}

/** The approval that a decision is about, if there is one. */
function parseDecided(fields: unknown, entry: NewEntry): { readonly approval?: Approval } {
  const found = fields as readonly string[];
  if (entry.kind !== "decision" || found.length === 0) return {};
  return { approval: parseApproval(entry.approvalId, found) };
}
