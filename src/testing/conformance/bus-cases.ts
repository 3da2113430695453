// What every bus must do: at least once, after the delay asked for, dead letters first, and nobody held up by anybody else.
import assert from "node:assert/strict";
import type { Verdict } from "../../ports/bus.ts";
import { type BusCase, bodies, counts, done, earlyMs, later, never, timeBetween } from "./bus-harness.ts";
import { fanOutCases, sharingCases, storageCases } from "./bus-sharing-cases.ts";

const verdictCases: readonly BusCase[] = [
  {
    name: "a message is delivered with its subject, body and count, and not again once it is done",
    async check(harness) {
      const listener = harness.listen(() => done);
      await harness.publish("the body", "the.subject");
      await harness.until(() => listener.heard.length === 1);
      await harness.quiet();
      const [{ atMs: _atMs, ageMs: _ageMs, ...delivery } = {}, ...rest] = listener.heard;
      assert.deepEqual(delivery, { subject: "the.subject", body: "the body", deliveries: 1 });
      assert.deepEqual(rest, []);
    },
  },
  {
    name: "a message that a worker's key has signed tells whose it is, at every delivery, and another key's is told from it",
    async check(harness) {
      const keys = ["acme.one", "acme.two"].map((keyId) => ({ keyId, secretHash: `hash of ${keyId}` }));
      const listener = harness.listen(({ deliveries }) => (deliveries === 1 ? later(20) : done), {
        senderOf: async (keyId) => keys.find((key) => key.keyId === keyId),
      });
      for (const sender of keys) {
        const message = { subject: `acme/job of ${sender.keyId}`, body: sender.keyId, sender };
        assert.deepEqual(await harness.bus.publish("results", message), { kind: "published" });
      }
      await harness.until(() => listener.heard.length === 4);
      for (const { sender, body } of listener.heard) assert.equal(sender, body);
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
      const [{ atMs: _atMs, ageMs: _ageMs, ...letter } = {}] = listener.givenUp;
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
    name: "a message that no handler survives is given up in the end, and the others go on meanwhile",
    async check(harness) {
      const listener = harness.listen(
        ({ body }) => {
          if (body === "poison") throw new Error("the handler is broken");
          return done;
        },
        { deliveriesMax: 3, pendingMax: 1, ackWaitMs: 100 },
      );
      await harness.publish("poison");
      for (let index = 0; index < 5; index += 1) await harness.publish(`good ${index}`);
      await harness.until(() => listener.givenUp.length === 1);
      assert.equal(listener.givenUp[0]?.body, "poison");
      assert.equal(bodies(listener.heard).filter((body) => body === "poison").length, 3);
      await harness.until(() => listener.heard.length === 8);
    },
  },
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
  ...fanOutCases,
  ...endCases,
];
