// Several processes of each kind on Redis and NATS, under load while they die: every run ends exactly once.
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, onTestFailed, test } from "vitest";
import { type Cluster, type ServerProcess, startCluster } from "../support/cluster.ts";
import {
  auditRuns,
  type Crew,
  makeTenants,
  type Submissions,
  startCrew,
  submitRuns,
  untilNoRunIsActive,
} from "../support/cluster-load.ts";

let cluster: Cluster | undefined;
let crew: Crew | undefined;
afterEach(async () => {
  await crew?.stop();
  await cluster?.stop();
  cluster = undefined;
  crew = undefined;
});

/** Short leases, so that what was in somebody's hands comes back soon. */
const leaseMs = 3_000;
const settings = { JOBS_LEASE_MS: String(leaseMs), LOCK_RUN_HANDOFF_TTL_MS: "1000" };

test("2,000 runs of three steps survive the death of a worker, an engine and a gateway, and a restart of Redis", async () => {
  const shape = { gateways: 2, engines: 2, schedulers: 1, settings };
  const { retries } = await runLoad({
    shape,
    runs: 2_000,
    perSecond: 150,
    tenants: 1,
    disturb: everything,
  });
  expect(retries, "clients felt the death of their gateway and of Redis").toBeGreaterThan(0);
}, 150_000);

test("200 runs on a Redis Cluster of three masters survive the death of a worker and an engine", async () => {
  const shape = { gateways: 2, engines: 2, schedulers: 1, store: "redis cluster", settings } as const;
  await runLoad({ shape, runs: 200, perSecond: 80, tenants: 6, disturb: workerAndEngine });
});

type Scene = { readonly cluster: Cluster; readonly crew: Crew; at(share: number): Promise<void> };

async function everything({ cluster: { engines, gateways, restartRedis }, crew: { workers }, at }: Scene) {
  await at(0.15);
  workers[0]?.process.kill("SIGKILL");
  await at(0.3);
  await killAndStartAgain(engines[0] as ServerProcess);
  await at(0.45);
  await restartRedis();
  await at(0.6);
  // Long after its claims are lost: what it then reports is refused.
  workers[1]?.process.kill("SIGSTOP");
  await sleep(leaseMs + 1_500);
  workers[1]?.process.kill("SIGCONT");
  await at(0.75);
  await killAndStartAgain(gateways[1] as ServerProcess);
}

async function workerAndEngine({ cluster: { engines }, crew: { workers }, at }: Scene) {
  await at(0.25);
  workers[0]?.process.kill("SIGKILL");
  await at(0.5);
  await engines[0]?.kill();
}

async function killAndStartAgain(process: ServerProcess): Promise<void> {
  await process.kill();
  await process.startAgain();
}

type Load = {
  readonly shape: Parameters<typeof startCluster>[0];
  readonly runs: number;
  readonly perSecond: number;
  readonly tenants: number;
  disturb(scene: Scene): Promise<void>;
};

async function runLoad({
  shape,
  runs,
  perSecond,
  tenants: count,
  disturb,
}: Load): Promise<{ retries: number }> {
  const started = await startCluster(shape);
  cluster = started;
  onTestFailed(() => console.log(started.report().slice(-20_000)));
  const tenants = await makeTenants(started, { count, runsAtOnce: 300 });
  const working = await startCrew(started, tenants, 3);
  crew = working;
  const startMs = performance.now();
  const submissions = submitRuns(started, tenants, { runs, perSecond, clients: 24 });
  const at = (share: number) => submitted(submissions, share * runs);
  await Promise.all([submissions.finished, disturb({ cluster: started, crew: working, at })]);
  await untilNoRunIsActive(started, tenants);
  const seconds = (performance.now() - startMs) / 1_000;
  expect(submissions.runOfKey.size).toBe(runs);
  const audit = await auditRuns(started, tenants, submissions, working.effects());
  expect(audit.secondAttempts, "the death of a worker was felt").toBeGreaterThan(0);
  console.log(
    `${runs} runs of 3 steps in ${seconds.toFixed(1)} s (${(runs / seconds).toFixed(0)} runs/s), ` +
      `${submissions.retries()} requests sent again, ${audit.secondAttempts} steps done again, ` +
      `longest run ${(audit.longestMs / 1_000).toFixed(1)} s`,
  );
  return { retries: submissions.retries() };
}

async function submitted({ runOfKey, finished }: Submissions, count: number): Promise<void> {
  const reached = expect.poll(() => runOfKey.size, { timeout: 60_000, interval: 5 });
  await Promise.race([reached.toBeGreaterThanOrEqual(count), finished]);
}
