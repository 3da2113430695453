// What is said to whoever chooses the strategy `lock` for runs that have gates: they are admitted in one operation all the same.
import { describe, expect, test } from "vitest";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import { acme, FlowWorld, only, work } from "../support/flow-world.ts";

describe("strategy lock beside gates", () => {
  const gated = { concurrency: [{ max: 1, at_limit: "queue" }] };
  const lock = { "admission.strategy": "lock" } as const;
  const root = { actor: "root", tenant: acme } as const;

  async function withWorkflows(names: readonly string[], settings: TenantSettings = {}) {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await flow.finish(plane.api.createTenant({ actor: "root", tenant: acme, settings }));
    await plane.save("plain", { a: work() });
    for (const name of names) await plane.save(name, { a: work() }, gated);
    const shown = async () =>
      only(await flow.finish(plane.api.getPolicies({ tenant: acme })), "policies").view.warnings;
    return { flow, plane, shown };
  }
  const warning = (whose: string) =>
    `admission.strategy=lock does nothing for runs of ${whose}: workflows with gates are always started with atomic`;

  test("is warned of where it is set, and where only a share of the runs follows it", async () => {
    const { flow, plane, shown } = await withWorkflows(["tickets"]);
    expect(await shown()).toEqual([]);
    const set = only(await flow.finish(plane.api.setPolicies({ ...root, changes: lock })), "policies");
    expect(set.view.warnings).toEqual([warning("tickets")]);
    const unset = { "admission.strategy": undefined };
    only(await flow.finish(plane.api.setPolicies({ ...root, changes: unset })), "policies");
    expect(await shown()).toEqual([]);
    only(await flow.finish(plane.api.rollOut({ ...root, policies: lock, percent: 30 })), "policies");
    expect(await shown()).toEqual([warning("tickets")]);
    only(await flow.finish(plane.api.removeRollout(root)), "policies");
    const everywhere = { actor: "root", tenant: undefined, changes: lock } as const;
    const platform = only(await flow.finish(plane.api.setPolicies(everywhere)), "policies");
    expect(platform.view.warnings).toEqual([]);
    expect(await shown()).toEqual([warning("tickets")]);
  });

  test("is not where no workflow has gates; of many five are named", async () => {
    const none = await withWorkflows([]);
    only(await none.flow.finish(none.plane.api.setPolicies({ ...root, changes: lock })), "policies");
    expect(await none.shown()).toEqual([]);
    const many = await withWorkflows(["a", "b", "c", "d", "e", "f", "g"]);
    only(await many.flow.finish(many.plane.api.setPolicies({ ...root, changes: lock })), "policies");
    expect(await many.shown()).toEqual([warning("a, b, c, d, e and others")]);
  });

  test("is warned of for all runs of a tenant that queues", async () => {
    const { flow, plane, shown } = await withWorkflows([], { atLimit: "queue" });
    only(await flow.finish(plane.api.setPolicies({ ...root, changes: lock })), "policies");
    expect(await shown()).toEqual([
      "admission.strategy=lock does nothing for runs of this tenant: with at_limit=queue they are always started with atomic",
    ]);
  });
});
