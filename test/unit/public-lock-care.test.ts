// Renewing, releasing, looking at and breaking locks: by token, by name, and by operators.
import { describe, expect, test } from "vitest";
import type { Fence, LockToken } from "../../src/domain/lock.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { acme, acquired, lockWorld, report } from "../support/public-locks.ts";

const globex = "globex" as TenantId;
const stranger = "somebody-else-0000" as LockToken;

describe("a holder", () => {
  test("keeps its lock by renewing it, and the time counts from when it asked", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const lock = acquired(await world.kernel.complete(p.acquire({ ttlMs: 1_000 })));
    await world.kernel.run({ untilMs: 900 });
    p.fail({ renewLock: { replyAfterMs: 200 } });
    const grant = { resource: report, token: lock.token, ttlMs: 2_000 };
    const renewed = await world.kernel.complete(p.api.renewLock({ tenant: acme, ...grant }));
    expect(renewed).toMatchObject({ kind: "renewed", fence: lock.fence, expiresInMs: 1_800 });
    expect(renewed).toMatchObject({ expiresAtMs: world.server.timeMs() + 1_800 });
  });

  test("that is too late, or not the holder, is told so and changes nothing", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const lock = acquired(await world.kernel.complete(p.acquire({ ttlMs: 1_000 })));
    const renew = (token: LockToken) =>
      world.kernel.complete(p.api.renewLock({ tenant: acme, resource: report, token, ttlMs: 60_000 }));
    expect(await renew(stranger)).toEqual({ kind: "lock_not_owned" });
    expect(await world.kernel.complete(p.release(stranger))).toEqual({ kind: "lock_not_owned" });
    expect(await world.kernel.complete(p.release(lock.token, "another"))).toEqual({ kind: "lock_not_owned" });
    const shown = await world.kernel.complete(p.api.inspectLock({ tenant: acme, resource: report }));
    expect(shown).toMatchObject({ kind: "held", fence: lock.fence, expiresInMs: 1_000 });
    await world.kernel.run({ untilMs: 1_002 });
    expect(await renew(lock.token)).toEqual({ kind: "lock_not_owned" });
    expect(await world.kernel.complete(p.release(lock.token))).toEqual({ kind: "lock_not_owned" });
    expect(p.metrics.total("lock_not_owned_total", { lock: "public", operation: "renew" })).toBe(2);
    expect(p.metrics.total("lock_not_owned_total", { lock: "public", operation: "release" })).toBe(3);
    expect(new Set(p.lines.map(({ message }) => message))).toEqual(new Set(["lock not owned"]));
    for (const { fields } of p.lines) expect(JSON.stringify(fields)).not.toContain(lock.token);
  });

  test("whose release was not answered hears of its end when it asks again, also after the lock went on", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const q = world.process("q");
    const lock = acquired(await world.kernel.complete(p.acquire()));
    const next = q.acquire({ waitMs: 20_000 });
    await world.kernel.run({ untilMs: 10 });
    p.fail({ releaseLock: ["reply_lost"] });
    expect(await world.kernel.complete(p.release(lock.token))).toEqual({ kind: "released" });
    expect((await world.kernel.complete(next)).kind).toBe("acquired");
    expect(p.metrics.total("lock_not_owned_total")).toBe(0);
  });

  test("whose release is never answered hears that it is unknown", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const lock = acquired(await world.kernel.complete(p.acquire()));
    p.fail({ releaseLock: "request_lost", renewLock: "reply_lost" });
    expect((await world.kernel.complete(p.release(lock.token))).kind).toBe("unknown");
    const grant = { resource: report, token: lock.token, ttlMs: 1_000 };
    expect((await world.kernel.complete(p.api.renewLock({ tenant: acme, ...grant }))).kind).toBe("unknown");
  });
});

