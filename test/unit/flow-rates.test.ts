// Rates of starts and of topics as whole flows: who is refused and until when, who waits, and when a claim is tried again.
import { expect, test } from "vitest";
import type { StartAnswer } from "../../src/control/admission/start-run.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import { acme, ann, type FlowPlane, FlowWorld, only, work } from "../support/flow-world.ts";

type Header = { readonly [name: string]: JsonValue };

async function setUp(header: Header, settings: TenantSettings = {}, step: Header = {}) {
  const flow = new FlowWorld();
  await flow.tenant(settings);
  const plane = await flow.open("p");
  await plane.save("tickets", { one: work(step) }, header);
  return { flow, plane };
}

type Scene = Awaited<ReturnType<typeof setUp>>;

const start = ({ flow, plane }: Scene, customer = "c1"): Promise<StartAnswer> =>
  flow.finish(plane.api.startWorkflow({ caller: ann, workflow: "tickets", input: { customer } }));

const twoASecond = { limit: 2, per_sec: 1 };

test("a rate refuses the start that comes too soon, and is exact about when it would not", async () => {
  const scene = await setUp({ rate: [twoASecond] });
  expect(only(await start(scene), "admitted").rateLeft).toMatchObject({
    limit: 2,
    perMs: 1_000,
    remaining: 0,
  });
  const refused = only(await start(scene), "start_rate_exceeded");
  expect(refused.rate).toBe("start.workflow.tickets~1000");
  expect(refused.retryAfterMs).toBeGreaterThan(400);
  expect(refused.retryAfterMs).toBeLessThanOrEqual(500);
  await scene.flow.pass(refused.retryAfterMs);
  expect((await start(scene)).kind).toBe("admitted");
  await scene.plane.close();
});

test("each value of a key has its own rate, and the tenant's rate counts all of them", async () => {
  const startRate = { limit: 1, perMs: 1_000, burst: 3, atLimit: "reject" } as const;
  const scene = await setUp({ rate: [{ ...twoASecond, key: "${input.customer}" }] }, { startRate });
  expect((await start(scene, "c1")).kind).toBe("admitted");
  expect(only(await start(scene, "c1"), "start_rate_exceeded").rate).toMatch(/^start\.key\.tickets\./);
  expect((await start(scene, "c2")).kind).toBe("admitted");
  expect((await start(scene, "c3")).kind).toBe("admitted");
  expect(only(await start(scene, "c4"), "start_rate_exceeded").rate).toBe("start.tenant~1000");
  await scene.plane.close();
});

test("with queue a start waits for its rate, begins at its time, and why says so", async () => {
  const scene = await setUp({ rate: [{ ...twoASecond, at_limit: "queue" }] });
  const { flow, plane } = scene;
  const startedMs = flow.nowMs();
  expect((await start(scene)).kind).toBe("admitted");
  const waits = only(await start(scene), "queued");
  expect(waits).toMatchObject({ rate: "start.workflow.tickets~1000" });
  expect(await flow.status(waits.runId)).toBe("queued");
  const why = only(
    await flow.finish(plane.api.explainRun({ tenant: acme, runId: waits.runId })),
    "explained",
  );
  expect(why.explanation.waiting_for).toMatchObject([
    { kind: "start_rate", rate: "start.workflow.tickets~1000" },
  ]);
  expect(why.explanation.summary).toMatch(/^The run waits for the rate start\.workflow\.tickets~1000/);
  await flow.until(async () => (await flow.status(waits.runId)) === "running");
  expect(flow.nowMs() - startedMs).toBeGreaterThanOrEqual(500);
  // The sweep looks twice a second.
  expect(flow.nowMs() - startedMs).toBeLessThan(1_600);
  await plane.close();
});

test("a start that would wait beyond its deadline is refused", async () => {
  const header = { rate: [{ limit: 1, per_sec: 10, at_limit: "queue" }], queue: { deadline_sec: 5 } };
  const scene = await setUp(header);
  expect((await start(scene)).kind).toBe("admitted");
  const { retryAfterMs } = only(await start(scene), "start_rate_exceeded");
  expect(retryAfterMs).toBeGreaterThan(4_000);
  await scene.plane.close();
});

test("a run with a rate is admitted in one operation, whatever the strategy of its tenant is", async () => {
  const scene = await setUp({ rate: [twoASecond] }, { admissionStrategy: "lock" });
  expect((await start(scene)).kind).toBe("admitted");
  expect((await start(scene)).kind).toBe("start_rate_exceeded");
  expect(scene.plane.member.callsOf("reserve")).toHaveLength(0);
  await scene.plane.close();
});

