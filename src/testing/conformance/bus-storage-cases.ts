// What every bus must do with what it keeps: ids once, the latest of a subject, and no two subjects taken for each other.
import assert from "node:assert/strict";
import { busStreams, type Verdict } from "../../ports/bus.ts";
import { type BusCase, type BusHarness, bodies, counts, done, later } from "./bus-harness.ts";

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
