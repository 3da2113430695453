// The operations of workers on jobs as script calls.
import type { JobId } from "../../domain/job.ts";
import type { Fence } from "../../domain/lock.ts";
import type { BeatAnswer, ClaimAnswer } from "../../ports/job-operations.ts";
import type { RequestOf } from "../../ports/store.ts";
import { parseHint, parseJob, runIdOf, workerWord } from "./job-format.ts";
import { encode } from "./keys.ts";
import {
  credentialWord,
  jsonWord,
  optionalWord,
  type ScriptCall,
  unexpected,
  wholeMs,
} from "./script-call.ts";

export const claimJobs: ScriptCall<"claimJobs"> = {
  keys: (keys, { claims }) => [
    keys.tenant,
    keys.fence,
    keys.due,
    keys.readyPrefix,
    keys.running,
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
  parse(reply, { claims }) {
    if (reply[0] !== "judged") return unexpected("claimJobs", reply);
    const rows = reply[2] as readonly ClaimRow[];
    return { kind: "judged", answers: claims.map(({ jobId }, index) => parseClaim(jobId, rows[index])) };
  },
};

export const heartbeatJobs: ScriptCall<"heartbeatJobs"> = {
  keys: (keys, { beats }) => [
    keys.tenant,
    keys.due,
    keys.running,
    ...beats.map(({ jobId }) => keys.run(runIdOf(jobId))),
  ],
  args: ({ tenant, beats }) => [
    tenant,
    ...beats.flatMap(({ jobId, token, leaseMs, progress }) => [
      jobId,
      jsonWord(token),
      wholeMs("leaseMs", leaseMs),
      optionalWord(progress),
    ]),
  ],
  parse(reply, { beats }) {
    if (reply[0] !== "judged") return unexpected("heartbeatJobs", reply);
    const words = reply[2] as readonly string[];
    return { kind: "judged", answers: beats.map((beat, index) => parseBeat(beat, words[index] ?? "lost")) };
  },
};

export const getJob: ScriptCall<"getJob"> = {
  keys: (keys, { jobId }) => [keys.run(runIdOf(jobId))],
  args: ({ jobId }) => [jobId],
  parse(reply, { jobId }) {
    switch (reply[0]) {
      case "job":
        return { kind: "job", job: parseJob(jobId, String(reply[2])) };
      case "not_found":
        return { kind: "not_found" };
      default:
        return unexpected("getJob", reply);
    }
  },
};

export const listReadyJobs: ScriptCall<"listReadyJobs"> = {
  keys: (keys, { topic }) => [keys.ready(topic), keys.runPrefix],
  args: ({ limit }) => [String(limit)],
  parse(reply) {
    if (reply[0] !== "listed") return unexpected("listReadyJobs", reply);
    const rows = reply[2] as ReadonlyArray<readonly [JobId, string]>;
    return { kind: "listed", jobs: rows.map(([jobId, text]) => parseHint(jobId, text)) };
  },
};

export const countJobs: ScriptCall<"countJobs"> = {
  keys: (keys) => [keys.running, keys.readyPrefix],
  args: ({ topics, pools }) => [String(topics.length), ...topics.map(encode), ...pools.map(encode)],
  parse(reply, { topics, pools }) {
    if (reply[0] !== "counted") return unexpected("countJobs", reply);
    const [, , ofTopics, ofPools] = reply as unknown as readonly [string, string, number[], number[]];
    return {
      kind: "counted",
      topics: topics.map((topic, index) => ({
        topic,
        running: Number(ofTopics[2 * index]),
        waiting: Number(ofTopics[2 * index + 1]),
      })),
      pools: pools.map((pool, index) => ({ pool, running: Number(ofPools[index]) })),
    };
  },
};

type ClaimRow =
  | readonly [kind: "claimed", fence: string, expiresInMs: string, text: string, input: string]
  | readonly [kind: "refused", because: Extract<ClaimAnswer, { kind: "refused" }>["because"]];

function parseClaim(jobId: JobId, row: ClaimRow = ["refused", "not_found"]): ClaimAnswer {
  if (row[0] === "refused") return { kind: "refused", jobId, because: row[1] };
  const [kind, fence, expiresInMs, text, input] = row;
  const job = parseJob(jobId, text);
  return { kind, jobId, fence: Number(fence) as Fence, expiresInMs: Number(expiresInMs), job, input };
}

function parseBeat(
  { jobId, leaseMs }: RequestOf<"heartbeatJobs">["beats"][number],
  answer: string,
): BeatAnswer {
  switch (answer) {
    case "extended":
    case "extended_stop":
      return { kind: "extended", jobId, expiresInMs: leaseMs, stop: answer === "extended_stop" };
    case "voided":
      return { kind: "extended", jobId, expiresInMs: 0, stop: true };
    default:
      return { kind: "lost", jobId };
  }
}
