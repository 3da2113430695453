// What protects a gateway with live events: limits, clients that read nothing or leave, revoked keys, a failing store, and its own stop.
import { afterEach, describe, expect, test } from "vitest";
import {
  closeAll,
  follow,
  metric,
  openSilent,
  openWorld,
  sequences,
  start,
  streamsOpen,
  types,
  until,
} from "../support/event-scene.ts";
import { expectProblem } from "../support/gateway-requests.ts";
import { acme, makeKey } from "../support/gateway-world.ts";

afterEach(closeAll);

describe("too many streams", () => {
  test("of one tenant are 429, of all 503, and a place that is left is free again", async () => {
    const world = await openWorld({ "events.tenantStreamsMax": 2, "events.streamsMax": 3 });
    const first = await follow(world, "/api/v1/events/stream");
    await follow(world, "/api/v1/events/stream");
    const ask = (key: { text: string }) => world.ask("GET", "/api/v1/events/stream", { key: key.text });
    expectProblem(undefined, await ask(world.acme.viewer), "too_many_requests");
    const others = await follow(world, "/api/v1/events/stream", { key: world.globex.viewer });
    expectProblem(undefined, await ask(world.globex.viewer), "overloaded");
    expect((await world.ask("GET", "/api/v1/workflows", { key: world.acme.viewer })).status).toBe(200);
    expect(await streamsOpen(world)).toBe(3);
    first.close();
    others.close();
    await until("their places are free", async () => (await streamsOpen(world)) === 1);
    expect((await ask(world.acme.viewer)).status).toBe(200);
  });
});

describe("a client", () => {
  test("that really reads nothing is cut, the others get everything, and it can resume", async () => {
    const world = await openWorld({
      "events.rowsKeptMax": 20,
      "events.stallMs": 600_000,
      "events.pollMs": 10,
      "events.pollMaxMs": 10,
      "events.readGapMs": 0,
    });
    const warnings: Error[] = [];
    process.on("warning", (warning) => warnings.push(warning));
    const reader = await follow(world, "/api/v1/events/stream");
    const silent = openSilent(world, "/api/v1/events/stream");
    await until("both watch", async () => (await streamsOpen(world)) === 2);
    // Large rows, so that they soon are more than the connection's buffers hold, on both of its ends.
    const actor = "x".repeat(200_000);
    const { store } = world.plane.ports;
    let written = 0;
    await until("it is cut", async () => {
      for (let row = 0; row < 10; row += 1) {
        written += 1;
        const id = `w-${written}`;
        const request = {
          tenant: acme,
          collection: "workflow",
          id,
          body: "{}",
          changeId: id,
          actor,
        } as const;
        await store.putDocument(request, { deadlineMs: 1_000 });
      }
      return (await metric(world, /^interlock_event_streams_cut_total\{reason="slow"\} (\d+)$/m)) === 1;
    });
    const { last } = (await world.ask("GET", "/api/v1/events?from=now", { key: world.acme.viewer })).json;
    await reader.until("all rows", (events) => events.at(-1)?.data.sequence === last);
    const shown = sequences(reader.events);
    expect(shown).toEqual(shown.map((_, index) => Number(shown[0]) + index));
    await until("its place is free", async () => (await streamsOpen(world)) === 1);
    let got = "";
    silent.on("data", (chunk: Buffer) => {
      got += chunk.toString("latin1");
    });
    silent.resume();
    await new Promise((resolve) => silent.once("close", resolve));
    const ids = [...got.matchAll(/^id: (\d+)$.*?\n\n/gms)].map(([, id]) => Number(id));
    expect(ids.length).toBeGreaterThan(3);
    const resumed = await follow(world, "/api/v1/events/stream", { lastEventId: String(ids.at(-1)) });
    await resumed.until("the rest", (events) => events.at(-1)?.data.sequence === last);
    const whole = [...ids, ...sequences(resumed.events)];
    expect(whole).toEqual(whole.map((_, index) => Number(whole[0]) + index));
    expect(warnings).toEqual([]);
  });

  test("that goes away leaves its place at once", async () => {
    const world = await openWorld();
    const client = await follow(world, "/api/v1/events/stream");
    expect(await streamsOpen(world)).toBe(1);
    client.close();
    await until("it is gone", async () => (await streamsOpen(world)) === 0);
    expect(world.gateway.inFlight()).toBe(0);
  });

  test("whose key is revoked is sent away within seconds, and refused when it comes back", async () => {
    const world = await openWorld();
    const key = await makeKey(world.plane, acme, "viewer");
    const client = await follow(world, "/api/v1/events/stream", { key });
    const other = await follow(world, "/api/v1/events/stream");
    const revokedMs = performance.now();
    await world.ask("DELETE", `/api/v1/keys/${key.key.keyId}`, { key: world.acme.admin });
    expect(await client.over).toBe("ended");
    expect(performance.now() - revokedMs).toBeLessThan(5_000);
    expect(client.text()).toContain(": the key is no longer valid");
    const path = "/api/v1/events/stream";
    expectProblem(undefined, await world.ask("GET", path, { key: key.text }), "unauthenticated");
    await start(world);
    await other.until("the run", (events) => types(events).includes("run_admitted"));
  });
});

describe("the store's trouble", () => {
  test("is 503 when a stream begins, and a pause for one that is open", async () => {
    const world = await openWorld({ "store.callTimeoutMs": 50, "events.pollMs": 50, "events.pollMaxMs": 50 });
    const client = await follow(world, "/api/v1/events/stream");
    await world.ask("GET", "/api/v1/status", { key: world.acme.viewer });
    world.setStore("unavailable");
    const answer = await world.ask("GET", "/api/v1/events/stream", { key: world.acme.viewer });
    expectProblem(undefined, answer, "store_unavailable");
    world.setStore("answering");
    await start(world);
    await client.until("the run", (events) => types(events).includes("run_admitted"));
  });
});

describe("a stop of the server", () => {
  test("ends all streams at once and in good order, also of clients that read nothing", async () => {
    const world = await openWorld({ "gateway.drainMs": 30_000 });
    const runId = await start(world);
    const streams = [
      await follow(world, "/api/v1/events/stream"),
      await follow(world, `/api/v1/workflow-runs/${runId}/events`),
    ];
    openSilent(world, "/api/v1/events/stream");
    await until("all watch", async () => (await streamsOpen(world)) === 3);
    const startedMs = performance.now();
    await world.gateway.close();
    expect(performance.now() - startedMs).toBeLessThan(3_000);
    for (const client of streams) {
      expect(await client.over).toBe("ended");
      expect(client.text()).toContain(": the server stops");
    }
    expect(world.gateway.inFlight()).toBe(0);
  });
});
