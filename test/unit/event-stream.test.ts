// One client's stream in virtual time: heartbeats, backpressure, slow and stalled clients, keys that stop being good, the server's stop.
import { describe, expect, test } from "vitest";
import type { Config } from "../../src/config.ts";
import type { FeedStart } from "../../src/control/events/feed.ts";
import type { EventSink } from "../../src/gateway/event-stream.ts";
import { sendEvents } from "../../src/gateway/event-stream.ts";
import type { Service } from "../../src/gateway/handler.ts";
import { eventRowText } from "../../src/gateway/views.ts";
import { type EventWorld, numbers, openEventWorld } from "../support/event-world.ts";
import { isIdle } from "../support/simulated-ports.ts";

type Scene = {
  readonly world: EventWorld;
  readonly sink: TestSink;
  readonly stopping: AbortController;
  verdict: "allowed" | "refused" | "unclear";
  readonly over: Promise<void>;
  /** The ids sent so far. */
  ids(): number[];
};

/** A connection that takes `room` characters and then waits until it is emptied. */
class TestSink implements EventSink {
  text = "";
  writes = 0;
  state: "open" | "ended" | "cut" = "open";
  room = Number.POSITIVE_INFINITY;
  readonly #closed = new AbortController();
  #waiting: Array<() => void> = [];
  readonly closed = this.#closed.signal;

