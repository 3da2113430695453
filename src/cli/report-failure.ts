// How a command ends: one exit code per kind of ending, and why it failed, in words with what to do next or as one JSON document.
import { CommanderError } from "commander";
import { redacted } from "../domain/excerpt.ts";
import { errors, InterlockError } from "../errors.ts";
import { InterlockApiError, InterlockConnectionError, type Problem } from "../sdk/client-errors.ts";
import { NoKeyError, NoServerError, type Session } from "./context.ts";
import { UsageError } from "./run-program.ts";
import { visible } from "./text.ts";

export const exitCodes = {
  ok: { code: 0, meaning: "done" },
  failed: { code: 1, meaning: "refused, failed, or a run that was waited for did not succeed" },
  usage: { code: 2, meaning: "the command was called wrongly" },
  unreachable: { code: 3, meaning: "no server answered; with a change it is unknown whether it was made" },
  notFound: { code: 4, meaning: "there is no such thing" },
  notAllowed: { code: 5, meaning: "no key, a wrong key, or one that may not do this" },
  timeout: { code: 6, meaning: "the run goes on, and --timeout has passed" },
  interrupted: { code: 130, meaning: "Ctrl-C; a run that was watched goes on" },
} as const;

export type Ending = keyof typeof exitCodes;

/** What the server said decides; a lost connection is never taken for a no. */
export function endingOf(error: unknown): Ending {
  if (error instanceof UsageError) return "usage";
  if (error instanceof InterlockConnectionError || error instanceof NoServerError) return "unreachable";
  if (error instanceof NoKeyError) return "notAllowed";
  if (!(error instanceof InterlockApiError)) return "failed";
  if (error.status === 404) return "notFound";
  // A stopped tenant is a refusal, not a matter of the key.
  const isAboutTheKey =
    error.status === 401 || error.code === "forbidden" || error.code === "tenant_mismatch";
  return isAboutTheKey ? "notAllowed" : "failed";
}

export function reportFailure(session: Session, error: unknown): void {
  const { stderr } = session.terminal;
  const text =
    session.format === "json"
      ? JSON.stringify({ error: failureDocument(session, error) })
      : failureLines(session, error).join("\n");
  stderr.write(`${text}\n`);
}

function failureDocument(session: Session, error: unknown): object {
  if (error instanceof InterlockApiError) return error.problem;
  if (error instanceof InterlockError)
    return { code: error.code, detail: error.detail, remedy: errors[error.code].remedy };
  if (error instanceof InterlockConnectionError)
    return { code: "unreachable", detail: error.message, url: error.url, effect: error.effect };
  return { code: codeOf(error), detail: failureLines(session, error).join("\n") };
}

function codeOf(error: unknown): string {
  if (error instanceof UsageError || error instanceof CommanderError) return "usage";
  if (error instanceof NoServerError) return "unreachable";
  return error instanceof NoKeyError ? "no_key" : "internal";
}

function failureLines(session: Session, error: unknown): string[] {
  if (error instanceof InterlockApiError) return refusalLines(session, error);
  if (error instanceof InterlockConnectionError) return unreachableLines(session, error);
  if (error instanceof NoServerError) return noServerLines(session);
  if (error instanceof NoKeyError) return noKeyLines(session);
  if (error instanceof InterlockError)
    return [`${visible(error.message)}`, `${errors[error.code].remedy} (${error.code})`];
  // What was typed is repeated there, and may be a misspelt option with a key.
  if (error instanceof UsageError || error instanceof CommanderError) return [redacted(error.message)];
  return [error instanceof Error ? (error.stack ?? error.message) : String(error)];
}

function refusalLines(session: Session, { problem, requestId }: InterlockApiError): string[] {
  const { title, detail, code, status, problems = [] } = problem;
  return [
    `${visible(title)} (${visible(code)})`,
    ...(detail === title ? [] : [`  ${visible(detail)}`]),
    ...problemLines(problems),
    ...(status === 401 ? [`  The key came from ${session.server?.keyFrom ?? "nowhere"}.`] : []),
    ...(status === 403 ? [`  The key is ${session.server?.keyFrom ?? "unknown"}.`] : []),
    ...(requestId === undefined || status < 500 ? [] : [`  request ${visible(requestId)}`]),
  ];
}

/** With the line and column of a text in YAML. */
export function problemLines(problems: NonNullable<Problem["problems"]>, file?: string): string[] {
  return problems.map((problem) => {
    const { path, message, line, column } = problem as typeof problem & {
      readonly line?: number;
      readonly column?: number;
    };
    const place =
      line === undefined ? "" : `${file ?? "line "}${file === undefined ? "" : ":"}${line}:${column ?? 1}: `;
    return `  ${visible(`${place}${path === "" ? "" : `${path}: `}${message}`)}`;
  });
}

function unreachableLines(session: Session, error: InterlockConnectionError): string[] {
  const { server } = session;
  const where = server === undefined ? error.url : `${server.url} (${server.urlFrom})`;
  switch (error.reason) {
    case "refused":
      return [`No server answers at ${where}.`, ...startLines(session)];
    case "lost":
      return [
        `The connection to ${where} ended before the answer came.`,
        "The server may have done what was asked: look before you repeat it.",
      ];
    case "timeout":
      return [
        `The server at ${where} did not answer in time.`,
        "It may still do what was asked: look before you repeat it.",
      ];
  }
}

function noServerLines(session: Session): string[] {
  const where = session.server?.urlFrom ?? "";
  return [
    `No server is named, and none runs here (${where.replace("the default: ", "")}).`,
    ...startLines(session),
  ];
}

function startLines({ terminal: { calledAs } }: Session): string[] {
  return [
    `  start one here:     ${calledAs} serve`,
    "  or name another:    --url http://... --key-file ...   (or INTERLOCK_URL and INTERLOCK_API_KEY)",
    `  see what is wrong:  ${calledAs} doctor`,
  ];
}

function noKeyLines({ server }: Session): string[] {
  return [
    `No API key for ${server?.url ?? "the server"} (${server?.urlFrom ?? ""}).`,
    "  Give --key-file, INTERLOCK_API_KEY or INTERLOCK_API_KEY_FILE. A key in the data folder's keys.json is used only for the server that has that folder open.",
  ];
}
