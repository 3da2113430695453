// Canaries as whole flows in virtual time: measured, judged, finished by anybody, and never left half done.
import { describe, expect, test } from "vitest";
import type { StartCanaryRequest } from "../../src/control/canaries/canaries.ts";
import type { ControlApi } from "../../src/control/create-api.ts";
import type { Canary } from "../../src/domain/canary.ts";
import { readGuard } from "../../src/domain/canary-guard.ts";
import { armOf } from "../../src/domain/policy.ts";
import { platformTenant } from "../../src/domain/tenant.ts";
import { acme, type FlowPlane, FlowWorld, only, single, work } from "../support/flow-world.ts";

const call = { deadlineMs: 5_000 };

/** Handoff is what holds for all; retry with a busy run is worse in every way. */
const badPolicies = { "results.strategy": "retry", "results.wait": "fixed" } as const;

const short: Omit<StartCanaryRequest, "actor"> = {
  tenant: acme,
  policies: badPolicies,
  percent: 50,
  forMs: 3_600_000,
  windowMs: 10_000,
  guards: [],
  samplesMin: 10,
  windowsInARow: 2,
};

async function open(names: readonly string[] = ["p"]) {
  const flow = new FlowWorld();
  const bus = flow.bus();
  const planes: FlowPlane[] = [];
  for (const name of names) planes.push(await flow.open(name, { bus }));
  const [plane] = planes;
  if (plane === undefined) throw new Error("no plane");
  await flow.finish(plane.api.createTenant({ actor: "root", tenant: acme, settings: {} }));
  await plane.save("one", { a: work() });
  return { flow, plane, planes, api: plane.api };
}

type World = Awaited<ReturnType<typeof open>>;

async function start(
  { flow, api }: World,
  canary: Partial<Omit<StartCanaryRequest, "actor">> = {},
): Promise<Canary> {
  return only(await flow.finish(api.startCanary({ actor: "root", ...short, ...canary })), "canary").status
    .canary;
}

async function read({ flow }: World, api: ControlApi, id: string) {
  return only(await flow.finish(api.getCanary({ id })), "canary").status;
}

const stateOf = async (world: World, id: string) => (await read(world, world.api, id)).canary.state;

async function settings(flow: FlowWorld, tenant = acme) {
  const answer = await flow.world.store.getTenant({ tenant }, call);
  return only(answer, "tenant").record.settings;
}

/** Looks twice a second: looking at every event would be most of the work. */
async function reaches(
  flow: FlowWorld,
  state: () => Promise<string | undefined>,
  wanted: string,
  withinMs: number,
): Promise<void> {
  const endMs = flow.nowMs() + withinMs;
  while ((await state()) !== wanted) {
    if (flow.nowMs() >= endMs) throw new Error(`${await state()} instead of ${wanted} after ${withinMs} ms`);
    await flow.pass(500);
  }
}

/** Starts a run and brings its one result while somebody else owns it for a while. */
async function meetBusyRun(
  world: World,
  plane: FlowPlane,
  id: string,
  busyMs = 600,
): Promise<"canary" | "control"> {
  const { flow } = world;
  const runId = await plane.start("one");
  const job = single(await plane.poll());
  const { release } = await flow.occupy(runId);
  flow.kernel.after(busyMs, () => void release());
  let answer = await plane.report(job);
  for (let tries = 0; answer.kind === "run_busy" && tries < 20; tries += 1) {
    await flow.pass(answer.retryAfterMs);
    answer = await plane.report(job);
  }
  await flow.pass(busyMs);
  return armOf({ id, percent: 50 }, runId);
}

/** Until both sides have met this many busy runs. */
async function load(world: World, plane: FlowPlane, id: string, each: number): Promise<void> {
  const counts = { canary: 0, control: 0 };
  while (counts.canary < each || counts.control < each) counts[await meetBusyRun(world, plane, id)] += 1;
}

