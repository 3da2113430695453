// Feeds of a run's timeline: driven by the tenant's tail, shared by all who watch the run, and over when the run is.
import { describe, expect, test } from "vitest";
import type { FeedStart } from "../../src/control/events/feed.ts";
import type { TimelineRow } from "../../src/control/events/tail.ts";
import type { RunId } from "../../src/domain/run.ts";
import {
  type Client,
  client,
  type EventWorld,
  numbers,
  openEventWorld,
  watch,
} from "../support/event-world.ts";
import { isIdle } from "../support/simulated-ports.ts";

const oldest = { kind: "oldest" } as const;
const resume = (number: number) => ({ kind: "after", number }) as const;

async function watchRun(
  world: EventWorld,
  runId: RunId,
  start: FeedStart = oldest,
): Promise<Client<TimelineRow>> {
  const opened = await world.kernel.complete(world.feeds.ofRun(world.tenant, runId, start));
  return client(opened, ({ version }) => version);
}

/** By this process, which is told of it. */
async function commit(world: EventWorld, runId: RunId, times = 1): Promise<void> {
  for (let index = 0; index < times; index += 1) await world.harness.commit(runId);
  world.wakes.changed(world.tenant);
}

describe("a run's feed", () => {
  test("shows its timeline from the first row, grows with it, and ends with the run", async () => {
    const world = openEventWorld();
    const runId = await world.harness.admit();
    await commit(world, runId, 2);
    const { shown, over } = await watchRun(world, runId);
    await commit(world, runId);
    await world.pass(100);
    expect(shown).toEqual([1, 2, 3, 4]);
    await world.harness.end(runId, "failed");
    world.wakes.changed(world.tenant);
    await world.kernel.complete(over);
    expect(shown).toEqual([1, 2, 3, 4, 5, "end run_ended failed"]);
  });

  test("of a run that has ended is over after its last row", async () => {
    const world = openEventWorld();
    const runId = await world.harness.admit();
    await world.harness.end(runId);
    const { shown, over } = await watchRun(world, runId);
    await world.kernel.complete(over);
    expect(shown).toEqual([1, 2, "end run_ended succeeded"]);
  });

  test("is not over before its last row when many rows and the end come between two reads", async () => {
    const world = openEventWorld({ overrides: { "events.rowsPerRead": 3 } });
    const runId = await world.harness.admit();
    const { shown, over } = await watchRun(world, runId);
    await world.pass(10);
    await commit(world, runId, 10);
    await world.harness.end(runId, "cancelled");
    await world.kernel.complete(over);
    expect(shown).toEqual([...numbers(1, 12), "end run_ended cancelled"]);
  });

  test("goes on after the version that its client has, and says when that was dropped or never was", async () => {
    const world = openEventWorld({ settings: { timelineRowsMax: 4 } });
    const runId = await world.harness.admit();
    await commit(world, runId, 9);
    const shownAfter = async (start: FeedStart) => {
      const { shown, feed } = await watchRun(world, runId, start);
      await world.pass(100);
      feed.close();
      return shown.slice();
    };
    expect(await shownAfter(resume(8))).toEqual([9, 10]);
    expect(await shownAfter(resume(6))).toEqual([7, 8, 9, 10]);
    expect(await shownAfter(resume(5))).toEqual(["reset trimmed 7..10", 7, 8, 9, 10]);
    expect(await shownAfter(resume(11))).toEqual(["reset ahead 7..10", 7, 8, 9, 10]);
    expect(await shownAfter(oldest)).toEqual([7, 8, 9, 10]);
  });

  test("of a run that is deleted ends, and of one that never was there is none", async () => {
    const world = openEventWorld();
    const { tenant, harness } = world;
    const runId = await harness.admit();
    await harness.end(runId);
    const { shown, over } = await watchRun(world, runId);
    const gone = { tenant, runId, actor: "janitor" };
    await harness.store.deleteRun(gone, { deadlineMs: 1_000 });
    world.wakes.changed(tenant);
    await world.kernel.complete(over);
    expect(shown.at(-1)).toMatch(/^end run_(ended succeeded|deleted)$/);
    for (const owner of [tenant, harness.otherTenant()]) {
      const opened = await world.kernel.complete(world.feeds.ofRun(owner, runId, oldest));
      expect(opened.kind).toBe("gone");
    }
    const foreign = await harness.admit();
    const opened = await world.kernel.complete(world.feeds.ofRun(harness.otherTenant(), foreign, oldest));
    expect(opened.kind).toBe("gone");
    await world.kernel.run({});
    expect(await isIdle(world.kernel)).toBe(true);
  });

  test("is told of a deletion while it waits", async () => {
    const world = openEventWorld();
    const { tenant, harness } = world;
    const runId = await harness.admit();
    const { shown, over } = await watchRun(world, runId);
    await world.pass(100);
    world.world.records.erase("run", tenant, runId);
    const other = await harness.admit();
    await harness.end(other);
    await harness.store.deleteRun({ tenant, runId: other, actor: "janitor" }, { deadlineMs: 1_000 });
    expect(shown).toEqual([1]);
    // The row that a deletion leaves names the run.
    const [row] = world.world.records.scanBack("event", tenant, "~", 1);
    if (row === undefined) throw new Error("no row");
    world.world.records.put("event", tenant, row.member, { ...row.value, subject: runId });
    await world.kernel.complete(over);
    expect(shown).toEqual([1, "end run_deleted"]);
  });
});

