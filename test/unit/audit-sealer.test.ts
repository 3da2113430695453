// Who seals audit trails and when, in virtual time: after changes, by ear, every hour, in a hurry, at a stop, after trouble.
import { describe, expect, test } from "vitest";
import { platformTenant } from "../../src/domain/tenant.ts";
import type { Bus } from "../../src/ports/bus.ts";
import { asked, sealedTo, seals, write } from "../support/audit-world.ts";
import { acme, FlowWorld, only, type PlaneOptions } from "../support/flow-world.ts";

const call = { deadlineMs: 5_000 };
/** Sweeps are not what these tests are about, and there would be 128 of them a second. */
const rarely = { "sweep.everyMs": 60_000 };
const sealing: PlaneOptions = { overrides: { ...rarely, "audit.sealEveryMs": 2_000 } };
const patient: PlaneOptions = { overrides: { ...rarely, "audit.sealEveryMs": 600_000 } };

/** Which tenants one process has changed every listener hears. */
function talkative(bus: Bus): Bus {
  const listeners = new Set<(body: string) => void>();
  return {
    ...bus,
    announce(channel, body) {
      if (channel === "events") for (const hear of listeners) hear(body);
    },
    listen(channel, hear) {
      if (channel === "events") listeners.add(hear);
      return { stop: async () => void listeners.delete(hear) };
    },
  };
}

describe("the sealer", () => {
  test("seals what its process changed within its time, and adds no row by that", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("engine", sealing);
    await flow.pass(10_000);
    await plane.save("one", { a: { type: "worker", topic: "work" } });
    expect(await sealedTo(flow)).toBe(0);
    await flow.pass(2_100);
    const { last } = only(
      await flow.world.store.readEvents({ tenant: acme, after: 0, limit: 1, of: "trail" }, call),
      "events",
    );
    expect([await sealedTo(flow), last]).toEqual([last, last]);
    await flow.pass(60_000);
    expect((await seals(flow)).map(({ revision }) => revision)).toEqual([1]);
    await plane.close();
  });

  test("asks the store nothing about tenants that nobody changes", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("engine", sealing);
    await plane.save("one", { a: { type: "worker", topic: "work" } });
    await flow.pass(10_000);
    const before = plane.member.callsOf("readEvents").length;
    await flow.pass(600_000);
    expect(plane.member.callsOf("readEvents").length).toBe(before);
    await plane.close();
  });

  test("finds by itself, when it starts and every hour, what others left unsealed", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("gateway", { ...asked, overrides: { "audit.sealEveryMs": 0 } });
    await flow.finish(
      plane.api.createTenant({ actor: "root", tenant: acme, settings: { maxConcurrentRuns: 3 } }),
    );
    expect([await sealedTo(flow), await sealedTo(flow, platformTenant)]).toEqual([0, 0]);
    const engine = await flow.open("engine", sealing);
    await flow.pass(5_000);
    expect([await sealedTo(flow), await sealedTo(flow, platformTenant)]).toEqual([1, 1]);
    await write(flow, 20);
    await flow.pass(3_500_000);
    expect(await sealedTo(flow)).toBe(1);
    await flow.pass(110_000);
    expect(await sealedTo(flow)).toBe(21);
    await engine.close();
    await plane.close();
  });

  test("of a gateway seals what the gateway changed: no other process needs to hear of it", async () => {
    const flow = new FlowWorld();
    const gateway = await flow.open("gateway", {
      overrides: { ...rarely, "process.roles": "gateway", "audit.sealEveryMs": 2_000 },
    });
    await flow.pass(10_000);
    await gateway.save("one", { a: { type: "worker", topic: "work" } });
    await flow.pass(2_500);
    expect(await sealedTo(flow)).toBe(2);
    await gateway.close();
  });

  test("is not woken by runs that start, go on and end, in its process or in others", async () => {
    const flow = new FlowWorld();
    const bus = talkative(flow.bus());
    const plane = await flow.open("engine", { ...sealing, bus });
    const other = await flow.open("other", { ...sealing, bus });
    await plane.save("one", { a: { type: "worker", topic: "work" } });
    await flow.pass(10_000);
    const asksOf = () =>
      [plane, other].map(({ member }) => {
        const rows = member.callsOf("readEvents");
        const lists = member.callsOf("listDocuments");
        return rows.length + lists.filter(({ request }) => JSON.stringify(request).includes('"seal"')).length;
      });
    const before = asksOf();
    for (let run = 0; run < 3; run += 1) {
      const runId = await plane.start("one");
      const [job] = await plane.poll();
      if (job === undefined) throw new Error("no job");
      await plane.report(job);
      await flow.ended(runId);
    }
    await flow.pass(10_000);
    expect(asksOf()).toEqual(before);
    await other.close();
    await plane.close();
  });

  test("does not wait for its time when a thousand rows do", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("engine", patient);
    await flow.pass(1_300_000);
    const save = async (row: number) =>
      plane.plane.api.changeTenant({ actor: "root", tenant: acme, changes: { maxConcurrentRuns: row + 1 } });
    await flow.finish(plane.plane.api.createTenant({ actor: "root", tenant: acme, settings: {} }));
    for (let row = 0; row < 999; row += 1) await flow.finish(save(row));
    const before = await sealedTo(flow);
    await flow.finish(save(999));
    await flow.pass(1_000);
    expect([before, await sealedTo(flow)]).toEqual([0, 1_000]);
    await plane.close();
  });

  test("seals what is left when its process stops, and not for long if the store gives no answer", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("engine", patient);
    await plane.save("one", { a: { type: "worker", topic: "work" } });
    await plane.close();
    expect(await sealedTo(flow)).toBeGreaterThan(0);
    const before = await sealedTo(flow);
    const other = await flow.open("other", patient);
    await other.save("two", { a: { type: "worker", topic: "work" } });
    other.member.fail({ listDocuments: "request_lost", readEvents: "request_lost" });
    const startedMs = flow.nowMs();
    await other.close();
    expect(flow.nowMs() - startedMs).toBeLessThan(10_000);
    expect(await sealedTo(flow)).toBe(before);
  });

  test("goes on when the store is back, and says what it could not do", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("engine", sealing);
    await flow.pass(10_000);
    plane.member.fail({ listDocuments: "unavailable" });
    await plane.save("one", { a: { type: "worker", topic: "work" } });
    await flow.pass(10_000);
    expect(await sealedTo(flow)).toBe(0);
    expect(plane.member.lines.map(({ message }) => message)).toContain("audit trails wait for their seals");
    expect(plane.metrics.total("audit_seals_total", { outcome: "trouble" })).toBeGreaterThan(0);
    expect(plane.metrics.total("audit_seals_total", { outcome: "saved" })).toBe(0);
    plane.member.fail({});
    await flow.pass(3_000);
    expect(await sealedTo(flow)).toBeGreaterThan(0);
    await plane.close();
  });
});
