// The command line against a real server: every command, for people and as JSON, with its exit codes.
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createProgram } from "../../src/cli/main.ts";
import { processTerminal } from "../../src/cli/terminal.ts";
import { type Client, createClient } from "../../src/sdk/client.ts";
import { type CliScene, cliRows } from "../support/cli-rows.ts";
import { type Said, type Typed, typeCommand } from "../support/command-line.ts";
import { type Program, servedBy, startProgram } from "../support/program.ts";
import { diskFolder } from "../support/stores.ts";

let folder: string;
let server: Program;
let url: string;
let admin: Client;
let worker: Client;
const programs: Program[] = [];

const type = (words: readonly string[], typed?: Typed): Promise<Said> => typeCommand(folder, words, typed);

/** Typed, and expected to end well. */
async function ok(words: readonly string[], typed?: Typed): Promise<Said> {
  const said = await type(words, typed);
  expect(said.code, `${words.join(" ")}\n${said.stdout}${said.stderr}`).toBe(0);
  return said;
}

const workflow = `
id: greet
steps:
  greet: {topic: greet, input: {name: "\${input.name}"}}
  shout: {topic: shout, depends_on: [greet], input: {text: "\${steps.greet.output.text}"}}
`;
const approval = `{"id": "ask", "steps": {"review": {"type": "approval"}}}`;

/** Takes one job and answers it. */
async function workOnce(topic: string, outcome: { readonly output: object } | { readonly error: string }) {
  const { jobs } = await worker.call("pollJobs", {
    body: { worker_id: "w1", topics: [topic], poll_id: crypto.randomUUID(), wait_ms: 20_000 },
  });
  const [job] = jobs;
  if (job === undefined) throw new Error(`no job of ${topic}`);
  const result =
    "output" in outcome
      ? { status: "succeeded" as const, output: outcome.output as Record<string, string> }
      : { status: "failed" as const, error: { message: outcome.error } };
  await worker.call("reportResults", {
    body: {
      worker_id: "w1",
      results: [{ job_id: job.job_id, claim_token: job.claim_token, ...result }],
    },
  });
}

async function workThrough(name: string): Promise<void> {
  await workOnce("greet", { output: { text: `hello ${name}` } });
  await workOnce("shout", { output: { text: `HELLO ${name}` } });
}

async function statusOf(runId: string): Promise<string> {
  return (await admin.call("getRun", { params: { id: runId } })).status;
}

async function started(words: readonly string[]): Promise<string> {
  return (await ok(["run", ...words, "--no-wait", "--json"])).json<{ run_id: string }>().run_id;
}

beforeAll(async () => {
  folder = diskFolder();
  server = startProgram("interlock.ts", { args: ["serve", "--port", "0"], cwd: folder });
  programs.push(server);
  ({ url } = await servedBy(server));
  const keys = JSON.parse(readFileSync(join(folder, ".interlock/keys.json"), "utf8")) as Record<
    string,
    string
  >;
  admin = createClient({ url, apiKey: keys.admin });
  worker = createClient({ url, apiKey: keys.worker });
  writeFileSync(join(folder, "greet.yaml"), workflow);
  await ok(["workflows", "save", "greet.yaml"]);
  await ok(["workflows", "apply", "-"], { input: approval });
});
afterAll(async () => {
  await Promise.all(programs.map((program) => program.kill()));
  rmSync(folder, { recursive: true, force: true });
});

