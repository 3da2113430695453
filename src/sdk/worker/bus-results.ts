// Results over NATS: each is one message to JetStream, sent again until an engine has said what became of it.
import { pauseBefore } from "../call.ts";
import { InterlockApiError, InterlockConnectionError } from "../client-errors.ts";
import type { Success } from "../contract.ts";
import type { Runtime } from "../runtime.ts";
import { ask } from "./bus-caller.ts";
import type { BusLink, Heard } from "./bus-link.ts";
import { type BusMessage, header } from "./bus-messages.ts";
import {
  delayMs,
  handBackOf,
  historyOf,
  isTooLate,
  type Report,
  type ResultEnd,
  type Results,
  reportOf,
  tooLarge,
  type Verdict,
} from "./results.ts";

export type WaitingResult = {
  readonly jobId: string;
  /** How often the bus has delivered the result so far. */
  readonly deliveries: number;
  /** Until it delivers the result again. */
  readonly retryAfterMs: number;
};

type Worker = {
  readonly name: string;
  readonly onWaiting: ((waiting: WaitingResult) => void) | undefined;
};

/** The control plane takes what expires within seven days; an hour is left for clocks that differ. */
const expireAfterMs = (7 * 24 - 1) * 3_600_000;
/** Long for a server that works: it acknowledges within a millisecond, or not at all. */
const acknowledgeWithinMs = 2_000;
/** So long without a word of an engine, and the message counts as lost. It grows with every repeat. */
const silenceMs = { first: 5_000, most: 30_000 };
/** So often the stream may fail, or what it has stored may stay unanswered, before a gateway is asked instead. */
const triesOfStream = { failures: 3, silences: 2 };
const requestWithinMs = 5_000;

export function createBusResults(runtime: Runtime, link: BusLink, worker: Worker): Results {
  async function deliver(report: Report): Promise<ResultEnd> {
    const line = openLine(runtime, link, worker, report);
    try {
      const outcome = await deliverOn(line, report);
      // The same output would be refused again: the attempt fails, and says why.
      return outcome.kind === "too_large" ? deliver(tooLarge(report)) : outcome;
    } finally {
      line.close();
    }
  }

  /** Repeats what was not stored under its own id, and what was stored and not answered under another one. */
  async function deliverOn(line: Line, report: Report): Promise<Final> {
    let messageId = runtime.token();
    let failures = 0;
    let silences = 0;
    for (;;) {
      const quietMs = Math.min(silenceMs.most, silenceMs.first * 2 ** silences);
      const outcome = await line.publish(messageId, quietMs);
      if (outcome.kind !== "not_stored" && outcome.kind !== "silence") return outcome;
      const { error } = outcome;
      if (outcome.kind === "silence") {
        messageId = runtime.token();
        failures = 0;
        silences += 1;
      } else {
        failures += 1;
        await runtime.sleep(Math.min(pauseBefore(failures, error, runtime.fraction()), report.leftMs()));
      }
      if (failures >= triesOfStream.failures || silences >= triesOfStream.silences) {
        const answer = await line.request();
        if (answer.kind !== "not_stored") return answer;
      }
      if (isTooLate(report)) return { kind: "given_up", error };
    }
  }

  return {
    report: (held, result) => deliver(reportOf(held, result)),
    handBack: (held) => deliver(handBackOf(runtime, held)),
  };
}

type Final = ResultEnd | { readonly kind: "too_large" };
type NotStored = {
  readonly kind: "not_stored";
  readonly error: InterlockApiError | InterlockConnectionError;
};
type Outcome = Final | NotStored | { readonly kind: "silence"; readonly error: InterlockConnectionError };

/** One report's way to the stream and its answers, over all publications. */
type Line = {
  publish(messageId: string, quietMs: number): Promise<Outcome>;
  /** Asks a gateway to take it. */
  request(): Promise<Final | NotStored>;
  close(): void;
};

