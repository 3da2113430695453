// What every bus must do: at least once, after the delay asked for, dead letters first, and nobody held up by anybody else.
import assert from "node:assert/strict";
import type { Verdict } from "../../ports/bus.ts";
import { type BusCase, bodies, counts, done, earlyMs, later, never, timeBetween } from "./bus-harness.ts";

const verdictCases: readonly BusCase[] = [
  {
    name: "a message is delivered with its subject, body and count, and not again once it is done",
    async check(harness) {
      const listener = harness.listen(() => done);
      await harness.publish("the body", "the.subject");
      await harness.until(() => listener.heard.length === 1);
      await harness.quiet();
      const [{ atMs: _atMs, ...delivery } = {}, ...rest] = listener.heard;
      assert.deepEqual(delivery, { subject: "the.subject", body: "the body", deliveries: 1 });
      assert.deepEqual(rest, []);
    },
  },
  {
    name: "messages that were published before there was a consumer are delivered to it, in order",
    async check(harness) {
      const names = ["a", "b", "c"];
      for (const name of names) await harness.publish(name);
      const listener = harness.listen(() => done);
      await harness.until(() => listener.heard.length === 3);
      assert.deepEqual(bodies(listener.heard), names);
    },
  },
  {
    name: "a retry comes back after its delay and not before, counted on",
    async check(harness) {
      const listener = harness.listen(({ deliveries }) => (deliveries < 3 ? later(200) : done));
      await harness.publish("a");
      await harness.until(() => listener.heard.length === 3);
      assert.deepEqual(counts(listener.heard), [1, 2, 3]);
      assert.ok(timeBetween(listener.heard, 0, 1) >= 200 - earlyMs);
      assert.ok(timeBetween(listener.heard, 1, 2) >= 200 - earlyMs);
      await harness.quiet();
      assert.equal(listener.heard.length, 3);
    },
  },
  {
    name: "each message keeps the delay of its own verdict",
    async check(harness) {
      const delays: Record<string, number> = { slow: 400, quick: 100 };
      const listener = harness.listen(({ body, deliveries }) =>
        deliveries === 1 ? later(delays[body] ?? 0) : done,
      );
      await harness.publish("slow");
      await harness.publish("quick");
      await harness.until(() => listener.heard.length === 4);
      assert.deepEqual(bodies(listener.heard), ["slow", "quick", "quick", "slow"]);
      assert.ok(timeBetween(listener.heard, 0, 3) >= 400 - earlyMs);
    },
  },
  {
    name: "a dropped message is given up first, with the reason, and is gone then",
    async check(harness) {
      const listener = harness.listen(() => ({ kind: "drop", because: "unreadable" }));
      await harness.publish("a");
      await harness.until(() => listener.givenUp.length === 1);
      await harness.quiet();
      const [{ atMs: _atMs, ...letter } = {}] = listener.givenUp;
      assert.deepEqual(letter, { subject: "a", body: "a", deliveries: 1, because: "unreadable" });
      assert.equal(listener.heard.length, 1);
      assert.equal(listener.givenUp.length, 1);
    },
  },
  {
    name: "a message without a verdict for the time allowed is delivered again",
    async check(harness) {
      const listener = harness.listen(({ deliveries }) => (deliveries === 1 ? never() : done), {
        ackWaitMs: 300,
      });
      await harness.publish("a");
      await harness.until(() => listener.heard.length === 2);
      assert.deepEqual(counts(listener.heard), [1, 2]);
      assert.ok(timeBetween(listener.heard, 0, 1) >= 300 - earlyMs);
      await harness.quiet();
      assert.equal(listener.heard.length, 2);
    },
  },
  {
    name: "a handler that throws gets the message again, and others are not held up",
    async check(harness) {
      const listener = harness.listen(({ body, deliveries }) => {
        if (body === "bad" && deliveries === 1) throw new Error("the handler is broken");
        return done;
      });
      await harness.publish("bad");
      await harness.publish("good");
      await harness.until(() => listener.heard.length === 3);
      assert.deepEqual(bodies(listener.heard), ["bad", "good", "bad"]);
    },
  },
];

