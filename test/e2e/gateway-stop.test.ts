// A gateway that stops: requests that have begun to arrive are answered, and every client is asked to close its connection first.
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import type { Config } from "../../src/config.ts";
import { type GatewayWorld, openGatewayWorld } from "../support/gateway-world.ts";
import { createKeepAliveClient } from "../support/keep-alive-client.ts";

const open: GatewayWorld[] = [];
const sockets: Socket[] = [];

async function openWorld(overrides: Partial<Config>): Promise<GatewayWorld> {
  const world = await openGatewayWorld(overrides);
  open.push(world);
  return world;
}

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await Promise.all(open.splice(0).map((world) => world.close()));
});

type Connection = {
  write(text: string): void;
  /** Resolves when what has come since it was asked last matches; fails when the connection ends first. */
  reads(pattern: RegExp): Promise<string>;
  /** Resolves when the server has closed the connection. */
  readonly ended: Promise<void>;
};

async function openConnection(url: string): Promise<Connection> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  sockets.push(socket);
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  let received = "";
  let error: Error | undefined;
  const watchers = new Set<() => void>();
  const tell = () => {
    for (const watcher of [...watchers]) watcher();
  };
  socket.on("error", (cause) => {
    error = cause;
  });
  socket.on("data", (chunk) => {
    received += chunk.toString();
    tell();
  });
  const ended = new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
  });
  void ended.then(tell);
  return {
    write: (text) => socket.write(text),
    ended,
    reads: (pattern) =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (pattern.test(received)) resolve(received);
          else if (socket.closed) reject(new Error(`closed (${error?.message ?? "in order"}): ${received}`));
          else return;
          received = "";
          watchers.delete(look);
        };
        watchers.add(look);
        look();
      }),
  };
}

const statusRequest = ({ acme }: GatewayWorld) =>
  `GET /api/v1/status HTTP/1.1\r\nHost: x\r\nX-API-Key: ${acme.viewer.text}\r\n\r\n`;

const politeRefusal = (answer: string) => {
  expect(answer).toMatch(/^HTTP\/1\.1 503 /);
  expect(answer).toMatch(/^connection: close\r$/im);
  expect(answer).toMatch(/^retry-after: \d+\r$/im);
  expect(answer).toContain('"code":"draining"');
};

describe("a gateway that stops", () => {
  test("closes connections on which nothing came meanwhile", async () => {
    const world = await openWorld({ "gateway.lingerMs": 50, "gateway.drainMs": 60_000 });
    const idle = await openConnection(world.url);
    idle.write(statusRequest(world));
    await idle.reads(/"status":"ready"/);
    const silent = await openConnection(world.url);
    await world.gateway.close();
    await Promise.all([idle.ended, silent.ended]);
  });

  test("waits no longer when nobody is connected any more", async () => {
    const world = await openWorld({ "gateway.lingerMs": 60_000, "gateway.drainMs": 60_000 });
    const kept = await openConnection(world.url);
    const closed = world.gateway.close();
    kept.write(statusRequest(world));
    await kept.reads(/\}$/);
    await closed;
  });

  test("answers once more on a connection that was kept, and tells its client to close it", async () => {
    const world = await openWorld({ "gateway.lingerMs": 2_000 });
    const kept = await openConnection(world.url);
    kept.write(statusRequest(world));
    await kept.reads(/"status":"ready"/);
    const closed = world.gateway.close();
    kept.write(statusRequest(world));
    politeRefusal(await kept.reads(/\}$/));
    await kept.ended;
    await closed;
  });

  test("answers a client that connects just then, and is ready no more", async () => {
    const world = await openWorld({ "gateway.lingerMs": 2_000 });
    const kept = await openConnection(world.url);
    const closed = world.gateway.close();
    const late = await openConnection(world.url);
    late.write("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n");
    politeRefusal(await late.reads(/\}$/));
    kept.write(statusRequest(world));
    politeRefusal(await kept.reads(/\}$/));
    await closed;
  });

  test("says so too to requests that fit no route", async () => {
    const world = await openWorld({ "gateway.lingerMs": 2_000 });
    const kept = await openConnection(world.url);
    const closed = world.gateway.close();
    kept.write("GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(await kept.reads(/\}$/)).toMatch(/^HTTP\/1\.1 404 .*connection: close/is);
    await closed;
  });

  test("answers a request of which it had read a part of the head", async () => {
    const world = await openWorld({ "gateway.lingerMs": 0, "gateway.drainMs": 10_000 });
    const slow = await openConnection(world.url);
    const request = statusRequest(world);
    slow.write(request.slice(0, 30));
    const other = await openConnection(world.url);
    other.write(request);
    await other.reads(/"status":"ready"/);
    // A gateway of the same settings with a connection that says nothing: its stop does all that a stop does by itself.
    const beside = await openWorld({ "gateway.lingerMs": 0, "gateway.drainMs": 10_000 });
    const silent = await openConnection(beside.url);
    const closed = world.gateway.close();
    await Promise.all([other.ended, beside.gateway.close(), silent.ended]);
    slow.write(request.slice(30));
    politeRefusal(await slow.reads(/\}$/));
    await closed;
  });

  test("refuses a large body that is still being sent, and its client hears why", async () => {
    const world = await openWorld({ "gateway.lingerMs": 1_000 });
    const client = createKeepAliveClient();
    const headers = { "x-api-key": world.acme.admin.text };
    await client.post(world.url, "/workflows/validate", {}, headers);
    const closed = world.gateway.close();
    const body = { text: "x".repeat(1_500_000) };
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => client.post(world.url, "/workflows", body, headers)),
    );
    expect(answers).toMatchObject(Array(4).fill({ kind: "answered", status: 503 }));
    client.close();
    await closed;
  });
});
