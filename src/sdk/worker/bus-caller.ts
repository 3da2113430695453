// Requests over NATS, polls and heartbeats above all: one signed request, and its answer in one message or several.

import type { AnyOptions } from "../call.ts";
import type { JobCaller } from "../caller.ts";
import { InterlockApiError, InterlockConnectionError, type Problem } from "../client-errors.ts";
import type { Success } from "../contract.ts";
import { elapsedMs, type Runtime } from "../runtime.ts";
import { effectOf, readProblem } from "../send.ts";
import type { BusLink, Heard } from "./bus-link.ts";

type Jobs = Success<"pollJobs">;

/** The gateway's clock may be 30 s off in either direction: it takes what expires within 60 s. */
const expireAfterMs = 30_000;
/** Besides what a poll waits for. A gateway that dies does not say so. */
const pollAnswerMs = 2_000;
const heartbeatAnswerMs = 5_000;

export function createBusCaller(runtime: Runtime, link: BusLink): JobCaller {
  async function call(operation: "pollJobs" | "heartbeat", options: AnyOptions): Promise<unknown> {
    await opened(link, options.signal);
    const { body, headers = {}, signal } = options;
    if (operation === "heartbeat") {
      const withinMs = options.timeoutMs ?? heartbeatAnswerMs;
      return ask(runtime, link, { subject: link.subjects.heartbeat, body, headers, withinMs });
    }
    return poll(runtime, link, { body: body as PollBody, headers, signal });
  }
  // The table types every operation by its own row.
  return { call } as unknown as JobCaller;
}

/** Ends with the signal's reason when it is aborted before there is a connection. */
async function opened(link: BusLink, signal: AbortSignal | undefined): Promise<void> {
  const opening = link.open();
  if (signal === undefined) return opening;
  signal.throwIfAborted();
  const aborted = new AbortController();
  try {
    await Promise.race([
      opening,
      new Promise<never>((_, reject) => {
        const options = { signal: aborted.signal, once: true };
        signal.addEventListener("abort", () => reject(signal.reason), options);
      }),
    ]);
  } finally {
    aborted.abort();
  }
}

type PollBody = { readonly wait_ms?: number; readonly max_jobs?: number };

type Poll = {
  readonly body: PollBody;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal | undefined;
};

function poll(runtime: Runtime, link: BusLink, { body, headers, signal }: Poll): Promise<Jobs> {
  const asking = (asked: PollBody) =>
    ask(runtime, link, {
      subject: link.subjects.poll,
      body: asked,
      headers,
      withinMs: (asked.wait_ms ?? 0) + pollAnswerMs,
    }) as Promise<Jobs>;
  const first = asking(body);
  if (signal === undefined) return first;
  return new Promise((resolve, reject) => {
    const leave = () =>
      resolve(leavePoll(runtime, first, () => asking({ ...body, max_jobs: 1, wait_ms: 0 })));
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) leave();
    const stay = () => signal.removeEventListener("abort", leave);
    first.then(resolve, reject).finally(stay);
  });
}

/** How long a worker that stops looks for the gateway that holds its poll. */
const leaveWithinMs = 2_000;
const leavePauseMs = 50;

/**
 * A gateway ends a poll when the same one comes again, and answers both. Which of the gateways has the first is not known, so
 * it comes again until the first is answered. Another gateway may claim a job for it, at most one: that counts, too.
 */
async function leavePoll(runtime: Runtime, first: Promise<Jobs>, again: () => Promise<Jobs>): Promise<Jobs> {
  const claimed = new Map<string, Jobs["jobs"][number]>();
  const isOver = new AbortController();
  const gather = ({ jobs }: Jobs) => {
    for (const job of jobs) claimed.set(job.job_id, job);
  };
  const ended = first.then(gather, () => undefined).then(() => isOver.abort());
  const since = runtime.now();
  while (!isOver.signal.aborted && elapsedMs(since, runtime.now()) < leaveWithinMs) {
    try {
      gather(await Promise.race([again(), ended.then(() => ({ jobs: [] }))]));
    } catch (error) {
      if (claimed.size > 0 || isOver.signal.aborted) break;
      throw error;
    }
    await runtime.sleep(leavePauseMs, isOver.signal);
  }
  return { jobs: [...claimed.values()] };
}

