// Results on their way to the server, sent until each is answered; and the errors of a worker that have no caller to be thrown to.
import { pauseBefore } from "../call.ts";
import type { Caller } from "../caller.ts";
import { InterlockApiError, InterlockConnectionError } from "../client-errors.ts";
import type { Body } from "../contract.ts";
import { elapsedMs, type Instant, type Runtime } from "../runtime.ts";
import { commonTraceparent, type HeldJob, JobFailed, traceHeaders } from "./job.ts";

export type Result = Body<"reportResults">["results"][number];

export type ResultEnd =
  | { readonly kind: "accepted" }
  /** Final: the claim is stale, or the run has ended. */
  | { readonly kind: "refused"; readonly because: string }
  /** The server did not answer until long after the claim had run out: another attempt does the work. */
  | { readonly kind: "given_up"; readonly error: unknown };

export type Report = {
  readonly held: HeldJob;
  readonly result: Result;
  readonly bytes: number;
  readonly reports: Reports;
  /** Until it is given up, whatever becomes of the claim. */
  leftMs(): number;
};

type Waiting = Report & { end(end: ResultEnd): void };

/** How often the server has answered that it wants the result again, and when it was reported first. */
type Reports = { answered: number; firstAt: Instant | undefined };

export type Results = {
  /** Resolves when the server has answered for good. */
  report(held: HeldJob, result: Result): Promise<ResultEnd>;
  /** The work was not done, and another worker gets it at once; given up after a few seconds: somebody waits for the stop. */
  handBack(held: HeldJob): Promise<ResultEnd>;
};

/** Results that come while a request is on its way are gathered until it is answered, and for so long at most. */
const gatherMsMax = 3;
const batchMax = 100;
/** Well below the 2 MiB that a body may have. */
const batchBytesMax = 1_000_000;
const timeoutMsMax = 15_000;
/** As the server reads them. */
const deliveryMax = 10_000;
const waitedMsMax = 604_800_000;
/** A stopping process is soon killed: after this time the job is left to its lease. */
const handBackMsMax = 5_000;

export function createResults(runtime: Runtime, caller: Caller, worker: { readonly name: string }): Results {
  let waiting: Waiting[] = [];
  let cancelGathering: (() => void) | undefined;
  /** Requests on their way. */
  let underWay = 0;

  function put(item: Waiting, afterMs: number): void {
    if (afterMs > 0) runtime.timer(afterMs, () => join(item));
    else join(item);
  }

  /** One that comes alone is sent at once, with those that end in the same moment: no timer stands between two steps. */
  function join(item: Waiting): void {
    waiting.push(item);
    if (waiting.length >= batchMax) flush();
    else if (cancelGathering === undefined) {
      if (underWay > 0) cancelGathering = runtime.timer(gatherMsMax, flush);
      else {
        cancelGathering = () => {};
        void Promise.resolve().then(flush);
      }
    }
  }

  function flush(): void {
    cancelGathering?.();
    cancelGathering = undefined;
    const all = waiting;
    waiting = [];
    for (const batch of batchesOf(all)) void send(batch, 1);
  }

  async function send(batch: readonly Waiting[], attempt: number): Promise<void> {
    const common = commonTraceparent(batch.map(({ held }) => held));
    const now = runtime.now();
    const results = batch.map((item) => ({ ...tracedResult(item, common), ...historyOf(item, now) }));
    underWay += 1;
    try {
      const asking = caller.call("reportResults", {
        body: { worker_id: worker.name, results },
        ...traceHeaders(common),
        retry: { attemptsMax: 1 },
        timeoutMs: Math.max(100, Math.min(timeoutMsMax, ...batch.map(({ leftMs }) => leftMs()))),
      });
      const answer = await asking.finally(() => {
        underWay -= 1;
        flush();
      });
      for (const [index, item] of batch.entries()) settle(item, answer.results[index]);
    } catch (error) {
      await sendAgain(batch, attempt, error);
    }
  }

  function settle(item: Waiting, verdict: Verdict | undefined): void {
    if (verdict === undefined || verdict.kind === "retry") {
      item.reports.answered += 1;
      if (isTooLate(item)) item.end({ kind: "given_up", error: new Error(verdict?.because ?? "no verdict") });
      else put(item, delayMs(verdict, runtime.fraction()));
    } else if (verdict.kind === "accepted") item.end({ kind: "accepted" });
    else if (verdict.because === "payload_too_large") put(tooLarge(item), 0);
    else item.end({ kind: "refused", because: verdict.because ?? verdict.kind });
  }

  async function sendAgain(batch: readonly Waiting[], attempt: number, error: unknown): Promise<void> {
    if (error instanceof InterlockApiError && error.status === 413) {
      // Which one is too large is known only when each comes alone.
      const items = batch.length === 1 ? batch.map(tooLarge) : batch;
      await Promise.all(items.map((item) => send([item], attempt)));
      return;
    }
    const isPassing =
      error instanceof InterlockConnectionError || (error instanceof InterlockApiError && error.retryable);
    const again = batch.filter((item) => isPassing && !isTooLate(item));
    for (const item of batch) if (!again.includes(item)) item.end({ kind: "given_up", error });
    if (again.length === 0) return;
    const pauseMs = pauseBefore(attempt, error as InterlockApiError, runtime.fraction());
    await runtime.sleep(Math.min(pauseMs, ...again.map(({ leftMs }) => leftMs())));
    await send(again, attempt + 1);
  }

  return {
    report: (held, result) => new Promise((end) => put({ ...reportOf(held, result), end }, 0)),
    handBack: (held) => new Promise((end) => put({ ...handBackOf(runtime, held), end }, 0)),
  };
}

