// What every bus must do for several consumers, and with what it keeps: each message once to a name, ids once, the latest of a subject.
import assert from "node:assert/strict";
import { busStreams, type Verdict } from "../../ports/bus.ts";
import {
  type BusCase,
  type BusHarness,
  bodies,
  counts,
  done,
  earlyMs,
  type Listener,
  later,
  never,
  timeBetween,
} from "./bus-harness.ts";

export const sharingCases: readonly BusCase[] = [
  {
    name: "consumers of one name share the messages: each goes to one of them",
    async check(harness) {
      // Each holds what it has for a moment, so that neither can take everything.
      const hold = async (): Promise<Verdict> => {
        await harness.clock.sleep(50);
        return done;
      };
      const first = harness.listen(hold, { pendingMax: 4 });
      const second = harness.listen(hold, { pendingMax: 4 });
      const names = Array.from({ length: 20 }, (_, index) => `m${String(index).padStart(2, "0")}`);
      for (const name of names) await harness.publish(name);
      await harness.until(() => first.heard.length + second.heard.length === 20);
      await harness.quiet();
      assert.deepEqual([...bodies(first.heard), ...bodies(second.heard)].sort(), names);
      assert.ok(first.heard.length > 0 && second.heard.length > 0);
    },
  },
  {
    name: "no more messages than allowed are in a handler's hands, and the others follow",
    async check(harness) {
      let inside = 0;
      let insideMax = 0;
      const listener = harness.listen(
        async () => {
          inside += 1;
          insideMax = Math.max(insideMax, inside);
          await harness.clock.sleep(20);
          inside -= 1;
          return done;
        },
        { pendingMax: 3 },
      );
      for (let index = 0; index < 12; index += 1) await harness.publish(`m${index}`);
      await harness.until(() => listener.heard.length === 12 && inside === 0);
      assert.equal(insideMax, 3);
    },
  },
  {
    name: "messages that wait for their delay are parked: as many as may be in hand do not hold up another one",
    async check(harness) {
      const listener = harness.listen(({ body }) => (body === "other" ? done : later(5_000)), {
        pendingMax: 4,
      });
      for (let index = 0; index < 12; index += 1) await harness.publish(`busy ${index}`);
      await harness.until(() => listener.heard.length === 12);
      const publishedMs = harness.clock.monotonicMs();
      await harness.publish("other");
      await harness.until(() => bodies(listener.heard).includes("other"));
      assert.ok(harness.clock.monotonicMs() - publishedMs < 1_000);
    },
  },
];

export const fanOutCases: readonly BusCase[] = [
  {
    name: "every name hears every hint, and consumers of one name share theirs",
    async check(harness) {
      const there = harness.elsewhere();
      const alone = harness.listen(() => done, { stream: "hints", name: "gateway 1" });
      const name = "host.example:12:ab/c *>";
      const first = there.listen(() => done, { stream: "hints", name });
      const second = there.listen(() => done, { stream: "hints", name });
      // A process that publishes has its own consumers ready: after these two, both have.
      await harness.hint("ready here");
      await there.hint("ready there");
      await harness.until(() => bodies(alone.heard).includes("ready there"));
      const names = Array.from({ length: 10 }, (_, index) => `h${index}`);
      for (const body of names) await harness.hint(body);
      const heardBy = (...listeners: readonly Listener[]) =>
        listeners.flatMap(({ heard }) => bodies(heard)).filter((body) => names.includes(body));
      await harness.until(() => heardBy(alone).length === 10 && heardBy(first, second).length === 10);
      await harness.quiet();
      assert.deepEqual(heardBy(alone), names);
      assert.deepEqual(heardBy(first, second).sort(), names);
    },
  },
  {
    name: "what one name puts off comes back to that name only",
    async check(harness) {
      const quick = harness.listen(() => done, { stream: "hints", name: "gateway 1" });
      const slow = harness.listen(({ deliveries }) => (deliveries === 1 ? later(100) : done), {
        stream: "hints",
        name: "gateway 2",
      });
      await harness.hint("a");
      await harness.until(() => slow.heard.length === 2);
      await harness.quiet();
      assert.deepEqual(counts(slow.heard), [1, 2]);
      assert.deepEqual(counts(quick.heard), [1]);
    },
  },
  {
    name: "a name that has stopped misses what is published meanwhile, and hears what comes after it is back",
    async check(harness) {
      const before = harness.listen(() => done, { stream: "hints", name: "gateway 1" });
      const witness = harness.listen(() => done, { stream: "hints", name: "gateway 2" });
      await harness.hint("a");
      await harness.until(() => before.heard.length === 1 && witness.heard.length === 1);
      await before.stop();
      await harness.hint("b");
      await harness.until(() => witness.heard.length === 2);
      const after = harness.listen(() => done, { stream: "hints", name: "gateway 1" });
      await harness.hint("c");
      await harness.until(() => witness.heard.length === 3 && after.heard.length > 0);
      await harness.quiet();
      assert.deepEqual(bodies(before.heard), ["a"]);
      assert.deepEqual(bodies(after.heard), ["c"]);
    },
  },
  {
    name: "one of two consumers of a name may stop, and the other hears all that follows",
    async check(harness) {
      const first = harness.listen(() => done, { stream: "hints", name: "gateway 1" });
      const second = harness.listen(() => done, { stream: "hints", name: "gateway 1" });
      await harness.hint("a");
      await harness.until(() => first.heard.length + second.heard.length === 1);
      await first.stop();
      for (const name of ["b", "c", "d"]) await harness.hint(name);
      await harness.until(() => bodies(second.heard).includes("d"));
      assert.deepEqual(bodies(second.heard).slice(-3), ["b", "c", "d"]);
    },
  },
];

