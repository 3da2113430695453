// What the gateway does when things go wrong around it: floods, overload, slow clients, a store that fails, and its own end.
import type { Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import type { Config } from "../../src/config.ts";
import { InterlockError } from "../../src/errors.ts";
import { examples, expectProblem, keyFor, pathOf, rows } from "../support/gateway-requests.ts";
import { acme, type GatewayWorld, makeThings, openGatewayWorld } from "../support/gateway-world.ts";
import { openConnection } from "../support/raw-connection.ts";

const open: GatewayWorld[] = [];

async function openWorld(overrides: Partial<Config> = {}): Promise<GatewayWorld> {
  const world = await openGatewayWorld(overrides);
  open.push(world);
  return world;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((world) => world.close()));
});

async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const endMs = performance.now() + 10_000;
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error(`still waiting: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const poll = (waitMs: number) => ({
  worker_id: "w",
  topics: ["nothing"],
  poll_id: `p-${waitMs}`,
  max_jobs: 1,
  wait_ms: waitMs,
});

describe("failed authentications", () => {
  test("are logged without the key", async () => {
    const world = await openWorld();
    const text = `${world.acme.admin.text.slice(0, -1)}x`;
    await world.ask("GET", "/api/v1/status", { key: text });
    expect(world.logged.join("\n")).toContain("a request had no valid key");
    expect(world.logged.join("\n")).not.toContain(text.slice(20, 60));
  });

  test("a revoked key is refused at once, with others of its tenant at work", async () => {
    const world = await openWorld();
    const things = await makeThings(world);
    const made = await world.ask("POST", "/api/v1/keys", {
      key: world.acme.admin,
      body: { role: "operator", name: "short-lived" },
    });
    const key = String(made.json.key);
    const start = () => world.ask("POST", "/api/v1/workflows/simple/runs", { key, body: {} });
    expect((await start()).status).toBe(200);
    const path = `/api/v1/keys/${made.json.id}`;
    expect((await world.ask("DELETE", path, { key: world.acme.admin })).status).toBe(204);
    expectProblem(undefined, await start(), "unauthenticated");
    expect(things.runId).not.toBe("");
  });
});

describe("too much at once", () => {
  test("of one tenant is 429, and leaves the other tenants alone", async () => {
    const world = await openWorld({ "gateway.tenantPollsMax": 2 });
    const stop = new AbortController();
    const waiting = ["a", "b"].map((name) =>
      world
        .ask("POST", "/api/v1/jobs/poll", {
          key: world.acme.worker,
          body: { ...poll(20_000), poll_id: name },
          signal: stop.signal,
        })
        .catch(() => "gone"),
    );
    await until("both polls wait", () => world.gateway.inFlight() === 2);
    const sent = { body: { ...poll(0), poll_id: "c" } };
    const refused = await world.ask("POST", "/api/v1/jobs/poll", { key: world.acme.worker, ...sent });
    expectProblem(undefined, refused, "too_many_requests");
    const other = await world.ask("POST", "/api/v1/jobs/poll", { key: world.globex.worker, ...sent });
    expect(other.status).toBe(200);
    expect((await world.ask("GET", "/api/v1/workflows", { key: world.acme.viewer })).status).toBe(200);
    stop.abort();
    expect(await Promise.all(waiting)).toEqual(["gone", "gone"]);
    await until("the places come back", () => world.gateway.inFlight() === 0);
    expect((await world.ask("POST", "/api/v1/jobs/poll", { key: world.acme.worker, ...sent })).status).toBe(
      200,
    );
  });
});

describe("a late event loop", () => {
  const statusOf = async (world: GatewayWorld, key: Parameters<GatewayWorld["ask"]>[2]) =>
    (await world.ask("GET", "/api/v1/status", key)).status;

  test("is 503 for the tenant that made it late, for no other and not for the process's health", async () => {
    const world = await openWorld({ "gateway.eventLoopDelayMs": 10 });
    const others = [world.globex.viewer, world.platform];
    await until("the tenant that computes is shed", async () => {
      world.plane.computing.time("validateWorkflow", acme, () => {
        const blockedUntilMs = performance.now() + 120;
        while (performance.now() < blockedUntilMs);
      });
      const answer = await world.ask("GET", "/api/v1/status", { key: world.acme.viewer });
      const shed = answer.status === 503;
      if (shed) expectProblem(undefined, answer, "overloaded");
      for (const key of others) expect(await statusOf(world, { key })).toBe(200);
      return shed;
    });
    expect((await world.ask("GET", "/livez")).status).toBe(200);
    await until(
      "it is let in again",
      async () => (await statusOf(world, { key: world.acme.viewer })) === 200,
    );
  });

  test("does not shed a tenant beside one that sends the largest bodies it may", async () => {
    const world = await openWorld({ "gateway.eventLoopDelayMs": 10 });
    const text = `[${"7,".repeat(1_000_000)}7]`;
    let left = 12;
    const flood = Array.from({ length: 4 }, async () => {
      for (; left > 0; left -= 1) {
        await world.ask("POST", "/api/v1/workflows/validate", { key: world.acme.viewer, text });
      }
    });
    const seen: number[] = [];
    while (left > 0) seen.push(await statusOf(world, { key: world.globex.viewer }));
    await Promise.all(flood);
    expect(seen.filter((status) => status !== 200)).toEqual([]);
    expect(seen.length).toBeGreaterThan(2);
  });
});

describe("a store that", () => {
  const reads = rows.filter(({ method, access }) => method === "GET" && typeof access !== "string");
  const writes = rows.filter(({ method, operation }) => method !== "GET" && operation !== "reportResults");
  const quick = {
    "admission.callTimeoutMs": 50,
    "admission.resolveMs": 100,
    "store.callTimeoutMs": 50,
  } as const;
  /** Answered from memory. */
  const independent = ["listWorkers", "getStatus", "pollJobs", "validateWorkflow", "dryRunWorkflow"];

  test("cannot be reached is 503 with Retry-After for every operation, and is named in the log alone", async () => {
    const world = await openWorld(quick);
    const things = await makeThings(world);
    for (const role of ["admin", "operator", "viewer", "worker"] as const) {
      await world.ask("GET", "/api/v1/status", { key: world.acme[role] });
    }
    await world.ask("GET", "/api/v1/status", { key: world.platform });
    world.setStore("unavailable");
    for (const row of [...reads, ...writes].filter(({ operation }) => !independent.includes(operation))) {
      const { body } = examples[row.operation](things);
      const key = keyFor(row, world);
      const sent = { ...(key === undefined ? {} : { key }), ...(body === undefined ? {} : { body }) };
      const answer = await world.ask(row.method, pathOf(row, things), sent);
      expectProblem(row, answer, ["store_unavailable", "concurrency_gate_unavailable"]);
      expect(answer.text).not.toContain("redis://");
    }
    await expect.poll(async () => (await world.ask("GET", "/readyz")).status).toBe(503);
    expectProblem(undefined, await world.ask("GET", "/readyz"), "store_unavailable");
    expect((await world.ask("GET", "/livez")).status).toBe(200);
    const logged = world.logged.join("\n");
    expect(logged).toContain("store down");
    expect(logged).not.toContain("canary-password");
  });

  test("whose disk is full is not ready, and neither polls nor starts hide it; with room again all goes on", async () => {
    const world = await openWorld(quick);
    await makeThings(world);
    const poll = (poll_id: string) =>
      world.ask("POST", "/api/v1/jobs/poll", {
        key: world.acme.worker,
        body: { worker_id: "w", poll_id, topics: ["t"], wait_ms: 100 },
      });
    const start = () =>
      world.ask("POST", "/api/v1/workflows/one-step/runs", { key: world.acme.operator, body: {} });
    const definition = { id: "one-step", steps: { only: { topic: "t" } } };
    await world.ask("POST", "/api/v1/workflows", { key: world.acme.admin, body: definition });
    expect((await start()).status).toBe(200);
    world.setStore("full");
    const ready = () => world.ask("GET", "/readyz");
    await expect.poll(async () => (await ready()).status).toBe(503);
    expect((await ready()).json).toMatchObject({
      code: "store_unavailable",
      detail: expect.stringContaining("disk is full"),
    });
    const status = await world.ask("GET", "/api/v1/status", { key: world.acme.viewer });
    expect(status.json).toMatchObject({
      status: "unavailable",
      detail: expect.stringContaining("disk is full"),
    });
    expectProblem(undefined, await poll("first"), "store_unavailable");
    const refused = await start();
    expectProblem(undefined, refused, "concurrency_gate_unavailable");
    expect(refused.text).toContain("/readyz");
    world.setStore("answering");
    await expect.poll(async () => (await ready()).status).toBe(200);
    expect((await poll("second")).json.jobs).toHaveLength(1);
  });

  test("does not answer in time leaves the outcome open, and says so", async () => {
    const world = await openWorld(quick);
    await makeThings(world);
    const start = {
      key: world.acme.operator,
      body: { customer: "c-9" },
      headers: { "idempotency-key": "k-unknown" },
    };
    await world.ask("GET", "/api/v1/status", { key: world.acme.operator });
    await world.ask("GET", "/api/v1/status", { key: world.platform });
    world.setStore("unknown");
    const answer = await world.ask("POST", "/api/v1/workflows/simple/runs", start);
    expectProblem(undefined, answer, "outcome_unknown");
    expect(answer.json).toMatchObject({ outcome: "unknown", run_id: expect.stringMatching(/^run_/) });
    const change = await world.ask("PATCH", "/api/v1/tenants/acme", {
      key: world.platform,
      body: { max_concurrent_runs: 1 },
    });
    expectProblem(undefined, change, ["effect_unknown", "store_unavailable"]);
    world.setStore("answering");
    expect((await world.ask("POST", "/api/v1/workflows/simple/runs", start)).status).toBe(200);
  });

  test("fails while results come in is told per result, so that none is lost", async () => {
    const world = await openWorld(quick);
    const { jobId, claimToken } = await makeThings(world);
    const results = [{ job_id: jobId, claim_token: claimToken, status: "succeeded", output: 1 }];
    const report = () =>
      world.ask("POST", "/api/v1/jobs/results", {
        key: world.acme.worker,
        body: { worker_id: "w-1", results },
      });
    world.setStore("unavailable");
    const failed = await report();
    expect(failed.status).toBe(200);
    expect(failed.json.results).toMatchObject([{ kind: "retry", because: "store_unavailable" }]);
    world.setStore("answering");
    expect((await report()).json.results).toMatchObject([{ kind: "accepted" }]);
    // A repeat is as good as the first: the worker may forget the job either way.
    const [again] = (await report()).json.results as Array<{ kind: string }>;
    expect(["accepted", "duplicate"]).toContain(again?.kind);
  });
});

describe("a stop", () => {
  test("answers waiting polls, refuses new requests, and closes the connections", async () => {
    const world = await openGatewayWorld();
    const waiting = world.ask("POST", "/api/v1/jobs/poll", { key: world.acme.worker, body: poll(30_000) });
    await until("the poll waits", () => world.gateway.inFlight() === 1);
    const kept = await openConnection(world.url);
    const closed = world.gateway.close();
    const answer = await waiting;
    expect(answer.status).toBe(200);
    expect(answer.json).toEqual({ jobs: [] });
    expect(answer.headers.get("connection")).toBe("close");
    await closed;
    expect(world.gateway.inFlight()).toBe(0);
    await expect(world.ask("GET", "/livez")).rejects.toThrow();
    kept.destroy();
    await world.plane.close();
  });

  test("refuses what comes on a connection that is still open, and says when to come back", async () => {
    const world = await openGatewayWorld({ "gateway.drainMs": 2_000 });
    // A request whose body is not complete keeps the server from ending.
    const slow = await openConnection(world.url);
    slow.write(
      `POST /api/v1/workflows HTTP/1.1\r\nHost: x\r\nX-API-Key: ${world.acme.admin.text}\r\n` +
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    );
    await until("its head was read", () => world.gateway.inFlight() === 1);
    const closed = world.gateway.close();
    const refused = await exchange(slow, `${"}".padStart(99)}GET /api/v1/status HTTP/1.1\r\nHost: x\r\n\r\n`);
    expect(refused).toMatch(/^HTTP\/1\.1 400 /);
    expect(refused.toLowerCase()).toContain("connection: close");
    await closed;
    expect(world.gateway.inFlight()).toBe(0);
    await world.plane.close();
  });

  test("cuts what does not end in time", async () => {
    const world = await openGatewayWorld({ "gateway.drainMs": 100 });
    const slow = await openConnection(world.url);
    slow.write(
      `POST /api/v1/workflows HTTP/1.1\r\nHost: x\r\nX-API-Key: ${world.acme.admin.text}\r\n` +
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    );
    await until("its head was read", () => world.gateway.inFlight() === 1);
    await world.gateway.close();
    await until("its place came back", () => world.gateway.inFlight() === 0);
    slow.destroy();
    await world.plane.close();
  });
});

describe("slow clients", () => {
  test("that never end a head or a body are cut, and hold no place", async () => {
    const world = await openWorld({ "gateway.headersTimeoutMs": 200, "gateway.requestTimeoutMs": 400 });
    const heads = await Promise.all(Array.from({ length: 50 }, () => openConnection(world.url)));
    for (const socket of heads) socket.write("GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ");
    const body = await openConnection(world.url);
    body.write(
      `POST /api/v1/workflows HTTP/1.1\r\nHost: x\r\nX-API-Key: ${world.acme.admin.text}\r\n` +
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
    );
    expect((await world.ask("GET", "/livez")).status).toBe(200);
    const ends = [...heads, body].map((socket) => exchange(socket, ""));
    for (const said of await Promise.all(ends)) expect(said).toMatch(/^HTTP\/1\.1 408 |^$/);
    await until("no place is held", () => world.gateway.inFlight() === 0);
  });

  test("that speak no HTTP, or far too much of it, are told so and cut", async () => {
    const world = await openWorld();
    expect(await exchange(await openConnection(world.url), "\u0016\u0003\u0001 hello\r\n\r\n")).toMatch(
      / 400 /,
    );
    const long = `GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(40_000)}\r\n\r\n`;
    expect(await exchange(await openConnection(world.url), long)).toMatch(/ 431 /);
    const smuggled =
      "POST /api/v1/workflows HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    expect(await exchange(await openConnection(world.url), smuggled)).toMatch(/ 400 /);
  });
});

describe("where the gateway listens", () => {
  test.each(["0.0.0.0", "::", "10.1.2.3"])("%s is refused unless it is allowed", async (host) => {
    const world = await openWorld();
    const refused = await world.gateway.listen({ host, port: 0 }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(InterlockError);
    expect(refused).toMatchObject({ code: "config_invalid" });
  });
});

describe("the metrics", () => {
  test("are for platform keys, and count what was answered", async () => {
    const world = await openWorld();
    expectProblem(undefined, await world.ask("GET", "/metrics"), "unauthenticated");
    expectProblem(undefined, await world.ask("GET", "/metrics", { key: world.acme.admin }), "forbidden");
    const { text, headers } = await world.ask("GET", "/metrics", { key: world.platform });
    expect(headers.get("content-type")).toContain("text/plain");
    expect(text).toMatch(/interlock_http_requests_total\{operation="metrics",status="401"\} 1\n/);
    expect(text).toMatch(/interlock_http_request_seconds_count\{operation="metrics"\} 2\n/);
  });

  test("are open to this machine when the setting says so", async () => {
    const world = await openWorld({ "gateway.metricsAccess": "loopback" });
    expect((await world.ask("GET", "/metrics")).status).toBe(200);
  });
});

test("what is said without a key names neither version nor tenant", async () => {
  const world = await openWorld();
  for (const path of ["/livez", "/readyz", "/nothing"]) {
    const { text, headers } = await world.ask("GET", path);
    expect(text + JSON.stringify([...headers])).not.toMatch(/interlock\/|fastify|node|0\.1\.0|acme/i);
  }
});

test("a request id is echoed when it is harmless, and made otherwise", async () => {
  const world = await openWorld();
  const ask = (id: string) => world.ask("GET", "/livez", { headers: { "x-request-id": id } });
  expect((await ask("trace-7.a:b_c")).headers.get("x-request-id")).toBe("trace-7.a:b_c");
  const made = [await ask("with space"), await ask("x".repeat(129)), await ask("<script>")];
  const ids = made.map(({ headers }) => headers.get("x-request-id"));
  for (const id of ids) expect(id).toMatch(/^req_/);
  expect(new Set(ids).size).toBe(3);
});

test("a tenant that is stopped starts nothing and gets no jobs, and goes on when it is started again", async () => {
  const world = await openWorld({ "admission.tenantCacheMs": 100 });
  await makeThings(world);
  const set = (stopped: boolean) =>
    world.ask("PATCH", `/api/v1/tenants/${acme}`, { key: world.platform, body: { stopped } });
  const start = () =>
    world.ask("POST", "/api/v1/workflows/simple/runs", { key: world.acme.operator, body: {} });
  expect((await set(true)).json).toMatchObject({ stopped: true });
  expectProblem(undefined, await start(), "tenant_stopped");
  await set(false);
  await until("it starts again", async () => (await start()).status === 200);
});

/** Sends, and gives what came until the server closed the connection. */
function exchange(socket: Socket, text: string): Promise<string> {
  return new Promise((resolve) => {
    let received = "";
    socket.on("data", (chunk: Buffer) => {
      received += chunk.toString();
    });
    socket.on("error", () => {});
    socket.once("close", () => resolve(received));
    if (text !== "") socket.write(text);
  });
}