describe("lists", () => {
  test("show a tenant's public locks page by page, and no other kind", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const names = ["a", "a/b", "b", "c", "z"];
    for (const resource of names) await world.kernel.complete(p.acquire({ resource }));
    for (const namespace of ["admission", "approval", "job"] as const) {
      const lock = { namespace, name: namespace === "admission" ? "" : "x" };
      const request = { tenant: acme, lock, token: stranger, instance: "i", ttlMs: 60_000 };
      await world.store.acquireLock(request, { deadlineMs: 1 });
    }
    const seen: string[] = [];
    let after = "";
    for (let pages = 0; ; pages += 1) {
      expect(pages).toBeLessThan(4);
      const answer = await world.kernel.complete(p.api.listLocks({ tenant: acme, after, limit: 2 }));
      if (answer.kind !== "listed") throw new Error(answer.kind);
      expect(JSON.stringify(answer)).not.toContain(stranger);
      seen.push(...answer.locks.map(({ resource }) => resource));
      if (answer.next === undefined) break;
      after = answer.next;
    }
    expect(seen).toEqual(names);
    const all = await world.kernel.complete(p.api.listAllLocks({ tenant: acme, after: "", limit: 100 }));
    if (all.kind !== "listed") throw new Error(all.kind);
    expect(all.locks).toHaveLength(8);
    expect(all.locks[0]).toMatchObject({ tenant: acme, lock: { namespace: "admission", name: "" } });
  });

  test("show every lock of every tenant once, however small the pages", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const tenants = Array.from({ length: 7 }, (_, index) => `tenant${index}` as TenantId);
    for (const [index, tenant] of tenants.entries()) {
      const place = { tenant: "platform" as TenantId, collection: "tenant", id: tenant } as const;
      const document = { ...place, body: "{}", expectedRevision: 0, changeId: tenant, actor: "setup" };
      await world.store.putDocument(document, { deadlineMs: 1 });
      for (let made = 0; made < index % 3; made += 1) {
        const caller = { tenant, actor: "ann" };
        await world.kernel.complete(p.acquire({ caller, resource: `r${made}` }));
      }
    }
    const expected = ["tenant1/r0", "tenant2/r0", "tenant2/r1", "tenant4/r0", "tenant5/r0", "tenant5/r1"];
    for (const limit of [1, 2, 3, 6, 100]) {
      const seen: string[] = [];
      let after = "";
      for (let pages = 0; ; pages += 1) {
        expect(pages).toBeLessThan(20);
        const answer = await world.kernel.complete(p.api.listAllLocks({ tenant: undefined, after, limit }));
        if (answer.kind !== "listed") throw new Error(answer.kind);
        expect(answer.locks.length).toBeLessThanOrEqual(limit);
        seen.push(...answer.locks.map(({ tenant, lock }) => `${tenant}/${lock.name}`));
        if (answer.next === undefined) break;
        after = answer.next;
      }
      expect(seen).toEqual(expected);
    }
  });
});

describe("an operator", () => {
  test("breaks only the grant it has seen, leaves who and why behind, and may repeat it", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const lock = { namespace: "public", name: report } as const;
    const order = { actor: "ops", tenant: acme, lock, reason: "its agent is gone" };
    const first = acquired(await world.kernel.complete(p.acquire()));
    const older = { ...order, fence: (first.fence - 1) as Fence };
    expect(await world.kernel.complete(p.api.breakLock(older))).toEqual({
      kind: "lock_superseded",
      fence: first.fence,
    });
    const theirs = { ...order, tenant: globex, fence: first.fence };
    expect(await world.kernel.complete(p.api.breakLock(theirs))).toEqual({ kind: "lock_not_found" });
    p.fail({ breakLock: ["reply_lost"] });
    const meant = { ...order, fence: first.fence };
    expect(await world.kernel.complete(p.api.breakLock(meant))).toEqual({ kind: "broken" });
    expect(p.metrics.total("locks_broken_total", { lock: "public" })).toBe(1);
    expect(await world.kernel.complete(p.api.inspectLock({ tenant: acme, resource: report }))).toMatchObject({
      kind: "lock_not_found",
    });
    const events = await world.store.readEvents({ tenant: acme, after: 0, limit: 10 }, { deadlineMs: 1 });
    expect(JSON.stringify(events)).toContain("its agent is gone");
    const { message, fields } = p.lines.at(-1) ?? {};
    expect(message).toBe("lock broken by an operator");
    expect(fields).toMatchObject({ tenant: acme, name: report, actor: "ops", reason: "its agent is gone" });
  });
});
