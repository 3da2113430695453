// The operations of workers on jobs, those on documents, and the sweep as script calls.
import type { BudgetId } from "../../domain/budgets.ts";
import type { GateId } from "../../domain/gates.ts";
import type { JobId } from "../../domain/job.ts";
import type { Fence } from "../../domain/lock.ts";
import type { RunId } from "../../domain/run.ts";
import {
  type Collection,
  collectionQuotas,
  type Document,
  type Partition,
  partitionLabel,
  type TenantId,
} from "../../domain/tenant.ts";
import type { BeatAnswer, ClaimAnswer, RepairKind } from "../../ports/job-operations.ts";
import type { RequestOf, StoreOf, StoreSettings } from "../../ports/store.ts";
import { parseHint, parseJob, runIdOf, workerWord } from "./job-format.ts";
import { encode, type TenantKeys } from "./keys.ts";
import { amountWords, limitWords, settingsArgs } from "./run-format.ts";
import { credentialWord, jsonWord, optionalWord, type ScriptCalls, wholeMs } from "./script-call.ts";

export const jobCalls: ScriptCalls<keyof StoreOf<"jobs">> = {
  claimJobs: {
    keys: (keys, { claims }) => [
      keys.tenant,
      keys.fence,
      keys.due,
      keys.readyPrefix,
      keys.running,
      keys.start,
      ...claims.map(({ jobId }) => keys.run(runIdOf(jobId))),
    ],
    args: ({ tenant, claims, credential }) => [
      tenant,
      credentialWord(credential),
      ...claims.flatMap(({ jobId, terms }) => [
        jobId,
        jsonWord(terms.token),
        workerWord(terms),
        wholeMs("leaseMs", terms.leaseMs),
      ]),
    ],
    read: {
      judged: ([rows], { claims }) => ({
        answers: claims.map(({ jobId }, index) => parseClaim(jobId, (rows as readonly ClaimRow[])[index])),
      }),
    },
  },
  heartbeatJobs: {
    keys: (keys, { beats }) => [
      keys.tenant,
      keys.due,
      keys.running,
      keys.start,
      ...beats.map(({ jobId }) => keys.run(runIdOf(jobId))),
    ],
    args: ({ tenant, beats }) => [
      tenant,
      ...beats.flatMap(({ jobId, token, leaseMs, progress, usage }) => [
        jobId,
        jsonWord(token),
        wholeMs("leaseMs", leaseMs),
        optionalWord(progress),
        usage === undefined ? "-" : amountWords(usage),
      ]),
    ],
    read: {
      judged: ([words], { beats }) => ({
        answers: beats.map((beat, index) => parseBeat(beat, (words as readonly string[])[index])),
      }),
    },
  },
  getJob: {
    keys: (keys, { jobId }) => [keys.run(runIdOf(jobId))],
    args: ({ jobId }) => [jobId],
    read: { job: ([text], { jobId }) => ({ job: parseJob(jobId, String(text)) }) },
  },
  listReadyJobs: {
    keys: (keys, { topic }) => [keys.ready(topic), keys.runPrefix],
    args: ({ limit }) => [String(limit)],
    read: {
      listed: ([rows]) => ({
        jobs: (rows as ReadonlyArray<readonly [JobId, string]>).map(([jobId, text]) =>
          parseHint(jobId, text),
        ),
      }),
    },
  },
  countJobs: {
    keys: (keys) => [keys.running, keys.readyPrefix],
    args: ({ topics, pools }) => [String(topics.length), ...topics.map(encode), ...pools.map(encode)],
    read: {
      counted(fields, { topics, pools }) {
        const [ofTopics, ofPools] = fields as readonly [number[], number[]];
        return {
          topics: topics.map((topic, index) => ({
            topic,
            running: Number(ofTopics[2 * index]),
            waiting: Number(ofTopics[2 * index + 1]),
          })),
          pools: pools.map((pool, index) => ({ pool, running: Number(ofPools[index]) })),
        };
      },
    },
  },
};

type ClaimRow =
  | readonly [kind: "claimed", fence: string, expiresInMs: string, text: string, input: string]
  | readonly [
      kind: "refused",
      because: Extract<ClaimAnswer, { kind: "refused" }>["because"],
      againInMs?: number,
    ];

function parseClaim(jobId: JobId, row: ClaimRow = ["refused", "not_found"]): ClaimAnswer {
  if (row[0] === "refused") {
    const [kind, because, againInMs] = row;
    return { kind, jobId, because, ...(againInMs === undefined ? {} : { againInMs }) };
  }
  const [kind, fence, expiresInMs, text, input] = row;
  const job = parseJob(jobId, text);
  const { overBudget } = job.claim ?? {};
  return {
    ...{ kind, jobId, fence: Number(fence) as Fence, expiresInMs: Number(expiresInMs), job, input },
    ...(overBudget === undefined ? {} : { overBudget }),
  };
}

