// Public locks over HTTP: what holders, waiters and operators see, and what nobody else learns.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LockToken } from "../../src/domain/lock.ts";
import { expectProblem, type Row, rows } from "../support/gateway-requests.ts";
import {
  acme,
  type GatewayWorld,
  openGatewayWorld,
  type Received,
  type TestKey,
} from "../support/gateway-world.ts";

let world: GatewayWorld;
beforeAll(async () => {
  // On a busy machine nobody may lose its place for being late.
  world = await openGatewayWorld({ "locks.public.ticketMs": 10_000 });
});
afterAll(() => world.close());

const rowOf = (operation: string) => rows.find((row) => row.operation === operation) as Row;

const post = (
  verb: "acquire" | "renew" | "release",
  body: object,
  { key = world.acme.worker, signal }: { readonly key?: TestKey; readonly signal?: AbortSignal } = {},
): Promise<Received> =>
  world.ask("POST", `/api/v1/locks/${verb}`, { key, body, ...(signal === undefined ? {} : { signal }) });

const show = (resource: string, key: TestKey = world.acme.viewer) =>
  world.ask("GET", `/api/v1/locks?resource=${encodeURIComponent(resource)}`, { key });

const forceRelease = (body: object, key: TestKey) =>
  world.ask("POST", "/api/v1/admin/locks/force-release", { key, body });

/** Until it is so, for five seconds at most. */
async function eventually(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const deadlineMs = performance.now() + 5_000;
  while (!(await isSo())) {
    if (performance.now() > deadlineMs) throw new Error(`never: ${what}`);
    await new Promise((resolve) => {
      setTimeout(resolve, 5);
    });
  }
}

const queued = (resource: string, count: number) =>
  eventually(`${count} queue for ${resource}`, async () => (await show(resource)).json.waiting === count);

type Times = { readonly waited_ms: number; readonly expires_in_ms: number };

