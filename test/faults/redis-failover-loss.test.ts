// What a failover loses: the same cut and the same death of a primary under load, once at each level of durability.
import { randomBytes } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { Durability } from "../../src/adapters/redis/durability.ts";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { LockName } from "../../src/domain/lock.ts";
import { type RedisGroup, startRedisGroup } from "../../src/drills/servers/redis-failover.ts";
import type { KeyRequest, NewRun } from "../../src/ports/admission-operations.ts";
import { type Answer, defaultStoreSettings, type Store } from "../../src/ports/store.ts";
import { call, Harness, key } from "../../src/testing/conformance/harness.ts";
import { silentLog } from "../support/silent-log.ts";

const deadlineMs = 1_000;
const replicaWaitMs = 150;
const starters = 8;
/** An agent's own resource: its fence must grow whatever is lost. */
const lock: LockName = { namespace: "public", name: "printer" };

type Started = {
  readonly run: NewRun;
  readonly key: KeyRequest;
  readonly answer: Answer<"admit">;
  readonly phase: Phase;
};
type Phase = "healthy" | "silent replica" | "cut off";

function open(group: RedisGroup, durability: Durability): Promise<Store> {
  return openRedisStore({
    urls: group.urls,
    mode: "sentinel",
    masterName: group.masterName,
    prefix: "interlock",
    durability,
    replicaWaitMs,
    settings: defaultStoreSettings,
    clock: systemClock,
    log: silentLog,
  });
}

/** Starts runs without a pause, each with a key of its own, until told to stop. */
function startLoad(harness: Harness) {
  const started: Started[] = [];
  let phase: Phase = "healthy";
  let going = true;
  let made = 0;
  const inPhase = (kind: string) => started.filter((one) => one.phase === phase && one.answer.kind === kind);
  const loops = Array.from({ length: starters }, async () => {
    while (going) {
      made += 1;
      const ownKey = key(`start-${made}`);
      const run = harness.newRun({ key: ownKey });
      const answer = await harness.store.admit({ tenant: harness.tenant, run }, { deadlineMs });
      started.push({ run, key: ownKey, answer, phase });
      await wait(answer.kind === "admitted" ? 1 : 20);
    }
  });
  return {
    enter(next: Phase) {
      phase = next;
    },
    /** Waits until the phase has seen so many answers of one of the kinds. */
    async until(count: number, ...kinds: string[]) {
      const seen = () => kinds.reduce((sum, kind) => sum + inPhase(kind).length, 0);
      await expect.poll(seen, { interval: 10 }).toBeGreaterThanOrEqual(count);
    },
    async stop() {
      going = false;
      await Promise.all(loops);
      return started;
    },
  };
}

/**
 * First the replica says nothing, then it is cut off, then the primary dies and the replica takes its place. Load goes on
 * until the primary is dead.
 */
async function failOver(group: RedisGroup, harness: Harness, durability: Durability) {
  const [primary, replica] = [await group.master(), await group.replica()];
  const load = startLoad(harness);
  await load.until(40, "admitted");
  if (durability === "replicated") {
    replica.pause();
    load.enter("silent replica");
    await load.until(starters, "unknown");
    replica.resume();
    await group.untilReplicated();
  }
  load.enter("healthy");
  await load.until(60, "admitted");
  await group.cutReplication();
  load.enter("cut off");
  await load.until(40, "admitted", "unavailable");
  const started = await load.stop();
  await primary.kill();
  await group.untilReplaced(primary);
  return { primary, started };
}

async function untilAnswering(harness: Harness): Promise<void> {
  const read = async () => (await harness.store.countActive({ tenant: harness.tenant }, { deadlineMs })).kind;
  await expect.poll(read, { interval: 20 }).toBe("counted");
}

async function survivors({ store, tenant }: Harness): Promise<ReadonlySet<string>> {
  const listed = await store.listActive({ tenant, limit: 100_000 }, call);
  if (listed.kind !== "listed") throw new Error(listed.kind);
  return new Set(listed.runIds);
}

async function fenceOf(harness: Harness): Promise<number> {
  const { store, tenant } = harness;
  const request = { tenant, lock, token: harness.token(), instance: "test:1", ttlMs: 50 };
  const acquired = await untilKind("acquired", () => store.acquireLock(request, call));
  return acquired.fence;
}

