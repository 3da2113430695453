// What has gone wrong in systems like this one, on every store: each test is named after what must hold.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RunChange, RunId, RunRecord } from "../../src/domain/run.ts";
import { InterlockError } from "../../src/errors.ts";
import type { OperationName } from "../../src/ports/store.ts";
import { type StoreHost, startStoreHost, storeNames } from "../support/stores.ts";
import { expectOnce, work } from "./step-types-table.ts";
import { type Scene, type Steps, until, type Work, World, type WorldOptions } from "./step-types-world.ts";

const calls = (workflow: string): Steps[string] => ({
  type: "subworkflow",
  input: { workflow_id: workflow },
});

/** A run that its owner left is taken up sooner than usual. */
const impatient: WorldOptions = {
  overrides: { "locks.run.handoffTtlMs": 800, "jobs.leaseMs": 600 },
  settings: { attentionMs: 800 },
};

describe.each(storeNames)("%s", (store) => {
  let host: StoreHost;
  let world: World;
  const worlds: World[] = [];

  async function openWorld(options: WorldOptions = {}): Promise<World> {
    const opened = await World.open(host, options);
    worlds.push(opened);
    return opened;
  }

  beforeAll(async () => {
    host = await startStoreHost(store);
    world = await openWorld();
  });

  afterAll(async () => {
    await Promise.all(worlds.map((one) => one.close()));
    await host?.close();
  });

  test.concurrent("a child run's end wakes its parent at once", async () => {
    // What the sweep would find it finds in a minute.
    const here = (await openWorld({ sweep: "none" })).scene("wakes");
    await here.save("c", { it: work() });
    await here.save("b", { call: calls("c") });
    await here.save("a", { call: calls("b"), after: work({ depends_on: ["call"] }) });
    here.worker(({ step }) => step);
    const ended = await here.ended(await here.start("a"));
    expect(ended.status).toBe("succeeded");
    expect(ended.steps.call?.output).toBe("it");
  });

  describe.each(["before", "after"] as const)("a crash right %s it is stored", (moment) => {
    test.concurrent("a crash while a child run is being started does not start it twice", async () => {
      const here = await crash(`start-${moment}`, (change) => change.children.length > 0);
      const { root } = here;
      const ended = await here.scene.ended(root);
      expect(ended.status).toBe("succeeded");
      expect(ended.steps.call).toMatchObject({ attempts: 1, output: "it" });
      expect(await runsOf(here.scene)).toHaveLength(2);
      await here.scene.world.close();
    });

    test.concurrent("a crash while a child run ends does not leave its parent waiting", async () => {
      const here = await crash(`end-${moment}`, (change, runId, root) => {
        return runId !== root && change.status === "succeeded";
      });
      const ended = await here.scene.ended(here.root);
      expect(ended.status).toBe("succeeded");
      const done = ended.commits
        .flat()
        .filter(({ type, step }) => type === "step_completed" && step === "call");
      expect(done).toHaveLength(1);
      expect(await runsOf(here.scene)).toHaveLength(2);
      await here.scene.world.close();
    });

    test.concurrent("a crash while a tree is being cancelled does not leave a child behind", async () => {
      const here = await crash(`cancel-${moment}`, (change) => change.cancelChildren.length > 0, "cancel");
      const ended = await Promise.all(
        (await runsOf(here.scene)).map(async (runId) => (await here.scene.ended(runId)).status),
      );
      expect(ended).toEqual(["cancelled", "cancelled"]);
      await here.scene.expectNothingOpen();
      await here.scene.world.close();
    });

    type Fatal = (change: RunChange, runId: RunId, root: RunId | undefined) => boolean;

    /** Starts a parent with one child, and restarts when the process has died at the commit in question. */
    async function crash(
      name: string,
      isFatal: Fatal,
      then: "work" | "cancel" = "work",
    ): Promise<{ readonly scene: Scene; readonly root: RunId }> {
      let root: RunId | undefined;
      const diesAt = (operation: OperationName, request: object) => {
        const change = changeIn(operation, request);
        const { runId } = request as { readonly runId: RunId };
        return change !== undefined && isFatal(change, runId, root) ? moment : undefined;
      };
      const doomed = await openWorld({ ...impatient, diesAt });
      const scene = doomed.scene(name);
      await scene.save("child", { it: work() });
      await scene.save("flow", { call: calls("child") });
      const job: Work = then === "work" ? ({ step }) => step : (one) => scene.hang(one);
      scene.worker(job);
      root = await scene.start("flow");
      if (then === "cancel") {
        await scene.reaches(await scene.childOf(root, "call"), "it", "running");
        // Its answer dies with the process.
        void scene.api.cancelRun({ caller: scene.caller, runId: root, reason: "no longer needed" });
      }
      await doomed.dead;
      await doomed.restart();
      scene.worker(job);
      // A caller without an answer asks again.
      if (then === "cancel")
        await scene.api.cancelRun({ caller: scene.caller, runId: root, reason: "no longer needed" });
      return { scene, root };
    }
  });

  test.concurrent.each([
    ["begins its items", "spread"],
    ["puts the outputs of its items together", "collect"],
  ])("a crash while a large for_each %s loses no item and does none twice", async (_, kind) => {
    // Each takes several commits, and what is left to do stands in the run's own record between them.
    const isMidway = ({ key, body }: RunRecord) => key === "run" && body.includes(`"kind":"${kind}"`);
    const doomed = await openWorld({
      ...impatient,
      diesAt: (operation, request) =>
        changeIn(operation, request)?.records.some(isMidway) === true ? "after" : undefined,
    });
    const here = doomed.scene(kind);
    await here.save("flow", {
      it: work({ for_each: "input.items", max_parallel: 300, input: { n: "${item}" } }),
    });
    const items = Array.from({ length: 300 }, (__, index) => index);
    const give: Work = ({ input }) => (input as { readonly n: number }).n;
    here.worker(give, { concurrency: 100 });
    const runId = await here.start("flow", { items });
    await doomed.dead;
    await doomed.restart({ "jobs.leaseMs": 5_000 });
    here.worker(give, { concurrency: 100 });
    const ended = await here.ended(runId);
    expect(ended.status).toBe("succeeded");
    expect(ended.steps.it?.output).toEqual(items);
    expectOnce(ended);
    await here.expectNothingOpen();
    await doomed.close();
  });

  test.concurrent("two parallel delays have their own timers, also after a restart", async () => {
    const mortal = await openWorld(impatient);
    const here = mortal.scene("delays");
    await here.save("flow", {
      both: { type: "parallel", input: { steps: ["inner", "longer"] } },
      inner: { type: "delay", delay_sec: 0.4 },
      longer: { type: "delay", delay_sec: 0.8 },
      outer: { type: "delay", delay_sec: 0.4 },
      after: { type: "transform", depends_on: ["outer"], input: { waited: true } },
    });
    const [untouched, restarted] = [await here.start("flow"), await here.start("flow")];
    await here.reaches(restarted, "longer", "delay");
    await mortal.restart();
    for (const runId of [untouched, restarted]) {
      const ended = await here.ended(runId);
      expect(ended.status).toBe("succeeded");
      for (const [step, delayMs] of Object.entries({ inner: 400, longer: 800, outer: 400 })) {
        const { started_at = "", completed_at = "", attempts } = ended.steps[step] ?? {};
        expect(attempts).toBe(1);
        // Both times are the process's notion of the store's clock, which is a millisecond or two off now and then.
        expect(Date.parse(completed_at) - Date.parse(started_at)).toBeGreaterThanOrEqual(delayMs - 10);
      }
      expectOnce(ended);
      const order = ended.commits.flat().filter(({ type }) => type === "step_delay_completed");
      expect(order.map(({ step }) => step).at(-1)).toBe("longer");
      expect(order).toHaveLength(3);
    }
  });

  test.concurrent("runs with more than 200 waiting ones are all visited", async () => {
    const mortal = await openWorld(impatient);
    const here = mortal.scene("crowd");
    await here.save("flow", { wait: { type: "delay", delay_sec: 2 }, it: work({ depends_on: ["wait"] }) });
    const runs = await Promise.all(Array.from({ length: 250 }, () => here.start("flow")));
    await mortal.restart();
    here.worker(({ step }) => step, { concurrency: 100 });
    await until("all 250 have ended", async () => {
      const page = { limit: 1_000, status: "succeeded" } as const;
      const listed = await here.api.listRuns({ tenant: here.tenant, ...page });
      return listed.kind === "listed" && listed.runs.length === runs.length ? true : undefined;
    });
    await here.expectNothingOpen();
  });

  test.concurrent("a definition changed while a run is under way does not change the run", async () => {
    const here = world.scene("pinned");
    await here.save("child", {
      gate: { type: "approval" },
      it: { type: "transform", depends_on: ["gate"], input: { version: "old" } },
    });
    await here.save("flow", {
      early: calls("child"),
      ask: { type: "approval" },
      first: work({ depends_on: ["ask"] }),
      late: { ...calls("child"), depends_on: ["first"] },
    });
    here.worker(({ step }) => step);
    const runId = await here.start("flow");
    const child = await here.childOf(runId, "early");
    await here.reaches(child, "gate", "approval");
    await here.save("flow", { other: work() });
    await here.save("child", { it: { type: "transform", input: { version: "new" } } });
    await here.decide(runId, "ask", "approved");
    await here.reaches(runId, "late", "succeeded");
    await here.decide(child, "gate", "approved");
    const ended = await here.ended(runId);
    expect(Object.keys(ended.steps).toSorted()).toEqual(["ask", "early", "first", "late"]);
    expect(ended.status).toBe("succeeded");
    expect(ended.steps.early?.output).toEqual({ version: "old" });
    // A run that begins now is a new one: it has the definition of now.
    expect(ended.steps.late?.output).toEqual({ version: "new" });
    expect(Object.keys((await here.ended(await here.start("flow"))).steps)).toEqual(["other"]);
  });

  test.concurrent("an id such as all or status:running is refused or harmless", async () => {
    const here = world.scene("all");
    const bystander = world.scene("bystander");
    for (const one of [here, bystander]) {
      await one.save("all", { all: work(), status: work({ depends_on: ["all"] }) });
      await one.save("running", { it: { type: "approval" } });
    }
    const kept = [await here.start("running"), await bystander.start("running")] as const;
    for (const id of ["status:running", "*", "all*", "a b", "../all", "run_00_*"]) {
      const saved = await here.api.saveWorkflow({
        caller: here.caller,
        definition: { id, steps: { it: work() } },
      });
      expect(saved, id).toMatchObject({ kind: "workflow_invalid", problems: [{ path: "id" }] });
    }
    for (const id of ["all", "status:running", "*", "run_00_*"] as RunId[]) {
      const { api, caller, tenant } = here;
      const refusals = [
        () => api.getRun({ tenant, runId: id }),
        () => api.cancelRun({ caller, runId: id, reason: "all of them" }),
        () => api.deleteRun({ caller, runId: id }),
        () => api.decideApproval({ caller, approvalId: id, decision: "approved" }),
        () => api.removeWorkflow({ caller, id: `${id}.` }),
      ];
      for (const refusal of refusals) expect(await kindOf(refusal), id).toMatch(/not_found|invalid_request/);
    }
    const mine = await here.api.listRuns({ tenant: here.tenant, limit: 10 });
    expect(mine).toMatchObject({ kind: "listed", runs: [{ runId: kept[0] }] });
    here.worker(({ step }) => step);
    expect((await here.ended(await here.start("all"))).status).toBe("succeeded");
    expect(await here.api.removeWorkflow({ caller: here.caller, id: "all" })).toMatchObject({
      kind: "removed",
    });
    expect(await here.api.getWorkflow({ tenant: here.tenant, id: "running" })).toMatchObject({
      kind: "workflow",
    });
    expect(await bystander.api.getWorkflow({ tenant: bystander.tenant, id: "all" })).toMatchObject({
      kind: "workflow",
    });
    expect((await here.header(kept[0])).status).toBe("waiting");
    expect((await bystander.header(kept[1])).status).toBe("waiting");
  });

  test("none of it has made the control plane stumble", () => {
    expect(worlds.flatMap(({ errors }) => errors)).toEqual([]);
  });
});

/** The kind of the answer, or the code of the refusal: some stores refuse what could not be a name in them. */
async function kindOf(ask: () => Promise<{ readonly kind: string }>): Promise<string> {
  try {
    return (await ask()).kind;
  } catch (error) {
    return error instanceof InterlockError ? error.code : String(error);
  }
}

async function runsOf(scene: Scene): Promise<readonly RunId[]> {
  const listed = await scene.api.listRuns({ tenant: scene.tenant, limit: 100 });
  if (listed.kind !== "listed") throw new Error(listed.kind);
  return listed.runs.map(({ runId }) => runId);
}

function changeIn(operation: OperationName, request: object): RunChange | undefined {
  if (operation === "commit") return (request as { readonly change: RunChange }).change;
  if (operation !== "deliver") return undefined;
  return (request as { readonly proposal?: { readonly change: RunChange } }).proposal?.change;
}
