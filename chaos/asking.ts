// One operation of a client, as the history wants it: the invocation before it is sent, and then what is known of its outcome.

import type { Answer, Operation } from "../proof/history/record.ts";
import { InterlockApiError, InterlockConnectionError, type Problem } from "../src/sdk/index.ts";
import type { Recorder } from "./recorder.ts";

export type Outcome<Value> =
  | { readonly kind: "ok"; readonly value: Value }
  /** It had no effect, and never will. */
  | { readonly kind: "fail"; readonly code: string; readonly problem: Problem | undefined }
  | { readonly kind: "unknown"; readonly code: string };

export type Asked<Value> = {
  readonly client: string;
  readonly operation: Operation;
  send(): Promise<Value>;
  answerOf(value: Value): Answer;
  /** What a refusal tells besides its code. */
  refusalOf?(problem: Problem): Answer | undefined;
};

/** What is known of one invocation in the end: one of these, once. */
export type Completion = {
  ok(answer: Answer): void;
  fail(code: string, answer?: Answer): void;
  unknown(code: string): void;
};

export type Asker = {
  /** Outcomes by `<operation> <outcome>`. */
  readonly counts: ReadonlyMap<string, number>;
  begin(client: string, operation: Operation): Completion;
  ask<Value>(asked: Asked<Value>): Promise<Outcome<Value>>;
};

/** `prefix` makes its ids differ from those of every other process and of its own earlier lives. */
export function createAsker(recorder: Recorder, prefix: string): Asker {
  const counts = new Map<string, number>();
  let invocations = 0;
  const begin = (client: string, operation: Operation): Completion => {
    invocations += 1;
    const id = `${prefix}${invocations}`;
    const count = (outcome: string) => {
      const name = `${operation.operation} ${outcome}`;
      counts.set(name, (counts.get(name) ?? 0) + 1);
    };
    recorder.now({ type: "invoke", id, client, ...operation });
    return {
      ok(answer) {
        recorder.now({ type: "ok", id, answer });
        count("ok");
      },
      fail(code, answer) {
        recorder.now({ type: "fail", id, code, ...(answer === undefined ? {} : { answer }) });
        count("fail");
      },
      unknown(code) {
        recorder.now({ type: "unknown", id, code });
        count("unknown");
      },
    };
  };
  return {
    counts,
    begin,
    async ask({ client, operation, send, answerOf, refusalOf }) {
      const completion = begin(client, operation);
      const outcome = await outcomeOf(send);
      if (outcome.kind === "ok") completion.ok(answerOf(outcome.value));
      else if (outcome.kind === "unknown") completion.unknown(outcome.code);
      else {
        const { code, problem } = outcome;
        completion.fail(code, problem === undefined ? undefined : refusalOf?.(problem));
      }
      return outcome;
    },
  };
}

/**
 * The SDK says of each failure whether the request may have been done: that is the product's promise, and what a wrong one
 * leads to is for the checker to find.
 */
export async function outcomeOf<Value>(send: () => Promise<Value>): Promise<Outcome<Value>> {
  try {
    return { kind: "ok", value: await send() };
  } catch (error) {
    return failureOf(error);
  }
}

export function failureOf(error: unknown): Exclude<Outcome<never>, { kind: "ok" }> {
  if (error instanceof InterlockApiError) {
    const { problem, effect } = error;
    // Nobody may answer in the server's place: which answer it was says who did.
    const code =
      error.code === "unexpected_answer" ? `unexpected_answer ${error.status} ${error.detail}` : error.code;
    return effect === "unknown" ? { kind: "unknown", code } : { kind: "fail", code, problem };
  }
  if (error instanceof InterlockConnectionError) {
    const { effect, reason } = error;
    return effect === "unknown"
      ? { kind: "unknown", code: reason }
      : { kind: "fail", code: reason, problem: undefined };
  }
  throw error;
}
