// npm start as a user meets it: the demonstration, the printed commands, restarts, taken ports, lost keys and the stop.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Program, startProgram } from "../support/program.ts";

const shell = promisify(execFile);
const isUp = /Ctrl-C stops the server/;

let folder: string;
let programs: Program[];

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "interlock-start-")));
  programs = [];
});
afterEach(async () => {
  await Promise.all(programs.map((program) => program.kill()));
  rmSync(folder, { recursive: true, force: true });
});

/** In a folder of its own, with the data in `.interlock` as by default. */
function start(args: readonly string[] = [], settings: Readonly<Record<string, string>> = {}): Program {
  const program = startProgram("start.ts", {
    args,
    cwd: folder,
    settings: { GATEWAY_PORT: "0", ...settings },
  });
  programs.push(program);
  return program;
}

async function stop(program: Program): Promise<void> {
  program.process.kill("SIGTERM");
  expect(await program.ended, program.output()).toBe(0);
}

const dataFile = (name: string) => join(folder, ".interlock", name);
const runOf = (output: string, number: 1 | 2) =>
  new RegExp(`^${number}\\. .*: (run_\\w+), (\\w+)$`, "m").exec(output);

function commandsIn(output: string): string[] {
  return output.split("\n").flatMap((line) => (/^ +curl /.test(line) ? [line] : []));
}

async function typeIn(command: string): Promise<Record<string, unknown>> {
  const { stdout } = await shell("bash", ["-c", command], { cwd: folder });
  expect(stdout.endsWith("\n"), "the prompt comes on a line of its own").toBe(true);
  return JSON.parse(stdout) as Record<string, unknown>;
}

async function statusWithin(command: string, status: string): Promise<Record<string, unknown>> {
  for (let tries = 0; ; tries += 1) {
    const run = await typeIn(command);
    if (run.status === status || tries === 100) return run;
    await sleep(50);
  }
}

test("a first start runs a workflow, leaves one waiting, and the printed commands finish it; a restart goes on", async () => {
  const first = start();
  await first.shows(isUp);
  const output = first.output();
  expect(output).not.toMatch(/warning/i);
  expect(runOf(output, 1)?.[2]).toBe("succeeded");
  expect(runOf(output, 2)?.[2]).toBe("waiting");
  for (const step of ["research", "write", "publish"]) {
    expect(output).toMatch(new RegExp(`step_completed +${step}$`, "m"));
  }
  expect(output).toMatch(/run_completed +status=succeeded/);
  expect(output).toMatch(/step_condition_evaluated +large result=true/);
  const keys = JSON.parse(readFileSync(dataFile("keys.json"), "utf8")) as Record<string, string>;
  for (const name of ["platform", "admin", "worker"]) expect(output).toContain(keys[name]);
  for (const name of ["keys.json", "curl-headers"]) expect(statSync(dataFile(name)).mode & 0o777).toBe(0o600);

  const [pending, approve, ending, ...more] = commandsIn(output) as [string, string, string];
  expect(more).toEqual([]);
  const { items } = (await typeIn(pending)) as { readonly items: ReadonlyArray<{ readonly run_id: string }> };
  expect(items.map((item) => item.run_id)).toEqual([runOf(output, 2)?.[1]]);
  expect(await typeIn(approve)).toMatchObject({ state: "approved" });
  expect(await statusWithin(ending, "succeeded")).toMatchObject({
    status: "succeeded",
    steps: { pay: { status: "succeeded", output: { receipt: "250 paid back for A-1001" } } },
  });
  await stop(first);
  expect(first.output()).toMatch(/Stopped\.\n$/);

  // The first run is found again by its key. The second has ended, so that the next one waits, and a third start finds that.
  const second = start(["--once"]);
  expect(await second.ended, second.output()).toBe(0);
  expect(runOf(second.output(), 1)?.slice(1)).toEqual([runOf(output, 1)?.[1], "succeeded"]);
  expect(runOf(second.output(), 2)?.[2]).toBe("waiting");
  expect(runOf(second.output(), 2)?.[1]).not.toBe(runOf(output, 2)?.[1]);
  const third = start(["--once"]);
  expect(await third.ended, third.output()).toBe(0);
  expect(runOf(third.output(), 2)?.[1]).toBe(runOf(second.output(), 2)?.[1]);
  // Shown once: neither the output of a later start nor the data holds the secrets.
  const data = readFileSync(dataFile("interlock.db"), "latin1");
  for (const key of Object.values(keys)) {
    const secret = key.split("_").at(-2) as string;
    for (const text of [second.output(), third.output(), data]) expect(text).not.toContain(secret);
  }
});

test("a taken port is named and the next free one used; a second start says who has the data", async () => {
  const blocker = createServer();
  const port = await new Promise<number>((resolve) => {
    blocker.listen(0, "127.0.0.1", () => resolve((blocker.address() as { port: number }).port));
  });
  const first = start([], { GATEWAY_PORT: String(port) });
  await first.shows(isUp);
  expect(first.output()).toContain(`Port ${port} is taken`);
  const url = /up at (http:\S+):/.exec(first.output())?.[1] as string;
  expect(Number(new URL(url).port)).toBeGreaterThan(port);
  expect((await fetch(`${url}/readyz`)).status).toBe(200);
  blocker.close();

  const second = start(["--fresh"]);
  expect(await second.ended).toBe(1);
  expect(second.output()).toContain(`process ${first.process.pid}, which serves ${url},`);
  expect(second.output()).toContain("Stop the other process, or choose another data folder.");
  expect((await fetch(`${url}/readyz`)).status, "--fresh leaves the data of a running server alone").toBe(
    200,
  );
  await stop(first);
});

