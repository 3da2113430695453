// What every answer has to be, whatever was asked: documented, in its documented form, and silent about the inside of the server.
import { type ErrorCode, errors } from "../../src/errors.ts";
import type { FuzzOperation } from "./operations.ts";
import type { FuzzAnswer, FuzzRequest } from "./request.ts";

/** What is wrong with the answer, in words; nothing when it is fine. */
export function problemsOf(operation: FuzzOperation, request: FuzzRequest, answer: FuzzAnswer): string[] {
  if (answer.kind === "none") return [`there was no answer: ${answer.cause}`];
  const isFailure = answer.status >= 400;
  return [
    ...(isFailure
      ? failureProblems(operation, request, answer)
      : successProblems(operation, request, answer)),
    ...headerProblems(answer),
    ...insideProblems(answer.text),
  ];
}

type Answered = Extract<FuzzAnswer, { kind: "answered" }>;

/** What a request may meet that asks for no operation at all. */
const unrouted: readonly string[] = ["route_not_found", "method_not_allowed", "invalid_request"];

function failureProblems(operation: FuzzOperation, request: FuzzRequest, answer: Answered): string[] {
  const { status, headers, text } = answer;
  // The answer to a HEAD has no body.
  if (request.method === "HEAD") return status < 500 ? [] : [`${status} to a HEAD`];
  const problem = readJson(text) as { readonly code?: string; readonly status?: number } | undefined;
  const code = problem?.code ?? "";
  if (!Object.hasOwn(errors, code)) return [`${status} has no code of the table: ${text.slice(0, 300)}`];
  const row = errors[code as ErrorCode];
  const problems: string[] = [];
  if (status >= 500 && status !== 503) problems.push(`${status} ${code}`);
  if (row.status !== status || problem?.status !== status) problems.push(`${code} came with ${status}`);
  if (headers["content-type"] !== "application/problem+json")
    problems.push(`a failure of type ${headers["content-type"]}`);
  if (row.retryable && [409, 429, 503].includes(status) && !(Number(headers["retry-after"]) >= 1))
    problems.push(`${status} ${code} without Retry-After`);
  // A slash too many may still ask for something without a name, which nobody finds.
  if (!request.isRouted && (unrouted.includes(code) || (status === 404 && code.endsWith("_not_found"))))
    return problems;
  const documented = operation.answers.get(status);
  if (documented === undefined) return [...problems, `${status} ${code} is not documented`];
  if (!documented.codes.includes(code)) problems.push(`${code} is not documented for ${status}`);
  return [...problems, ...formProblems(documented.fits, problem)];
}

function successProblems(operation: FuzzOperation, request: FuzzRequest, answer: Answered): string[] {
  if (!request.isRouted) return request.method === "HEAD" ? [] : [`${answer.status} for what nobody offers`];
  const documented = operation.answers.get(answer.status);
  if (documented === undefined) return [`${answer.status} is not documented`];
  if (documented.mediaType === undefined)
    return answer.text === "" ? [] : ["a body where there should be none"];
  const type = answer.headers["content-type"] ?? "";
  if (!type.startsWith(documented.mediaType)) return [`it is ${type}, not ${documented.mediaType}`];
  return documented.fits === undefined ? [] : formProblems(documented.fits, readJson(answer.text));
}

function formProblems(
  fits: NonNullable<ReturnType<FuzzOperation["answers"]["get"]>>["fits"],
  value: unknown,
): string[] {
  if (fits === undefined || fits(value)) return [];
  const [first] = fits.errors ?? [];
  const more = JSON.stringify(first?.params ?? {});
  return [`the body does not fit its schema: ${first?.instancePath} ${first?.message} ${more}`];
}

function headerProblems({ headers }: Answered): string[] {
  const problems: string[] = [];
  if (headers["x-content-type-options"] !== "nosniff") problems.push("no X-Content-Type-Options");
  if (headers["cache-control"] !== "no-store") problems.push("no Cache-Control: no-store");
  if (!/^[A-Za-z0-9._:-]{1,128}$/.test(String(headers["x-request-id"]))) problems.push("no request id");
  for (const name of ["server", "x-powered-by", "set-cookie", "access-control-allow-origin"]) {
    if (headers[name] !== undefined) problems.push(`the header ${name}`);
  }
  return problems;
}

/** Stacks, files of ours, and how the engine talks of its own mistakes. */
const inside =
  /node_modules|\bat .{1,200}\.(?:ts|js):\d+|\bsrc\/[a-z-]+\/|node:internal|TypeError|RangeError|Cannot read propert|is not a function|SQLITE_|secretHash|"secret"/;

function insideProblems(text: string): string[] {
  const found = inside.exec(text);
  return found === null ? [] : [`it shows the inside of the server: ${found[0]}`];
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
