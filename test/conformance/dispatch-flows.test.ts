// Held jobs end to end on every store: two processes with a check, a worker that waits, and one verdict for each job.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createInProcessBus } from "../../src/adapters/in-process-bus.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { type ControlPlane, createControlPlane } from "../../src/control-plane.ts";
import type { DispatchAnswer, DispatchJob } from "../../src/domain/dispatch.ts";
import type { RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { defaultStoreSettings } from "../../src/ports/store.ts";
import { silentLog } from "../support/silent-log.ts";
import { type StoreHost, startStoreHost, storeNames } from "../support/stores.ts";
import { until } from "./step-types-world.ts";

const tenant = "acme" as TenantId;
const caller = { tenant, actor: "ann" };

describe.each(storeNames)("%s", (name) => {
  let host: StoreHost;
  const planes: ControlPlane[] = [];
  const asked: string[] = [];
  const done: string[] = [];

  /** By the input: held once before it is allowed, allowed, or denied. */
  async function check({ jobId, input }: DispatchJob): Promise<DispatchAnswer> {
    const isFirst = !asked.includes(jobId);
    asked.push(jobId);
    const { verdict } = input as { readonly verdict: DispatchAnswer["verdict"] };
    if (verdict !== "hold") return { verdict, reason: `by the ${verdict} rule` };
    return isFirst ? { verdict, reason: "not yet" } : { verdict: "allow" };
  }

  beforeAll(async () => {
    host = await startStoreHost(name);
    const store = await host.open(defaultStoreSettings);
    const shared = { ...store, close: async () => {} };
    const bus = createInProcessBus({ clock: systemClock, log: silentLog });
    for (const instance of ["p", "q"]) {
      const plane = await createControlPlane({
        overrides: { "dispatch.holdMs": 30 },
        bus: { ...bus, close: async () => {} },
        dispatchCheck: check,
        ports: { store: shared, log: silentLog, instance },
      });
      planes.push(plane);
    }
    const [plane] = planes as [ControlPlane];
    await plane.api.createTenant({ actor: "setup", tenant, settings: {} });
    const steps = { a: { topic: "work" }, b: { topic: "work", depends_on: ["a"] } };
    expect(
      (await plane.api.saveWorkflow({ caller, definition: { id: "w", risk: "high", steps } })).kind,
    ).toBe("saved");
    const handler = async ({ jobId }: { readonly jobId: string }) => {
      done.push(jobId);
      return {};
    };
    plane.startWorker({ tenant, name: "w", topics: ["work"], concurrency: 10, handler });
  });

  afterAll(async () => {
    for (const plane of planes) await plane.close();
    await host?.close();
  });

  async function endOf(runId: RunId): Promise<string> {
    const [plane] = planes as [ControlPlane];
    return until(`the end of ${runId}`, async () => {
      const read = await plane.ports.store.loadRun({ tenant, runId, records: [] }, { deadlineMs: 5_000 });
      return read.kind === "run" && read.header.endedAtMs !== undefined ? read.header.status : undefined;
    });
  }

  test("every job is asked about, allowed ones are done once, denied ones never", async () => {
    const verdicts = (["allow", "hold", "deny"] as const).flatMap((verdict) => [verdict, verdict, verdict]);
    const runs = await Promise.all(
      verdicts.map(async (verdict, index) => {
        const plane = planes[index % 2] as ControlPlane;
        const started = await plane.api.startWorkflow({ caller, workflow: "w", input: { verdict } });
        if (started.kind !== "admitted") throw new Error(started.kind);
        return { verdict, runId: started.runId, status: await endOf(started.runId) };
      }),
    );
    for (const { verdict, runId, status } of runs) {
      expect([runId, status]).toEqual([runId, verdict === "deny" ? "denied" : "succeeded"]);
      const jobs = done.filter((jobId) => jobId.startsWith(`${runId}:`));
      expect(jobs).toEqual(verdict === "deny" ? [] : [`${runId}:a@1`, `${runId}:b@1`]);
      const questions = asked.filter((jobId) => jobId.startsWith(`${runId}:`)).length;
      expect(questions).toBeGreaterThanOrEqual({ allow: 2, hold: 4, deny: 1 }[verdict]);
    }
  });
});