export function reportOf(held: HeldJob, result: Result): Report {
  const leftMs = () => Number.POSITIVE_INFINITY;
  return { held, result, bytes: bytesOf(result), reports: noReports(), leftMs };
}

export function handBackOf(runtime: Runtime, held: HeldJob): Report {
  const { job_id, claim_token } = held.claim;
  const since = runtime.now();
  return {
    ...reportOf(held, { job_id, claim_token, status: "handed_back", ...held.usage }),
    // A claim that has run out cannot be handed back.
    leftMs: () => Math.min(handBackMsMax - elapsedMs(since, runtime.now()), -held.overdueMs),
  };
}

function noReports(): Reports {
  return { answered: 0, firstAt: undefined };
}

/** Which report it is, for servers that have not seen the others; nothing for the first. */
export function historyOf({ reports }: Report, now: Instant): Pick<Result, "delivery" | "waited_ms"> {
  reports.firstAt ??= now;
  if (reports.answered === 0) return {};
  const delivery = Math.min(deliveryMax, reports.answered + 1);
  const waited_ms = Math.min(waitedMsMax, Math.max(0, Math.round(elapsedMs(reports.firstAt, now))));
  return { delivery, waited_ms };
}

/** One header cannot stand for several traces. */
function tracedResult({ held, result }: Waiting, common: string | undefined): Result {
  const { traceparent } = held.claim;
  return common !== undefined || traceparent === undefined ? result : { ...result, traceparent };
}

export type Verdict = {
  readonly kind: string;
  readonly because?: string;
  readonly retry_after_ms?: number;
  /** Over the bus alone. */
  readonly deliveries?: number;
};

/** The delay of a busy run is the server's policy, spread or not; every other one is spread here. */
export function delayMs(verdict: Verdict | undefined, fraction: number): number {
  const askedMs = verdict?.retry_after_ms ?? 1_000;
  return verdict?.because === "run_busy" ? askedMs : askedMs * (1 + fraction / 4);
}

/** A claim that ran out may still be found standing for a while: only then is a late result worth its try. */
export function isTooLate({ held, result, leftMs }: Report): boolean {
  if (result.status === "handed_back") return leftMs() <= 0;
  return held.stopReason !== undefined || held.overdueMs > held.leaseMs;
}