describe("a canary", () => {
  test("with a bad policy rolls itself back, says why, and the audit trail tells it", async () => {
    const world = await open();
    const { flow, plane } = world;
    const canary = await start(world);
    expect((await settings(flow)).rollout).toMatchObject({ id: canary.id, percent: 50 });
    for (let round = 0; round < 4 && (await stateOf(world, canary.id)) === "running"; round += 1) {
      await load(world, plane, canary.id, 6);
      await flow.pass(10_000);
    }
    await reaches(flow, () => stateOf(world, canary.id), "rolled_back", 30_000);
    const { canary: ended, book } = await read(world, world.api, canary.id);
    expect(ended.reason).toMatch(/busy_retries_per_result was \d+\.\d\d against 0\.00 of control/);
    expect(ended.reason).toMatch(/broken in [23] windows in a row/);
    expect(ended.decidedBy).toBe("canary");
    expect(book.totals.control.busyRetries).toBe(0);
    expect(book.totals.canary.busyRetries).toBeGreaterThan(10);
    expect((await settings(flow)).rollout).toBeUndefined();
    expect((await settings(flow)).resultsStrategy).toBeUndefined();
    expect(plane.metrics.total("canary_verdicts_total", { verdict: "rolled_back" })).toBe(1);
    const trail = await flow.world.store.readEvents({ tenant: platformTenant, after: 0, limit: 500 }, call);
    const rows = only(trail, "events").events.filter(({ subject }) => subject === `canary/${canary.id}`);
    expect(rows.map(({ type, actor }) => `${type} ${actor}`)).toEqual([
      "document_saved root",
      "document_saved root",
      "document_saved canary",
      "document_saved canary",
    ]);
  });

  test("with a good policy is kept at its end: the policy is set for all, and the rollout is gone", async () => {
    const world = await open();
    const { flow, plane, api } = world;
    await flow.finish(api.setPolicies({ actor: "root", tenant: acme, changes: badPolicies }));
    const policies = { "results.strategy": "handoff" } as const;
    const canary = await start(world, { policies, forMs: 120_000 });
    await load(world, plane, canary.id, 12);
    await reaches(flow, () => stateOf(world, canary.id), "kept", 240_000);
    const { canary: ended } = await read(world, api, canary.id);
    expect(ended.reason).toContain("both measures got better");
    expect((await settings(flow)).resultsStrategy).toBe("handoff");
    expect((await settings(flow)).resultsWait).toBe("fixed");
    expect((await settings(flow)).rollout).toBeUndefined();
  });

  test("without samples is inconclusive at its end and says so: the rollout is removed", async () => {
    const world = await open();
    const { flow, plane, api } = world;
    const canary = await start(world, { forMs: 60_000 });
    await reaches(flow, () => stateOf(world, canary.id), "inconclusive", 120_000);
    const { canary: ended } = await read(world, api, canary.id);
    expect(ended.reason).toContain("too few samples: 0 canary and 0 control results");
    expect(ended.endedAtMs).toBeGreaterThan(canary.endsAtMs);
    expect((await settings(flow)).rollout).toBeUndefined();
    expect((await settings(flow)).resultsStrategy).toBeUndefined();
    expect(plane.metrics.total("canary_verdicts_total", { verdict: "inconclusive" })).toBe(1);
    expect(plane.metrics.total("canary_verdicts_total")).toBe(1);
    const back = await flow.finish(api.rollBackCanary({ actor: "root", id: canary.id, reason: undefined }));
    expect(only(back, "canary_ended").state).toBe("inconclusive");
  });

  test("is the only one of its tenant, beside one of the platform", async () => {
    const world = await open();
    const first = await start(world);
    const again = await world.flow.finish(world.api.startCanary({ actor: "root", ...short }));
    expect(again).toEqual({ kind: "rollout_exists", rollout: first.id, detail: first.id });
    const { tenant: _tenant, ...ofAll } = short;
    expect((await world.flow.finish(world.api.startCanary({ actor: "root", ...ofAll }))).kind).toBe("canary");
    const changed = await world.flow.finish(
      world.api.setPolicies({ actor: "root", tenant: acme, changes: badPolicies }),
    );
    expect(changed).toEqual({ kind: "canary_running", canary: first.id, detail: `canary ${first.id}` });
  });

  test("whose rollout is removed by hand is stopped", async () => {
    const world = await open();
    const canary = await start(world);
    only(await world.flow.finish(world.api.removeRollout({ actor: "root", tenant: acme })), "policies");
    await reaches(world.flow, () => stateOf(world, canary.id), "stopped", 10_000);
    expect((await settings(world.flow)).rollout).toBeUndefined();
  });

  test("is ended by hand once: the first decision stands", async () => {
    const world = await open();
    const { flow, api } = world;
    const canary = await start(world);
    const kept = await flow.finish(api.keepCanary({ actor: "root", id: canary.id, reason: undefined }));
    expect(only(kept, "canary").status.canary).toMatchObject({ state: "kept", reason: "kept by hand" });
    expect((await settings(flow)).resultsStrategy).toBe("retry");
    const back = await flow.finish(
      api.rollBackCanary({ actor: "root", id: canary.id, reason: "changed my mind" }),
    );
    expect(only(back, "canary_ended").state).toBe("kept");
    expect(
      (await flow.finish(api.rollBackCanary({ actor: "root", id: "canary-x", reason: undefined }))).kind,
    ).toBe("canary_not_found");
  });

  test("of admission is judged by its starts", async () => {
    const world = await open();
    const { flow, plane } = world;
    const canary = await start(world, { policies: { "admission.strategy": "lock" } });
    for (let round = 0; round < 15; round += 1) await plane.start("one");
    await flow.pass(12_000);
    const { book, standings } = await read(world, world.api, canary.id);
    expect(book.totals.canary.starts + book.totals.control.starts).toBe(15);
    expect(standings.map(({ guard }) => guard.metric)).toContain("start_unavailable");
  });
});