test("--fresh starts empty, a lost keys.json is said, and --new-keys makes new ones beside the old", async () => {
  const first = start(["--once"]);
  expect(await first.ended, first.output()).toBe(0);
  const before = JSON.parse(readFileSync(dataFile("keys.json"), "utf8")) as { readonly admin: string };
  rmSync(dataFile("keys.json"));

  const lost = start(["--once"]);
  expect(await lost.ended, lost.output()).toBe(0);
  expect(lost.output()).toMatch(/There is no \.interlock\/keys\.json.*npm start -- --new-keys/);

  const renewed = start(["--new-keys"]);
  await renewed.shows(isUp);
  const after = JSON.parse(readFileSync(dataFile("keys.json"), "utf8")) as { readonly admin: string };
  expect(after.admin).not.toBe(before.admin);
  const url = /up at (http:\S+):/.exec(renewed.output())?.[1] as string;
  for (const key of [before.admin, after.admin]) {
    expect((await fetch(`${url}/api/v1/workflows`, { headers: { "x-api-key": key } })).status).toBe(200);
  }
  await stop(renewed);

  const fresh = start(["--once", "--fresh"]);
  expect(await fresh.ended, fresh.output()).toBe(0);
  expect(runOf(fresh.output(), 1)?.[1]).not.toBe(runOf(first.output(), 1)?.[1]);
  expect(fresh.output()).toContain("New API keys, shown only this once");
});

test("data that is gone while its keys are still there is not replaced by an empty store, unless that is asked for", async () => {
  const first = start(["--once"]);
  expect(await first.ended, first.output()).toBe(0);
  const empty = () => writeFileSync(dataFile("interlock.db"), "");
  for (const lose of [() => rmSync(dataFile("interlock.db")), empty]) {
    lose();
    const refused = start(["--once"]);
    expect(await refused.ended, refused.output()).toBe(1);
    expect(refused.output()).toContain("store_missing");
    for (const name of ["interlock.db", "keys.json"])
      expect(refused.output()).toContain(join(".interlock", name));
    expect(refused.output()).toContain("--fresh");
  }
  expect(statSync(dataFile("interlock.db")).size, "the refusal leaves all as it is").toBe(0);
  const fresh = start(["--once", "--fresh"]);
  expect(await fresh.ended, fresh.output()).toBe(0);
});

test("the plain server prints one line and shows its metrics; a stop lets a waiting poll answer", async () => {
  const settings = { DATA_DIRECTORY: join(folder, "data"), GATEWAY_PORT: "0" };
  const program = startProgram("serve.ts", { settings });
  programs.push(program);
  const [line] = await program.shows(/^\{.*\}$/m);
  const { url, keys_file } = JSON.parse(line) as { readonly url: string; readonly keys_file: string };
  expect(program.output()).toBe(`${line}\n`);
  const keys = JSON.parse(readFileSync(keys_file, "utf8")) as Record<string, string>;
  const as = (role: string) => ({ headers: { "x-api-key": keys[role] as string } });
  const metrics = await fetch(`${url}/metrics`, as("platform"));
  expect(await metrics.text()).toContain("# TYPE interlock_http_requests_total counter");
  const poll = fetch(`${url}/api/v1/jobs/poll`, {
    method: "POST",
    headers: { ...as("worker").headers, "content-type": "application/json" },
    body: JSON.stringify({ worker_id: "w", topics: ["t"], poll_id: "p", wait_ms: 30_000 }),
  });
  await expect
    .poll(async () => (await fetch(`${url}/api/v1/workers`, as("admin"))).text())
    .toContain('"worker_id":"w"');
  await stop(program);
  expect(await (await poll).json()).toEqual({ jobs: [] });
});

test("a demonstration that is refused leaves the server up", async () => {
  const first = start(["--once"]);
  expect(await first.ended, first.output()).toBe(0);
  const second = start();
  await second.shows(isUp);
  const [, approve] = commandsIn(second.output()) as [string, string];
  await typeIn(approve);
  const url = /up at (http:\S+):/.exec(second.output())?.[1] as string;
  const { platform } = JSON.parse(readFileSync(dataFile("keys.json"), "utf8")) as {
    readonly platform: string;
  };
  const changed = await fetch(`${url}/api/v1/tenants/default`, {
    method: "PATCH",
    headers: { "x-api-key": platform, "content-type": "application/json" },
    body: JSON.stringify({ max_concurrent_runs: 0 }),
  });
  expect(changed.status).toBe(200);
  await stop(second);
  const third = start();
  await third.shows(isUp);
  expect(third.output()).toContain("The demonstration ended early");
  expect(third.output()).toContain("max_concurrent_runs_reached");
  await stop(third);
});

test("a stop right after the first line ends as cleanly as a late one", async () => {
  const program = start();
  await program.shows(/Interlock is up at/);
  await stop(program);
  expect(program.output()).toContain("Stopped.");
});

test("a wrong option and another store are refused in words", async () => {
  const wrong = start(["--onec"]);
  expect(await wrong.ended).toBe(2);
  expect(wrong.output()).toContain("usage: npm start");
  const other = start([], { STORE: "memory" });
  expect(await other.ended).toBe(1);
  expect(other.output()).toContain("npm start is the embedded server");
});