function* batchesOf(items: readonly Waiting[]): Generator<readonly Waiting[]> {
  let batch: Waiting[] = [];
  let bytes = 0;
  for (const item of items) {
    if (batch.length > 0 && (batch.length >= batchMax || bytes + item.bytes > batchBytesMax)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(item);
    bytes += item.bytes;
  }
  if (batch.length > 0) yield batch;
}

function bytesOf(result: Result): number {
  return new TextEncoder().encode(JSON.stringify(result)).length;
}

/** The attempt fails, and says why: the same output would be refused again. */
export function tooLarge<Item extends Report>(item: Item): Item {
  const { job_id, claim_token, usage } = item.result;
  const message = `the output is too large to be kept: ${item.bytes} bytes of JSON. Store it elsewhere and return where it is.`;
  const error = new JobFailed(message, { retryable: false, code: "output_too_large" });
  const result = { ...failure({ job_id, claim_token }, error), ...(usage === undefined ? {} : { usage }) };
  return { ...item, result, bytes: bytesOf(result), reports: noReports() };
}

const messageLengthMax = 4_096;

/** What a thrown value says about the attempt. */
export function failure(claim: Pick<Result, "job_id" | "claim_token">, thrown: unknown): Result {
  const { message, code, retryable } = described(thrown);
  return {
    job_id: claim.job_id,
    claim_token: claim.claim_token,
    status: "failed",
    retryable,
    error: {
      message: message.slice(0, messageLengthMax),
      ...(code === undefined ? {} : { code: code.slice(0, 128) }),
    },
  };
}

function described(thrown: unknown): { message: string; code: string | undefined; retryable: boolean } {
  if (thrown instanceof JobFailed) return thrown;
  if (!(thrown instanceof Error)) return { message: String(thrown), code: undefined, retryable: true };
  const { code } = thrown as { code?: unknown };
  const message = thrown.message === "" ? thrown.name : thrown.message;
  return { message, code: typeof code === "string" ? code : undefined, retryable: true };
}

export type WorkerTrouble =
  /** Another attempt does the work, or will: this one was silent for too long. */
  | { readonly kind: "claim_lost"; readonly jobId: string }
  /** The run was cancelled or goes on without the step. */
  | { readonly kind: "not_wanted"; readonly jobId: string }
  /** The attempt was reported as failed. */
  | { readonly kind: "handler_failed"; readonly jobId: string; readonly error: unknown }
  /** The server has another attempt's result, or another one of this attempt, or wants none. */
  | { readonly kind: "result_refused"; readonly jobId: string; readonly because: string }
  /** No answer until long after the claim had run out. */
  | { readonly kind: "result_given_up"; readonly jobId: string; readonly error: unknown }
  /** A poll or a heartbeat failed; it is repeated. */
  | { readonly kind: "server_unreachable"; readonly error: unknown }
  /** The worker's pool is being drained: no jobs until that ends. */
  | { readonly kind: "draining" }
  | { readonly kind: "not_draining" };

export function troubleOf(end: Exclude<ResultEnd, { kind: "accepted" }>, jobId: string): WorkerTrouble {
  return end.kind === "refused"
    ? { kind: "result_refused", jobId, because: end.because }
    : { kind: "result_given_up", jobId, error: end.error };
}

/** Between two warnings that the server does not answer. */
const quietMs = 30_000;

export function reporterOf(
  runtime: Runtime,
  onTrouble: ((trouble: WorkerTrouble) => void) | undefined,
): (trouble: WorkerTrouble) => void {
  if (onTrouble !== undefined) return onTrouble;
  let quietUntilMs = Number.NEGATIVE_INFINITY;
  return (trouble) => {
    if (trouble.kind === "server_unreachable") {
      const { monotonicMs } = runtime.now();
      if (monotonicMs < quietUntilMs) return;
      quietUntilMs = monotonicMs + quietMs;
    }
    const text = textOf(trouble);
    if (text !== undefined) runtime.warn(text);
  };
}

function textOf(trouble: WorkerTrouble): string | undefined {
  switch (trouble.kind) {
    case "claim_lost":
      return `job ${trouble.jobId}: the claim was lost, another attempt does the work`;
    case "handler_failed":
      return `job ${trouble.jobId}: the handler failed: ${String(trouble.error)}`;
    case "result_refused":
      return `job ${trouble.jobId}: the result was refused: ${trouble.because}`;
    case "result_given_up":
      return `job ${trouble.jobId}: the result could not be reported: ${String(trouble.error)}`;
    case "server_unreachable":
      return `the server does not answer: ${String(trouble.error)}`;
    case "not_wanted":
    case "draining":
    case "not_draining":
      return undefined;
  }
}