describe("a lock", () => {
  test("is acquired, shown, renewed and released", async () => {
    const acquired = await post("acquire", { resource: "customer/42", owner: "agent 1", ttl_ms: 60_000 });
    expect(acquired.status).toBe(200);
    const { token, fence } = acquired.json;
    expect(acquired.json).toMatchObject({ resource: "customer/42", owner: "agent 1", ttl_ms: 60_000 });
    expect(acquired.json.expires_in_ms).toBeGreaterThan(59_000);
    expect(acquired.json.expires_at).toMatch(/^20\d\d-.*Z$/);
    expect(token).toMatch(/^[A-Za-z0-9_-]{16,128}$/);
    const shown = await show("customer/42");
    expect(shown.json).toMatchObject({ resource: "customer/42", owner: "agent 1", fence, waiting: 0 });
    expect(shown.text).not.toContain(String(token));
    const renewed = await post("renew", { resource: "customer/42", token, ttl_ms: 120_000 });
    expect(renewed.json).toMatchObject({ resource: "customer/42", fence, ttl_ms: 120_000 });
    expect(renewed.json.expires_in_ms).toBeGreaterThan(119_000);
    expect(renewed.text).not.toContain(String(token));
    const released = await post("release", { resource: "customer/42", token });
    expect(released.json).toEqual({ resource: "customer/42", released: true });
    const again = await post("release", { resource: "customer/42", token });
    expect(again.json).toEqual(released.json);
    expectProblem(rowOf("listLocks"), await show("customer/42"), "lock_not_found");
    const next = await post("acquire", { resource: "customer/42" });
    expect(Number(next.json.fence)).toBeGreaterThan(Number(fence));
    expect(next.json.owner).toBe(world.acme.worker.key.keyId);
  });

  test("is neither renewed nor released by a caller with another token, or none", async () => {
    const { token } = (await post("acquire", { resource: "door", ttl_ms: 60_000 })).json;
    for (const verb of ["renew", "release"] as const) {
      const stranger = { resource: "door", token: "somebody-else-00000001" };
      expectProblem(rowOf(`${verb}Lock`), await post(verb, stranger), "lock_not_owned");
      const elsewhere = { resource: "another/door", token };
      expectProblem(rowOf(`${verb}Lock`), await post(verb, elsewhere), "lock_not_owned");
      const theirs = await post(verb, { resource: "door", token }, { key: world.globex.worker });
      expectProblem(rowOf(`${verb}Lock`), theirs, "lock_not_owned");
      for (const missing of [{}, { token: "" }, { token: null }]) {
        const answer = await post(verb, { resource: "door", ...missing });
        expectProblem(rowOf(`${verb}Lock`), answer, "invalid_request");
        expect(answer.json.detail).toMatch(/^token: /);
      }
    }
    expect((await show("door")).status).toBe(200);
    expect(world.logged.join("\n")).toContain("lock not owned");
    expect(world.logged.join("\n")).not.toContain(String(token));
  });

  test("of another tenant is another lock", async () => {
    expect((await post("acquire", { resource: "same" })).status).toBe(200);
    expect((await post("acquire", { resource: "same" }, { key: world.globex.worker })).status).toBe(200);
    const theirs = await world.ask("GET", "/api/v1/locks", { key: world.globex.viewer });
    expect((theirs.json.items as unknown[]).length).toBe(1);
  });

  test("that is held names its holder to a caller that is refused", async () => {
    const { token } = (await post("acquire", { resource: "busy", owner: "agent 9", ttl_ms: 60_000 })).json;
    const refused = await post("acquire", { resource: "busy" });
    expectProblem(rowOf("acquireLock"), refused, "lock_unavailable");
    expect(refused.json).toMatchObject({
      error: "lock unavailable",
      resource: "busy",
      waited_ms: expect.any(Number),
    });
    const holder = refused.json.holder as Record<string, number | string>;
    expect(holder.owner).toBe("agent 9");
    expect(holder.expires_in_ms).toBeGreaterThan(55_000);
    expect(holder.held_for_ms).toBeGreaterThanOrEqual(0);
    expect(refused.text).not.toContain(String(token));
  });

  test.each([
    ["resource", ""],
    ["resource", "x".repeat(513)],
    ["resource", "two words"],
    ["resource", "line\nbreak"],
    ["resource", "right\u202Eleft"],
    ["owner", "x".repeat(257)],
    ["ttl_ms", 99],
    ["ttl_ms", 3_600_001],
    ["ttl_ms", 1_000.5],
    ["wait_ms", -1],
    ["wait_ms", 60_001],
    ["wait", "lifo"],
    ["mode", "shared"],
    ["token", "short"],
    ["token", "x".repeat(129)],
    ["token", "0123456789012345!"],
  ])("with a wrong %s is refused by name: %j", async (field, value) => {
    const answer = await post("acquire", { resource: "fine", [field]: value });
    expectProblem(rowOf("acquireLock"), answer, "invalid_request");
    expect(answer.json.detail).toContain(`${field}: `);
    if (field === "mode") expect(answer.json.detail).toContain("only exclusive locks are offered");
  });

  test("takes names of any script, and the longest that are allowed", async () => {
    for (const resource of ["Rechnung/ä-7", "発注/42", "a".repeat(512), "😀"]) {
      expect((await post("acquire", { resource })).json.resource).toBe(resource);
      expect((await show(resource)).json.resource).toBe(resource);
    }
  });
});

