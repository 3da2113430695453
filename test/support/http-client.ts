// A client of the HTTP API for tests: JSON in and out, one key, and the network's errors as a status of their own.
import { secretWatch } from "./secret-watch.ts";

export type Reply<Body> = {
  /** 0 when there was no answer. */
  readonly status: number;
  readonly body: Body;
  readonly headers: Headers;
};

export type HttpClient = {
  get<Body>(path: string): Promise<Reply<Body>>;
  post<Body>(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<Reply<Body>>;
  patch<Body>(path: string, body: unknown): Promise<Reply<Body>>;
};

/** `url` is asked for before every request: a restarted server may have another one. */
export function createHttpClient(url: () => string, key: string): HttpClient {
  secretWatch.noteAllIn(key);
  async function send<Body>(
    method: string,
    path: string,
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Reply<Body>> {
    try {
      const response = await fetch(`${url()}/api/v1${path}`, {
        method,
        headers: { "x-api-key": key, ...headers, ...(body === undefined ? {} : json) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      secretWatch.noteAllIn(text);
      const value = (text === "" ? undefined : JSON.parse(text)) as Body;
      return { status: response.status, body: value, headers: response.headers };
    } catch (error) {
      if (!(error instanceof TypeError || error instanceof SyntaxError)) throw error;
      return { status: 0, body: undefined as Body, headers: new Headers() };
    }
  }
  return {
    get: (path) => send("GET", path, undefined),
    post: (path, body, headers) => send("POST", path, body, headers),
    patch: (path, body) => send("PATCH", path, body),
  };
}

const json = { "content-type": "application/json" };
