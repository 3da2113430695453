// Whole runs under lost requests, lost replies, dead processes and pauses: every run ends, each step counts once, nothing leaks.
import { describe, expect, test } from "vitest";
import type { JobHandler } from "../../src/control/jobs/in-process-worker.ts";
import type { RunId } from "../../src/domain/run.ts";
import { operationNames } from "../../src/ports/store.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import {
  acme,
  ann,
  ben,
  type FlowPlane,
  FlowWorld,
  type Overrides,
  type Steps,
  work,
} from "../support/flow-world.ts";
import type { Fate, Fates } from "../support/simulated-ports.ts";

/** One step of each kind, side by side and one after the other. */
const steps: Steps = {
  a: work(),
  b: work({ retry: { max_retries: 20, initial_backoff_sec: 0.2, max_backoff_sec: 1 } }),
  c: work(),
  wait: { type: "delay", delay_sec: 0.7 },
  ok: { type: "approval", depends_on: ["a", "wait"], input: { from: "${steps.a.output.step}" } },
  join: work({
    depends_on: ["a", "b", "c"],
    condition: "steps.b.output.step == 'b' && steps.c.output.step == 'c'",
  }),
  sum: { type: "transform", depends_on: ["join", "ok"], input: { join: "${steps.join.output.step}" } },
  end: work({ depends_on: ["sum"] }),
};

const stepNames = Object.keys(steps);

function randomFates(random: SeededRandom, rate: number): Fates {
  const draw = (): Fate => {
    if (!random.chance(rate)) return "ok";
    return random.pick<Fate>([
      "request_lost",
      "reply_lost",
      "unavailable",
      { requestAfterMs: random.integer(1, 400), replyAfterMs: random.integer(1, 400) },
      { resetAfterMs: 1, requestAfterMs: random.integer(1, 3_000) },
    ]);
  };
  return Object.fromEntries(operationNames.map((name) => [name, draw]));
}

type Chaos = {
  readonly flow: FlowWorld;
  readonly random: SeededRandom;
  readonly overrides: Overrides;
  plane: FlowPlane;
  readonly dead: FlowPlane[];
};

function startWorkers({ random }: Chaos, plane: FlowPlane): void {
  const { clock } = plane.member.process;
  const handler: JobHandler = async (job) => {
    await clock.sleep(random.integer(1, 300), job.signal);
    if (job.step === "b" && random.chance(0.3)) throw new Error("once more");
    return { step: job.step };
  };
  for (const name of ["v", "w"]) {
    plane.plane.startWorker({ tenant: acme, name, topics: ["work"], concurrency: 3, handler });
  }
}

let opened = 0;

/** What the seeds together went through: a test without trouble would prove nothing. */
const seen = { unknown: 0, crashes: 0, lostClaims: 0, handoffs: 0, busy: 0 };

function note({ plane, dead }: Chaos): void {
  seen.crashes += dead.length;
  for (const { metrics } of [plane, ...dead]) {
    seen.unknown += metrics.total("unknown_outcomes_total");
    seen.lostClaims += metrics.total("job_claims_lost_total");
    seen.handoffs += metrics.total("inbox_handoffs_total");
    seen.busy += metrics.total("lock_busy_retries_total", { path: "bus" });
  }
}

async function nextPlane(chaos: Omit<Chaos, "plane">, rate: number): Promise<FlowPlane> {
  opened += 1;
  const plane = await chaos.flow.open(`plane ${opened}`, { overrides: chaos.overrides });
  plane.member.fail(randomFates(chaos.random, rate));
  return plane;
}

/** Asks until the answer is definite, as a client would. */
async function insist<Answer extends { readonly kind: string }>(
  chaos: Chaos,
  ask: (plane: FlowPlane) => Promise<Answer>,
): Promise<Answer> {
  for (;;) {
    const answer = await chaos.flow.finish(ask(chaos.plane));
    if (!["unknown", "unavailable", "concurrency_gate_unavailable", "outcome_unknown"].includes(answer.kind))
      return answer;
    await chaos.flow.pass(100);
  }
}

