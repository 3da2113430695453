// Checks claims: one worker per job, rising attempts, none for ended runs, and no work without a claim.
import { type Finding, standingOf } from "./finding.ts";
import { groupBy } from "./group-by.ts";
import { answeredAtUs, type Call, type History, okAnswer } from "./history.ts";
import type { ClaimedJob } from "./record.ts";
import { isEnded, type Observation, observationsOf } from "./run-evidence.ts";

type Claim = { readonly call: Call<"claim">; readonly job: ClaimedJob };

export function checkClaims(history: History): Finding[] {
  const claims = history
    .callsOf("claim")
    .flatMap((call) => (okAnswer(call, "claimed")?.jobs ?? []).map((job) => ({ call, job })));
  return [
    ...checkOneWorker(history, claims),
    ...checkAttempts(history, claims),
    ...checkEndedRuns(history, claims),
    ...checkEffects(history, claims),
  ];
}

function found(history: History, sentence: string, claims: readonly Claim[]): Finding {
  const fromUs = Math.min(...claims.map(({ call }) => call.invokedAtUs));
  const standing = standingOf(history, {
    fromUs,
    toUs: Math.max(...claims.map(({ call }) => answeredAtUs(call))),
  });
  return { invariant: "INV-21", standing, sentence, records: claims.flatMap(({ call }) => call.records) };
}

/** A claim whose answer was lost may have been given as well: that is not known, and is not counted. */
function checkOneWorker(history: History, claims: readonly Claim[]): Finding[] {
  const byAttempt = groupBy(claims, ({ job }) => `${job.jobId} ${job.attempt}`);
  return [...byAttempt.values()].flatMap((given) => {
    const [first] = given;
    const other = given.find(({ call }) => call.operation.worker !== first?.call.operation.worker);
    if (first === undefined || other === undefined) return [];
    const workers = `${first.call.operation.worker} and to ${other.call.operation.worker}`;
    const sentence = `attempt ${first.job.attempt} of ${first.job.jobId} was given to ${workers}`;
    return [found(history, sentence, [first, other])];
  });
}

function checkAttempts(history: History, claims: readonly Claim[]): Finding[] {
  const bySteps = groupBy(claims, ({ job }) => `${job.runId} ${job.step}`);
  return [...bySteps.values()].flatMap((given) => {
    const answered = [...given].sort((left, right) => answeredAtUs(left.call) - answeredAtUs(right.call));
    let highest: Claim | undefined;
    let next = 0;
    for (const later of given) {
      const askedUs = later.call.invokedAtUs;
      for (let done = answered[next]; done && answeredAtUs(done.call) < askedUs; done = answered[next]) {
        if (highest === undefined || done.job.attempt > highest.job.attempt) highest = done;
        next += 1;
      }
      if (highest === undefined || later.job.attempt >= highest.job.attempt) continue;
      const step = `step ${later.job.step} of run ${later.job.runId}`;
      const sentence = `attempt ${later.job.attempt} of ${step} was given after attempt ${highest.job.attempt}`;
      return [found(history, sentence, [highest, later])];
    }
    return [];
  });
}

function checkEndedRuns(history: History, claims: readonly Claim[]): Finding[] {
  const ends = new Map<string, Observation>();
  for (const seen of observationsOf(history)) {
    const known = ends.get(seen.runId);
    if (isEnded(seen.status) && (known === undefined || seen.toUs < known.toUs)) ends.set(seen.runId, seen);
  }
  return claims.flatMap(({ call, job }) => {
    const end = ends.get(job.runId);
    if (end === undefined || end.toUs >= call.invokedAtUs) return [];
    const standing = standingOf(history, { fromUs: end.fromUs, toUs: answeredAtUs(call) });
    const sentence = `${job.jobId} was given to ${call.operation.worker} after its run had ended ${end.status}`;
    return [{ invariant: "INV-21", standing, sentence, records: [...end.records, ...call.records] }];
  });
}

function checkEffects(history: History, claims: readonly Claim[]): Finding[] {
  const given = new Map<string, number>();
  for (const { call, job } of claims) {
    const name = `${call.operation.worker} ${job.jobId}`;
    given.set(name, Math.min(call.invokedAtUs, given.get(name) ?? Number.POSITIVE_INFINITY));
  }
  return history.effects.flatMap(({ worker, jobId, phase, atUs, record }) => {
    const sinceUs = given.get(`${worker} ${jobId}`);
    if (phase !== "begin" || (sinceUs !== undefined && sinceUs <= atUs)) return [];
    const sentence = `${worker} began ${jobId}, which was not given to it`;
    return [{ invariant: "INV-21", standing: "promised", sentence, records: [record] }];
  });
}
