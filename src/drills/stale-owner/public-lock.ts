// An owner of a public lock goes silent, its lock passes to another, and the old owner comes back.

import { partitionLabel, partitionOf, type TenantId } from "../../domain/tenant.ts";
import type { Client } from "../../sdk/client.ts";
import { fenceHeaders } from "../../sdk/fence.ts";
import { runtime } from "../../sdk/runtime.ts";
import { type Check, check, type Outcome, type Plot, type Size, type Stage } from "../drill.ts";
import {
  asked,
  describeOutcome,
  type FencedSink,
  isHeldBy,
  isNotOwned,
  openFencedSink,
  writeTo,
} from "../locks/public-locks.ts";
import type { DrillTenant, Target } from "../target/target.ts";

/** `full` is the time to live of the admission and approval locks. */
const ttlMsOf: Readonly<Record<Size, number>> = { quick: 1_500, full: 10_000 };

const resource = "drill/stale-owner";
const [agentA, agentB, agentC] = ["agent-a", "agent-b", "agent-c"];

export async function stalePublicOwner(stage: Stage): Promise<Outcome> {
  const { target, size } = stage;
  const tenant = await target.createTenant();
  const startedMs = runtime.now().monotonicMs;
  const sink = await openFencedSink(startedMs);
  try {
    const scene = sceneOf(stage, { tenant, sink, startedMs, ttlMs: ttlMsOf[size] });
    const unclaimed = await takeUnclaimed(scene);
    const grantA = await holdAsA(scene);
    const grantB = await takeOver(scene, grantA);
    await comeBack(scene, grantA, grantB);
    await comeBackToUnclaimed(scene, unclaimed);
    return outcomeOf(scene, { grantA, grantB });
  } finally {
    await sink.close();
  }
}

type Grant = { readonly token: string; readonly fence: number; readonly sentMs: number };

type Scene = {
  readonly stage: Stage;
  readonly tenant: DrillTenant;
  /** The owners meet at different gateways where there are several. */
  readonly a: Client;
  readonly b: Client;
  readonly c: Client;
  readonly sink: FencedSink;
  readonly ttlMs: number;
  readonly checks: Check[];
  nowMs(): number;
};

function sceneOf(
  stage: Stage,
  given: Pick<Scene, "tenant" | "sink" | "ttlMs"> & { readonly startedMs: number },
): Scene {
  const { startedMs, tenant, ...rest } = given;
  const [first = tenant.client.url, second = first] = stage.target.urls;
  return {
    stage,
    tenant,
    ...rest,
    a: tenant.clientAt(first),
    b: tenant.clientAt(second),
    c: tenant.clientAt(first),
    checks: [],
    nowMs: () => runtime.now().monotonicMs - startedMs,
  };
}

async function holdAsA(scene: Scene): Promise<Grant> {
  const { stage, a, b, c, sink, ttlMs, checks } = scene;
  stage.progress(`A takes the lock for ${ttlMs} ms`);
  const sentMs = scene.nowMs();
  const granted = await a.locks.acquire({ resource, owner: agentA, ttl_ms: ttlMs });
  const { token, fence } = granted;
  const shown = await c.locks.get(resource);
  checks.push(
    check(
      "A holds the lock, as the API shows it",
      `${agentA}, its fence, at most ${ttlMs} ms left`,
      `${shown.owner ?? "nobody"}, fence ${shown.fence}, ${Math.round(shown.expires_in_ms)} ms left`,
      shown.owner === agentA && shown.fence === fence && shown.expires_in_ms <= ttlMs,
    ),
    ...(await lookAtKey(stage.target, scene.tenant.id, resource, { token, fence, ttlMs })),
  );
  const status = await writeTo(sink.url, agentA, fenceHeaders({ resource, fence }));
  checks.push(check("A writes with its fence", "accepted (204)", status, status === 204));
  const refused = await asked(b.locks.acquire({ resource, owner: agentB, ttl_ms: ttlMs }));
  checks.push(
    check(
      "B asks while A holds it",
      `409 lock unavailable, held by ${agentA}`,
      describeOutcome(refused, "granted"),
      isHeldBy(refused, agentA),
    ),
  );
  return { token, fence, sentMs };
}

async function takeOver(scene: Scene, grantA: Grant): Promise<Grant> {
  const { stage, b, sink, ttlMs, checks } = scene;
  stage.progress("A goes silent; B waits for the lock");
  const sentMs = scene.nowMs();
  // B must still hold it when everything has been looked at.
  const granted = await b.locks.acquire({
    resource,
    owner: agentB,
    ttl_ms: Math.max(ttlMs, 30_000),
    wait_ms: 3 * ttlMs,
  });
  const passedMs = scene.nowMs() - grantA.sentMs;
  checks.push(
    check(
      "B gets it when A's time is over, not before",
      `after ${ttlMs} ms, within ${ttlMs + handoverMs} ms`,
      `${Math.round(passedMs)} ms after A asked for it`,
      passedMs >= ttlMs && passedMs <= ttlMs + handoverMs,
    ),
    check(
      "B's fence is higher than A's",
      `above ${grantA.fence}`,
      granted.fence,
      granted.fence > grantA.fence,
    ),
  );
  const status = await writeTo(sink.url, agentB, fenceHeaders({ resource, fence: granted.fence }));
  checks.push(check("B writes with its fence", "accepted (204)", status, status === 204));
  return { token: granted.token, fence: granted.fence, sentMs };
}

/** A waiter asks four times a second; the rest is for a busy machine. */
const handoverMs = 2_000;

