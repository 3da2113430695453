// The fence guard before real servers of both kinds, and its store.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import fastify, { type FastifyInstance } from "fastify";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import {
  confirmWith,
  createClient,
  type FenceGuard,
  fenceGuard,
  fenceHeaders,
  memoryFenceStore,
} from "../../src/sdk/index.ts";
import { type GatewayWorld, makeThings, openGatewayWorld } from "../support/gateway-world.ts";

const closing: Array<() => Promise<unknown>> = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** A tool behind `(request, response, next)`, as Express has it. */
async function expressTool(guard: FenceGuard): Promise<string> {
  const server: Server = createServer((request, response) => {
    guard.express(request, response, (error) => {
      response.statusCode = error === undefined ? 200 : 500;
      response.end("done");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => new Promise((resolve) => server.close(resolve)));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function fastifyTool(guard: FenceGuard): Promise<string> {
  const app: FastifyInstance = fastify();
  app.addHook("onRequest", guard.fastify);
  app.post("/", () => "done");
  closing.push(() => app.close());
  return app.listen({ port: 0, host: "127.0.0.1" });
}

const call = async (url: string, headers: Record<string, string>) => {
  const response = await fetch(url, { method: "POST", headers });
  const type = response.headers.get("content-type");
  const text = await response.text();
  return { status: response.status, type, problem: text === "done" ? {} : (JSON.parse(text) as object) };
};

describe.each([
  ["an Express-style server", expressTool],
  ["a Fastify server", fastifyTool],
])("before %s", (_, tool) => {
  test("the newest holder passes, again and again; an older one is refused with 412", async () => {
    const url = await tool(fenceGuard());
    const first = fenceHeaders({ resource: "invoice/7", fence: 10 });
    const second = fenceHeaders({ resource: "invoice/7", fence: 11 });
    expect((await call(url, first)).status).toBe(200);
    expect((await call(url, first)).status).toBe(200);
    expect((await call(url, second)).status).toBe(200);
    const refused = await call(url, first);
    expect(refused).toMatchObject({
      status: 412,
      type: expect.stringContaining("application/problem+json") as string,
      problem: { code: "fence_superseded", status: 412, resource: "invoice/7", fence: 10, retryable: false },
    });
    // Another resource has fences of its own.
    expect((await call(url, fenceHeaders({ resource: "invoice/8", fence: 1 }))).status).toBe(200);
  });

  test("calls without a fence are refused, or let through where that is allowed; malformed ones never", async () => {
    const strict = await tool(fenceGuard());
    const open = await tool(fenceGuard({ missing: "through" }));
    expect(await call(strict, {})).toMatchObject({ status: 400, problem: { code: "fence_required" } });
    expect((await call(open, {})).status).toBe(200);
    const malformed = [
      { "interlock-fence": "7" },
      { "interlock-fence-resource": "r" },
      { "interlock-fence": "-1", "interlock-fence-resource": "r" },
      { "interlock-fence": "1e3", "interlock-fence-resource": "r" },
      { "interlock-fence": "99999999999999999999", "interlock-fence-resource": "r" },
      { "interlock-fence": "7", "interlock-fence-resource": "%E0%A4" },
      { "interlock-fence": "7, 8", "interlock-fence-resource": "r" },
    ];
    for (const headers of malformed as Array<Record<string, string>>) {
      expect([headers, (await call(open, headers)).status]).toEqual([headers, 400]);
    }
  });

  test("a store that breaks is the tool's own failure, not a verdict", async () => {
    const url = await tool(fenceGuard({ store: { admit: () => Promise.reject(new Error("no database")) } }));
    expect(
      (await fetch(url, { method: "POST", headers: fenceHeaders({ resource: "r", fence: 1 }) })).status,
    ).toBe(500);
  });
});

test("names of any script travel in header fields, and come out as they were", async () => {
  const url = await expressTool(
    fenceGuard({
      store: {
        admit: (resource) => {
          seen.push(resource);
          return "admitted";
        },
      },
    }),
  );
  const seen: string[] = [];
  const names = ["report/week-46", "größe 100%", "請求書", "run_1:step[3]@2"];
  for (const resource of names) await call(url, { ...fenceHeaders({ resource, fence: 1 }) });
  expect(seen).toEqual(names);
});

describe("the store in memory", () => {
  test("admits exactly those that are not below the highest seen, whatever the order", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom("a", "b"), fc.integer({ min: 1, max: 6 }))), (calls) => {
        const store = memoryFenceStore();
        const highest: Record<string, number> = {};
        for (const [resource, fence] of calls) {
          const expected = fence >= (highest[resource] ?? 0) ? "admitted" : "superseded";
          highest[resource] = Math.max(fence, highest[resource] ?? 0);
          expect(store.admit(resource, fence)).toBe(expected);
        }
      }),
    );
  });

  test("is bounded, and forgets what was called for longest ago", () => {
    const store = memoryFenceStore({ resourcesMax: 2 });
    for (const resource of ["a", "b", "a", "c"]) store.admit(resource, 5);
    expect(store.admit("a", 4)).toBe("superseded");
    expect(store.admit("b", 4)).toBe("admitted");
  });
});

describe("asking Interlock whether an attempt is still the current one", () => {
  let world: GatewayWorld;
  beforeAll(async () => {
    world = await openGatewayWorld();
  });
  afterAll(() => world.close());

  test("refuses one whose job has ended, before any other has called; and says when it cannot ask", async () => {
    const things = await makeThings(world);
    const client = createClient({ url: world.url, apiKey: world.acme.worker.text });
    const url = await expressTool(fenceGuard({ confirm: confirmWith(client) }));
    const claimed = fenceHeaders({ resource: "r", fence: 1, job: things.jobId });
    const failed = fenceHeaders({ resource: "r", fence: 2, job: things.letterId });
    const unheard = fenceHeaders({ resource: "r", fence: 3, job: `${things.runId}:one@9` });
    expect((await call(url, claimed)).status).toBe(200);
    expect(await call(url, failed)).toMatchObject({ status: 412 });
    expect(await call(url, unheard)).toMatchObject({ status: 412 });
    // A lock's holder has no job to ask about.
    expect((await call(url, fenceHeaders({ resource: "r", fence: 1 }))).status).toBe(200);
    world.setStore("unavailable");
    expect(await call(url, claimed)).toMatchObject({ status: 503, problem: { retryable: true } });
    world.setStore("answering");
  });
});