async function startRuns(chaos: Chaos, amount: number): Promise<readonly RunId[]> {
  const runs: RunId[] = [];
  for (let index = 0; index < amount; index += 1) {
    const key = { text: `start ${index}`, fingerprint: "v1:same" as never };
    const request = { caller: ann, workflow: "w", input: {}, key };
    const answer = await insist(chaos, ({ api }) => api.startWorkflow(request));
    if (answer.kind !== "admitted" && answer.kind !== "replayed") throw new Error(JSON.stringify(answer));
    runs.push(answer.runId);
  }
  return runs;
}

async function misbehave(chaos: Chaos): Promise<void> {
  const { flow, random } = chaos;
  const { process } = chaos.plane.member;
  if (random.chance(0.3)) process.pause(random.integer(100, 12_000));
  if (random.chance(0.25)) {
    process.crash();
    chaos.dead.push(chaos.plane);
    chaos.plane = await nextPlane(chaos, 0.2);
    startWorkers(chaos, chaos.plane);
  }
  await flow.pass(random.integer(50, 3_000));
}

async function simulate(
  seed: number,
  overrides: Overrides,
): Promise<{ readonly chaos: Chaos; readonly runs: readonly RunId[] }> {
  const flow = new FlowWorld({ seed, travelMsMax: 5 });
  const random = flow.kernel.random.stream("chaos");
  const base = { flow, random, overrides, dead: [] as FlowPlane[] };
  const chaos: Chaos = { ...base, plane: await nextPlane(base, 0) };
  await chaos.plane.save("w", steps);
  chaos.plane.member.fail(randomFates(random, 0.2));
  startWorkers(chaos, chaos.plane);
  const runs = await startRuns(chaos, 4);
  const approve = async (runId: RunId) => {
    const request = { caller: ben, approvalId: `${runId}:ok@1`, decision: "approved" } as const;
    await chaos.flow.finish(Promise.race([chaos.plane.api.decideApproval(request), chaos.flow.pass(5_000)]));
  };
  for (let round = 0; round < 12; round += 1) {
    await misbehave(chaos);
  }
  // From here on everything works: what is left must come to its end.
  chaos.plane.member.fail({});
  chaos.plane.member.process.pause(0);
  await flow.pass(15_000);
  for (let rounds = 0; rounds < 40 && (await isAnyOpen(flow, runs)); rounds += 1) {
    for (const runId of runs) await approve(runId);
    await flow.pass(5_000);
  }
  return { chaos, runs };
}

async function isAnyOpen(flow: FlowWorld, runs: readonly RunId[]): Promise<boolean> {
  const headers = await Promise.all(runs.map((runId) => flow.header(runId)));
  return headers.some(({ endedAtMs }) => endedAtMs === undefined);
}

describe.each([
  { name: "handoff", overrides: { "sweep.everyMs": 1_000 } },
  { name: "retry", overrides: { "results.strategy": "retry", "sweep.everyMs": 1_000 } as const },
  { name: "handoff, nothing remembered", overrides: { "engine.cachedRunsMax": 0, "sweep.everyMs": 1_000 } },
])("$name", ({ overrides }) => {
  test.each([1, 2, 3, 4, 5, 6, 7, 8])("seed %d: every run succeeds, each of its steps once", async (seed) => {
    const { chaos, runs } = await simulate(seed, overrides);
    const { flow } = chaos;
    note(chaos);
    expect(new Set(runs).size).toBe(4);
    for (const runId of runs) {
      const statuses = await Promise.all(
        stepNames.map(async (step) => (await flow.step(runId, step)).status),
      );
      expect({ runId, status: await flow.status(runId), statuses }).toEqual({
        runId,
        status: "succeeded",
        statuses: stepNames.map(() => "succeeded"),
      });
      const events = await flow.events(runId);
      for (const step of stepNames) {
        const ends = events.filter((event) => new RegExp(`^step_(completed|approved) ${step}$`).test(event));
        expect({ step, ends: new Set(ends).size }).toEqual({ step, ends: ends.length });
      }
    }
    const counted = await flow.world.store.countActive({ tenant: acme }, { deadlineMs: 100 });
    expect(counted).toMatchObject({ active: 0 });
    expect(flow.world.records.scan("ready", `${acme}/work`, "", 10)).toEqual([]);
  });
});

test("the seeds went through every kind of trouble", () => {
  for (const [kind, times] of Object.entries(seen))
    expect({ kind, happened: times > 0 }).toEqual({ kind, happened: true });
  expect(seen.unknown).toBeGreaterThan(100);
  expect(seen.crashes).toBeGreaterThan(20);
});