const giveUpCases: readonly BusCase[] = [
  {
    name: "after as many deliveries as allowed a message is given up before it is dropped",
    async check(harness) {
      const listener = harness.listen(() => later(10), { deliveriesMax: 4 });
      await harness.publish("a");
      await harness.until(() => listener.givenUp.length === 1);
      await harness.quiet();
      assert.deepEqual(counts(listener.heard), [1, 2, 3, 4]);
      assert.equal(listener.givenUp.length, 1);
      assert.equal(listener.givenUp[0]?.because, "deliveries_exhausted");
      assert.equal(listener.givenUp[0]?.body, "a");
    },
  },
  {
    name: "deliveries without a verdict count too: a handler that always hangs ends in a give-up",
    async check(harness) {
      const listener = harness.listen(never, { deliveriesMax: 2, ackWaitMs: 200 });
      await harness.publish("a");
      await harness.until(() => listener.givenUp.length === 1);
      assert.deepEqual(counts(listener.heard), [1, 2]);
    },
  },
  {
    name: "a message that cannot be given up stays, and is given up later without another delivery",
    async check(harness) {
      let tries = 0;
      const listener = harness.listen(() => later(10), {
        deliveriesMax: 2,
        giveUp: async () => {
          tries += 1;
          if (tries < 3) throw new Error("no place for dead letters");
        },
      });
      await harness.publish("a");
      await harness.until(() => tries === 3);
      await harness.quiet();
      assert.equal(tries, 3);
      assert.deepEqual(counts(listener.heard), [1, 2]);
    },
  },
  {
    name: "a message that cannot be given up does not hold up others",
    async check(harness) {
      const listener = harness.listen(
        ({ body }) => (body === "bad" ? { kind: "drop", because: "bad" } : done),
        {
          pendingMax: 1,
          giveUp: async () => {
            throw new Error("no place for dead letters");
          },
        },
      );
      await harness.publish("bad");
      await harness.until(() => listener.givenUp.length === 1);
      const publishedMs = harness.clock.monotonicMs();
      await harness.publish("good");
      await harness.until(() => bodies(listener.heard).includes("good"));
      assert.ok(harness.clock.monotonicMs() - publishedMs < 1_000);
    },
  },
];

const storageCases: readonly BusCase[] = [
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
  {
    name: "hints keep one message per subject, the latest",
    async check(harness) {
      await harness.hint("old", "same");
      await harness.hint("other");
      await harness.hint("new", "same");
      const listener = harness.listen(() => done, { stream: "hints" });
      await harness.until(() => listener.heard.length === 2);
      await harness.quiet();
      assert.deepEqual(bodies(listener.heard).sort(), ["new", "other"]);
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
    name: "the two streams do not mix",
    async check(harness) {
      const results = harness.listen(() => done);
      const hints = harness.listen(() => done, { stream: "hints" });
      await harness.publish("a result");
      await harness.hint("a hint");
      await harness.until(() => results.heard.length + hints.heard.length === 2);
      assert.deepEqual(bodies(results.heard), ["a result"]);
      assert.deepEqual(bodies(hints.heard), ["a hint"]);
    },
  },
];

const sharingCases: readonly BusCase[] = [
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

const endCases: readonly BusCase[] = [
  {
    name: "a stop waits for the handlers under way, whose verdicts still count, and takes nothing more",
    async check(harness) {
      let finish = (_verdict: Verdict) => {};
      const listener = harness.listen(
        () =>
          new Promise<Verdict>((resolve) => {
            finish = resolve;
          }),
      );
      await harness.publish("a");
      await harness.until(() => listener.heard.length === 1);
      let stopped = false;
      const stopping = listener.stop().then(() => {
        stopped = true;
      });
      await harness.publish("b");
      await harness.quiet();
      assert.equal(stopped, false);
      finish(done);
      await stopping;
      const next = harness.listen(() => done);
      await harness.until(() => next.heard.length === 1);
      await harness.quiet();
      assert.deepEqual(bodies(listener.heard), ["a"]);
      assert.deepEqual(bodies(next.heard), ["b"]);
    },
  },
  {
    name: "a message that waits for its delay outlives its consumer, and the next one gets it no sooner",
    async check(harness) {
      const first = harness.listen(() => later(600));
      await harness.publish("a");
      await harness.until(() => first.heard.length === 1);
      await harness.quiet();
      await first.stop();
      const next = harness.listen(() => done);
      await harness.until(() => next.heard.length === 1);
      assert.deepEqual(counts(next.heard), [2]);
      assert.ok(timeBetween([...first.heard, ...next.heard], 0, 1) >= 600 - earlyMs);
    },
  },
  {
    name: "a closed bus takes no message and says so",
    async check(harness) {
      await harness.bus.close();
      const answer = await harness.bus.publish("results", { subject: "a", body: "a" });
      assert.equal(answer.kind, "unavailable");
    },
  },
];

export const busCases: readonly BusCase[] = [
  ...verdictCases,
  ...giveUpCases,
  ...storageCases,
  ...sharingCases,
  ...endCases,
];
