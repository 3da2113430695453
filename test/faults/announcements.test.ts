// Announcements between processes on one Redis, over NATS: with polls a minute apart, whatever comes sooner was announced.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ControlPlane, createControlPlane } from "../../src/control-plane.ts";
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

/** Long enough that nothing in this file could wait for it. */
const pollMs = 10_000;

let redis: RedisServer;
let nats: NatsServer;
let p: ControlPlane;
let q: ControlPlane;
beforeAll(async () => {
  [redis, nats] = await Promise.all([startRedisServer(), startNatsServer()]);
  const open = (instance: string) =>
    createControlPlane({
      overrides: {
        "store.kind": "redis",
        "store.redisUrls": redis.url,
        "bus.kind": "nats",
        "bus.natsUrls": nats.url,
        "bus.signingKeys": "a key that only the tests know".replaceAll(" ", "-"),
        "events.pollMs": pollMs,
        "events.pollMaxMs": pollMs,
        "locks.public.askEveryMs": pollMs,
        "locks.public.ticketMs": 3 * pollMs,
      },
      ports: { log: silentLog, instance },
    });
  [p, q] = [await open("p"), await open("q")];
  await p.api.createTenant({ actor: "ann", tenant, settings: {} });
  await p.api.saveWorkflow({ caller, definition: { id: "greet", steps: { hello: { topic: "greetings" } } } });
});
afterAll(async () => {
  await Promise.all([p?.close(), q?.close()]);
  await Promise.all([redis?.stop(), nats?.stop()]);
});

/** The time that the work took, far below what a poll would have taken. */
async function sooner<Value>(work: () => Promise<Value>): Promise<Value> {
  const startedMs = performance.now();
  const value = await work();
  expect(performance.now() - startedMs).toBeLessThan(pollMs / 2);
  return value;
}

test("a stream of one process tells of a run that another has started", async () => {
  const followed = await q.api.followEvents({ tenant, start: { kind: "now" } });
  if (followed.kind !== "open") throw new Error(followed.kind);
  const next = followed.feed.next();
  const started = await p.api.startWorkflow({ caller, workflow: "greet", input: {} });
  if (started.kind !== "admitted") throw new Error(started.kind);
  const news = await sooner(() => next);
  expect(JSON.stringify(news)).toContain(started.runId);
  await followed.feed.close();
});

test("a caller that queues for a lock in one process has it at once when another releases it", async () => {
  const terms = { caller, resource: "report", ttlMs: 20_000, waitMs: 20_000, wait: "queue" } as const;
  const held = await p.api.acquireLock(terms);
  if (held.kind !== "acquired") throw new Error(held.kind);
  const waiting = q.api.acquireLock(terms);
  await expect.poll(() => p.api.inspectLock({ tenant, resource: "report" })).toMatchObject({ waiting: 1 });
  const got = await sooner(async () => {
    await p.api.releaseLock({ tenant, resource: "report", token: held.token });
    return waiting;
  });
  expect(got.kind).toBe("acquired");
});

test("a job enqueued by one process is claimed for a worker that waits at another", async () => {
  const poll = { caller, worker: "w", topics: ["elsewhere"], pollId: "1", places: 1, waitMs: 20_000 };
  const polled = q.api.pollJobs(poll);
  await expect.poll(() => q.api.listWorkers({ tenant })).toMatchObject([{ worker: "w" }]);
  await p.api.saveWorkflow({ caller, definition: { id: "far", steps: { only: { topic: "elsewhere" } } } });
  const started = await p.api.startWorkflow({ caller, workflow: "far", input: {} });
  if (started.kind !== "admitted") throw new Error(started.kind);
  const answer = await sooner(() => polled);
  expect(answer).toMatchObject({ kind: "jobs", jobs: [{ job: { runId: started.runId } }] });
});

test("the workers that one process sees are listed by the other, by name once", async () => {
  const left = new AbortController();
  const poll = { caller, worker: "seen by p", topics: ["t"], pollId: "2", places: 1, waitMs: 20_000 };
  const polled = p.api.pollJobs(poll, left.signal);
  const named = async () =>
    (await q.api.listWorkers({ tenant })).filter(({ worker }) => worker === "seen by p");
  await expect.poll(named).toMatchObject([{ topics: ["t"], places: 1 }]);
  left.abort();
  await polled;
});