type Question = {
  readonly subject: string;
  readonly body: unknown;
  readonly headers: Readonly<Record<string, string>>;
  readonly withinMs: number;
};

export function ask(runtime: Runtime, link: BusLink, question: Question): Promise<unknown> {
  const { subject, headers, withinMs } = question;
  const body = JSON.stringify(question.body);
  const expiresAtMs = Math.round(runtime.now().wallMs) + expireAfterMs;
  return new Promise((resolve, reject) => {
    const reader = createReader(link.url, question);
    const finish = (settle: () => void) => {
      cancel();
      listening.end();
      settle();
    };
    const listening = link.listen({
      source: "control plane",
      about: subject,
      hear(heard) {
        const read = reader.read(heard);
        if (read.kind === "answered") finish(() => resolve(read.value));
        else if (read.kind === "failed") finish(() => reject(read.error));
      },
    });
    const cancel = runtime.timer(withinMs, () => finish(() => reject(reader.silence())));
    try {
      link.send({ subject, body, expiresAtMs, more: headers }, listening.subject);
    } catch (error) {
      finish(() => reject(error));
    }
  });
}

type Read =
  | { readonly kind: "answered"; readonly value: unknown }
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "incomplete" };

type Answer = {
  readonly status: number;
  readonly body: unknown;
  readonly more?: boolean;
  readonly retry_after_s?: number;
};

const noGateway = "Is a gateway running, and is `prefix` the server's store.prefix (INTERLOCK_PREFIX)?";
const unheard =
  "Is a gateway running, is the API key right, and are the clocks? A request of an unknown key is dropped without an answer.";

function createReader(url: string, { subject, withinMs }: Question) {
  const jobs: Array<Jobs["jobs"][number]> = [];
  let distrust: string | undefined;
  const fail = (reason: "refused" | "lost" | "timeout", what: string, advice?: string) =>
    new InterlockConnectionError({
      asked: subject,
      url,
      reason,
      what,
      ...(advice === undefined ? {} : { advice }),
    });

  function readAnswer({ status, body, more, retry_after_s }: Answer): Read {
    if (status < 200 || status >= 300) {
      const problem = readProblem(body, status);
      const error = new InterlockApiError(problem ?? unexpected(status), {
        asked: subject,
        retryAfterMs: retry_after_s === undefined ? undefined : retry_after_s * 1_000,
        requestId: problem?.request_id,
        effect: effectOf(status, problem),
      });
      return { kind: "failed", error };
    }
    const part = body as Jobs;
    if (more === true) {
      jobs.push(...part.jobs);
      return { kind: "incomplete" };
    }
    return { kind: "answered", value: jobs.length === 0 ? part : { ...part, jobs: [...jobs, ...part.jobs] } };
  }

  return {
    read(heard: Heard): Read {
      switch (heard.kind) {
        case "message":
          return readAnswer(heard.value as Answer);
        case "distrusted":
          distrust = heard.because;
          return { kind: "incomplete" };
        case "no_responders":
          return { kind: "failed", error: fail("refused", "no gateway listens", noGateway) };
        case "lost":
          return { kind: "failed", error: fail("lost", "the connection was lost") };
        case "forbidden":
          return { kind: "failed", error: heard.error };
      }
    },
    silence() {
      const ignored = distrust === undefined ? "" : `; an answer was ignored because ${distrust}`;
      return fail("timeout", `no answer within ${withinMs} ms${ignored}`, unheard);
    },
  };
}

function unexpected(status: number): Problem {
  const detail = "the answer is not one of Interlock's";
  return { status, code: "unexpected_answer", title: "unexpected answer", detail, retryable: status >= 500 };
}