/** Times at which its jobs began. */
function startRecording({ flow, plane }: Scene, concurrency = 5) {
  const beganMs: number[] = [];
  const handler = () => {
    beganMs.push(flow.nowMs());
    return {};
  };
  const worker = plane.plane.startWorker({ tenant: acme, name: "w", topics: ["work"], concurrency, handler });
  return { beganMs, worker };
}

async function startMany({ plane }: { plane: FlowPlane }, amount: number): Promise<void> {
  for (let index = 0; index < amount; index += 1) await plane.start("tickets", { index });
}

test("jobs of a topic with a rate begin one after the other, each at the moment at which the rate lets it pass", async () => {
  const scene = await setUp({}, { topicRates: { work: [{ limit: 5, perMs: 1_000, burst: 1 }] } });
  const { flow, plane } = scene;
  await startMany(scene, 8);
  const { beganMs, worker } = startRecording(scene);
  await flow.until(() => beganMs.length === 8);
  const gapsMs = beganMs.slice(1).map((atMs, index) => atMs - (beganMs[index] ?? 0));
  for (const gapMs of gapsMs) {
    expect(gapMs).toBeGreaterThanOrEqual(199);
    expect(gapMs).toBeLessThan(230);
  }
  expect(plane.metrics.total("claims_refused_total", { because: "topic_rate" })).toBeGreaterThan(0);
  await flow.finish(worker.stop());
  await plane.close();
});

test("after a pause the burst passes at once", async () => {
  const scene = await setUp({}, { topicRates: { work: [{ limit: 5, perMs: 1_000, burst: 4 }] } });
  const { flow, plane } = scene;
  await startMany(scene, 6);
  const { beganMs, worker } = startRecording(scene, 10);
  await flow.until(() => beganMs.length === 6);
  expect((beganMs[3] ?? 0) - (beganMs[0] ?? 0)).toBeLessThan(50);
  expect((beganMs[4] ?? 0) - (beganMs[0] ?? 0)).toBeGreaterThanOrEqual(199);
  await flow.finish(worker.stop());
  await plane.close();
});

test("what a job did not need lets the next go at once", async () => {
  const topicRates = { work: [{ unit: "tokens", limit: 100, perMs: 1_000, burst: 100 }] };
  const scene = await setUp({}, { topicRates }, { estimate: { tokens: 100 } });
  const { flow, plane } = scene;
  await startMany(scene, 2);
  const [first] = await plane.poll({ places: 1 });
  if (first === undefined) throw new Error("the first job passes");
  expect(await plane.poll({ places: 1 })).toEqual([]);
  const why = only(
    await flow.finish(
      plane.api.listRuns({ tenant: acme, limit: 10 }).then(async (listed) => {
        const runId = only(listed, "listed").runs.find((run) => run.runId !== first.job.runId)?.runId;
        return plane.api.explainRun({ tenant: acme, runId: runId ?? first.job.runId });
      }),
    ),
    "explained",
  );
  expect(why.explanation.waiting_for).toMatchObject([{ kind: "job_unclaimed", because: "topic_rate" }]);
  const waiting = plane.poll({ places: 1, waitMs: 5_000 });
  const askedMs = flow.nowMs();
  await flow.finish(
    plane.api.reportResult({
      ...{ caller: ann, jobId: first.job.jobId, token: first.token, outcome: "succeeded" },
      ...{ output: {}, usage: { tokens: 1_000_000 } },
    }),
  );
  expect(await waiting).toHaveLength(1);
  expect(flow.nowMs() - askedMs).toBeLessThan(200);
  await plane.close();
});

test("a run that waits for its rate is cancelled at once, and ends with its tenant", async () => {
  const scene = await setUp({ rate: [{ limit: 1, per_sec: 600, burst: 2, at_limit: "queue" }] });
  const { flow, plane } = scene;
  const created = await flow.finish(plane.api.createTenant({ actor: "setup", tenant: acme, settings: {} }));
  expect(created.kind).toBe("created");
  for (let begun = 0; begun < 2; begun += 1) {
    const { runId } = only(await start(scene), "admitted");
    await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "test" }));
    expect(await flow.ended(runId)).toBe("cancelled");
  }
  const [first, second] = [only(await start(scene), "queued"), only(await start(scene), "queued")];
  await flow.finish(plane.api.cancelRun({ caller: ann, runId: first.runId, reason: "test" }));
  expect(await flow.status(first.runId)).toBe("cancelled");
  const removed = await flow.finish(plane.api.removeTenant({ actor: "setup", tenant: acme }));
  expect(removed.kind).toBe("removed");
  expect(await flow.status(second.runId)).toBe("cancelled");
  await plane.close();
});
