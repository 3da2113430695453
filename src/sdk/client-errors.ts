// What a call throws: the server's refusal, or that there was no answer.
import type { ProblemCode } from "./contract.ts";

/** RFC 9457 problem JSON as the server sends it; some codes have more members (`limit`, `run_id`, `problems`...). */
export type Problem = {
  readonly status: number;
  readonly code: ProblemCode;
  readonly title: string;
  readonly detail: string;
  readonly retryable: boolean;
  readonly request_id?: string;
  readonly problems?: ReadonlyArray<{ readonly path: string; readonly message: string }>;
  readonly [more: string]: unknown;
};

/** What may have become of the request in spite of the failure. */
export type Effect = "none" | "unknown";

/** The server answered, and said no. Decide by `code`; the message is for people. */
export class InterlockApiError extends Error {
  readonly status: number;
  readonly code: ProblemCode;
  readonly detail: string;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** What the server asked to wait before the next try. */
  readonly retryAfterMs: number | undefined;
  readonly requestId: string | undefined;
  readonly problem: Problem;
  /** `unknown`: it may have been done nevertheless. */
  readonly effect: Effect;

  constructor(
    problem: Problem,
    seen: {
      readonly asked: string;
      readonly retryAfterMs: number | undefined;
      readonly requestId: string | undefined;
      readonly effect: Effect;
    },
  ) {
    super(messageOf(problem, seen.asked, seen.requestId));
    this.name = "InterlockApiError";
    this.status = problem.status;
    this.code = problem.code;
    this.detail = problem.detail;
    this.retryable = problem.retryable;
    this.retryAfterMs = seen.retryAfterMs;
    this.requestId = seen.requestId;
    this.problem = problem;
    this.effect = seen.effect;
  }
}

function messageOf(problem: Problem, asked: string, requestId: string | undefined): string {
  const { status, code, title, detail, problems = [] } = problem;
  const places = problems.map(({ path, message }) => `\n  ${path}: ${message}`).join("");
  const request = requestId === undefined ? "" : ` [request ${requestId}]`;
  return `${asked}: ${status} ${code}: ${title}${detail === title ? "" : `. ${detail}`}${request}${places}`;
}

/** There was no answer: `refused` never reached the server, `lost` and `timeout` may have been done nevertheless. */
export class InterlockConnectionError extends Error {
  readonly url: string;
  readonly reason: "refused" | "lost" | "timeout";
  readonly effect: Effect;

  constructor(failure: {
    readonly asked: string;
    readonly url: string;
    readonly reason: "refused" | "lost" | "timeout";
    readonly what: string;
    /** What to look at, where it is not what a call over HTTP would look at. */
    readonly advice?: string;
    readonly cause?: unknown;
  }) {
    const { asked, url, reason, what, advice = adviceOf[reason], cause } = failure;
    super(`${asked}: ${what} (${url}). ${advice}`, { cause });
    this.name = "InterlockConnectionError";
    this.url = url;
    this.reason = reason;
    this.effect = reason === "refused" ? "none" : "unknown";
  }
}

const adviceOf = {
  refused:
    "Is the server running, and is the address right? Set INTERLOCK_URL, or start it: interlock serve.",
  lost: "The connection ended before the answer; the server may have done what was asked.",
  timeout:
    "The server may still be doing what was asked; is it overloaded, or is something between that holds answers back?",
} as const;
