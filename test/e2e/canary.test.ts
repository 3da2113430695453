// Policies and canaries on a real server, over HTTP and by command: a bad policy rolls itself back and says why, a good one is kept.
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFailed, test } from "vitest";
import { type Client, createClient, type Worker, worker } from "../../src/sdk/index.ts";
import { typeCommand } from "../support/command-line.ts";
import { type Program, servedBy, startProgram } from "../support/program.ts";
import { diskFolder } from "../support/stores.ts";

const folder = diskFolder();
let server: Program;
let platform: Client;
let admin: Client;
let working: Worker;

beforeAll(async () => {
  server = startProgram("interlock.ts", { args: ["serve", "--port", "0"], cwd: folder });
  const { url } = await servedBy(server);
  const keys = JSON.parse(readFileSync(join(folder, ".interlock/keys.json"), "utf8")) as Record<
    string,
    string
  >;
  platform = createClient({ url, apiKey: keys.platform });
  admin = createClient({ url, apiKey: keys.admin });
  for (const [id, length] of [
    ["crowd", 20],
    ["group", 8],
  ] as const) {
    const items = Array.from({ length }, (_, index) => index);
    const each = { type: "worker", topic: "canary.item", for_each: JSON.stringify(items), max_parallel: 20 };
    await admin.workflows.save({ id, steps: { each } });
  }
  // All items of a run are done at about the same moment: their results meet.
  const topics = { "canary.item": () => ({ done: true }) };
  working = worker({ url, apiKey: keys.worker, concurrency: 100, topics });
});

afterAll(async () => {
  await working?.stop();
  await server?.kill();
  rmSync(folder, { recursive: true, force: true });
});

const type = (...words: string[]) => typeCommand(folder, words);

async function ok(...words: string[]) {
  const said = await type(...words);
  expect(said.code, `${words.join(" ")}\n${said.stdout}${said.stderr}`).toBe(0);
  return said;
}

