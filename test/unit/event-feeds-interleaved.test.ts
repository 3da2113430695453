// Clients that come, lag, leave and resume at random while rows are written, dropped and unreadable at random: whatever the order of
// things, each client is shown every number after its place once, in order, and with the row that was written under it.
import { expect, test } from "vitest";
import type { FeedStart } from "../../src/control/events/feed.ts";
import type { EventRow } from "../../src/domain/audit.ts";
import { call } from "../../src/testing/conformance/harness.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { type EventWorld, openEventWorld } from "../support/event-world.ts";

const seeds = Array.from({ length: 120 }, (_, index) => index + 1);

type Seen = { rows: number; resets: number; resumes: number; fromMemory: number };

test.each(seeds)("seed %i", async (seed) => {
  const seen = await play(seed);
  expect(seen.rows).toBeGreaterThan(0);
});

test("in all these orders of things happens what they are to show", async () => {
  const total: Seen = { rows: 0, resets: 0, resumes: 0, fromMemory: 0 };
  for (const seed of seeds.slice(0, 40)) {
    const seen = await play(seed);
    for (const name of Object.keys(total) as Array<keyof Seen>) total[name] += seen[name];
  }
  expect(total.resets).toBeGreaterThan(20);
  expect(total.resumes).toBeGreaterThan(100);
  expect(total.fromMemory).toBeGreaterThan(100);
});

const playedMs = 20_000;

async function play(seed: number): Promise<Seen> {
  const world = openEventWorld({
    seed,
    travelMsMax: seed % 3 === 0 ? 0 : 40,
    settings: { eventsPerTenantMax: 30 },
    overrides: { "events.rowsPerRead": 1 + (seed % 5), "events.rowsKeptMax": 1 + (seed % 9) },
  });
  const { kernel, member } = world;
  const random = kernel.random.stream("test");
  const seen: Seen = { rows: 0, resets: 0, resumes: 0, fromMemory: 0 };
  const written: string[] = [];
  const writing = writeRows(world, random, written);
  if (seed % 2 === 0) member.fail({ readEvents: (nth) => troubles[nth % troubles.length] ?? "ok" });
  const clients = Array.from({ length: 4 }, (_, index) =>
    comeAndGo(world, random.stream(`client ${index}`), { seen, written }),
  );
  await kernel.complete(Promise.all([writing, ...clients]));
  seen.fromMemory = seen.rows - member.metrics.total("event_catch_up_reads_total");
  return seen;
}

const troubles = [
  "ok",
  "unavailable",
  "ok",
  "ok",
  "request_lost",
  "ok",
  { replyAfterMs: 300 },
  "ok",
] as const;

/** Some by this process, which tells, and some by others. */
async function writeRows(world: EventWorld, random: SeededRandom, written: string[]): Promise<void> {
  const { kernel, member, wakes, tenant } = world;
  const { clock } = member.ports;
  while (kernel.nowMs() < playedMs) {
    await clock.sleep(random.fraction() < 0.7 ? random.fraction() * 60 : random.fraction() * 1_500);
    const rows = random.fraction() < 0.05 ? 40 : 1 + Math.floor(random.fraction() * 4);
    await world.write(rows);
    const answer = await world.world.store.readEvents({ tenant, after: written.length, limit: 1_000 }, call);
    if (answer.kind !== "events") throw new Error(answer.kind);
    for (const { sequence, subject } of answer.events) written[sequence - 1] = subject;
    if (random.fraction() < 0.5) wakes.changed(tenant);
  }
}

/** Its own book of what it must be shown next. */
async function comeAndGo(
  world: EventWorld,
  random: SeededRandom,
  { seen, written }: { readonly seen: Seen; readonly written: readonly string[] },
): Promise<void> {
  const { kernel, member, feeds, tenant } = world;
  const { clock } = member.ports;
  let place: number | undefined;
  for (let isLast = false; ; ) {
    await clock.sleep(random.fraction() * 800);
    const start = startOf(place, random);
    if (start.kind === "after") seen.resumes += 1;
    const opened = await feeds.ofTenant(tenant, start);
    if (opened.kind !== "open") continue;
    if (start.kind === "now") place = opened.last;
    isLast = kernel.nowMs() > playedMs;
    const leavesAtMs = kernel.nowMs() + random.fraction() * 4_000;
    const cancel = clock.timer(isLast ? 30_000 : leavesAtMs - kernel.nowMs(), () => opened.feed.close());
    const isSlow = random.fraction() < 0.3;
    for (let isOpen = true; isOpen; ) {
      const portion = await opened.feed.next();
      if (portion.kind === "closed" || portion.kind === "end") isOpen = false;
      else if (portion.kind === "reset") {
        expect(portion.reason).toBe("trimmed");
        expect(portion.first).toBeGreaterThan((place ?? -1) + 1);
        place = portion.first - 1;
        seen.resets += 1;
      } else {
        place = follow(place, portion.rows, written);
        seen.rows += portion.rows.length;
        if (isSlow) await clock.sleep(random.fraction() * 400);
      }
    }
    cancel();
    if (!isLast) continue;
    expect(place).toBe(written.length);
    return;
  }
}

function startOf(place: number | undefined, random: SeededRandom): FeedStart {
  if (place !== undefined) return { kind: "after", number: place };
  return random.fraction() < 0.5 ? { kind: "now" } : { kind: "oldest" };
}

function follow(place: number | undefined, rows: readonly EventRow[], written: readonly string[]): number {
  let last = place;
  for (const { sequence, subject } of rows) {
    if (last !== undefined) expect(sequence).toBe(last + 1);
    if (written[sequence - 1] !== undefined) expect(subject).toBe(written[sequence - 1]);
    last = sequence;
  }
  if (last === undefined) throw new Error("a portion without rows");
  return last;
}
