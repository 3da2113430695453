// Calls the command `interlock` as a shell would, in this process: words in, exit code and output out.
import { main } from "../../src/cli/main.ts";
import type { Terminal } from "../../src/cli/terminal.ts";

export type Typed = {
  readonly env?: Readonly<Record<string, string>>;
  /** Standard input. */
  readonly input?: string;
  /** As on a terminal of this width; otherwise standard output is a pipe. */
  readonly columns?: number;
  readonly nowMs?: number;
  /** Called as soon as standard output matches: Ctrl-C, say. */
  readonly when?: { readonly shows: RegExp; press(interrupt: () => void): void };
};

export type Said = {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** Standard output as the one JSON document that it is. */
  json<Value = Readonly<Record<string, unknown>>>(): Value;
  /** Standard output as one JSON document a line. */
  jsonLines(): ReadonlyArray<Readonly<Record<string, unknown>>>;
};

/** `folder` is where the user is. */
export async function typeCommand(
  folder: string,
  words: readonly string[],
  typed: Typed = {},
): Promise<Said> {
  let stdout = "";
  let stderr = "";
  let awaited = typed.when;
  const listeners = new Set<() => void>();
  const paper = (write: (text: string) => void) => ({
    write,
    isTty: typed.columns !== undefined,
    columns: typed.columns ?? Number.POSITIVE_INFINITY,
  });
  const terminal: Terminal = {
    stdout: paper((text) => {
      stdout += text;
      if (awaited?.shows.test(stdout)) {
        const { press } = awaited;
        awaited = undefined;
        press(() => {
          for (const listener of listeners) listener();
        });
      }
    }),
    stderr: paper((text) => {
      stderr += text;
    }),
    readInput: async () => typed.input ?? "",
    env: typed.env ?? {},
    folder,
    typedFolder: folder,
    calledAs: "interlock",
    nowMs: () => typed.nowMs ?? Date.now(),
    timer(ms, callback) {
      const timer = setTimeout(callback, ms);
      return () => clearTimeout(timer);
    },
    token: () => crypto.randomUUID().replaceAll("-", ""),
    onInterrupt(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  const code = await main(words, terminal);
  return {
    code,
    stdout,
    stderr,
    json: <Value>() => JSON.parse(stdout) as Value,
    jsonLines: () =>
      stdout
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>),
  };
}