/** Repeats a call with the same identity until it is decided as it must be. */
async function untilKind<Result extends { readonly kind: string }, Kind extends Result["kind"]>(
  kind: Kind,
  ask: () => Promise<Result>,
): Promise<Extract<Result, { kind: Kind }>> {
  const endMs = performance.now() + 15_000;
  for (;;) {
    const answer = await ask();
    if (answer.kind === kind) return answer as Extract<Result, { kind: Kind }>;
    if (performance.now() > endMs) throw new Error(`still ${JSON.stringify(answer)}`);
    await wait(10);
  }
}

describe("a primary that is cut off from its replica and then dies", () => {
  test("with durability process, starts that were acknowledged after the cut are lost, and their keys are free again", async () => {
    const group = await startRedisGroup({ sentinels: 1 });
    const harness = new Harness(await open(group, "process"), systemClock, randomBytes(6).toString("hex"));
    try {
      const fence = await fenceOf(harness);
      const { started } = await failOver(group, harness, "process");
      await untilAnswering(harness);
      const existing = await survivors(harness);
      const acknowledged = started.filter(({ answer }) => answer.kind === "admitted");
      const lost = acknowledged.filter(({ run }) => !existing.has(run.runId));
      console.log(`process: ${acknowledged.length} starts acknowledged, ${lost.length} of them lost`);
      expect(lost.length).toBeGreaterThan(0);
      expect(await fenceOf(harness)).toBeGreaterThan(fence);
      // The key of a lost run is free again: the same start makes a run. The key of one that survived still has it.
      const [again, kept] = [lost[0] as Started, acknowledged[0] as Started];
      const repeat = (one: Started) => {
        const run = harness.newRun({ key: one.key });
        return harness.store.admit({ tenant: harness.tenant, run }, call);
      };
      expect(await repeat(again)).toMatchObject({ kind: "admitted" });
      expect(await repeat(kept)).toMatchObject({ kind: "replayed", runId: kept.run.runId });
    } finally {
      await harness.store.close();
      await group.stop();
    }
  });

  test("with durability replicated, no acknowledged start is lost: what could be was told as unknown or unavailable", async () => {
    const group = await startRedisGroup({ sentinels: 1, args: ["--min-replicas-to-write", "1"] });
    const harness = new Harness(await open(group, "replicated"), systemClock, randomBytes(6).toString("hex"));
    try {
      const fence = await fenceOf(harness);
      const { primary, started } = await failOver(group, harness, "replicated");
      // The new primary writes only when it has a replica: the old one, back again. Sentinels would see to it in 10 s.
      const next = await group.master();
      await primary.restart();
      await primary.command("REPLICAOF", "127.0.0.1", String(next.port));
      await group.untilReplicated();
      await untilAnswering(harness);
      const existing = await survivors(harness);
      const acknowledged = started.filter(({ answer }) => answer.kind === "admitted");
      const lost = acknowledged.filter(({ run }) => !existing.has(run.runId));
      const unsure = started.filter(({ answer }) => answer.kind === "unknown");
      const told = `${unsure.length} unknown, ${started.length - acknowledged.length - unsure.length} unavailable`;
      console.log(`replicated: ${acknowledged.length} acknowledged, ${lost.length} of them lost; ${told}`);
      expect(lost).toEqual([]);
      expect(unsure.map(({ answer }) => (answer as { cause: string }).cause)).toContain(
        `executed, but no replica acknowledged it within ${replicaWaitMs} ms`,
      );
      const inVain = started.filter(
        ({ answer, run }) => answer.kind === "unavailable" && existing.has(run.runId),
      );
      expect(inVain).toEqual([]);
      expect(await fenceOf(harness)).toBeGreaterThan(fence);
      // Whatever became of an unknown start, repeating it decides it, and a key never gets a second run.
      const { store, tenant } = harness;
      await Promise.all(
        unsure.map(({ run }) => untilKind("admitted", () => store.admit({ tenant, run }, call))),
      );
      const after = await survivors(harness);
      expect(after.size).toBe(new Set([...existing, ...unsure.map(({ run }) => run.runId)]).size);
    } finally {
      await harness.store.close();
      await group.stop();
    }
  });
});