describe("a caller that waits", () => {
  test("gets the lock when it is released, in the order of asking", async () => {
    const first = await post("acquire", { resource: "queue", ttl_ms: 60_000 });
    const order: string[] = [];
    const waiting: Promise<void>[] = [];
    for (const owner of ["a", "b", "c"]) {
      const wait = { resource: "queue", owner, wait_ms: 20_000, ttl_ms: 60_000 };
      waiting.push(
        post("acquire", wait).then(async ({ json }) => {
          order.push(String(json.owner));
          expect(json.waited_ms).toBeGreaterThan(0);
          await post("release", { resource: "queue", token: json.token });
        }),
      );
      await queued("queue", waiting.length);
    }
    await post("release", { resource: "queue", token: first.json.token });
    await Promise.all(waiting);
    expect(order).toEqual(["a", "b", "c"]);
  });

  test("knows by the guide's rule when its lock ends: never too late, and early by what was under way alone", async () => {
    const guide = readFileSync("docs/guide/locks.md", "utf8");
    expect(guide).toContain("a lock ends `waited_ms` + `expires_in_ms` after you sent the acquire");
    const first = await post("acquire", { resource: "timed", ttl_ms: 60_000 });
    const sentMs = performance.now();
    const waiting = post("acquire", { resource: "timed", wait_ms: 20_000, ttl_ms: 60_000 });
    await eventually("it has waited for long", async () => performance.now() - sentMs > 500);
    const releasedMs = performance.now();
    await post("release", { resource: "timed", token: first.json.token });
    const releaseMs = performance.now() - releasedMs;
    const { waited_ms: waitedMs, expires_in_ms: expiresInMs } = (await waiting).json as Times;
    const underWayMs = performance.now() - sentMs - waitedMs + releaseMs;
    const endsMs = sentMs + waitedMs + expiresInMs;
    const lookedMs = performance.now();
    const { expires_in_ms: leftMs } = (await show("timed")).json as Times;
    expect(endsMs).toBeLessThanOrEqual(performance.now() + leftMs + 1);
    expect(endsMs).toBeGreaterThanOrEqual(lookedMs + leftMs - underWayMs - 3);
  });

  test("twice with one token waits in both, and both are told of the same grant", async () => {
    const first = await post("acquire", { resource: "twice", ttl_ms: 60_000 });
    const body = { resource: "twice", token: "agent-7-order-43-attempt-1", wait_ms: 20_000 };
    const waiting = [post("acquire", body), post("acquire", body)];
    await eventually("both wait", async () => {
      const { text } = await world.ask("GET", "/metrics", { key: world.metrics });
      return /lock_waiters(\{\})? 2\n/.test(text);
    });
    await post("release", { resource: "twice", token: first.json.token });
    const [one, other] = await Promise.all(waiting);
    expect(one?.status).toBe(200);
    expect(other?.json).toMatchObject({ token: body.token, fence: one?.json.fence });
  });

  test("and goes away leaves the queue", async () => {
    const first = await post("acquire", { resource: "leaving", ttl_ms: 60_000 });
    const gone = new AbortController();
    const waiting = post("acquire", { resource: "leaving", wait_ms: 20_000 }, { signal: gone.signal });
    await queued("leaving", 1);
    gone.abort();
    await expect(waiting).rejects.toThrow();
    await queued("leaving", 0);
    await post("release", { resource: "leaving", token: first.json.token });
    expectProblem(rowOf("listLocks"), await show("leaving"), "lock_not_found");
  });

  test("too long is told who holds it, after its time and with its place given back", async () => {
    await post("acquire", { resource: "long", owner: "slow", ttl_ms: 60_000 });
    const refused = await post("acquire", { resource: "long", wait_ms: 300 });
    expectProblem(rowOf("acquireLock"), refused, "lock_unavailable");
    expect(refused.json.waited_ms).toBeGreaterThanOrEqual(300);
    expect((await show("long")).json.waiting).toBe(0);
  });

  test("repeats safely with a token of its own, until it is released", async () => {
    const body = { resource: "mine", token: "agent-7-order-42-attempt-1", ttl_ms: 60_000 };
    const first = await post("acquire", body);
    const again = await post("acquire", body);
    expect(again.json).toMatchObject({ token: body.token, fence: first.json.fence });
    await post("release", { resource: "mine", token: body.token });
    expectProblem(rowOf("acquireLock"), await post("acquire", body), "lock_token_used");
  });

  test("with jitter or fixed pauses gets it too", async () => {
    for (const wait of ["jitter", "fixed"]) {
      const first = await post("acquire", { resource: wait, ttl_ms: 60_000 });
      const waiting = post("acquire", { resource: wait, wait, wait_ms: 20_000 });
      await post("release", { resource: wait, token: first.json.token });
      expect((await waiting).status).toBe(200);
    }
  });

  test("is let go when the server stops, with the word to come back", async () => {
    const own = await openGatewayWorld();
    const ask = (body: object) => own.ask("POST", "/api/v1/locks/acquire", { key: own.acme.worker, body });
    await ask({ resource: "r", ttl_ms: 60_000 });
    const waiting = ask({ resource: "r", wait_ms: 60_000 });
    await eventually("somebody queues", async () => {
      const found = await own.plane.api.inspectLock({ tenant: acme, resource: "r" });
      return found.kind === "held" && found.waiting === 1;
    });
    await own.close();
    expectProblem(rowOf("acquireLock"), await waiting, "draining");
  });

  test("with too many others is refused with the word to come back", async () => {
    const own = await openGatewayWorld({ "locks.public.waitersMax": 1 });
    try {
      const ask = (body: object) => own.ask("POST", "/api/v1/locks/acquire", { key: own.acme.worker, body });
      await ask({ resource: "r", ttl_ms: 60_000 });
      const waiting = ask({ resource: "r", wait_ms: 500 });
      await eventually("somebody queues", async () => {
        const found = await own.plane.api.inspectLock({ tenant: acme, resource: "r" });
        return found.kind === "held" && found.waiting === 1;
      });
      expectProblem(rowOf("acquireLock"), await ask({ resource: "other", wait_ms: 500 }), "overloaded");
      expectProblem(rowOf("acquireLock"), await waiting, "lock_unavailable");
    } finally {
      await own.close();
    }
  });
});