/** For a bus that several processes share. */
export const betweenProcessesCases: readonly BusCase[] = [
  {
    name: "consumers of one name in two processes share the messages",
    async check(harness) {
      const hold = async (): Promise<Verdict> => {
        await harness.clock.sleep(50);
        return done;
      };
      const here = harness.listen(hold, { pendingMax: 2 });
      const there = harness.elsewhere().listen(hold, { pendingMax: 2 });
      const names = Array.from({ length: 20 }, (_, index) => `m${String(index).padStart(2, "0")}`);
      for (const name of names) await harness.publish(name);
      await harness.until(() => here.heard.length + there.heard.length === 20);
      await harness.quiet();
      assert.deepEqual([...bodies(here.heard), ...bodies(there.heard)].sort(), names);
      assert.ok(here.heard.length > 0 && there.heard.length > 0);
    },
  },
  {
    name: "a message tells another process how often it was delivered before, and how long ago it was stored",
    async check(harness) {
      const here = harness.listen(() => later(400));
      await harness.publish("a");
      await harness.until(() => here.heard.length === 1);
      await here.stop();
      const there = harness.elsewhere().listen(() => done);
      await harness.until(() => there.heard.length === 1);
      const [first, second] = [here.heard[0], there.heard[0]];
      assert.deepEqual([first?.deliveries, second?.deliveries], [1, 2]);
      const [firstMs, secondMs] = [first?.ageMs ?? Number.NaN, second?.ageMs ?? Number.NaN];
      assert.ok(firstMs >= 0 && firstMs < 5_000, `${firstMs} ms at the first delivery`);
      const betweenMs = timeBetween([...here.heard, ...there.heard], 0, 1);
      assert.ok(Math.abs(secondMs - firstMs - betweenMs) < 50, `${secondMs} ms, ${betweenMs} ms later`);
    },
  },
  {
    name: "delays are kept while new messages that have to wait keep coming",
    async check(harness) {
      const delayMs = 200;
      const listener = harness.listen(({ deliveries }) => (deliveries === 1 ? later(delayMs) : done));
      const amount = 700;
      for (let index = 0; index < amount; index += 1) {
        await harness.publish(`m${index}`);
        await harness.clock.sleep(4);
      }
      await harness.until(() => listener.heard.length === 2 * amount);
      const firstMs = new Map<string, number>();
      const late: number[] = [];
      for (const { body, deliveries, atMs } of listener.heard) {
        if (deliveries === 1) firstMs.set(body, atMs);
        else late.push(atMs - (firstMs.get(body) ?? 0) - delayMs);
      }
      late.sort((one, other) => one - other);
      const at = (share: number) => late[Math.floor(amount * share)] ?? Number.NaN;
      assert.ok((late[0] ?? Number.NaN) >= -earlyMs);
      assert.ok(at(0.9) < 300, `half were late by ${at(0.5)} ms, a tenth by more than ${at(0.9)} ms`);
    },
  },
  {
    name: "an id that one process has published is known to the other",
    async check(harness) {
      const listener = harness.listen(() => done);
      await harness.publish("a", "a", "id-1");
      await harness.elsewhere().publish("a", "a", "id-1");
      await harness.until(() => listener.heard.length === 1);
      await harness.quiet();
      assert.equal(listener.heard.length, 1);
    },
  },
  {
    name: "what a process had in hand when it died is delivered to another after the time for its verdict",
    async check(harness) {
      const lost = harness.elsewhere().listen(never, { ackWaitMs: 600 });
      await harness.publish("a");
      await harness.until(() => lost.heard.length === 1);
      await harness.other.close();
      const next = harness.listen(() => done, { ackWaitMs: 600 });
      await harness.until(() => next.heard.length === 1);
      assert.deepEqual(counts(next.heard), [2]);
      assert.ok(timeBetween([...lost.heard, ...next.heard], 0, 1) >= 600 - 50 * earlyMs);
    },
  },
  {
    name: "an announcement is heard by the others on its channel, and never by the one that makes it",
    async check(harness) {
      const heard: string[] = [];
      const here = harness.bus.listen("events", (body) => heard.push(`here ${body}`));
      const there = harness.other.listen("events", (body) => heard.push(`there ${body}`));
      const locks = harness.other.listen("locks", (body) => heard.push(`locks ${body}`));
      await harness.quiet();
      harness.bus.announce("events", "acme");
      await harness.until(() => heard.length === 1);
      harness.other.announce("events", "back");
      harness.bus.announce("locks", "a lock");
      await harness.until(() => heard.length === 3);
      await harness.quiet();
      assert.deepEqual([...heard].sort(), ["here back", "locks a lock", "there acme"]);
      await there.stop();
      harness.bus.announce("events", "nobody");
      await harness.quiet();
      assert.equal(heard.length, 3);
      await Promise.all([here.stop(), locks.stop()]);
    },
  },
];

