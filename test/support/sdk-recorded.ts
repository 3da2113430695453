// A client whose requests are noted and answered at once, for tests of what the SDK sends.
import { createClientIn } from "../../src/sdk/client.ts";
import type { ClientOptions } from "../../src/sdk/index.ts";
import { testRuntime } from "./sdk-runtime.ts";

export const answered = { items: [1, 2], next_cursor: null, run_id: "run_1" };

/** Answers with these, in order, and with the last one from then on. */
export function recorded(answers: readonly object[] = [answered], options: ClientOptions = {}) {
  const sent: Request[] = [];
  const answering = ((url: string, request: RequestInit) => {
    const answer = answers[Math.min(sent.length, answers.length - 1)];
    sent.push(new Request(url, request));
    return Promise.resolve(Response.json(answer));
  }) as typeof fetch;
  const given = { url: "http://test", fetch: answering, ...options };
  return { client: createClientIn(testRuntime(), given), sent };
}

/** Method and path with its query. */
export const pathOf = ({ method, url }: Request) => `${method} ${url.slice("http://test".length)}`;

export type Common = { readonly headers?: Readonly<Record<string, string>>; readonly signal?: AbortSignal };

/** Reserved characters have to arrive as they are. */
export const id = "a/b c";
export const pathOfId = "a%2Fb%20c";
