// What is remembered of scripts and of who holds a partition, and every way in which a server can answer that it is otherwise.
import { describe, expect, test } from "vitest";
import type { Connection, Delivery, SendOptions } from "../../src/adapters/redis/connection.ts";
import { runScript, type Script } from "../../src/adapters/redis/scripts.ts";
import type { Redirection, Topology } from "../../src/adapters/redis/topology.ts";
import type { Partition } from "../../src/domain/tenant.ts";
import type { Clock } from "../../src/ports/ports.ts";

const script: Script = { source: "return 1", sha1: "abc" };
const done: Delivery = { kind: "reply", reply: "done" };
const error = (message: string): Delivery => ({ kind: "error", message });
const moved = error("MOVED 1 b:1");
const ask = error("ASK 1 b:1");
const unknownScript = error("NOSCRIPT No matching script.");

/** Servers `a` and `b`; `a` holds the partition. Each answer takes so long. */
function servers(answers: readonly Delivery[], answerMs = 0) {
  const sent: string[] = [];
  let suspected = 0;
  let nowMs = 0;
  let holder = "a";
  const left = [...answers];
  const connection = (name: string) => ({
    async send(command: readonly string[], withinMs: number, { preamble = [], replicaWaitMs }: SendOptions) {
      const waits = replicaWaitMs === undefined ? "" : ` waiting ${replicaWaitMs}`;
      sent.push([name, ...preamble, command[0], `within ${withinMs}${waits}`].join(" "));
      nowMs += answerMs;
      return left.shift() ?? done;
    },
  });
  const topology = {
    connectionFor: () => connection(holder) as unknown as Connection,
    follow(_: Partition, { kind, host }: Redirection) {
      if (kind === "moved") holder = host;
      return connection(host) as unknown as Connection;
    },
    suspect() {
      suspected += 1;
    },
  } as unknown as Topology;
  const clock = { monotonicMs: () => nowMs } as Clock;
  const run = (replicaWaitMs?: number) =>
    runScript(topology, clock, {
      ...{ partition: 7 as Partition, script, operands: ["0"], withinMs: 100 },
      ...(replicaWaitMs === undefined ? {} : { replicaWaitMs }),
    });
  return { sent, run, suspected: () => suspected };
}

describe("a script", () => {
  const cases: ReadonlyArray<readonly [string, readonly Delivery[], readonly string[]]> = [
    ["is known", [done], ["a EVALSHA"]],
    ["was forgotten", [unknownScript], ["a EVALSHA", "a EVAL"]],
    ["is held elsewhere", [moved], ["a EVALSHA", "b EVALSHA"]],
    ["is held elsewhere and unknown there", [moved, unknownScript], ["a EVALSHA", "b EVALSHA", "b EVAL"]],
    ["has keys that are just moving", [ask], ["a EVALSHA", "b ASKING EVALSHA"]],
    [
      "has keys that are just moving to a server that does not know it",
      [ask, unknownScript],
      ["a EVALSHA", "b ASKING EVALSHA", "b ASKING EVAL"],
    ],
    [
      "was forgotten, and its keys are moving",
      [unknownScript, ask],
      ["a EVALSHA", "a EVAL", "b ASKING EVAL"],
    ],
    ["has keys that have moved meanwhile", [ask, moved], ["a EVALSHA", "b ASKING EVALSHA", "b EVALSHA"]],
  ];
  test.each(cases)(
    "that %s is sent again as far as it was certainly not executed",
    async (_, answers, sends) => {
      const { sent, run, suspected } = servers(answers);
      expect(await run()).toEqual(done);
      expect(sent).toEqual(sends.map((send) => `${send} within 100`));
      expect(suspected()).toBe(0);
    },
  );

  test("waits for a replica with every send, and never longer than it may take in all", async () => {
    const { sent, run } = servers([moved, ask, unknownScript], 30);
    expect(await run(9)).toEqual(done);
    expect(sent).toEqual([
      "a EVALSHA within 100 waiting 9",
      "b EVALSHA within 70 waiting 9",
      "b ASKING EVALSHA within 40 waiting 9",
      "b ASKING EVAL within 10 waiting 9",
    ]);
  });

  test("has no effect when no time is left to send it again, or it is sent from one server to the other for ever", async () => {
    const late = servers([moved], 100);
    expect(await late.run()).toEqual({ kind: "not_sent", cause: "no time left to follow a redirection" });
    expect(late.sent).toHaveLength(1);
    const endless = servers(Array.from({ length: 20 }, () => moved));
    expect(await endless.run()).toEqual(moved);
    expect(endless.sent).toHaveLength(7);
  });

  test("after it went elsewhere goes there at once, and a move that is not over is asked for again", async () => {
    const gone = servers([moved]);
    await gone.run();
    await gone.run();
    expect(gone.sent.map((line) => line.split(" within")[0])).toEqual([
      "a EVALSHA",
      "b EVALSHA",
      "b EVALSHA",
    ]);
    const moving = servers([ask, done, ask]);
    await moving.run();
    await moving.run();
    expect(moving.sent.map((line) => line.split(" within")[0])).toEqual([
      ...["a EVALSHA", "b ASKING EVALSHA"],
      ...["a EVALSHA", "b ASKING EVALSHA"],
    ]);
  });
});

describe("who holds a partition", () => {
  const lost: Delivery = { kind: "lost", cause: "connection reset" };
  const notSent: Delivery = { kind: "not_sent", cause: "not connected" };
  test.each([
    ...["READONLY", "MASTERDOWN", "LOADING", "CLUSTERDOWN", "NOREPLICAS"].map((code) => error(`${code} no`)),
    ...[lost, notSent],
  ])("is looked up again after %j, and nothing is sent twice", async (answer) => {
    const { sent, run, suspected } = servers([answer]);
    expect(await run()).toEqual(answer);
    expect([sent.length, suspected()]).toEqual([1, 1]);
  });

  test.each(["OOM no", "BUSY no", "TRYAGAIN no", "WRONGTYPE no", "READONLYISH no"])(
    "is not doubted after %s",
    async (message) => {
      const { sent, run, suspected } = servers([error(message)]);
      expect(await run()).toEqual(error(message));
      expect([sent.length, suspected()]).toEqual([1, 0]);
    },
  );
});