describe("a store that does not answer", () => {
  test("leaves the outcome unknown with the token to ask again, and never a yes or a no", async () => {
    const own = await openGatewayWorld({ "store.callTimeoutMs": 50 });
    try {
      const key = own.acme.worker;
      await own.ask("GET", "/api/v1/status", { key });
      own.setStore("unknown");
      const body = { resource: "r", ttl_ms: 60_000 };
      const unknown = await own.ask("POST", "/api/v1/locks/acquire", { key, body });
      expectProblem(rowOf("acquireLock"), unknown, "lock_outcome_unknown");
      expect(unknown.json.outcome).toBe("unknown");
      const { token } = unknown.json;
      expect(own.logged.join("\n")).not.toContain(String(token));
      const renewing = await own.ask("POST", "/api/v1/locks/renew", { key, body: { resource: "r", token } });
      expectProblem(rowOf("renewLock"), renewing, "effect_unknown");
      own.setStore("unavailable");
      const refused = await own.ask("POST", "/api/v1/locks/acquire", { key, body });
      expectProblem(rowOf("acquireLock"), refused, "store_unavailable");
      expect(refused.text).not.toContain("canary");
      own.setStore("answering");
      const again = await own.ask("POST", "/api/v1/locks/acquire", { key, body: { ...body, token } });
      expect(again.json.token).toBe(token);
    } finally {
      await own.close();
    }
  });
});

