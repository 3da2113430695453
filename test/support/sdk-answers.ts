// Answers that the SDK may meet: the server's refusals as the gateway writes them, what stands between, broken connections.
import type { ErrorCode } from "../../src/errors.ts";
import { failureReply } from "../../src/gateway/http-reply.ts";
import { loadConfig } from "../../src/load-config.ts";
import { createClientIn } from "../../src/sdk/client.ts";
import type { InterlockApiError } from "../../src/sdk/client-errors.ts";
import { testRuntime } from "./sdk-runtime.ts";

export type Answer = () => Response | Promise<Response>;

/** As the gateway would say it. */
export function said(code: ErrorCode, members: object = {}): Answer {
  const { config } = loadConfig();
  const service = { config, ports: { random: { fraction: () => 0 } } };
  const { status, headers, body } = failureReply(
    service as never,
    { kind: code, ...members } as never,
    "req_1",
  );
  return () => new Response(body, { status, headers });
}

/** Something between the client and the server. */
export const proxy =
  (status: number, headers: Record<string, string> = {}): Answer =>
  () =>
    new Response(status === 304 ? null : "<html>", { status, headers });

const fine: Answer = () => Response.json({ run_id: "run_1", status: "pending" });

export function broken(error: object): Answer {
  return () => Promise.reject(Object.assign(new TypeError("fetch failed"), { cause: error }));
}

/** Answers with these, in order, and well ever after. */
export function clientOf(...answers: readonly Answer[]) {
  const around = testRuntime();
  const sent: Request[] = [];
  const answering = (async (url: string, request: RequestInit) => {
    const answer = answers[sent.length] ?? fine;
    sent.push(new Request(url, request));
    return answer();
  }) as typeof fetch;
  const client = createClientIn(around, { url: "http://test", apiKey: "k", fetch: answering });
  return { client, sent, pauses: around.pauses };
}

export const thrown = (asked: Promise<unknown>) =>
  asked.then(
    () => undefined,
    (error: unknown) => error as InterlockApiError,
  );
