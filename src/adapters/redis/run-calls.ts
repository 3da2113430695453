// The operations on runs, their approvals and their inbox as script calls.
import type { Approval, ApprovalId } from "../../domain/approval.ts";
import { decisionDetail } from "../../domain/audit.ts";
import {
  drainEntriesMax,
  drainsMax,
  type InboxEntry,
  type NewEntry,
  retriesWaitingMax,
} from "../../domain/inbox.ts";
import type { Fence } from "../../domain/lock.ts";
import type { RunId, RunStatus } from "../../domain/run.ts";
import type { OwnedRun, Proposal, TakeTerms } from "../../ports/run-operations.ts";
import type { RequestOf, StoreOf } from "../../ports/store.ts";
import { parseClaims, parseFreed, verdictWords } from "./job-format.ts";
import { plain, type TenantKeys, unencoded } from "./keys.ts";
import {
  amountWords,
  headerFields,
  packEntry,
  parseApproval,
  parseEntry,
  parseHeader,
  parseHeaders,
  parseRecords,
  parseWoken,
  pushChange,
  recordField,
  recordPrefix,
  type Values,
} from "./run-format.ts";
import {
  credentialWord,
  duration,
  type Fields,
  type GatheredCall,
  grantMemory,
  jsonWord,
  opaqueWord,
  type ScriptCalls,
  word,
} from "./script-call.ts";

/** As many as the specification returns without naming them. */
const recordsMax = "1000";

export const runCalls: ScriptCalls<keyof StoreOf<"runs">> = {
  loadRun: {
    keys: (keys, { runId }) => [keys.run(runId)],
    args: ({ records }) => [
      records === undefined ? "all" : "named",
      recordsMax,
      ...headerFields,
      ...(records ?? []).map(recordField),
    ],
    read: {
      run(fields, request) {
        const [asked, names, bodies] = fields as readonly [Values, string[], string[]];
        const header = parseHeader(request, asked);
        if (request.records !== undefined) return { header, records: parseRecords(request.records, asked) };
        const records = names.map((name, index) => ({
          key: name.slice(recordPrefix.length),
          body: bodies[index] ?? "",
        }));
        records.sort((left, right) => (left.key < right.key ? -1 : 1));
        return { header, records };
      },
    },
  },
  listRuns: {
    keys: (keys) => [keys.runs, keys.runPrefix],
    args: ({ before, limit, status, workflow }) => [
      startBefore(before),
      String(limit),
      status ?? "",
      workflow ?? "",
      ...headerFields,
    ],
    read: {
      listed: ([next, rows], { tenant }) => ({ runs: parseHeaders(tenant, rows), ...going(next as RunId) }),
    },
  },
  readTimeline: {
    keys: (keys, { runId }) => [keys.run(runId)],
    args: ({ after, limit }, { timelineRowsMax }) => [String(after), String(limit), String(timelineRowsMax)],
    read: {
      timeline: ([version, rows, status]) => ({
        version: Number(version),
        status: status as RunStatus,
        rows: (rows as ReadonlyArray<readonly [version: string, row: string]>).map(parseRow),
      }),
    },
  },
  deleteRun: {
    keys: (keys, { runId }) => [keys.start, keys.run(runId), keys.events, keys.due, keys.tenant, keys.trail],
    args: ({ tenant, runId, actor, credential }, { eventsPerTenantMax, auditRecordsPerTenantMax }) => [
      tenant,
      runId,
      actor,
      String(eventsPerTenantMax),
      credentialWord(credential),
      String(auditRecordsPerTenantMax),
    ],
  },
  getApproval: {
    keys: (keys, { approvalId }) => [keys.approval(approvalId)],
    args: () => [],
    read: {
      approval: ([fields], { approvalId }) => ({
        approval: parseApproval(approvalId, fields as readonly string[]),
      }),
    },
  },
  listApprovals: {
    keys: (keys) => [keys.approvals, keys.approvalPrefix],
    args: ({ before, limit, state }) => [startBefore(before), String(limit), state ?? ""],
    read: {
      listed: ([next, rows]) => ({
        approvals: (rows as readonly ApprovalRow[]).map(([id, fields]) => parseApproval(id, fields)),
        ...going(next as string),
      }),
    },
  },
};

type ApprovalRow = readonly [ApprovalId, readonly string[]];

/** Where a list that goes backwards begins: at its end, or before a member. */
function startBefore(member: string | undefined): string {
  return member === undefined ? "+" : `(${member}`;
}

/** Where a list goes on, if it does. */
function going<Member extends string>(next: Member): { readonly next?: Member } {
  return next === "" ? {} : { next };
}

/** A row is `<commit> <atMs> <body>`. */
function parseRow([version, row]: readonly [version: string, row: string]) {
  const commitEnd = row.indexOf(" ");
  const timeEnd = row.indexOf(" ", commitEnd + 1);
  return {
    version: Number(version),
    atMs: Number(row.slice(commitEnd + 1, timeEnd)),
    body: row.slice(timeEnd + 1),
  };
}

