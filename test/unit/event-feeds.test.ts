// Feeds of a tenant's rows: one shared reader, no row twice and none left out, and nothing read that nobody watches.
import { describe, expect, test } from "vitest";
import { client, type EventWorld, numbers, openEventWorld, watch } from "../support/event-world.ts";
import { isIdle } from "../support/simulated-ports.ts";

const now = { kind: "now" } as const;
const oldest = { kind: "oldest" } as const;
const resume = (number: number) => ({ kind: "after", number }) as const;

describe("a client sees", () => {
  test("what happens from now on, at once when this process did it", async () => {
    const world = openEventWorld();
    await world.write(3);
    const { shown, last } = await watch(world, now);
    expect(last).toBe(3);
    await world.writeHere(2);
    await world.pass(world.config["events.readGapMs"] + 1);
    expect(shown).toEqual([4, 5]);
  });

  test("what another process did at the next poll", async () => {
    const world = openEventWorld();
    const { shown } = await watch(world, now);
    await world.write(1);
    await world.pass(world.config["events.pollMs"] * 0.79);
    expect(shown).toEqual([]);
    await world.pass(world.config["events.pollMs"] * 0.42);
    expect(shown).toEqual([1]);
  });

  test("all that is kept when it begins with the oldest, in portions of a bounded size", async () => {
    const world = openEventWorld({
      settings: { eventsPerTenantMax: 40 },
      overrides: { "events.rowsPerRead": 7 },
    });
    await world.write(50);
    const { shown } = await watch(world, oldest);
    await world.pass(100);
    expect(shown).toEqual(numbers(11, 50));
    expect(world.reads()).toBe(Math.ceil(40 / 7));
    for (const { request } of world.member.callsOf("readEvents")) expect(request).toMatchObject({ limit: 7 });
  });

  test("exactly what came after the row it had, and then goes on with the others", async () => {
    const world = openEventWorld({ overrides: { "events.rowsPerRead": 3 } });
    const first = await watch(world, now);
    await world.writeHere(10);
    await world.pass(100);
    const resumed = await watch(world, resume(4));
    await world.writeHere(2);
    await world.pass(100);
    expect(first.shown).toEqual(numbers(1, 12));
    expect(resumed.shown).toEqual(numbers(5, 12));
  });

  test("nothing twice when its place is the newest row", async () => {
    const world = openEventWorld();
    await world.write(5);
    const { shown } = await watch(world, resume(5));
    await world.pass(5_000);
    expect(shown).toEqual([]);
    await world.writeHere(1);
    await world.pass(100);
    expect(shown).toEqual([6]);
  });
});

describe("a place that is not there", () => {
  test("because its rows were dropped is told, and the oldest kept row follows", async () => {
    const world = openEventWorld({ settings: { eventsPerTenantMax: 5 } });
    await world.write(20);
    const { shown } = await watch(world, resume(14));
    await world.pass(100);
    expect(shown).toEqual(["reset trimmed 16..20", ...numbers(16, 20)]);
  });

  test("is no reset while the very next row is still kept", async () => {
    const world = openEventWorld({ settings: { eventsPerTenantMax: 5 } });
    await world.write(20);
    const { shown } = await watch(world, resume(15));
    await world.pass(100);
    expect(shown).toEqual(numbers(16, 20));
  });

  test("because it is of another store is told, and the oldest kept row follows", async () => {
    const world = openEventWorld({ settings: { eventsPerTenantMax: 5 } });
    await world.write(7);
    const { shown } = await watch(world, resume(8));
    await world.pass(100);
    expect(shown).toEqual(["reset ahead 3..7", ...numbers(3, 7)]);
    await world.writeHere(1);
    await world.pass(100);
    expect(shown.at(-1)).toBe(8);
  });

  test("in a store without any rows is told, too", async () => {
    const world = openEventWorld();
    const { shown } = await watch(world, resume(9));
    await world.pass(100);
    expect(shown).toEqual(["reset ahead 1..0"]);
    await world.writeHere(1);
    await world.pass(100);
    expect(shown.at(-1)).toBe(1);
  });

  test("any more because rows were dropped faster than they were read is told to who is behind", async () => {
    const world = openEventWorld({ settings: { eventsPerTenantMax: 5 } });
    const { shown } = await watch(world, now);
    await world.writeHere(2);
    await world.pass(100);
    await world.writeHere(30);
    await world.pass(100);
    expect(shown).toEqual([1, 2, "reset trimmed 28..32", ...numbers(28, 32)]);
  });

  test("any more because the store was replaced by an older one is told to everybody", async () => {
    const world = openEventWorld();
    const { shown } = await watch(world, now);
    const other = await watch(world, now);
    await world.writeHere(9);
    await world.pass(100);
    restoreEmpty(world);
    await world.write(2);
    await world.pass(5_000);
    expect(shown).toEqual([...numbers(1, 9), "reset ahead 1..2", 1, 2]);
    expect(other.shown).toEqual(shown);
    await world.writeHere(1);
    await world.pass(100);
    expect(shown.at(-1)).toBe(3);
    expect(world.member.lines.filter(({ level }) => level === "warn")).toHaveLength(1);
  });
});

