// What a history shows of single runs: when each was first known to exist, when it was seen, and until when it certainly lived.
import { isTerminal, type RunStatus, runStatuses } from "../../src/domain/run.ts";
import { answeredAtUs, type Call, type History, okAnswer } from "./history.ts";
import type { HistoryRecord } from "./record.ts";

export type Observation = {
  readonly runId: string;
  readonly status: string;
  /** It had this status at some moment between these. */
  readonly fromUs: number;
  readonly toUs: number;
  readonly records: readonly HistoryRecord[];
};

export function isEnded(status: string): boolean {
  return (runStatuses as readonly string[]).includes(status) && isTerminal(status as RunStatus);
}

/** Every reading of a status; that in the end comes after all others. */
export function observationsOf(history: History): Observation[] {
  const read = [...history.callsOf("get"), ...history.callsOf("cancel")].flatMap((call) => {
    const { completion, invokedAtUs, operation, records } = call;
    const answer = completion.kind === "unknown" ? undefined : completion.answer;
    if (answer?.kind !== "status") return [];
    const { runId } = operation;
    return [{ runId, status: answer.status, fromUs: invokedAtUs, toUs: answeredAtUs(call), records }];
  });
  const last = history.finalsOf("run").flatMap(({ runId, status, record }) => {
    const atUs = Number.POSITIVE_INFINITY;
    return status === "missing" ? [] : [{ runId, status, fromUs: atUs, toUs: atUs, records: [record] }];
  });
  return [...read, ...last];
}

/** A run that a start was answered with. */
export type KnownRun = {
  readonly runId: string;
  readonly tenant: string;
  /** The invocation of the first start that may have made it. */
  readonly mayBeginUs: number;
  /** The first answer that names it: from here on it certainly exists. */
  readonly existsUs: number;
  /** A moment at which it had certainly not ended, and none after it is known. */
  readonly livesUntilUs: number;
  readonly records: readonly HistoryRecord[];
};

export function knownRunsOf(history: History): Map<string, KnownRun> {
  const runs = new Map<string, KnownRun>();
  const firstOfKey = new Map<string, number>();
  const lives = livesOf(history);
  for (const call of history.callsOf("start")) {
    const { tenant, key } = call.operation;
    const name = `${tenant} ${key}`;
    // In the order of invocations: the first one of its key.
    if (key !== undefined && !firstOfKey.has(name)) firstOfKey.set(name, call.invokedAtUs);
    const runId = okAnswer(call, "run")?.runId;
    if (runId === undefined) continue;
    const known = runs.get(runId);
    const existsUs = answeredAtUs(call);
    if (known !== undefined && known.existsUs <= existsUs) continue;
    const mayBeginUs = (key === undefined ? undefined : firstOfKey.get(name)) ?? call.invokedAtUs;
    const livesUntilUs = lives.get(runId) ?? Number.NEGATIVE_INFINITY;
    runs.set(runId, { runId, tenant, mayBeginUs, existsUs, livesUntilUs, records: call.records });
  }
  return runs;
}

/** A later reading, claim, accepted result or first cancel shows that the run had not ended when it was asked for. */
function livesOf(history: History): Map<string, number> {
  const lives = new Map<string, number>();
  const see = (runId: string, atUs: number) =>
    lives.set(runId, Math.max(atUs, lives.get(runId) ?? Number.NEGATIVE_INFINITY));
  for (const { runId, status, fromUs } of observationsOf(history)) {
    if (!isEnded(status)) see(runId, fromUs);
  }
  for (const call of history.callsOf("claim")) {
    for (const { runId } of okAnswer(call, "claimed")?.jobs ?? []) see(runId, call.invokedAtUs);
  }
  for (const call of history.callsOf("report")) {
    const job = parseJob(call.operation.jobId);
    const isAccepted = okAnswer(call, "report")?.outcome === "accepted";
    if (isAccepted && job !== undefined) see(job.runId, call.invokedAtUs);
  }
  const cancelled = new Set(
    history.finalsOf("run").flatMap(({ runId, status }) => (status === "cancelled" ? [runId] : [])),
  );
  // A newer run may have ended such a one before anybody asked for it.
  const gated = new Set(
    history
      .callsOf("start")
      .flatMap((call) => (call.operation.gates ? (okAnswer(call, "run")?.runId ?? []) : [])),
  );
  const firstCancels = new Map<string, Call>();
  for (const call of history.callsOf("cancel")) {
    const { runId } = call.operation;
    if (cancelled.has(runId) && !gated.has(runId) && !firstCancels.has(runId)) firstCancels.set(runId, call);
  }
  for (const [runId, { invokedAtUs }] of firstCancels) see(runId, invokedAtUs);
  return lives;
}

type JobName = { readonly runId: string; readonly step: string; readonly attempt: number };

/** `<run>:<step>@<attempt>`: the form of job ids and of approval ids. */
export function parseJob(jobId: string): JobName | undefined {
  const [, runId, step, attempt] = /^([^:]+):([^@]+)@([0-9]+)$/.exec(jobId) ?? [];
  if (runId === undefined || step === undefined) return undefined;
  return { runId, step, attempt: Number(attempt) };
}
