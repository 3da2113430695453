// Real processes that share one Redis: limits hold across them, and a stopped holder is refused when it goes on.
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bareStart } from "../../proof/simulation/bare-run.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import { type ControlPlane, createControlPlane, parseTenantId, type TenantId } from "../../src/index.ts";
import { type ChildProgram, startChildProgram } from "../support/child-program.ts";
import { silentLog } from "../support/silent-log.ts";

const support = join(dirname(import.meta.dirname), "support");
const call = { deadlineMs: 5_000 };

let server: RedisServer;
let plane: ControlPlane;

beforeAll(async () => {
  server = await startRedisServer();
  plane = await createControlPlane({
    overrides: { "store.kind": "redis", "store.redisUrls": server.url },
    ports: { log: silentLog },
  });
});
afterAll(async () => {
  await plane?.close();
  await server?.stop();
});

async function limitedTenant(name: string, maxConcurrentRuns: number): Promise<TenantId> {
  const tenant = parseTenantId(name) as TenantId;
  const change = {
    tenant,
    settings: { maxConcurrentRuns },
    expectedVersion: 0,
    changeId: "c",
    actor: "test",
  };
  expect((await plane.ports.store.setTenant(change, call)).kind).toBe("saved");
  return tenant;
}

type Contender = { readonly strategy: "atomic" | "lock"; readonly wait: "fixed" | "jitter" };

/** All contenders start at the same moment; gives every status and every admitted run. */
async function contend(tenant: TenantId, contenders: readonly Contender[], starts: number) {
  const children: ChildProgram[] = contenders.map((contender) =>
    startChildProgram(join(support, "admission-contender.ts"), {
      url: server.url,
      tenant,
      starts,
      ...contender,
    }),
  );
  try {
    for (const child of children) await child.next<{ ready: true }>();
    for (const child of children) child.say("go");
    const results = await Promise.all(
      children.map((child) => child.next<{ statuses: number[]; runIds: string[] }>(60_000)),
    );
    return {
      statuses: results.flatMap(({ statuses }) => statuses),
      runIds: results.flatMap(({ runIds }) => runIds).sort(),
    };
  } finally {
    await Promise.all(children.map((child) => child.stop()));
  }
}

function countOf(statuses: readonly number[], wanted: number): number {
  return statuses.filter((status) => status === wanted).length;
}

async function activeRuns(tenant: TenantId): Promise<string[]> {
  const answer = await plane.ports.store.listActive({ tenant, limit: 1_000 }, call);
  return answer.kind === "listed" ? [...answer.runIds].sort() : [];
}

describe("several processes on one tenant", () => {
  const atomic = { strategy: "atomic", wait: "jitter" } as const;
  const lockJitter = { strategy: "lock", wait: "jitter" } as const;
  const lockFixed = { strategy: "lock", wait: "fixed" } as const;

  test("limit 2 and 10 starts from 4 processes give exactly 2 x 200, the others 429 (seed 000)", async () => {
    const tenant = await limitedTenant("four-atomic", 2);
    const { statuses, runIds } = await contend(tenant, [atomic, atomic, atomic, atomic], 10);
    expect([countOf(statuses, 200), countOf(statuses, 429)]).toEqual([2, 38]);
    expect(await activeRuns(tenant)).toEqual(runIds);
  });

  test("the lock strategy from 4 processes gives exactly 2 x 200, the others 429 (seed 000)", async () => {
    const tenant = await limitedTenant("four-lock", 2);
    const { statuses, runIds } = await contend(tenant, [lockJitter, lockJitter, lockFixed, lockFixed], 10);
    expect([countOf(statuses, 200), countOf(statuses, 429)]).toEqual([2, 38]);
    expect(await activeRuns(tenant)).toEqual(runIds);
  });

  test("the strategies mixed on one tenant by two processes do not exceed the limit", async () => {
    for (const round of [1, 2, 3]) {
      const tenant = await limitedTenant(`mixed-${round}`, 3);
      const { statuses, runIds } = await contend(tenant, [atomic, lockJitter], 20);
      expect([countOf(statuses, 200), countOf(statuses, 429)]).toEqual([3, 37]);
      expect(await activeRuns(tenant)).toEqual(runIds);
    }
  });
});

test("a holder stopped for twice its ttl is refused by its own check and by the store when it goes on", async () => {
  const ttlMs = 1_500;
  const tenant = parseTenantId("stopped-holder") as TenantId;
  const started = await plane.startRun({ ...bareStart, tenant, actor: "test" });
  if (started.kind !== "admitted") throw new Error(started.kind);
  const { runId } = started;
  const child = startChildProgram(join(support, "lease-holder.ts"), {
    url: server.url,
    tenant,
    runId,
    ttlMs,
  });
  try {
    const held = await child.next<{ fence: number }>();
    const stoppedMs = performance.now();
    child.process.kill("SIGSTOP");
    // Another owner waits for the lock and takes it when it has expired.
    const lock = { namespace: "run", name: runId } as const;
    const token = plane.ports.random.token() as never;
    let fence = 0;
    await expect
      .poll(
        async () => {
          const request = { tenant, lock, token, instance: "test:1", ttlMs: 60_000 };
          const answer = await plane.ports.store.acquireLock(request, call);
          if (answer.kind === "acquired") fence = answer.fence;
          return answer.kind;
        },
        { timeout: 10_000, interval: 50 },
      )
      .toBe("acquired");
    expect(fence).toBeGreaterThan(held.fence);
    await expect.poll(() => performance.now() - stoppedMs).toBeGreaterThan(2 * ttlMs);
    child.process.kill("SIGCONT");
    const refused = await child.next<{ gapMs: number; guarded: string; forced: string }>();
    expect(refused.gapMs).toBeGreaterThan(ttlMs);
    expect(refused.guarded).toBe("unavailable");
    expect(refused.forced).toBe("stale_fence");
    expect(await child.next()).toEqual({ event: "over", kind: "abandoned" });
    // The new owner was not disturbed: neither by a write nor by a release.
    const inspected = await plane.ports.store.inspectLock({ tenant, lock }, call);
    expect(inspected).toMatchObject({ kind: "held", fence });
    const loaded = await plane.ports.store.loadRun({ tenant, runId }, call);
    expect(loaded).toMatchObject({ kind: "run", header: { status: "pending" } });
  } finally {
    child.process.kill("SIGCONT");
    await child.stop();
  }
});
