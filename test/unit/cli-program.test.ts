// The command line without a server: help, wrong calls, exit codes, which server and key it takes, configuration.
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { httpTimeMs, nodeFinding } from "../../src/cli/commands/doctor.ts";
import { findServer } from "../../src/cli/context.ts";
import { endingOf } from "../../src/cli/report-failure.ts";
import { nodeNotes, UsageError } from "../../src/cli/run-program.ts";
import type { Terminal } from "../../src/cli/terminal.ts";
import { durationMs } from "../../src/cli/values.ts";
import { writeKeys, writeOwnerNote } from "../../src/embedded/data-folder.ts";
import { InterlockApiError, InterlockConnectionError } from "../../src/sdk/client-errors.ts";
import { typeCommand } from "../support/command-line.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "interlock-cli-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Nobody listens there. */
function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { readonly port: number };
      server.close(() => resolve(port));
    });
  });
}

const type = (...words: string[]) => typeCommand(folder, words);

describe("wrong calls", () => {
  test.each([
    [["nonsense"], /unknown command 'nonsense'/],
    [["runs", "shwo"], /runs has no command shwo\. Did you mean show\?/],
    [["runs", "--statsu", "failed"], /unknown option '--statsu'[\s\S]*--status/],
    [["runs", "--status", "happy"], /Allowed choices are queued, pending, running/],
    [["runs", "--limit", "many"], /must be a whole number/],
    [["run"], /missing required argument 'workflow'/],
    [["run", "hello", "--timeout", "soon"], /a time such as 500ms, 30s/],
    [["run", "hello", "--input", "{"], /--input is not JSON[\s\S]*Quote it for the shell/],
    [["run", "hello", "--input", "@missing.json"], /cannot read missing\.json/],
    [["locks", "break", "a"], /--fence/],
    [["locks", "--tenant", "acme"], /--tenant needs --all/],
    [["dlq", "purge"], /say which with --older-than/],
    [["--url", "here", "runs"], /--url must be an address/],
    [["tenants", "set", "acme", "--unset", "nothing"], /--unset nothing: it must be one of max-runs/],
    [["config", "show", "no.such"], /there is no setting no\.such/],
  ])("%j is told, with exit code 2", async (words, message) => {
    const said = await type(...words);
    expect(said.stderr).toMatch(message);
    expect([said.code, said.stdout]).toEqual([2, ""]);
  });

  test("without a command the help goes to standard error", async () => {
    const said = await type();
    expect([said.code, said.stdout]).toEqual([2, ""]);
    expect(said.stderr).toContain("Usage: interlock");
  });

  test("with --json a failure is one JSON document on standard error", async () => {
    const said = await type("runs", "--limit", "many", "--json");
    expect(JSON.parse(said.stderr)).toEqual({
      error: { code: "usage", detail: expect.stringContaining("whole number") },
    });
  });

  test("help and version end well, and help of a command shows an example", async () => {
    expect((await type("--version")).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    const said = await type("help", "run");
    expect([said.code, said.stderr]).toEqual([0, ""]);
    expect(said.stdout).toMatch(/Usage: interlock run[\s\S]*--url[\s\S]*Examples:\n {2}interlock run hello/);
  });
});

describe("exit codes", () => {
  const refusal = (status: number, code: string) =>
    new InterlockApiError(
      { status, code, title: "t", detail: "d", retryable: false },
      { asked: "GET /", retryAfterMs: undefined, requestId: undefined, effect: "none" },
    );
  test.each([
    [new UsageError("x"), "usage"],
    [refusal(404, "run_not_found"), "notFound"],
    [refusal(401, "unauthenticated"), "notAllowed"],
    [refusal(403, "forbidden"), "notAllowed"],
    [refusal(403, "tenant_stopped"), "failed"],
    [refusal(409, "run_ended"), "failed"],
    [refusal(503, "outcome_unknown"), "failed"],
    [
      new InterlockConnectionError({ asked: "GET /", url: "http://x", reason: "timeout", what: "w" }),
      "unreachable",
    ],
    [new Error("broken"), "failed"],
  ])("%s", (error, ending) => {
    expect(endingOf(error)).toBe(ending);
  });
});

describe("which server", () => {
  const data = () => join(folder, ".interlock");
  const terminal = (env: Record<string, string> = {}) =>
    ({ env, folder, typedFolder: folder, calledAs: "interlock" }) as unknown as Terminal;

  /** As a running server leaves it; this process stands for the server. */
  function serveHere(url = "http://127.0.0.1:4711"): void {
    rmSync(data(), { recursive: true, force: true });
    mkdirSync(data());
    writeKeys(data(), { platform: "ilk_platform", admin: "ilk_admin", worker: "ilk_worker" });
    writeOwnerNote(data(), { pid: process.pid, url });
  }

  test("the one that has the data folder open, with its admin's key, or the platform's where that is needed", () => {
    serveHere();
    const found = findServer(terminal(), {}, "tenant");
    expect(found).toMatchObject({
      url: "http://127.0.0.1:4711",
      urlFrom: "from .interlock/server.json",
      apiKey: "ilk_admin",
      keyFrom: "the admin key in .interlock/keys.json",
      isGuess: false,
    });
    expect(findServer(terminal(), {}, "platform").apiKey).toBe("ilk_platform");
  });

  test("options win over the environment, and the environment over the folder", () => {
    serveHere();
    const env = { INTERLOCK_URL: "http://two/", INTERLOCK_API_KEY: "ilk_two" };
    expect(findServer(terminal(env), {}, "tenant")).toMatchObject({
      url: "http://two",
      urlFrom: "from INTERLOCK_URL",
      apiKey: "ilk_two",
      keyFrom: "INTERLOCK_API_KEY",
    });
    const options = { url: "https://one", apiKey: "ilk_one" };
    expect(findServer(terminal(env), options, "tenant")).toMatchObject({
      url: "https://one",
      apiKey: "ilk_one",
    });
  });

  test("a key of the data folder is sent to the server of that folder and to no other", () => {
    serveHere("http://127.0.0.1:4711");
    expect(findServer(terminal(), { url: "http://evil.example" }, "tenant").apiKey).toBeUndefined();
    expect(findServer(terminal(), { url: "http://127.0.0.1:4712" }, "tenant").apiKey).toBeUndefined();
    expect(findServer(terminal(), { url: "http://localhost:4711/" }, "tenant").apiKey).toBe("ilk_admin");
  });

  test("a server that has stopped leaves keys behind, which are sent nowhere on a guess", async () => {
    serveHere();
    rmSync(join(data(), "server.json"));
    expect(findServer(terminal(), {}, "tenant")).toMatchObject({
      url: "http://127.0.0.1:7300",
      isGuess: true,
      apiKey: undefined,
    });
    const said = await type("runs");
    expect(said.code).toBe(3);
    expect(said.stderr).toMatch(/none runs here \(no server has \.interlock open\)[\s\S]*interlock serve/);
  });

  test("a named server without a key says which key is missing, with exit code 5", async () => {
    const said = await type("runs", "--url", "http://127.0.0.1:1");
    expect(said.code).toBe(5);
    expect(said.stderr).toMatch(/No API key for http:\/\/127\.0\.0\.1:1 \(from --url\)/);
  });

  test("a named server that is not there says so, and from where the address is, with exit code 3", async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const env = { INTERLOCK_URL: url, INTERLOCK_API_KEY: "ilk_x" };
    const said = await typeCommand(folder, ["runs"], { env });
    expect(said.code).toBe(3);
    expect(said.stderr).toContain(`No server answers at ${url} (from INTERLOCK_URL).`);
  });
});