const oddSubjects = [
  ...["acme", "Acme", "acme/a", "acme.a", "acme a", "acme//a", "acme/a/", "/acme", "", "/", "."],
  ...["*", ">", "acme/*", "acme/>", "=", "=2E", "acme=2Ea", "%2E", "\t", "\r\n", "\u0000", "$JS.API.>"],
  ...["tenant.eu/run_01_abcdefgh:step[3].inner@2", "größe/日本", "\u{1f512}", "a".repeat(200)],
  // Longer than a line of the NATS protocol may be.
  ...[`acme/${"a".repeat(5_000)}`, `acme/${"a".repeat(4_999)}b`, `acme/${"ü".repeat(1_000)}`],
];

export const storageCases: readonly BusCase[] = [
  {
    name: "a message published twice under one id is stored once; other ids and none are stored",
    async check(harness) {
      const listener = harness.listen(() => done);
      await harness.publish("a", "a", "id-1");
      await harness.publish("a", "a", "id-1");
      await harness.publish("a again", "a", "id-2");
      await harness.publish("a nameless", "a");
      await harness.publish("a nameless", "a");
      await harness.until(() => listener.heard.length === 4);
      await harness.quiet();
      assert.deepEqual(bodies(listener.heard), ["a", "a again", "a nameless", "a nameless"]);
    },
  },
  {
    name: "messages that are published together are acknowledged each for itself",
    async check(harness) {
      const listener = harness.listen(() => done);
      const names = Array.from({ length: 20 }, (_, index) => `name ${index}`);
      await Promise.all(names.map((name) => harness.publish(name)));
      await harness.until(() => listener.heard.length === names.length);
      assert.deepEqual(bodies(listener.heard).toSorted(), names.toSorted());
    },
  },
  {
    name: "an id is remembered when its message is done",
    async check(harness) {
      const listener = harness.listen(() => done);
      await harness.publish("a", "a", "id-1");
      await harness.until(() => listener.heard.length === 1);
      await harness.publish("a", "a", "id-1");
      await harness.quiet();
      assert.equal(listener.heard.length, 1);
    },
  },
  {
    name: "results keep every message of a subject",
    async check(harness) {
      for (const body of ["first", "second"]) await harness.publish(body, "same");
      const listener = harness.listen(() => done);
      await harness.until(() => listener.heard.length === 2);
      assert.deepEqual(bodies(listener.heard), ["first", "second"]);
    },
  },
  ...(["notices", "checks"] as const).map((stream) => ({
    name: `${stream} keep one message per subject, the latest`,
    async check(harness: BusHarness) {
      await harness.publishOn(stream, "old", "same");
      await harness.publishOn(stream, "other");
      await harness.publishOn(stream, "new", "same");
      const listener = harness.listen(() => done, { stream });
      await harness.until(() => listener.heard.length === 2);
      await harness.quiet();
      assert.deepEqual(bodies(listener.heard).sort(), ["new", "other"]);
    },
  })),
  {
    name: "hints keep one message per subject for a consumer that is busy, the latest",
    async check(harness) {
      let finish = (_verdict: Verdict) => {};
      const first = new Promise<Verdict>((resolve) => {
        finish = resolve;
      });
      const listener = harness.listen(({ body }) => (body === "first" ? first : done), {
        stream: "hints",
        pendingMax: 1,
      });
      await harness.hint("first");
      await harness.until(() => listener.heard.length === 1);
      await harness.hint("old", "same");
      await harness.hint("other");
      await harness.hint("new", "same");
      finish(done);
      await harness.until(() => listener.heard.length === 3);
      await harness.quiet();
      assert.deepEqual(bodies(listener.heard).sort(), ["first", "new", "other"]);
    },
  },
  {
    name: "a hint that was replaced while it waited for its delay does not come back",
    async check(harness) {
      const listener = harness.listen(({ body }) => (body === "old" ? later(100) : done), {
        stream: "hints",
      });
      await harness.hint("old", "same");
      await harness.until(() => listener.heard.length === 1);
      await harness.hint("new", "same");
      await harness.until(() => listener.heard.length === 2);
      await harness.quiet();
      assert.deepEqual(bodies(listener.heard), ["old", "new"]);
    },
  },
  {
    name: "a hint that is published again after it was done is delivered again",
    async check(harness) {
      const listener = harness.listen(() => done, { stream: "hints" });
      await harness.hint("job");
      await harness.until(() => listener.heard.length === 1);
      await harness.hint("job");
      await harness.until(() => listener.heard.length === 2);
      assert.deepEqual(counts(listener.heard), [1, 1]);
    },
  },
  {
    name: "the streams do not mix",
    async check(harness) {
      const listeners = busStreams.map((stream) => harness.listen(() => done, { stream }));
      for (const stream of busStreams) await harness.publishOn(stream, `for ${stream}`, "same");
      await harness.until(() => listeners.every(({ heard }) => heard.length > 0));
      await harness.quiet();
      for (const [index, stream] of busStreams.entries())
        assert.deepEqual(bodies(listeners[index]?.heard ?? []), [`for ${stream}`]);
    },
  },
  {
    name: "a subject may hold any characters: it arrives as it was, and no two are taken for each other",
    async check(harness) {
      for (const subject of oddSubjects) await harness.publishOn("notices", `body of ${subject}`, subject);
      const listener = harness.listen(() => done, { stream: "notices" });
      await harness.until(() => listener.heard.length === oddSubjects.length);
      await harness.quiet();
      const heard = new Map(listener.heard.map(({ subject, body }) => [subject, body]));
      assert.deepEqual([...heard.keys()].sort(), [...oddSubjects].sort());
      for (const [subject, body] of heard) assert.equal(body, `body of ${subject}`);
    },
  },
  {
    name: "a body may be empty, large, or hold any characters",
    async check(harness) {
      const given = ["", "\u0000\r\n\t", "\u{1f512} ünïcödé", "x".repeat(300_000)];
      const listener = harness.listen(() => done);
      for (const [index, body] of given.entries()) await harness.publish(body, `body ${index}`);
      await harness.until(() => listener.heard.length === given.length);
      assert.deepEqual(bodies(listener.heard), given);
    },
  },
];