  write(text: string): boolean {
    this.writes += 1;
    this.text += text;
    this.room -= text.length;
    return this.room > 0;
  }
  drained(): Promise<void> {
    if (this.room > 0) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
  empty(room: number): void {
    this.room = room;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
  end(text: string): void {
    this.text += text;
    this.state = "ended";
  }
  cut(): void {
    this.state = "cut";
  }
  leave(): void {
    this.#closed.abort();
  }
}

async function openScene(
  overrides: Partial<Config> = {},
  { start = { kind: "now" } as FeedStart, rows = 0, room = Number.POSITIVE_INFINITY } = {},
): Promise<Scene> {
  const world = openEventWorld({ overrides });
  await world.write(rows);
  const { config, member, tenant } = world;
  const opened = await world.kernel.complete(world.feeds.ofTenant(tenant, start));
  if (opened.kind !== "open") throw new Error(opened.kind);
  const sink = new TestSink();
  sink.room = room;
  const stopping = new AbortController();
  const service = { ports: member.ports, config } as unknown as Service;
  const scene: { verdict: Scene["verdict"] } = { verdict: "allowed" };
  const check = () => Promise.resolve(scene.verdict);
  const content = { feed: opened.feed, opening: "retry: 1\n\n", textOf: eventRowText, check };
  const over = sendEvents(service, content, sink, stopping.signal);
  const ids = () => [...sink.text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
  return Object.assign(scene, { world, sink, stopping, over, ids });
}

const cuts = ({ world }: Scene, reason: string) =>
  world.member.metrics.total("event_streams_cut_total", { reason });

describe("a stream", () => {
  test("says first when to come back, sends a comment after every silence, and none while rows flow", async () => {
    const scene = await openScene({ "events.heartbeatMs": 1_000 });
    const { sink, world } = scene;
    await world.pass(3_500);
    expect(sink.text).toBe(`retry: 1\n\n${": heartbeat\n\n".repeat(3)}`);
    for (let row = 0; row < 8; row += 1) {
      await world.writeHere(1);
      await world.pass(600);
    }
    expect(sink.text.match(/heartbeat/g)).toHaveLength(3);
    expect(scene.ids()).toEqual(numbers(1, 8));
  });

  test("leaves nothing behind when its client leaves", async () => {
    const { sink, over, world } = await openScene();
    await world.pass(100);
    sink.leave();
    await world.kernel.complete(over);
    await world.kernel.run({});
    expect(await isIdle(world.kernel)).toBe(true);
    expect(sink.state).toBe("open");
  });

  test("of a client that left before it began ends at once", async () => {
    const world = openEventWorld();
    const opened = await world.kernel.complete(world.feeds.ofTenant(world.tenant, { kind: "now" }));
    if (opened.kind !== "open") throw new Error(opened.kind);
    const sink = new TestSink();
    sink.leave();
    const service = { ports: world.member.ports, config: world.config } as unknown as Service;
    const check = () => Promise.resolve("allowed" as const);
    const content = { feed: opened.feed, opening: "", textOf: eventRowText, check };
    await world.kernel.complete(sendEvents(service, content, sink, new AbortController().signal));
    await world.kernel.run({});
    expect(await isIdle(world.kernel)).toBe(true);
    expect(sink.writes).toBe(0);
  });

  test("ends with a word at once when the server stops", async () => {
    const { sink, over, stopping, world } = await openScene();
    await world.pass(100);
    stopping.abort();
    await over;
    expect(sink.state).toBe("ended");
    expect(sink.text).toContain(": the server stops");
  });

  test("ends when the process stops reading", async () => {
    const { sink, over, world } = await openScene();
    await world.pass(100);
    await world.kernel.complete(Promise.all([world.feeds.close(), over]));
    expect(sink.state).toBe("ended");
  });
});

describe("a connection that is full", () => {
  test("is given nothing more until it has drained, and then all the rest once", async () => {
    const scene = await openScene({}, { start: { kind: "oldest" }, rows: 400, room: 1 });
    const { sink, world } = scene;
    await world.pass(10);
    expect(sink.writes).toBe(1);
    for (let turn = 2; turn < 5; turn += 1) {
      sink.empty(1);
      await world.pass(10);
      expect(sink.writes).toBe(turn);
    }
    sink.empty(Number.POSITIVE_INFINITY);
    await world.pass(1_000);
    expect(scene.ids()).toEqual(numbers(1, 400));
    // Enough for one write each, and no more.
    expect(sink.writes).toBeGreaterThan(5);
  });

  test("while its client still catches up is not cut for being behind", async () => {
    const scene = await openScene(
      { "events.rowsKeptMax": 10, "events.rowsPerRead": 10 },
      { start: { kind: "oldest" }, rows: 900, room: 1 },
    );
    await scene.world.pass(1_000);
    expect(scene.sink.state).toBe("open");
    scene.sink.empty(Number.POSITIVE_INFINITY);
    await scene.world.pass(1_000);
    expect(scene.ids()).toEqual(numbers(1, 900));
  });

  test("is cut when its client falls behind by more rows than are kept, and counted", async () => {
    const scene = await openScene({ "events.rowsKeptMax": 50 });
    const { sink, world, over } = scene;
    await world.pass(10);
    sink.room = 1;
    await world.writeHere(1);
    await world.pass(200);
    await world.writeHere(50);
    await world.pass(500);
    expect(sink.state).toBe("open");
    await world.writeHere(1);
    await world.kernel.complete(over);
    expect(sink.state).toBe("cut");
    expect(cuts(scene, "slow")).toBe(1);
    // It was given one row, and nobody kept the others for it.
    expect(scene.ids()).toEqual([1]);
  });

  test("is cut when its client takes nothing for too long, whatever the heartbeats", async () => {
    const scene = await openScene({ "events.stallMs": 5_000, "events.heartbeatMs": 1_000 });
    const { sink, world, over } = scene;
    await world.pass(10);
    sink.room = 1;
    await world.writeHere(1);
    await world.pass(4_900);
    expect(sink.state).toBe("open");
    await world.kernel.complete(over);
    expect(sink.state).toBe("cut");
    expect(cuts(scene, "stalled")).toBe(1);
    expect(sink.writes).toBe(2);
  });

  test("by a heartbeat alone is cut, too", async () => {
    const scene = await openScene({ "events.stallMs": 5_000, "events.heartbeatMs": 1_000 });
    await scene.world.pass(10);
    scene.sink.room = 1;
    await scene.world.pass(5_900);
    expect(scene.sink.state).toBe("open");
    await scene.world.kernel.complete(scene.over);
    expect(scene.sink.state).toBe("cut");
  });

  test("does not delay the server's stop", async () => {
    const { sink, over, stopping, world } = await openScene(
      {},
      { start: { kind: "oldest" }, rows: 9, room: 1 },
    );
    await world.pass(10);
    stopping.abort();
    await over;
    expect(sink.state).toBe("cut");
  });
});

describe("a key", () => {
  test("that is revoked ends its stream at the next check", async () => {
    const scene = await openScene({ "events.recheckMs": 1_000 });
    await scene.world.pass(3_500);
    scene.verdict = "refused";
    await scene.world.pass(600);
    await scene.over;
    expect(scene.sink.state).toBe("ended");
    expect(scene.sink.text).toContain(": the key is no longer valid");
    expect(cuts(scene, "revoked")).toBe(1);
  });

  test("that cannot be confirmed is shown nothing after five seconds, and everything once it is", async () => {
    const scene = await openScene();
    const { world } = scene;
    await world.pass(2_000);
    scene.verdict = "unclear";
    await world.pass(3_000);
    await world.writeHere(1);
    await world.pass(500);
    expect(scene.ids()).toEqual([1]);
    await world.pass(3_000);
    await world.writeHere(2);
    await world.pass(30_000);
    expect(scene.ids()).toEqual([1]);
    expect(scene.sink.state).toBe("open");
    scene.verdict = "allowed";
    await world.pass(2_500);
    expect(scene.ids()).toEqual([1, 2, 3]);
  });
});