describe("an operator", () => {
  const locksOf = async (key: TestKey, query = "") => {
    const answer = await world.ask("GET", `/api/v1/admin/locks${query}`, { key });
    expect(answer.status, answer.text).toBe(200);
    return answer.json.items as Array<Record<string, unknown>>;
  };

  test("of the platform sees every lock of every tenant and kind, one of a tenant its own", async () => {
    const name = "seen";
    await post("acquire", { resource: name, owner: "agent 3", ttl_ms: 60_000 });
    await post("acquire", { resource: name, ttl_ms: 60_000 }, { key: world.globex.worker });
    const lock = { namespace: "job", name: "run:step@1" } as const;
    const request = { tenant: acme, lock, token: "j" as LockToken, instance: "host:1:2", ttlMs: 60_000 };
    await world.plane.ports.store.acquireLock(request, { deadlineMs: 1_000 });
    const all = await locksOf(world.platform, "?limit=500");
    const found = all.filter((one) => one.name === name).map(({ tenant }) => tenant);
    expect(found).toEqual(["acme", "globex"]);
    const job = all.find(({ namespace }) => namespace === "job");
    expect(job).toMatchObject({ tenant: "acme", name: "run:step@1", instance: "host:1:2", waiting: 0 });
    expect(Number(job?.expires_in_ms)).toBeGreaterThan(50_000);
    const own = await locksOf(world.acme.admin, "?limit=500");
    expect(new Set(own.map(({ tenant }) => tenant))).toEqual(new Set(["acme"]));
    expect(own.length).toBe(all.filter(({ tenant }) => tenant === "acme").length);
    expect(await locksOf(world.platform, "?limit=500&tenant=globex")).toHaveLength(
      all.filter(({ tenant }) => tenant === "globex").length,
    );
    const seen = own.find((one) => one.name === name);
    expect(seen).toMatchObject({
      namespace: "public",
      owner: "agent 3",
      instance: world.plane.ports.instance,
    });
  });

  test("takes a lock from its holder, and the next in line has it at once", async () => {
    const stuck = await post("acquire", { resource: "stuck", owner: "gone", ttl_ms: 3_600_000 });
    const next = post("acquire", { resource: "stuck", owner: "next", wait_ms: 20_000 });
    await queued("stuck", 1);
    const order = { tenant: "acme", namespace: "public", name: "stuck", reason: "agent 4 was shut down" };
    const broken = await forceRelease({ ...order, fence: stuck.json.fence }, world.platform);
    expect(broken.json).toMatchObject({
      tenant: "acme",
      name: "stuck",
      fence: stuck.json.fence,
      released: true,
    });
    expect((await next).json).toMatchObject({ owner: "next" });
    const renewal = { resource: "stuck", token: stuck.json.token };
    expectProblem(rowOf("renewLock"), await post("renew", renewal), "lock_not_owned");
    const events = await world.plane.ports.store.readEvents(
      { tenant: acme, after: 0, limit: 1_000 },
      { deadlineMs: 1_000 },
    );
    const audited = JSON.stringify(events);
    expect(audited).toContain("agent 4 was shut down");
    expect(audited).toContain(world.platform.key.keyId);
  });

  test("cannot take what it has not seen, what is not held, or without a reason", async () => {
    const row = rowOf("breakLock");
    const held = await post("acquire", { resource: "kept", ttl_ms: 60_000 });
    const fence = Number(held.json.fence);
    const order = { namespace: "public", name: "kept", fence, reason: "because" };
    const older = await forceRelease({ ...order, fence: fence - 1 }, world.acme.admin);
    expectProblem(row, older, "lock_superseded");
    expect(older.json.fence).toBe(fence);
    expectProblem(
      row,
      await forceRelease({ ...order, name: "nobody's" }, world.acme.admin),
      "lock_not_found",
    );
    expectProblem(row, await forceRelease(order, world.globex.admin), "lock_not_found");
    const foreign = { ...order, tenant: "acme" };
    expectProblem(row, await forceRelease(foreign, world.globex.admin), "tenant_mismatch");
    expectProblem(row, await forceRelease(order, world.platform), "invalid_request");
    for (const reason of ["", "  ", undefined]) {
      const answer = await forceRelease({ ...order, reason }, world.acme.admin);
      expectProblem(row, answer, "invalid_request");
      expect(answer.json.detail).toContain("reason: ");
    }
    for (const role of ["operator", "worker", "viewer"] as const) {
      expectProblem(row, await forceRelease(order, world.acme[role]), "forbidden");
    }
    expect((await show("kept")).json.fence).toBe(fence);
    expect((await forceRelease(order, world.acme.admin)).status).toBe(200);
  });
});