describe("init", () => {
  test("writes a workflow, a worker and a package, and says what to type next", async () => {
    const said = await type("init", "new/hello", "--json");
    expect(said.json()).toMatchObject({
      folder: join(folder, "new/hello"),
      files: ["workflow.yaml", "worker.js", "package.json"],
      next: expect.arrayContaining(["cd new/hello", "npx --no-install interlock serve", "node worker.js"]),
    });
    expect(JSON.parse(readFileSync(join(folder, "new/hello/package.json"), "utf8"))).toEqual({
      name: "hello",
      private: true,
      type: "module",
    });
  });

  test("overwrites nothing: with one of its files there, none is written", async () => {
    writeFileSync(join(folder, "worker.js"), "mine");
    writeFileSync(join(folder, "package.json"), "mine, too");
    const said = await type("init");
    expect(said.code).toBe(2);
    expect(said.stderr).toContain("init overwrites nothing, and worker.js is there already");
    expect(readdirSync(folder).sort()).toEqual(["package.json", "worker.js"]);
    rmSync(join(folder, "worker.js"));
    expect((await type("init")).code).toBe(0);
    expect(readFileSync(join(folder, "package.json"), "utf8")).toBe("mine, too");
  });
});

describe("doctor", () => {
  test("all is well where nothing is yet, except that no server runs", async () => {
    const said = await type("doctor");
    expect(said.code).toBe(0);
    expect(said.stdout).toMatch(/ok +node[\s\S]*ok +configuration[\s\S]*not there yet[\s\S]*warn +server/);
  });

  test("keys that others may read are to be fixed", async () => {
    mkdirSync(join(folder, ".interlock"));
    writeKeys(join(folder, ".interlock"), { platform: "ilk_p", admin: "ilk_a", worker: "ilk_w" });
    chmodSync(join(folder, ".interlock/keys.json"), 0o644);
    const said = await type("doctor");
    expect(said.code).toBe(1);
    expect(said.stdout).toMatch(/fail +\S+keys\.json: others may read it \(mode 644\)\n +→ chmod 600/);
  });

  test("a data folder that is a file, and settings that are none, are to be fixed", async () => {
    writeFileSync(join(folder, "file"), "");
    expect((await type("doctor", "--data", "file")).stdout).toMatch(
      /fail +data folder .*file: is not a folder/,
    );
    const said = await typeCommand(folder, ["doctor", "--json"], { env: { INTERLOCK_STORRE: "x" } });
    expect(said.code).toBe(1);
    expect(said.json()).toMatchObject({
      ok: false,
      findings: [
        { subject: "node" },
        { level: "fail", message: expect.stringContaining("INTERLOCK_STORE?") },
      ],
    });
  });

  test("a Node that is too old is to be replaced, and versions are compared as numbers", () => {
    expect(nodeFinding("20.9.0").level).toBe("fail");
    expect(nodeFinding("18.20.0").level).toBe("fail");
    expect(nodeFinding("20.19.0").level).toBe("ok");
    expect(nodeFinding("22.1.0").level).toBe("ok");
  });

  test("times of HTTP are read", () => {
    expect(httpTimeMs("Sun, 06 Nov 1994 08:49:37 GMT")).toBe(784_111_777_000);
    expect(httpTimeMs("yesterday")).toBeUndefined();
    expect(httpTimeMs(null)).toBeUndefined();
  });
});