/** As if the store had been flushed, or replaced by a backup of its first day. */
function restoreEmpty({ world: { records }, tenant }: EventWorld): void {
  for (const { member } of records.scan("event", tenant, "", 1_000)) records.erase("event", tenant, member);
  records.erase("tenant", tenant, "record");
}

describe("reading", () => {
  test("costs one read a batch, however many clients there are", async () => {
    const world = openEventWorld();
    const clients = await Promise.all(numbers(1, 50).map(() => watch(world, now)));
    const before = world.reads();
    expect(before).toBe(50);
    for (let batch = 0; batch < 10; batch += 1) {
      await world.writeHere(3);
      await world.pass(50);
    }
    expect(world.reads() - before).toBe(10);
    for (const { shown } of clients) expect(shown).toEqual(numbers(1, 30));
    expect(world.member.metrics.total("event_tail_reads_total", { stream: "tenant" })).toBe(10);
    expect(world.member.metrics.total("event_catch_up_reads_total")).toBe(50);
  });

  test("is not repeated for a client that comes back while its place is still kept in memory", async () => {
    const world = openEventWorld({ overrides: { "events.rowsPerRead": 4 } });
    await watch(world, now);
    await world.writeHere(40);
    await world.pass(100);
    const before = world.reads();
    const { shown } = await watch(world, resume(1));
    await world.pass(1);
    expect(shown).toEqual(numbers(2, 40));
    // Its first read says whether its place is good, and brings the first rows.
    expect(world.reads() - before).toBe(1);
  });

  test("under load keeps a gap, so that one read brings many rows", async () => {
    const world = openEventWorld({ overrides: { "events.readGapMs": 20 } });
    const { shown } = await watch(world, now);
    const before = world.reads();
    for (let change = 0; change < 200; change += 1) {
      await world.writeHere(1);
      await world.pass(1);
    }
    await world.pass(40);
    expect(shown).toEqual(numbers(1, 200));
    // One in 20 ms, and those that the silence before allowed.
    expect(world.reads() - before).toBeLessThanOrEqual(20);
  });

  test("after a silence shows the changes of a short run each at once, without a gap", async () => {
    const world = openEventWorld({ overrides: { "events.readGapMs": 500 } });
    const { shown } = await watch(world, now);
    await world.pass(10_000);
    for (let change = 1; change <= 5; change += 1) {
      await world.writeHere(1);
      await world.pass(2);
      expect(shown).toEqual(numbers(1, change));
    }
  });

  test("becomes rarer while nothing happens, and is quick again after that", async () => {
    const world = openEventWorld();
    const { shown } = await watch(world, now);
    await world.pass(10_000);
    const quiet = world.reads();
    await world.pass(60_000);
    const perMinute = world.reads() - quiet;
    expect(perMinute).toBeGreaterThanOrEqual(25);
    expect(perMinute).toBeLessThanOrEqual(38);
    await world.write(1);
    for (let waitedMs = 0; shown.length === 0 && waitedMs < 2_400; waitedMs += 50) await world.pass(50);
    expect(shown).toEqual([1]);
    // From the read that found something on: how long the wait before it had lasted is random.
    await world.write(1);
    await world.pass(610);
    expect(shown).toEqual([1, 2]);
  });

  test("stops with the last client: a store that nobody watches is not read", async () => {
    const world = openEventWorld();
    expect(await isIdle(world.kernel)).toBe(true);
    expect(world.reads()).toBe(0);
    const first = await watch(world, now);
    const second = await watch(world, now);
    first.feed.close();
    await world.pass(5_000);
    expect(world.reads()).toBeGreaterThan(3);
    second.feed.close();
    await second.over;
    await world.kernel.run({});
    const before = world.reads();
    await world.writeHere(3);
    expect(await isIdle(world.kernel)).toBe(true);
    expect(world.reads()).toBe(before);
    expect(second.shown).toEqual(["closed"]);
    const third = await watch(world, resume(0));
    await world.pass(100);
    expect(third.shown).toEqual([1, 2, 3]);
  });

  test("of one tenant does not show or read another's", async () => {
    const world = openEventWorld();
    const other = world.harness.otherTenant();
    const opened = await world.kernel.complete(world.feeds.ofTenant(other, oldest));
    const { shown } = client(opened, ({ sequence }) => sequence);
    await world.writeHere(3);
    await world.pass(5_000);
    expect(shown).toEqual([]);
    for (const { request } of world.member.callsOf("readEvents"))
      expect(request).toMatchObject({ tenant: other });
  });
});