function parseBeat(
  { jobId, leaseMs }: RequestOf<"heartbeatJobs">["beats"][number],
  answer = "lost",
): BeatAnswer {
  switch (answer) {
    case "extended":
    case "extended_stop":
      return { kind: "extended", jobId, expiresInMs: leaseMs, stop: answer === "extended_stop" };
    case "voided":
      return { kind: "extended", jobId, expiresInMs: 0, stop: true };
    case "lost":
      return { kind: "lost", jobId };
    default:
      return {
        ...{ kind: "extended", jobId, expiresInMs: leaseMs, stop: true },
        overBudget: answer.slice("over ".length) as BudgetId,
      };
  }
}

export const documentCalls: ScriptCalls<keyof StoreOf<"documents">> = {
  putDocument: {
    keys: (keys, { collection }) => writtenKeys(keys, collection),
    args: (
      { tenant, collection, id, body, expectedRevision, changeId, actor, credential, limits },
      settings,
    ) => [
      tenant,
      collection,
      id,
      body,
      expectedRevision === undefined ? "" : String(expectedRevision),
      changeId,
      actor,
      String(settings.eventsPerTenantMax),
      collection === "deadLetter" ? wholeMs("deadLetterRetentionMs", settings.deadLetterRetentionMs) : "",
      credentialWord(credential),
      ...quotaArgs(collection, settings),
      String(settings.auditRecordsPerTenantMax),
      limitWords(Object.entries(limits ?? {})),
    ],
  },
  getDocument: {
    keys: (keys, { collection }) => [keys.documents(collection)],
    args: ({ id }) => [id],
    read: {
      document: ([meta, text], { id }) => ({ document: parseDocument([id, String(meta), String(text)]) }),
    },
  },
  listDocuments: {
    keys: (keys, { collection }) => [keys.documents(collection), keys.documentIds(collection)],
    args: ({ after, limit }) => [after, String(limit)],
    read: { listed: ([rows]) => ({ documents: (rows as readonly DocumentRow[]).map(parseDocument) }) },
  },
  removeDocument: {
    keys: (keys, { collection }) => writtenKeys(keys, collection),
    args: ({ tenant, collection, id, actor, credential }, settings) => [
      tenant,
      collection,
      id,
      actor,
      String(settings.eventsPerTenantMax),
      credentialWord(credential),
      String(settings.auditRecordsPerTenantMax),
    ],
  },
};

function quotaArgs(collection: Collection, { quotas }: StoreSettings): readonly string[] {
  const name = collectionQuotas[collection];
  return name === undefined ? ["", ""] : [`quota:${name}`, String(quotas[name])];
}

function writtenKeys(keys: TenantKeys, collection: Collection): string[] {
  const documents = [keys.documents(collection), keys.documentIds(collection)];
  return [...documents, keys.events, keys.due, keys.tenant, keys.trail, keys.parkedLines];
}

/** The meta text is `<revision> <savedAt> <change>`. */
type DocumentRow = readonly [id: string, meta: string, body: string];

function parseDocument([id, meta, body]: DocumentRow): Document {
  const [revision, savedAt] = meta.split(" ", 2);
  return { id, body, revision: Number(revision), savedAtMs: Number(savedAt) };
}

export const sweepCalls: ScriptCalls<keyof StoreOf<"sweep">> = {
  findDue: {
    keys: (keys) => [keys.due],
    args: ({ partitions }) => partitions.map(partitionLabel),
    read: {
      found: ([places], { partitions }) => ({
        partitions: (places as readonly number[]).map((place) => partitions[place - 1] as Partition),
      }),
    },
  },
  sweep: {
    keys: (keys) => [keys.start, keys.due, keys.swept],
    args: (_request, settings) => [
      ...settingsArgs(settings),
      String(settings.sweepEveryMs),
      String(settings.republishAfterMs),
      String(settings.republishAfterMaxMs),
    ],
    read: {
      swept(fields) {
        const [lostClaims, waiting, unclaimed, repairs, gates, queueDeadlines] = fields as SweptFields;
        return {
          waiting: waiting.map(([tenant, runId]) => ({ tenant, runId })),
          unclaimed: unclaimed.map(([tenant, jobId, text]) => ({ tenant, job: parseHint(jobId, text) })),
          repairs: repairs.map(([tenant, repair, runId]) => ({ tenant, repair, runId })),
          lostClaims,
          gates: gates.map(([tenant, gate]) => ({ tenant, gate })),
          queueDeadlines,
        };
      },
    },
  },
};

type SweptFields = readonly [
  lostClaims: number,
  waiting: ReadonlyArray<readonly [TenantId, RunId]>,
  unclaimed: ReadonlyArray<readonly [TenantId, JobId, text: string]>,
  repairs: ReadonlyArray<readonly [TenantId, RepairKind, RunId]>,
  gates: ReadonlyArray<readonly [TenantId, GateId]>,
  queueDeadlines: number,
];