describe("the commands", () => {
  test("show, set and take back policies", async () => {
    const of = ["--tenant", "default"];
    expect((await ok("policy", "show", ...of)).stdout).toMatch(/results\.strategy +handoff +the process's/);
    const set = await ok("policy", "set", "results.wait=fixed", ...of, "--percent", "10");
    expect(set.stdout).toMatch(/rollout-\w+: 10 % of the runs of default/);
    expect((await ok("policy", "rollback", ...of)).stdout).not.toContain("10 %");
    expect((await type("policy", "rollback", ...of)).code).toBe(4);
    expect((await type("policy", "set", "results.strategy=often")).stderr).toContain(
      'results.strategy must be handoff or retry, not "often"',
    );
    expect((await type("policy", "set", "result.strategy=retry")).stderr).toContain("there is no policy");
    const idle = await ok(
      "policy",
      "set",
      "renewal.policy=continue",
      "admission.wait=fixed",
      ...of,
      "--json",
    );
    const why = "and no run of this tenant follows that";
    expect(idle.json()).toMatchObject({
      warnings: [
        `admission.wait does nothing now: it needs admission.strategy=lock, ${why}`,
        `renewal.policy does nothing now: it needs results.strategy=retry, ${why}`,
      ],
    });
    const acting = await ok("policy", "set", "results.strategy=retry", "renewal.policy=unset", ...of);
    expect(acting.stderr).toContain("Warning: admission.wait does nothing now");
    expect(acting.stderr).not.toContain("renewal.policy");
    await ok("policy", "set", "results.strategy=unset", ...of);
    const cleared = await ok("policy", "set", "admission.wait=unset", ...of, "--json");
    expect(cleared.json()).toMatchObject({ own: { policies: {} } });
  });

  test("take numbers within the bounds of their settings, and no others", async () => {
    const of = ["--tenant", "default"];
    const set = await ok(
      "policy",
      "set",
      "locks.run.pollMs=50",
      "results.strategy=retry",
      ...of,
      "--percent",
      "30",
    );
    expect(set.stdout).toMatch(/locks\.run\.pollMs +100 +the process's setting +50\n/);
    await ok("policy", "rollback", ...of);
    for (const typed of ["0", "-5", "1e3", "", "fast", "0x10", "60001"])
      expect((await type("policy", "set", `results.retry.baseMs=${typed}`)).stderr).toContain(
        "results.retry.baseMs must be whole, 1 to 60000 ms",
      );
    const tooFew = platform.policies.set({ policies: { "results.retry.baseMs": 0 } });
    await expect(tooFew).rejects.toThrow("must be whole, 1 to 60000 ms");
    expect((await type("policy", "set", "locks.admission.waitMs=9000")).stderr).toContain(
      "locks.admission: waitMs 9000 must be below ttlMs 10000 less a tenth",
    );
    const trial = ["canary", "start", "--percent", "30"];
    expect((await type(...trial)).stderr).toContain("name what is to be tried");
    expect((await type(...trial, "locks.job.waitMs=500")).stderr).toContain(
      "interlock policy set locks.job.waitMs=500 --percent 30",
    );
    expect((await ok("policy", "show", "--json")).json()).toMatchObject({ platform: { policies: {} } });
  });

  test("start, show and end a canary", async () => {
    expect((await ok("canary", "list")).stdout).toContain("No canaries");
    const trial = ["canary", "start", "--policy", "results.strategy=retry", "--percent", "10", "--for", "7d"];
    const mistyped = await type(...trial, "--guard", "latency<=1.2x");
    expect(mistyped.stderr).toContain('guards.0: at character 1: there is no measure "latency"');
    const own = ["--guard", "result_latency_p95<=1.2x", "--tenant", "default"];
    const { id, guards } = (await ok(...trial, ...own, "--json")).json<{ id: string; guards: string[] }>();
    expect(guards).toContain("result_latency_p95<=1.2x");
    expect((await type(...trial, ...own)).stderr).toContain("rollout_exists");
    expect((await ok("canary", "status")).stdout).toMatch(/state +running[\s\S]*missing +200 more results/);
    expect((await ok("canary", "list")).stdout).toMatch(/running +results\.strategy=retry +10 +default/);
    expect((await ok("canary", "rollback", id, "--reason", "seen")).stdout).toMatch(/because +seen/);
    expect((await ok("canary", "status", id, "--json")).json()).toMatchObject({ state: "rolled_back" });
    expect((await type("canary", "status", id, "--watch")).code).toBe(1);
    expect((await type("canary", "keep", id)).stderr).toContain("canary_ended");
    expect((await type("canary", "keep", "canary-nobody")).code).toBe(4);
  });
});

/** Runs, four at a time, until the canary has ended. */
async function loadUntilEnded(id: string, withinMs: number) {
  const endMs = performance.now() + withinMs;
  const hasEnded = (state: string) => ["kept", "rolled_back", "inconclusive", "stopped"].includes(state);
  let status = await platform.canaries.get(id);
  const lanes = Array.from({ length: 4 }, async () => {
    while (!hasEnded(status.state) && performance.now() < endMs) {
      const { run_id } = await admin.runs.start("crowd", {});
      await admin.runs.wait(run_id);
    }
  });
  const ended = expect.poll(
    async () => {
      status = await platform.canaries.get(id);
      return hasEnded(status.state);
    },
    { timeout: withinMs, interval: 250 },
  );
  await ended.toBe(true);
  await Promise.all(lanes);
  return status;
}

const quick = { tenant: "default", percent: 50, window_seconds: 1, samples_min: 40 };
const retry = { "results.strategy": "retry", "results.wait": "fixed" } as const;
const handoff = { "results.strategy": "handoff" } as const;

describe("a canary", () => {
  test("with a bad policy rolls itself back within 30 s and says why", async () => {
    onTestFailed(() => console.log(server.output().slice(-5_000)));
    const bad = await platform.canaries.start({ ...quick, policies: retry, for_seconds: 3_600 });
    expect(bad.state).toBe("running");
    const beganMs = performance.now();
    const back = await loadUntilEnded(bad.id, 60_000);
    expect(performance.now() - beganMs).toBeLessThan(30_000);
    expect(back.state, JSON.stringify(back)).toBe("rolled_back");
    expect(back.reason).toMatch(/ against .* of control .*, broken in \d+ windows in a row; /);
    expect(back.arms.control.measures.busy_retries_per_result).toBe(0);
    expect(back.arms.canary.measures.busy_retries_per_result).toBeGreaterThan(0.1);
    const now = await platform.policies.get({ tenant: "default" });
    expect(now.own).toEqual({ policies: {} });
  });

  test("with a good policy is kept, and the policy is set for all", async () => {
    onTestFailed(() => console.log(server.output().slice(-5_000)));
    await platform.policies.set({ tenant: "default", policies: retry });
    const good = await platform.canaries.start({ ...quick, policies: handoff, for_seconds: 10 });
    const kept = await loadUntilEnded(good.id, 60_000);
    expect(kept.state, JSON.stringify(kept)).toBe("kept");
    expect(kept.reason).toContain("both measures got better");
    const after = await platform.policies.get({ tenant: "default" });
    expect(after.own).toEqual({ policies: { ...retry, ...handoff } });
  });

  test("with a bad number rolls itself back within 30 s, and what is set stays", async () => {
    onTestFailed(() => console.log(server.output().slice(-5_000)));
    // Without a wait at the gateway every result that meets a busy run comes back after the delay.
    const set = ["results.strategy=retry", "results.retry.baseMs=200", "locks.run.waitMs=0"];
    await ok("policy", "set", ...set, "--tenant", "default");
    const trial = ["results.retry.baseMs=5000", "--percent", "30"];
    const short = ["--window", "1s", "--samples", "20", "--windows-in-a-row", "2", "--tenant", "default"];
    const bad = (await ok("canary", "start", ...trial, ...short, "--json")).json<{ id: string }>();
    // A run every quarter of a second: results of both sides arrive while others wait for 5 s.
    const state = async () => {
      await admin.runs.start("group", {});
      return (await platform.canaries.get(bad.id)).state;
    };
    await expect.poll(state, { timeout: 30_000, interval: 250 }).toBe("rolled_back");
    const back = await platform.canaries.get(bad.id);
    expect(back.reason).toMatch(/(lock_wait|result_latency)_p9[59] was .* against .* of control/);
    const now = await platform.policies.get({ tenant: "default" });
    expect(now.own?.policies).toMatchObject({ "results.retry.baseMs": 200, "locks.run.waitMs": 0 });
    expect(now.own?.rollout).toBeUndefined();
  });
});
