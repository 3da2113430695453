// The embedded server on a machine whose wall clock is set: delays, claims and locks go by the time that has really passed.
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFailed, test } from "vitest";
import { typeCommand } from "../support/command-line.ts";
import { createHttpClient, type HttpClient } from "../support/http-client.ts";
import { type Program, servedBy, startProgram } from "../support/program.ts";
import { diskFolder } from "../support/stores.ts";

const hourMs = 3_600_000;
const leaseMs = 1_000;
const testTimeoutMs = 120_000;

/** Much longer than any wait of these tests, and much shorter than the hour by which the clock is set. */
const patience = { timeout: 30_000, interval: 50 };

let directory: string;
let server: Program;
beforeEach(() => {
  directory = diskFolder();
  setWallClock(0);
});
afterEach(async () => {
  await server.kill();
  rmSync(directory, { recursive: true, force: true });
});

function setWallClock(offsetMs: number): void {
  writeFileSync(join(directory, "wall-clock-offset"), String(offsetMs));
}

type Served = Record<"admin" | "worker", HttpClient> & { doctor(): Promise<string> };

async function serve(): Promise<Served> {
  const faked = new URL("../support/faked-wall-clock.mjs", import.meta.url);
  faked.searchParams.set("file", join(directory, "wall-clock-offset"));
  server = startProgram("serve.ts", {
    imports: [faked.href],
    settings: { DATA_DIRECTORY: directory, GATEWAY_PORT: "0", JOBS_LEASE_MS: String(leaseMs) },
  });
  const { url } = await servedBy(server);
  const keys = JSON.parse(readFileSync(join(directory, "keys.json"), "utf8")) as Record<string, string>;
  const clientOf = (role: string) => createHttpClient(() => url, keys[role] as string);
  const doctor = async () => {
    const env = { INTERLOCK_URL: url, INTERLOCK_API_KEY: keys.admin as string };
    return (await typeCommand(directory, ["doctor"], { env })).stdout;
  };
  return { admin: clientOf("admin"), worker: clientOf("worker"), doctor };
}

async function saveWorkflows(admin: HttpClient): Promise<void> {
  const delayed = { id: "delayed", steps: { wait: { type: "delay", delay_sec: 1 } } };
  const worked = { id: "worked", steps: { work: { topic: "work" } } };
  for (const workflow of [delayed, worked])
    expect((await admin.post("/workflows", workflow)).status).toBe(201);
}

async function start(admin: HttpClient, workflow: string): Promise<string> {
  const { status, body } = await admin.post<{ run_id: string }>(`/workflows/${workflow}/runs`, {});
  expect(status).toBe(200);
  return body.run_id;
}

const statusOf = async (admin: HttpClient, runId: string) =>
  (await admin.get<{ status: string }>(`/workflow-runs/${runId}`)).body.status;

type Claimed = { readonly run_id: string; readonly job_id: string; readonly claim_token: string };

let polls = 0;
async function claim(worker: HttpClient, name: string): Promise<readonly Claimed[]> {
  polls += 1;
  const poll = { worker_id: name, poll_id: `${name}-${polls}`, topics: ["work"], wait_ms: 0 };
  return (await worker.post<{ jobs: readonly Claimed[] }>("/jobs/poll", poll)).body.jobs;
}

/** The job of this run, as soon as it is this worker's. */
async function claimJobOf(worker: HttpClient, name: string, runId: string): Promise<Claimed> {
  let job: Claimed | undefined;
  const look = async () => {
    job = (await claim(worker, name))[0];
    return job?.run_id;
  };
  await expect.poll(look, patience).toBe(runId);
  return job as Claimed;
}

const acquire = (admin: HttpClient, resource: string, ttlMs: number) =>
  admin.post<{ token: string; code?: string }>("/locks/acquire", { resource, ttl_ms: ttlMs, wait_ms: 0 });

/** What goes by time: a delay fires, a silent worker's job comes back, a lock's ttl ends. */
async function expectTimePasses(clients: Record<"admin" | "worker", HttpClient>, round: string) {
  const { admin, worker } = clients;
  const delayed = await start(admin, "delayed");
  const worked = await start(admin, "worked");
  await claimJobOf(worker, `${round}-silent`, worked);
  expect((await acquire(admin, round, 300)).status).toBe(200);
  await expect.poll(() => statusOf(admin, delayed), patience).toBe("succeeded");
  await expect.poll(async () => (await acquire(admin, round, 300)).status, patience).toBe(200);
  const { job_id, claim_token } = await claimJobOf(worker, `${round}-next`, worked);
  const result = { job_id, claim_token, status: "succeeded", output: {} };
  await worker.post("/jobs/results", { worker_id: `${round}-next`, results: [result] });
  await expect.poll(() => statusOf(admin, worked), patience).toBe("succeeded");
}

test(
  "a wall clock that is set back an hour, live or while the server is down, holds nothing up, and is logged",
  async () => {
    onTestFailed(() => console.log(server.output().slice(-5_000)));
    const clients = await serve();
    await saveWorkflows(clients.admin);
    await expectTimePasses(clients, "before");
    setWallClock(-hourMs);
    await expectTimePasses(clients, "set-back");
    await server.shows(/the wall clock/);
    await server.kill();
    setWallClock(-2 * hourMs);
    await expectTimePasses(await serve(), "restarted");
  },
  testTimeoutMs,
);

test(
  "a wall clock that is set forward an hour takes no lock from its holder, and is logged",
  async () => {
    onTestFailed(() => console.log(server.output().slice(-5_000)));
    const { admin, doctor } = await serve();
    const held = await acquire(admin, "held", 60_000);
    expect(held.status).toBe(200);
    setWallClock(hourMs);
    await server.shows(/the wall clock/);
    const aheadMs = async () => (await admin.get<{ store_ahead_ms: number }>("/status")).body.store_ahead_ms;
    await expect.poll(aheadMs, patience).toBeLessThan(-hourMs / 2);
    expect(await doctor()).toMatch(/store's time: .* behind the server's wall clock/);
    expect((await acquire(admin, "held", 60_000)).body).toMatchObject({ code: "lock_unavailable" });
    const renewed = await admin.post("/locks/renew", {
      ...{ resource: "held", token: held.body.token, ttl_ms: 60_000 },
    });
    expect(renewed.status).toBe(200);
  },
  testTimeoutMs,
);