describe("a store that fails", () => {
  test("when a client begins is told, and leaves nothing behind", async () => {
    const world = openEventWorld({ failing: { readEvents: "unavailable" } });
    const opened = await world.kernel.complete(world.feeds.ofTenant(world.tenant, now));
    expect(opened.kind).toBe("unavailable");
    await world.kernel.run({});
    expect(await isIdle(world.kernel)).toBe(true);
  });

  test("while clients watch is asked again until it answers, more and more seldom, and nothing is lost", async () => {
    const world = openEventWorld();
    const { shown } = await watch(world, now);
    world.member.fail({ readEvents: "unavailable" });
    const before = world.reads();
    await world.writeHere(4);
    await world.pass(60_000);
    expect(shown).toEqual([]);
    expect(world.reads() - before).toBeLessThan(50);
    world.member.fail({});
    await world.pass(2_500);
    expect(shown).toEqual([1, 2, 3, 4]);
  });

  test("while a client catches up holds up this client alone", async () => {
    const world = openEventWorld({ overrides: { "events.rowsPerRead": 2, "events.rowsKeptMax": 2 } });
    await world.write(9);
    const live = await watch(world, now);
    world.member.fail({ readEvents: ["ok", "request_lost", "unavailable"] });
    const behind = await watch(world, oldest);
    await world.pass(10_000);
    expect(behind.shown).toEqual(numbers(1, 9));
    await world.writeHere(1);
    await world.pass(100);
    expect([live.shown.at(-1), behind.shown.at(-1)]).toEqual([10, 10]);
  });
});

test("a client that takes nothing is behind by what the others got; one that has not caught up yet is not", async () => {
  const world = openEventWorld({ overrides: { "events.rowsPerRead": 5, "events.rowsKeptMax": 5 } });
  await world.write(20);
  const quick = await watch(world, now);
  const opened = await world.kernel.complete(world.feeds.ofTenant(world.tenant, oldest));
  if (opened.kind !== "open") throw new Error(opened.kind);
  await opened.feed.next();
  await world.writeHere(7);
  await world.pass(100);
  expect(quick.feed.lag()).toBe(0);
  expect(opened.feed.lag()).toBe(0);
  for (let portion = 0; portion < 5; portion += 1) await world.kernel.complete(opened.feed.next());
  const waiting = opened.feed.next();
  await world.writeHere(6);
  await world.pass(100);
  await waiting;
  await world.writeHere(11);
  await world.pass(100);
  expect(opened.feed.lag()).toBe(12);
});

test("closing the process's feeds answers all who wait, and ends all reading", async () => {
  const world = openEventWorld();
  const { over, shown } = await watch(world, now);
  await world.kernel.complete(world.feeds.close());
  await over;
  expect(shown).toEqual(["closed"]);
  expect(await isIdle(world.kernel)).toBe(true);
});
