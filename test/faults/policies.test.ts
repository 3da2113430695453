// Policies and canaries of two processes on one Redis and one NATS: a change acts everywhere within 5 s, and samples are shared.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import { type ControlPlane, createControlPlane } from "../../src/control-plane.ts";
import { armOf } from "../../src/domain/policy.ts";
import type { RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import {
  type NatsServer,
  type RedisServer,
  startNatsServer,
  startRedisServer,
} from "../../src/drills/servers/start-servers.ts";
import { silentLog } from "../support/silent-log.ts";

const tenant = "acme" as TenantId;
const caller = { tenant, actor: "ann" };

let redis: RedisServer;
let nats: NatsServer;
let p: ControlPlane;
let q: ControlPlane;
beforeAll(async () => {
  [redis, nats] = await Promise.all([startRedisServer(), startNatsServer()]);
  const open = (instance: string, roles: string) =>
    createControlPlane({
      overrides: {
        "store.kind": "redis",
        "store.redisUrls": redis.url,
        "bus.kind": "nats",
        "bus.natsUrls": nats.url,
        "process.roles": roles,
        "locks.run.waitMs": 0,
      },
      ports: { log: silentLog, instance },
    });
  // The first only serves requests, the second also judges: it knows of the first's samples by hearing of them.
  [p, q] = [await open("p", "gateway"), await open("q", "gateway,engine,scheduler")];
  await p.api.createTenant({ actor: "ann", tenant, settings: {} });
  await p.api.saveWorkflow({ caller, definition: { id: "one", steps: { only: { topic: "work" } } } });
});
afterAll(async () => {
  await Promise.all([p?.close(), q?.close()]);
  await Promise.all([redis?.stop(), nats?.stop()]);
});

let polls = 0;

/** A run whose one job is claimed and whose lock somebody else has. */
async function busyRun(plane: ControlPlane): Promise<{ readonly runId: RunId; readonly job: ClaimedJob }> {
  const started = await plane.api.startWorkflow({ caller, workflow: "one", input: {} });
  if (started.kind !== "admitted") throw new Error(started.kind);
  polls += 1;
  const request = {
    caller,
    worker: "w",
    topics: ["work"],
    pollId: `poll ${polls}`,
    places: 1,
    waitMs: 10_000,
  };
  const polled = await plane.api.pollJobs(request);
  const [job] = polled.kind === "jobs" ? polled.jobs : [];
  if (job === undefined) throw new Error(polled.kind);
  return { runId: started.runId, job };
}

async function occupy(runId: RunId): Promise<void> {
  const lock = { namespace: "run", name: runId } as const;
  const token = `occupier of ${runId}` as never;
  const request = { tenant, lock, token, instance: "other", ttlMs: 60_000 };
  const taken = await q.ports.store.acquireLock(request, { deadlineMs: 5_000 });
  if (taken.kind !== "acquired") throw new Error(taken.kind);
}

async function report(plane: ControlPlane, { job: { job, token } }: { readonly job: ClaimedJob }) {
  return plane.api.reportResult({ caller, jobId: job.jobId, token, outcome: "succeeded", output: 1 });
}

test("what one process sets acts in the other within 5 s, and so does taking it back", async () => {
  // Of a run of its own each time: what was taken once is taken, whatever is set later.
  const answered = async () => {
    const run = await busyRun(q);
    await occupy(run.runId);
    return (await report(q, run)).kind;
  };
  expect(await answered()).toBe("accepted");
  const setMs = performance.now();
  const set = await p.api.rollOut({
    actor: "ann",
    tenant: undefined,
    policies: { "results.strategy": "retry" },
    percent: 99.9,
  });
  if (set.kind !== "policies") throw new Error(set.kind);
  await expect.poll(answered, { interval: 50 }).toBe("run_busy");
  expect(performance.now() - setMs).toBeLessThan(5_000);
  const backMs = performance.now();
  expect((await p.api.removeRollout({ actor: "ann", tenant: undefined })).kind).toBe("policies");
  await expect.poll(answered, { interval: 50 }).toBe("accepted");
  expect(performance.now() - backMs).toBeLessThan(5_000);
});

test("a canary is judged by the samples of all processes, one of which would not be enough", async () => {
  const started = await p.api.startCanary({
    actor: "ann",
    tenant,
    policies: { "results.strategy": "retry", "results.wait": "fixed" },
    percent: 50,
    forMs: 3_600_000,
    windowMs: 1_000,
    guards: [],
    samplesMin: 30,
    windowsInARow: 2,
  });
  if (started.kind !== "canary") throw new Error(started.kind);
  const { id } = started.status.canary;
  const arms = { canary: { p: 0, q: 0 }, control: { p: 0, q: 0 } };
  const stateOf = async () => {
    const answer = await p.api.getCanary({ id });
    return answer.kind === "canary" ? answer.status : undefined;
  };
  // Twenty of each side a process, in four windows: p or q alone has too few.
  const each = 20;
  const isEnough = () => Object.values(arms).every((of) => of.p >= each && of.q >= each);
  for (let round = 0; !isEnough() && round < 400; round += 1) {
    const name = round % 2 === 0 ? "p" : "q";
    const plane = name === "p" ? p : q;
    const run = await busyRun(plane);
    const arm = armOf({ id, percent: 50 }, run.runId);
    if (arms[arm][name] >= each) continue;
    arms[arm][name] += 1;
    await occupy(run.runId);
    await report(plane, run);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
  await expect.poll(async () => (await stateOf())?.canary.state, { interval: 200 }).toBe("rolled_back");
  const status = await stateOf();
  expect(status?.canary.reason).toContain("busy_retries_per_result was");
  const { canary, control } = status?.book.totals ?? { canary: undefined, control: undefined };
  expect(canary?.results).toBeGreaterThanOrEqual(30);
  expect(control?.results).toBeGreaterThanOrEqual(30);
  // More than either process has taken itself, and never more than both.
  expect(canary?.results).toBeLessThanOrEqual(2 * each);
  const policies = await p.api.getPolicies({ tenant });
  expect(policies.kind === "policies" && policies.view.own).toEqual({ policies: {} });
});