describe("config", () => {
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);

  test("shows every value with its origin, later sources first, and hides secrets", async () => {
    write("it.yaml", "gateway:\n  port: 7400\nstore.redisPassword: canary\nevents.pollMs: 60\n");
    const said = await typeCommand(
      folder,
      ["config", "--changed", "--json", "--config", "it.yaml", "--data", "d"],
      {
        env: {
          INTERLOCK_EVENTS_POLL_MS: "70",
          INTERLOCK_REDIS_URLS: "redis://ann:canary@one:6379,redis://:canary@two:6379",
        },
      },
    );
    expect(said.code, said.stderr).toBe(0);
    const { settings } = said.json<{ settings: Array<{ name: string; value: unknown; origin: string }> }>();
    const told = Object.fromEntries(settings.map(({ name, value, origin }) => [name, [value, origin]]));
    expect(told).toEqual({
      "store.dataDirectory": [join(folder, "d"), "override"],
      "store.redisUrls": ["redis://ann:(hidden)@one:6379,redis://:(hidden)@two:6379", "environment"],
      "store.redisPassword": ["(hidden)", "file"],
      "gateway.port": [7400, "file"],
      "events.pollMs": [70, "environment"],
    });
    expect(said.stdout).not.toContain("canary");
  });

  test("INTERLOCK_CONFIG names the file for every program", async () => {
    write("it.json", '{"gateway.port": 7401}');
    const env = { INTERLOCK_CONFIG: join(folder, "it.json") };
    const said = await typeCommand(folder, ["config", "gateway.port", "--json"], { env });
    expect(said.json()).toEqual({
      settings: [
        { name: "gateway.port", value: 7401, origin: "file", environment: "INTERLOCK_GATEWAY_PORT" },
      ],
    });
  });

  test("check tells all problems at once, with the nearest name, and never a text", async () => {
    write(
      "it.yaml",
      "gatway.port: 1\nstore:\n  kind: mongo\nlocks.run.ttlMs: soon\nstore.redisUrls: canary\n",
    );
    const said = await type("config", "check", "it.yaml");
    expect(said.code).toBe(1);
    expect(said.stdout).toMatch(/gatway\.port is not a setting: did you mean gateway\.port\?/);
    expect(said.stdout).toMatch(/store\.kind in the file is "mongo": must be sqlite or redis or memory/);
    expect(said.stdout).toMatch(/locks\.run\.ttlMs in the file is "soon"/);
    expect(said.stdout).not.toContain("canary");
    write("good.yaml", "gateway.port: 0\n");
    expect((await type("config", "check", "good.yaml")).stdout).toBe("good.yaml: ok\n");
  });

  test.each([
    ["a: [", /it\.yaml:1:\d+: /],
    ["a: 1\na: 2\n", /it\.yaml:2:1: .*unique/],
    ["- 1\n", /must hold settings by name/],
  ])("a file that is no configuration is told with its place: %j", async (text, message) => {
    write("it.yaml", text);
    const said = await type("config", "check", "it.yaml");
    expect(said.code).toBe(1);
    expect(said.stdout).toMatch(message);
  });

  test("a file that is not there is told", async () => {
    const said = await type("config", "--config", "none.yaml");
    expect(said.code).toBe(1);
    expect(said.stderr).toMatch(/cannot be read[\s\S]*config_invalid/);
  });
});

test.each([
  ["250ms", 250],
  ["1.5s", 1_500],
  ["5min", 300_000],
  ["2h", 7_200_000],
  ["7d", 604_800_000],
])("%s are %d ms", (text, ms) => {
  expect(durationMs(text)).toBe(ms);
});

test("a server on Node 20 says at its start what that costs, and on newer ones nothing", () => {
  expect(nodeNotes("20.19.0")).toEqual([expect.stringMatching(/^Note: Node 20\.19\.0 .*Node 26/)]);
  for (const version of ["22.23.3", "24.21.0", "26.10.0", "28.0.0"]) expect(nodeNotes(version)).toEqual([]);
});