describe("reading", () => {
  test("is shared: many who watch a run cost one read of its timeline per change, and none without one", async () => {
    const world = openEventWorld();
    const runId = await world.harness.admit();
    const busy = await world.harness.admit();
    const clients: Array<Client<TimelineRow>> = [];
    for (let index = 0; index < 20; index += 1) clients.push(await watchRun(world, runId));
    expect(world.reads("readTimeline")).toBe(20);
    for (let change = 0; change < 5; change += 1) {
      await commit(world, runId);
      await commit(world, busy, 7);
      await world.pass(50);
    }
    expect(world.reads("readTimeline")).toBe(25);
    for (const { shown } of clients) expect(shown).toEqual(numbers(1, 6));
    await world.pass(60_000);
    expect(world.reads("readTimeline")).toBe(25);
  });

  test("of the tenant is shared, too, and stops with the last who watches anything of it", async () => {
    const world = openEventWorld();
    const runs = [await world.harness.admit(), await world.harness.admit()];
    const [first, second] = await Promise.all(runs.map((runId) => watchRun(world, runId)));
    const tenant = await watch(world, { kind: "now" });
    const before = world.reads();
    for (const runId of runs) await world.harness.commit(runId);
    world.wakes.changed(world.tenant);
    await world.pass(50);
    expect(world.reads() - before).toBe(1);
    expect(tenant.shown).toEqual([3, 4]);
    first?.feed.close();
    tenant.feed.close();
    await commit(world, runs[1] as RunId);
    await world.pass(50);
    expect(second?.shown).toEqual([1, 2, 3]);
    second?.feed.close();
    await world.kernel.run({});
    expect(await isIdle(world.kernel)).toBe(true);
  });

  test("a failed read of a timeline is repeated without another change", async () => {
    const world = openEventWorld();
    const runId = await world.harness.admit();
    const { shown } = await watchRun(world, runId);
    world.member.fail({ readTimeline: ["unavailable", "unavailable"] });
    await commit(world, runId);
    await world.pass(5_000);
    expect(shown).toEqual([1, 2]);
    expect(world.reads("readTimeline")).toBe(4);
  });

  test("when the tenant cannot be read there is no feed, and nothing is left behind", async () => {
    const world = openEventWorld({ failing: { readEvents: "unavailable" } });
    const runId = await world.harness.admit();
    const opened = await world.kernel.complete(world.feeds.ofRun(world.tenant, runId, oldest));
    expect(opened.kind).toBe("unavailable");
    await world.kernel.run({});
    expect(await isIdle(world.kernel)).toBe(true);
  });
});
