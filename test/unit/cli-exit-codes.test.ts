// Exit codes: every command on every kind of failure, every error code, and every outcome that is not a failure.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NoKeyError, NoServerError } from "../../src/cli/context.ts";
import { createProgram } from "../../src/cli/main.ts";
import { endingOf, exitCodes } from "../../src/cli/report-failure.ts";
import { UsageError } from "../../src/cli/run-program.ts";
import { processTerminal } from "../../src/cli/terminal.ts";
import { InterlockError } from "../../src/errors.ts";
import { InterlockApiError, InterlockConnectionError } from "../../src/sdk/client-errors.ts";
import { typeCommand } from "../support/command-line.ts";
import { failureRows } from "../support/failure-table.ts";

let folder: string;
let server: Server;
let url: string;
/** What the server answers with, by the path or for all. */
let answer: (path: string) => { readonly status: number; readonly body: object };

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "interlock-exit-"));
  writeFileSync(join(folder, "flow.yaml"), "id: flow\nsteps: {one: {topic: t}}\n");
  server = createServer((request, response) => {
    const { status, body } = answer(request.url ?? "");
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

const type = (words: string, at = url) =>
  typeCommand(folder, words.split(" "), {
    env: { INTERLOCK_URL: at, INTERLOCK_API_KEY: "ilk_x" },
    input: "{}",
  });

/** Every command that asks a server, as somebody would type it. */
const asking = [
  ...["workflows list", "workflows show w", "workflows save flow.yaml", "workflows validate flow.yaml"],
  ...["workflows delete w", "workflows dry-run w"],
  ...[
    "run w",
    "runs list",
    "runs show r",
    "runs timeline r",
    "runs watch r",
    "runs cancel r",
    "runs delete r",
  ],
  ...["runs rerun r --from one", "why r"],
  ...["approvals list", "approvals show a", "approve a", "reject a"],
  ...["dlq list", "dlq show l", "dlq retry l", "dlq delete l", "dlq purge --older-than 1d"],
  "budgets",
  ...["queue list", "queue show g", "queue move r --head", "queue drop r"],
  ...["locks list", "locks show r", "locks break r --fence 1 --reason x"],
  ...[
    "workers",
    "pools list",
    "pools show p",
    "pools set p --max-running 1",
    "pools drain p",
    "pools resume p",
  ],
  ...["pools delete p", "topics list", "topics set t --max-running 1", "topics delete t"],
  ...["events", "audit list", "audit verify"],
  ...["tenants list", "tenants show t", "tenants create t", "tenants set t --max-runs 1", "tenants remove t"],
  ...["tenants stop t", "tenants resume t", "keys list", "keys create n --role viewer", "keys revoke k"],
  ...["idempotency k", "policy show", "policy set results.strategy=retry", "policy rollback"],
  ...[
    "canary start results.strategy=retry --percent 5",
    "canary status c",
    "canary list",
    "canary rollback c",
  ],
  ...["canary keep c"],
];

/** What works on files and processes of this machine. */
const local = ["init", "serve", "config show", "config check", "doctor", "drill", "backup", "restore"];

function commandsOf(command: Command, name = ""): string[] {
  const isLeaf = command.commands.length === 0;
  return isLeaf
    ? [name]
    : command.commands.flatMap((child) => commandsOf(child, `${name} ${child.name()}`.trim()));
}

test("every command stands in one of the two lists", () => {
  const program = createProgram({ terminal: processTerminal(), ending: "ok", format: "text" });
  const typed = asking.map((words) => words.split(" "));
  const named = commandsOf(program).filter((name) => name !== "help" && !name.endsWith(" help"));
  const missing = named.filter(
    (name) =>
      !local.includes(name) &&
      !typed.some((words) => name.split(" ").every((word, index) => words[index] === word)),
  );
  expect(missing).toEqual([]);
  expect(named.length).toBe(asking.length + local.length);
});

const problem = (status: number, code: string) => ({
  status,
  body: { code, title: "no", detail: "no", status, retryable: false },
});

describe("every command that asks a server", () => {
  test.each([
    [404, "run_not_found", 4],
    [409, "run_ended", 1],
  ])("ends on %i %s with %i", async (status, code, exit) => {
    answer = () => problem(status, code);
    const said = await Promise.all(asking.map(async (words) => [words, (await type(words)).code] as const));
    expect(said.filter(([, ended]) => ended !== exit)).toEqual([]);
  });

  test("ends with 3 when no server is there, and with 5 without a key", async () => {
    const nowhere = await Promise.all(
      asking.map(async (words) => [words, (await type(words, "http://127.0.0.1:1")).code] as const),
    );
    expect(nowhere.filter(([, ended]) => ended !== 3)).toEqual([]);
    const keyless = await Promise.all(
      asking.map(async (words) => {
        const said = await typeCommand(folder, words.split(" "), {
          env: { INTERLOCK_URL: url },
          input: "{}",
        });
        return [words, said.code] as const;
      }),
    );
    expect(keyless.filter(([, ended]) => ended !== 5)).toEqual([]);
  });
});

describe("an answer", () => {
  const run = (status: string) => ({
    run_id: "r",
    workflow_id: "w",
    status,
    steps: {},
    created_at: "2026-01-01T00:00:00Z",
  });
  const verdict = (status: string) => ({
    status,
    gaps: [],
    not_ruled_out: [],
    total_events: 1,
    sealed_to: 1,
  });
  const arm = { results: 0, starts: 0, measures: {} };
  const canary = (state: string) => ({
    ...{
      id: "c",
      state,
      guards: [],
      windows: [],
      policies: {},
      percent: 5,
      missing: [],
      standings: [],
    },
    arms: { canary: arm, control: arm },
  });
  const pool = (drained: boolean) => ({
    id: "p",
    running: drained ? 0 : 1,
    drained,
    topics: [],
    workers: [],
  });

  test.each([
    ["workflows validate flow.yaml", { valid: true, steps: 1 }, 0],
    ["workflows validate flow.yaml", { valid: false, problems: [] }, 1],
    ["audit verify", verdict("intact"), 0],
    ["audit verify", verdict("incomplete"), 0],
    ["audit verify", verdict("broken"), 1],
    ["runs watch r", run("succeeded"), 0],
    ["runs watch r", run("failed"), 1],
    ["runs watch r", run("cancelled"), 1],
    ["runs show r", run("failed"), 0],
    ["runs watch r --timeout 1ms", run("running"), 6],
    ["run w", run("failed"), 1],
    ["run w", run("cancelled"), 1],
    ["run w", run("succeeded"), 0],
    ["run w --no-wait", run("pending"), 0],
    ["run w --timeout 1ms", run("waiting"), 6],
    ["pools drain p", pool(false), 0],
    ["pools drain p --wait", pool(true), 0],
    ["pools drain p --wait --timeout 1ms", pool(false), 6],
    ["canary status c", canary("rolled_back"), 0],
    ["canary status c --watch", canary("kept"), 0],
    ["canary status c --watch", canary("rolled_back"), 1],
    ["canary status c --watch", canary("inconclusive"), 1],
    ["canary status c --watch", canary("stopped"), 1],
  ])("to %s of %j ends with %i", async (words, body, exit) => {
    const hasEnded = "status" in body && ["succeeded", "failed", "cancelled"].includes(body.status);
    answer = (path) =>
      path.includes("/events") && hasEnded ? { status: 204, body: {} } : { status: 200, body };
    const said = await type(`${words} --json`);
    expect(said.stderr).not.toContain("TypeError");
    expect(said.code, said.stderr).toBe(exit);
  });

  test("that names problems of a file ends with 1, for people and for programs", async () => {
    const problems = [{ path: "/id", message: "is missing" }];
    answer = () => ({ status: 400, body: { ...problem(400, "workflow_invalid").body, problems } });
    expect([
      (await type("workflows save flow.yaml")).code,
      (await type("workflows save flow.yaml --json")).code,
    ]).toEqual([1, 1]);
  });
});

describe("every failure", () => {
  const refusal = (status: number, code: string) =>
    new InterlockApiError(
      { status, code: code as "internal", title: "t", detail: "d", retryable: false },
      { asked: "GET /", retryAfterMs: undefined, requestId: undefined, effect: "none" },
    );

  test.each(failureRows)("the server's $code ends with $exit", ({ status, code, exit }) => {
    expect(exitCodes[endingOf(refusal(status, code))].code).toBe(exit);
  });

  test.each(failureRows)("$code of this machine ends with 1: no server has said it", ({ code }) => {
    expect(exitCodes[endingOf(new InterlockError(code, "here"))].code).toBe(1);
  });

  const lost = (reason: "refused" | "lost" | "timeout") =>
    new InterlockConnectionError({ asked: "GET /", url: "http://x", reason, what: "w" });
  test.each([
    [new UsageError("x"), 2],
    [lost("refused"), 3],
    [lost("lost"), 3],
    [lost("timeout"), 3],
    [new NoServerError(), 3],
    [new NoKeyError(), 5],
    [refusal(404, "unexpected_answer"), 4],
    [refusal(502, "unexpected_answer"), 1],
    [new Error("bug"), 1],
    ["thrown as it is", 1],
  ])("%s ends with %i", (error, code) => {
    expect(exitCodes[endingOf(error)].code).toBe(code);
  });

  test("the numbers are those that scripts know", () => {
    const numbers = Object.entries(exitCodes).map(([name, { code }]) => [name, code]);
    expect(Object.fromEntries(numbers)).toEqual({
      ...{
        ok: 0,
        failed: 1,
        usage: 2,
        unreachable: 3,
        notFound: 4,
        notAllowed: 5,
        timeout: 6,
        interrupted: 130,
      },
    });
  });
});