function openLine(runtime: Runtime, link: BusLink, worker: Worker, report: Report): Line {
  const { held, result, leftMs } = report;
  const { traceparent } = held.claim;
  const subject = link.subjects.result(result.job_id);
  const traced = traceparent === undefined ? result : { ...result, traceparent };
  const body = JSON.stringify({ worker_id: worker.name, ...traced });
  const signs = createSigns(runtime);
  const answers = link.listen({
    source: "control plane",
    about: subject,
    hear: (heard) => {
      // What both listeners hear is left to the other one.
      if (heard.kind === "message") signs.put({ kind: "answer", verdict: heard.value as Verdict });
    },
  });
  const stored = link.listen({ source: "stream", about: subject, hear: (heard) => signs.put(signOf(heard)) });

  const messageOf = (messageId: string): BusMessage => ({
    subject,
    body,
    messageId,
    expiresAtMs: Math.round(runtime.now().wallMs) + expireAfterMs,
    more: { [header.answerTo]: answers.subject },
  });
  const failed = (kind: "not_stored" | "silence", what: string) => ({
    kind,
    error: new InterlockConnectionError({ asked: subject, url: link.url, reason: "timeout", what, advice }),
  });

  async function publish(messageId: string, quietMs: number): Promise<Outcome> {
    try {
      await link.open();
      const message = messageOf(messageId);
      if (result.status === "succeeded" && !link.fits(message)) return { kind: "too_large" };
      link.send(message, stored.subject);
    } catch (error) {
      if (error instanceof InterlockConnectionError) return { kind: "not_stored", error };
      return { kind: "given_up", error };
    }
    return follow(quietMs);
  }

  async function follow(quietMs: number): Promise<Outcome> {
    let isStored = false;
    let withinMs = acknowledgeWithinMs;
    for (;;) {
      const sign = await signs.next(Math.min(withinMs, leftMs()));
      if (sign === undefined)
        return isStored
          ? failed("silence", `no engine has answered for ${withinMs} ms`)
          : failed("not_stored", `no acknowledgement within ${acknowledgeWithinMs} ms`);
      if (sign.kind === "forbidden") return { kind: "given_up", error: sign.error };
      if (sign.kind === "not_stored") return failed("not_stored", sign.because);
      isStored = true;
      withinMs = quietMs;
      if (sign.kind === "stored") continue;
      const { verdict } = sign;
      const end = endOf(report, verdict);
      if (end !== undefined) return end;
      const retryAfterMs = verdict.retry_after_ms ?? 0;
      withinMs = silenceMs.first + retryAfterMs;
      if (verdict.kind === "waiting")
        worker.onWaiting?.({ jobId: result.job_id, deliveries: verdict.deliveries ?? 1, retryAfterMs });
    }
  }

  return {
    publish,
    request: () => requestOf(runtime, link, worker, report),
    close() {
      answers.end();
      stored.end();
    },
  };
}

/** As over HTTP, until it is answered for good. */
async function requestOf(
  runtime: Runtime,
  link: BusLink,
  worker: Worker,
  report: Report,
): Promise<Final | NotStored> {
  const { held, result, leftMs } = report;
  const { traceparent } = held.claim;
  const headers = traceparent === undefined ? {} : { traceparent };
  const { report: subject } = link.subjects;
  try {
    for (;;) {
      const withinMs = Math.min(requestWithinMs, leftMs());
      const results = [{ ...result, ...historyOf(report, runtime.now()) }];
      const body = { worker_id: worker.name, results };
      const answer = await ask(runtime, link, { subject, body, headers, withinMs });
      const [verdict] = (answer as Success<"reportResults">).results as readonly Verdict[];
      const end = verdict === undefined ? undefined : endOf(report, verdict);
      if (end !== undefined) return end;
      report.reports.answered += 1;
      await runtime.sleep(Math.min(delayMs(verdict, runtime.fraction()), leftMs()));
      if (isTooLate(report)) return { kind: "given_up", error: new Error(verdict?.because ?? "no verdict") };
    }
  } catch (error) {
    if (error instanceof InterlockConnectionError) return { kind: "not_stored", error };
    if (!(error instanceof InterlockApiError)) return { kind: "given_up", error };
    if (error.status === 413 && result.status === "succeeded") return { kind: "too_large" };
    return error.retryable ? { kind: "not_stored", error } : { kind: "given_up", error };
  }
}

/** Undefined while it is to be waited for. */
function endOf({ result }: Report, verdict: Verdict): Final | undefined {
  const { kind, because = kind } = verdict;
  if (kind === "accepted") return { kind: "accepted" };
  if (because === "payload_too_large" && result.status === "succeeded") return { kind: "too_large" };
  return kind === "refused" || kind === "duplicate" ? { kind: "refused", because } : undefined;
}

const advice = "Does an engine run, and is the API key right? The result is sent again.";

type Sign =
  /** JetStream has it. */
  | { readonly kind: "stored" }
  | { readonly kind: "not_stored"; readonly because: string }
  | { readonly kind: "forbidden"; readonly error: Error }
  | { readonly kind: "answer"; readonly verdict: Verdict };

/** JetStream's acknowledgement, or why there is none. */
function signOf(heard: Heard): Sign {
  switch (heard.kind) {
    case "message": {
      const { error } = heard.value as { readonly error?: { readonly description?: string } };
      if (error === undefined) return { kind: "stored" };
      return {
        kind: "not_stored",
        because: `the stream refuses it, ${error.description ?? "without a reason"}`,
      };
    }
    case "no_responders":
      return { kind: "not_stored", because: "there is no stream for it" };
    case "distrusted":
      return { kind: "not_stored", because: `the acknowledgement was ignored because ${heard.because}` };
    case "lost":
      return { kind: "not_stored", because: "the connection was lost" };
    case "forbidden":
      return heard;
  }
}

function createSigns(runtime: Runtime) {
  const arrived: Sign[] = [];
  let waiting = new AbortController();
  return {
    put(sign: Sign): void {
      arrived.push(sign);
      waiting.abort();
    },
    /** Undefined when the time is over. */
    async next(withinMs: number): Promise<Sign | undefined> {
      if (arrived.length === 0) {
        waiting = new AbortController();
        await runtime.sleep(withinMs, waiting.signal);
      }
      return arrived.shift();
    },
  };
}
