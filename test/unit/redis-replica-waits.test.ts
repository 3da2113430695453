// One WAIT behind all commands of a moment: how many are sent, what they cover, and what counts as acknowledged.
import { ErrorReply } from "@redis/client";
import { describe, expect, test } from "vitest";
import { ReplicaWaits } from "../../src/adapters/redis/replica-waits.ts";
import { systemClock } from "../../src/adapters/system/system.ts";

/** Keeps what was sent, and answers a WAIT when the test says so. */
function scriptedClient() {
  const waits: { readonly command: readonly string[]; answer(reply: unknown): void }[] = [];
  return {
    socketEpoch: 1,
    waits,
    sendCommand(command: readonly string[]): Promise<unknown> {
      return new Promise((resolve, reject) => {
        waits.push({
          command,
          answer: (reply) => (reply instanceof Error ? reject(reply) : resolve(reply)),
        });
      });
    },
  };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe("commands of one moment", () => {
  test("share one WAIT, with the longest time that one of them has", async () => {
    const client = scriptedClient();
    const waits = new ReplicaWaits(client, systemClock);
    const covered = [waits.cover(100), waits.cover(500), waits.cover(300)];
    await turn();
    expect(client.waits.map(({ command }) => command)).toEqual([["WAIT", "1", "500"]]);
    client.waits[0]?.answer(1);
    expect(await Promise.all(covered)).toEqual([undefined, undefined, undefined]);
  });

  test("that come while a WAIT is under way share the next, which is sent when it has been answered", async () => {
    const client = scriptedClient();
    const waits = new ReplicaWaits(client, systemClock);
    const first = waits.cover(100);
    await turn();
    const later = [waits.cover(100), waits.cover(100)];
    await turn();
    expect(client.waits).toHaveLength(1);
    client.waits[0]?.answer(1);
    expect(await first).toBeUndefined();
    await turn();
    expect(client.waits).toHaveLength(2);
    client.waits[1]?.answer(0);
    const doubt = "executed, but no replica acknowledged it within 100 ms";
    expect(await Promise.all(later)).toEqual([doubt, doubt]);
  });
});

describe("an acknowledgement", () => {
  test("is a replica that has it: none, a refusal and a lost connection each leave a doubt", async () => {
    const client = scriptedClient();
    const waits = new ReplicaWaits(client, systemClock);
    const outcomes: unknown[] = [];
    for (const answer of [2, 0, new ErrorReply("NOPERM no WAIT"), new Error("Socket closed unexpectedly")]) {
      const covered = waits.cover(50);
      await turn();
      client.waits.at(-1)?.answer(answer);
      outcomes.push(await covered);
    }
    expect(outcomes).toEqual([
      undefined,
      "executed, but no replica acknowledged it within 50 ms",
      "executed, but no replica is known to have it: WAIT was refused: NOPERM no WAIT",
      "executed, but no replica is known to have it: connection lost: Socket closed unexpectedly",
    ]);
  });

  test("never comes from another connection than the one the command went over", async () => {
    const client = scriptedClient();
    const waits = new ReplicaWaits(client, systemClock);
    const first = waits.cover(50);
    await turn();
    const second = waits.cover(50);
    client.socketEpoch = 2;
    client.waits[0]?.answer(1);
    expect(await first).toBeUndefined();
    expect(await second).toBe("the connection was lost before a replica acknowledged it");
    expect(client.waits).toHaveLength(1);
  });
});