async function comeBack(scene: Scene, grantA: Grant, grantB: Grant): Promise<void> {
  const { stage, a, b, c, sink, ttlMs, checks } = scene;
  stage.progress("A comes back with its old token and fence");
  const { token, fence } = grantA;
  const renewed = await asked(a.locks.renew({ resource, token, ttl_ms: ttlMs }));
  const released = await asked(a.locks.release({ resource, token }));
  const status = await writeTo(sink.url, agentA, fenceHeaders({ resource, fence }));
  checks.push(
    check("A renews", "409 lock not owned", describeOutcome(renewed, "renewed"), isNotOwned(renewed)),
    check("A releases", "409 lock not owned", describeOutcome(released, "released"), isNotOwned(released)),
    check("A writes with its old fence", "refused (412)", status, status === 412),
  );
  const refused = await asked(c.locks.acquire({ resource, owner: agentC, ttl_ms: ttlMs }));
  const shown = await asked(c.locks.get(resource));
  const owner = shown.kind === "answered" ? `${shown.value.owner}, fence ${shown.value.fence}` : "nobody";
  checks.push(
    check(
      "C asks: the lock still excludes",
      `409 lock unavailable, held by ${agentB}`,
      describeOutcome(refused, "granted"),
      isHeldBy(refused, agentB),
    ),
    check(
      "B still holds the same grant",
      `${agentB}, fence ${grantB.fence}`,
      owner,
      owner === `${agentB}, fence ${grantB.fence}`,
    ),
  );
  const given = await asked(b.locks.release({ resource, token: grantB.token }));
  checks.push(check("B releases", "released", describeOutcome(given, "released"), given.kind === "answered"));
}

/** A lock that nobody takes after its time: it is over for its old owner all the same. */
const unclaimedResource = `${resource}/unclaimed`;

async function takeUnclaimed({ a, ttlMs }: Scene): Promise<string> {
  const { token } = await a.locks.acquire({ resource: unclaimedResource, owner: agentA, ttl_ms: ttlMs });
  return token;
}

/** It was taken before the one that B has waited for, for the same time: it is over, too. */
async function comeBackToUnclaimed({ a, ttlMs, checks }: Scene, token: string): Promise<void> {
  const lock = { resource: unclaimedResource, token };
  const renewed = await asked(a.locks.renew({ ...lock, ttl_ms: ttlMs }));
  const released = await asked(a.locks.release(lock));
  checks.push(
    check(
      "a lock that expired and that nobody took: its old owner renews, releases",
      "409 lock not owned, twice",
      `${describeOutcome(renewed, "renewed")}; ${describeOutcome(released, "released")}`,
      isNotOwned(renewed) && isNotOwned(released),
    ),
  );
}

function outcomeOf(scene: Scene, grants: { readonly grantA: Grant; readonly grantB: Grant }): Outcome {
  const { checks, sink, ttlMs } = scene;
  const { grantA, grantB } = grants;
  return {
    checks,
    tables: [
      {
        title: "what the owners wrote to a resource that checks fences",
        columns: ["at ms", "by", "fence", "accepted"],
        rows: sink.writes.map(({ atMs, by, fence, accepted }) => [
          Math.round(atMs),
          by,
          fence,
          accepted ? "yes" : "no",
        ]),
      },
    ],
    plots: [timelineOf(scene, grantA)],
    data: {
      ttlMs,
      fences: { a: grantA.fence, b: grantB.fence },
      writes: sink.writes,
    },
  };
}

function timelineOf({ sink, ttlMs }: Scene, grantA: Grant): Plot {
  const lineOf = (owner: string, accepted: boolean, height: number) =>
    sink.writes
      .filter((write) => write.by === owner && write.accepted === accepted)
      .map(({ atMs }) => [atMs, height] as const);
  return {
    title: "Writes of both owners",
    kind: "dots",
    x: "ms since the drill began",
    y: "1 is A, 2 is B",
    series: [
      { name: "A accepted", points: lineOf(agentA, true, 1) },
      { name: "A's time is over", points: [[grantA.sentMs + ttlMs, 1]] },
      { name: "B accepted", points: lineOf(agentB, true, 2) },
      { name: "A refused", points: lineOf(agentA, false, 1) },
    ],
    note: "After B's first write nothing of A is accepted.",
  };
}

type ExpectedGrant = { readonly token: string; readonly fence: number; readonly ttlMs: number };

/** Nothing where the lock is not in a Redis server of the drill's own. */
async function lookAtKey(
  { inside }: Target,
  tenant: string,
  resource: string,
  { token, fence, ttlMs }: ExpectedGrant,
): Promise<readonly Check[]> {
  const redis = inside?.servers?.redis;
  if (redis === undefined) return [];
  const partition = partitionLabel(partitionOf(tenant as TenantId));
  const key = `interlock:{${partition}}:lock:${tenant}:${encodeURIComponent(resource)}`;
  const value = (await redis.command<string | null>("GET", key)) ?? "";
  const leftMs = await redis.command<number>("PTTL", key);
  const [shownToken, instance = "", shownFence] = value.split(" ");
  const isOurs = shownToken === token && shownFence === String(fence) && instance !== "";
  // The token proves ownership: readers of a report must not be able to use it.
  const shown = value.replace(token, "<token>");
  return [
    check(`GET ${key}`, "<token> <instance> <fence> of A's grant, and what A calls itself", shown, isOurs),
    check("PTTL of the same key", `1 to ${ttlMs}`, leftMs, leftMs >= 1 && leftMs <= ttlMs),
  ];
}