export const deliverCall: GatheredCall<"deliver"> = {
  push(args, { tenant, runId, entry, take, whenBusy, records, proposal, credential }, keys) {
    const own = ownArgs(entry, keys);
    args.push(
      tenant,
      unencoded("run id", runId),
      credentialWord(credential),
      opaqueWord("token", take.token),
      word("instance", take.instance),
      duration("ttlMs", take.ttlMs),
      whenBusy,
      entry.kind,
      packEntry(entryToKeep(entry)),
      proposal === undefined ? "" : baseWords(proposal),
      String(own.length),
      String(records.length),
      ...own,
    );
    for (const record of records) args.push(recordField(record));
    if (proposal !== undefined) pushChange(args, proposal.commitId, proposal.change);
  },
  read: {
    delivered([freed, approval, ...owned], request) {
      const run = owned.length === 0 ? ({ kind: "handed_over" } as const) : parseOwned(owned, request);
      return { run, ...parseFreed(freed), ...parseDecided([approval], request) };
    },
    applied([version, status, claims, freed, approval, woken], request) {
      return {
        version: Number(version),
        status: status as RunStatus,
        claims: parseClaims(claims as readonly string[]),
        ...parseFreed(freed),
        ...parseDecided([approval], request),
        ...parseWoken(woken),
      };
    },
    approval_already_decided: parseRefused,
    approval_expired: parseRefused,
    approval_changed: parseRefused,
    self_approval: parseRefused,
    duties_separate: parseRefused,
  },
};

export const inboxCalls: ScriptCalls<Exclude<keyof StoreOf<"inbox">, "deliver" | "commit">> = {
  takeRun: {
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
      `${drainsMax} ${settings.setAsideAfterMs}`,
      String(drainEntriesMax),
      String(settings.deadLetterRetentionMs),
      ...records.map(recordField),
    ],
    read: { owned: parseOwned },
  },
};

export const commitCall: GatheredCall<"commit"> = {
  push(args, { tenant, runId, guard, expectedVersion, consumed, commitId, change }, keys) {
    const { lock, token, fence, policy, ttlMs } = guard;
    args.push(
      tenant,
      unencoded("run id", runId),
      opaqueWord("token", token),
      String(fence),
      policy,
      duration("ttlMs", ttlMs),
      keys.lock(lock),
      keys.grant(lock),
      String(expectedVersion),
      String(consumed),
    );
    pushChange(args, commitId, change);
  },
  read: {
    committed: ([version, entries, claims, woken]) => ({
      version: Number(version),
      entries: parseEntries(entries),
      claims: parseClaims(claims as readonly string[]),
      ...parseWoken(woken),
    }),
  },
};

/** What a proposal was decided upon: a version, and the commit that made it if the sender knows. */
function baseWords({ expectedVersion, expectedCommitId }: Proposal): string {
  return expectedCommitId === undefined
    ? String(expectedVersion)
    : `${expectedVersion} ${jsonWord(expectedCommitId)}`;
}

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

/** As many as the kind of the entry has, whatever it leaves out. */
function ownArgs(entry: NewEntry, keys: TenantKeys): string[] {
  switch (entry.kind) {
    case "result": {
      const { jobId, token, entryId, payload, letter, outcome, usage } = entry;
      const kept = letter === undefined ? ["", ""] : [letter.letterId, letter.actor];
      const used = [amountWords(usage), outcome === "handed_back" ? outcome : "reported"];
      const record = [recordField(payload.key), payload.body];
      return [jobId, jsonWord(token), jsonWord(entryId), ...record, ...kept, ...used];
    }
    case "decision": {
      const { approvalId, entryId, hash, decision, decidedBy, decider, reason, unlessSeparate } = entry;
      const because = reason === undefined ? ["", ""] : ["because", reason];
      const decided = [decisionDetail(entry), decider === undefined ? "" : JSON.stringify(decider)];
      const condition = unlessSeparate === undefined ? "" : "unless_separate";
      return [
        plain("approval id", approvalId),
        entryId,
        hash,
        decision,
        decidedBy,
        ...because,
        ...decided,
        condition,
      ];
    }
    case "cancel":
      return [entry.entryId, entry.actor, entry.reason, JSON.stringify(entry.reason)];
    case "timer":
      return [entry.timerId];
    case "retry":
      return [
        ...[entry.letterId, entry.actor, String(retriesWaitingMax)],
        ...[JSON.stringify(entry.entryId), JSON.stringify(entry.actor), entry.entryId],
      ];
    case "dispatch": {
      const { jobId, guard } = entry;
      const lockKey = keys.lock({ namespace: "job", name: jobId });
      return [jobId, opaqueWord("token", guard.token), String(guard.fence), ...verdictWords(entry), lockKey];
    }
  }
}

function takeArgs({ token, instance, ttlMs }: TakeTerms): string[] {
  return [opaqueWord("token", token), word("instance", instance), duration("ttlMs", ttlMs), grantMemory];
}

function parseOwned(
  [fence, values, entries]: Fields,
  request: RequestOf<"takeRun"> | RequestOf<"deliver">,
): OwnedRun {
  const asked = values as Values;
  return {
    kind: "owned",
    fence: Number(fence) as Fence,
    header: parseHeader(request, asked),
    records: parseRecords(request.records, asked),
    entries: parseEntries(entries),
  };
}

function parseEntries(entries: unknown): InboxEntry[] {
  return (entries as readonly string[]).map(parseEntry);
}

/** The approval that a decision is about, if there is one. */
function parseDecided([flat]: Fields, { entry }: RequestOf<"deliver">): { readonly approval?: Approval } {
  const fields = flat as readonly string[];
  return entry.kind !== "decision" || fields.length === 0
    ? {}
    : { approval: parseApproval(entry.approvalId, fields) };
}

/** A decision that finds its approval, and may not decide it. */
function parseRefused(fields: Fields, request: RequestOf<"deliver">): { readonly approval: Approval } {
  return parseDecided(fields, request) as { readonly approval: Approval };
}