describe("a canary that is half done", () => {
  /** The process dies between the decision and what it means. */
  async function dieBetween(world: World, id: string, operation: "keepCanary" | "rollBackCanary") {
    const { plane, flow, api } = world;
    plane.member.fail({ setTenant: "unavailable" });
    expect((await flow.finish(api[operation]({ actor: "root", id, reason: "by hand" }))).kind).toBe(
      "unavailable",
    );
  }

  test.each([
    { operation: "rollBackCanary", during: "rolling_back", after: "rolled_back", strategy: undefined },
    { operation: "keepCanary", during: "keeping", after: "kept", strategy: "retry" },
  ] as const)("is brought to $after by another process", async ({ operation, during, after, strategy }) => {
    const world = await open();
    const { flow } = world;
    const canary = await start(world);
    await dieBetween(world, canary.id, operation);
    expect(await stateOf(world, canary.id)).toBe(during);
    expect((await settings(flow)).rollout?.id).toBe(canary.id);
    const other = await flow.open("q");
    await reaches(flow, async () => (await read(world, other.api, canary.id)).canary.state, after, 20_000);
    expect((await settings(flow)).rollout).toBeUndefined();
    expect((await settings(flow)).resultsStrategy).toBe(strategy);
  });

  test("after its settings were changed, and before that was noted, is only noted", async () => {
    const world = await open();
    const { flow, plane, api } = world;
    const canary = await start(world);
    let puts = 0;
    plane.member.fail({
      putDocument: () => {
        puts += 1;
        return puts === 1 ? "ok" : "unavailable";
      },
    });
    expect(
      (await flow.finish(api.keepCanary({ actor: "root", id: canary.id, reason: undefined }))).kind,
    ).toBe("unavailable");
    expect((await settings(flow)).rollout).toBeUndefined();
    // Somebody changes the tenant meanwhile: what is only noted must not undo it.
    const { resultsStrategy } = await settings(flow);
    expect(resultsStrategy).toBe("retry");
    const other = await flow.open("q");
    await reaches(flow, async () => (await read(world, other.api, canary.id)).canary.state, "kept", 20_000);
  });

  test("because its starter died is started, or stopped when somebody else was first", async () => {
    for (const isTaken of [false, true]) {
      const world = await open();
      const { flow, plane, api } = world;
      plane.member.fail({ setTenant: "unavailable" });
      expect((await flow.finish(api.startCanary({ actor: "root", ...short }))).kind).toBe("unavailable");
      if (isTaken) {
        await flow.tenant({ rollout: { id: "another", percent: 1, policies: { "results.wait": "fixed" } } });
      }
      const other = await flow.open("q");
      const state = async () =>
        only(await flow.finish(other.api.listCanaries()), "listed").canaries[0]?.state;
      await reaches(flow, state, isTaken ? "stopped" : "running", 40_000);
      const { rollout } = await settings(flow);
      expect(rollout?.id.startsWith("canary-")).toBe(!isTaken);
    }
  });
});

describe("a guard", () => {
  test("of one's own counts before the usual ones", async () => {
    const own = readGuard("busy_retries_per_result<=1000");
    if (own.kind !== "guard") throw new Error(own.problem);
    const world = await open();
    const canary = await start(world, { guards: [own.guard] });
    expect(canary.guards.filter(({ metric }) => metric === "busy_retries_per_result")).toEqual([own.guard]);
  });
});