describe("run", () => {
  test("shows the steps as they go, and ends with the outputs", async () => {
    const running = type(["run", "greet", "--input", "-"], { input: '{"name": "Ada"}' });
    await workThrough("Ada");
    const { code, stdout, stderr } = await running;
    expect(code, stderr).toBe(0);
    expect(stderr).toMatch(/^run run_\w+\n/);
    expect(stdout).toMatch(
      /run started\n.*greet waits for a worker\n.*greet done\n.*shout waits[\s\S]*run succeeded/,
    );
    expect(stdout).toMatch(/^greet +succeeded +1 .*\{"text":"hello Ada"\}$/m);
    expect(stdout).toMatch(/The run succeeded in .*\.\n$/);
  });

  test("with --json prints the run, once, and nothing else", async () => {
    const running = ok(["run", "greet", "--input", '{"name": "Bob"}', "--json"]);
    await workThrough("Bob");
    const { json, stderr } = await running;
    expect(json()).toMatchObject({
      status: "succeeded",
      steps: { shout: { output: { text: "HELLO Bob" } } },
    });
    expect(stderr).toBe("");
  });

  test("a run that fails ends with exit code 1 and says where to ask why", async () => {
    const running = type(["run", "greet", "--input", '{"name": "Eve"}']);
    await workOnce("greet", { error: "no such \u001b[31mname" });
    const { code, stdout, stderr } = await running;
    expect(code).toBe(1);
    expect(stdout).toMatch(/greet +failed.*no such \u{fffd}\[31mname/u);
    expect(stderr).toMatch(/Why: interlock why run_/);
  });

  test("the same key gives the same run, and another input with it is refused", async () => {
    const words = ["ask", "--key", "order-17"];
    const first = await started(words);
    expect(await started(words)).toBe(first);
    expect((await ok(["idempotency", "order-17", "--json"])).json()).toMatchObject({ run_id: first });
    const refused = await type(["run", ...words, "--input", '{"x": 1}']);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain("idempotency_key_reused");
    await ok(["runs", "cancel", first, "--reason", "test"]);
  });

  test("Ctrl-C leaves the run going and says how to follow it again", async () => {
    const said = await type(["run", "ask"], {
      when: { shows: /waits for an approval/, press: (interrupt) => interrupt() },
    });
    expect(said.code).toBe(130);
    const [, runId = ""] = /runs watch (run_\w+)/.exec(said.stderr) ?? [];
    expect(said.stderr).toContain(`decide: interlock approve ${runId}:review@1`);
    expect(await statusOf(runId)).toBe("waiting");
    const watching = ok(["runs", "watch", runId, "--json"]);
    await ok(["approve", `${runId}:review@1`, "--reason", "fine"]);
    expect((await watching).jsonLines().at(-1)).toMatchObject({ type: "run_completed", status: "succeeded" });
  });

  test("--timeout stops the wait, not the run", async () => {
    const said = await type(["run", "ask", "--timeout", "300ms", "--json"]);
    expect(said.code).toBe(6);
    const { run_id, status } = said.json<{ run_id: string; status: string }>();
    expect([status, await statusOf(run_id)]).toEqual(["waiting", "waiting"]);
    expect((await ok(["reject", `${run_id}:review@1`, "--json"])).json()).toMatchObject({
      state: "rejected",
    });
    expect((await type(["runs", "watch", run_id])).code).toBe(1);
  });
});

describe("refusals", () => {
  test("a broken definition is told with file, line and column", async () => {
    writeFileSync(join(folder, "bad.yaml"), "id: bad\nsteps:\n  a: {topic: x, depends_on: [zz]}\n");
    const said = await type(["workflows", "save", "bad.yaml"]);
    expect([said.code, said.stdout]).toEqual([1, ""]);
    expect(said.stderr).toMatch(/bad\.yaml:3:\d+: steps\.a\.depends_on\[0\]: there is no step "zz"/);
    const checked = await type(["workflows", "validate", "bad.yaml", "--json"]);
    expect(checked.code).toBe(1);
    expect(checked.json()).toMatchObject({ valid: false, problems: [{ line: 3 }] });
    writeFileSync(join(folder, "bad.json"), "{id: 1}");
    expect((await type(["workflows", "save", "bad.json"])).code).toBe(1);
  });

  test.each([
    [["runs", "show", "run_30_01a1dfb3bd99673f0de5e5142b9fde73"], 4],
    [["run", "nothing"], 4],
    [["tenants", "--api-key", "ilk_nonsense"], 5],
    [["locks", "show", "nobody"], 4],
  ])("%j ends with %i", async (words, code) => {
    const said = await type([...words, "--json"]);
    expect([said.code, said.stdout]).toEqual([code, ""]);
    expect(JSON.parse(said.stderr)).toMatchObject({ error: { code: expect.any(String) } });
  });

  test("a key that may not is told which key it was", async () => {
    const made = await ok(["keys", "create", "reader", "--role", "viewer", "--json"]);
    const { key } = made.json<{ key: string }>();
    const said = await type(["run", "greet"], { env: { INTERLOCK_URL: url, INTERLOCK_API_KEY: key } });
    expect(said.code).toBe(5);
    expect(said.stderr).toContain("The key is INTERLOCK_API_KEY.");
  });
});

describe("every command", () => {
  let scene: CliScene;

  beforeAll(async () => {
    const succeeded = await started(["greet", "--input", '{"name": "Cyd"}', "--key", "cyd"]);
    await workThrough("Cyd");
    const failed = await started(["greet", "--input", '{"name": "Dan"}']);
    await workOnce("greet", { error: "bank is down" });
    const waiting = await started(["ask"]);
    await admin.call("acquireLock", { body: { resource: "repo/main", owner: "agent 7", ttl_ms: 600_000 } });
    expect((await admin.runs.wait(failed, { timeoutMs: 10_000 })).status).toBe("failed");
    await ok(["workflows", "save", "-"], {
      input: "id: alone\nconcurrency: [{max: 1, at_limit: queue}]\nsteps: {a: {topic: alone}}\n",
    });
    await started(["alone"]);
    const queued = await started(["alone", "--priority", "2"]);
    scene = { succeeded, failed, waiting, queued, letter: `${failed}:greet@1` };
  });

  test.each(
    cliRows.map(
      (row, index) =>
        [
          row[0]({ succeeded: "S", failed: "F", waiting: "W", queued: "Q", letter: "L" }).join(" "),
          index,
        ] as const,
    ),
  )("%s", async (_, index) => {
    const [words, shows] = cliRows[index] as (typeof cliRows)[number];
    const asJson = await ok([...words(scene), "--json"]);
    expect(words(scene)[0] === "events" ? asJson.jsonLines().length > 0 : asJson.json()).toBeTruthy();
    if (words(scene)[0] === "approve") return;
    expect((await ok(words(scene))).stdout).toMatch(shows);
  });

  test("what is made once and taken away", async () => {
    const key = (
      await ok(["keys", "create", "mailer", "--role", "worker", "--expires-in", "1d", "--json"])
    ).json<{
      id: string;
      key: string;
    }>();
    expect(key.key).toMatch(/^ilk_/);
    expect((await ok(["keys", "revoke", key.id])).stdout).toContain("Revoked");
    expect((await ok(["tenants", "create", "acme", "--max-runs", "3", "--json"])).json()).toMatchObject({
      id: "acme",
      max_concurrent_runs: 3,
    });
    expect((await ok(["tenants", "remove", "acme"])).stdout).toContain("Tenant acme is removed");
    expect((await type(["tenants", "show", "acme"])).code).toBe(4);
    const listed = (await ok(["locks", "--all", "--json"])).json<{
      items: Array<{ name: string; fence: number }>;
    }>();
    const fence = listed.items.find(({ name }) => name === "repo/main")?.fence ?? 0;
    const words = ["locks", "break", "repo/main", "--reason", "test", "--fence"];
    expect((await type([...words, String(fence - 1)])).stderr).toContain("lock_superseded");
    expect((await ok([...words, String(fence)])).stdout).toContain("Taken away");
    await ok(["dlq", "delete", scene.letter]);
    expect((await ok(["dlq", "purge", "--older-than", "1d", "--json"])).json()).toEqual({ purged: 0 });
    await ok(["runs", "cancel", scene.failed]);
    const again = await ok(["runs", "rerun", scene.succeeded, "--from", "shout", "--no-wait", "--json"]);
    await workOnce("shout", { output: { text: "again" } });
    const { run_id } = again.json<{ run_id: string }>();
    expect((await ok(["runs", "watch", run_id])).stdout).toMatch(/greet +succeeded[\s\S]*The run succeeded/);
    expect((await ok(["runs", "delete", run_id])).stdout).toContain("Deleted");
    expect((await ok(["pools", "delete", "gpu", "--json"])).json()).toEqual({ name: "gpu", deleted: true });
    expect((await ok(["topics", "delete", "mail.send"])).stdout).toContain("Deleted the limit of mail.send.");
    expect((await type(["pools", "drain", "gpu"])).code).toBe(4);
    expect((await ok(["queue", "drop", scene.queued])).stdout).toContain("Dropped run_");
    expect((await type(["queue", "drop", scene.succeeded])).code).toBe(2);
    await ok(["workflows", "delete", "ask"]);
  });

  test("events are followed as they happen, from a place, to Ctrl-C", async () => {
    const following = type(["events", "--follow", "--after", "1", "--json"], {
      when: { shows: /tenant_changed[\s\S]*"actor"[\s\S]*workflow\/late/, press: (interrupt) => interrupt() },
    });
    await ok(["workflows", "save", "-"], { input: "id: late\nsteps: {a: {topic: t}}\n" });
    const { code, jsonLines } = await following;
    expect(code).toBe(0);
    const numbers = jsonLines().map(({ sequence }) => Number(sequence));
    expect(numbers).toEqual(numbers.map((_, index) => index + 2));
  });

  test("a change of what admits runs tells which drill to run, and no other change does", async () => {
    const set = (...words: string[]) => ok(["tenants", "set", "default", ...words]);
    const advice = "Run `interlock drill key-survives-429`";
    expect((await set("--max-runs", "500")).stderr).toContain(advice);
    expect((await set("--unset", "max-runs")).stderr).toContain(advice);
    const idle = await ok(["policy", "set", "admission.wait=fixed"]);
    expect(idle.stderr).toContain(advice);
    expect(idle.stderr).toContain("admission.wait does nothing now: it needs admission.strategy=lock");
    expect((await ok(["policy", "set", "admission.wait=unset"])).stderr).toContain(advice);
    expect((await set("--separate-duties", "no")).stderr).toBe("");
    expect((await set("--max-runs", "500", "--json")).stderr).toBe("");
    await set("--unset", "max-runs", "separate-duties");
  });

  test("doctor tells clocks that differ, and a key that the server does not know", async () => {
    const late = await ok(["doctor"], { nowMs: Date.now() + 90_000 });
    expect(late.stdout).toMatch(/warn +clocks: the server's clock is 8\d s behind this machine's/);
    const wrong = await type(["doctor", "--api-key", "ilk_nonsense", "--json"]);
    expect(wrong.code).toBe(1);
    const { findings } = wrong.json<{ findings: Array<{ subject: string; level: string }> }>();
    expect(findings.filter(({ level }) => level === "fail")).toMatchObject([{ subject: "key" }]);
  });

  test("every command of the program was typed here", () => {
    const tables = [import.meta.filename, join(import.meta.dirname, "../support/cli-rows.ts")];
    const typed = tables.map((file) => readFileSync(file, "utf8")).join("\n");
    const elsewhere = ["init", "policy", "canary", "drill"];
    const missing = leavesOf(createProgram({ terminal: processTerminal(), ending: "ok", format: "text" }))
      .filter((path) => !elsewhere.includes(path[0] ?? ""))
      .filter((path) => !typed.includes(path.map((name) => `"${name}"`).join(", ")));
    expect(missing).toEqual([]);
  });
});

function leavesOf(command: Command): string[][] {
  return command.commands
    .filter((child) => child.name() !== "help")
    .flatMap((child) =>
      child.commands.length === 0 ? [[child.name()]] : leavesOf(child).map((path) => [child.name(), ...path]),
    );
}

describe("as a real process", () => {
  test("it finds the server of its folder, and Ctrl-C leaves a run going", async () => {
    await ok(["workflows", "save", "-"], { input: approval });
    const program = startProgram("interlock.ts", { args: ["run", "ask"], cwd: folder });
    programs.push(program);
    const [, runId = ""] = await program.shows(/^run (run_\w+)$/m);
    await program.shows(/waits for an approval/);
    program.process.kill("SIGINT");
    expect(await program.ended, program.output()).toBe(130);
    expect(await statusOf(runId)).toBe("waiting");
  });

  test("backup of the running server; restore, once it has stopped", async () => {
    const data = ["--data", ".interlock"];
    expect((await ok(["backup", "running.db", ...data, "--json"])).json()).toMatchObject({
      bytes: expect.any(Number),
    });
    const busy = await type(["restore", "running.db", "--replace", ...data]);
    expect(busy.code).toBe(1);
    expect(busy.stderr).toMatch(/has .* open[\s\S]*store_in_use/);
    server.process.kill("SIGTERM");
    expect(await server.ended, server.output()).toBe(0);
    expect((await ok(["backup", "copy.db", ...data, "--json"])).json()).toMatchObject({
      bytes: expect.any(Number),
    });
    expect((await type(["restore", "copy.db", ...data])).code).toBe(1);
    expect((await ok(["restore", "copy.db", "--replace", ...data])).stdout).toContain("is kept in");
    const gone = await type(["runs"]);
    expect(gone.code).toBe(3);
    const away = startProgram("interlock.ts", { args: ["serve", "--roles", "nonsense"], cwd: folder });
    programs.push(away);
    expect(await away.ended).toBe(1);
    expect(away.output()).toMatch(/process\.roles.*config_invalid/s);
  });
});
