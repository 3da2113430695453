// A start that is refused for want of a slot must leave its idempotency key free: the same request succeeds later.
import { digestOf } from "../domain/fingerprint.ts";
import type { AdmissionStrategy, TenantId } from "../domain/tenant.ts";
import type { OperationName } from "../ports/store.ts";
import { InterlockApiError } from "../sdk/client-errors.ts";
import { runtime } from "../sdk/runtime.ts";
import { worker } from "../sdk/worker/worker.ts";
import { type Check, check, type Drill, type Outcome, type Plot, type Stage } from "./drill.ts";
import { type StartTry, shownTry, tryStart } from "./load/steady-load.ts";
import type { DrillTenant, Target } from "./target/target.ts";

const stepNames = [
  "set max_concurrent_runs=1 for a tenant of the drill's own",
  "start a run that fills the slot: a worker takes its job and keeps it",
  "submit another start with Idempotency-Key: retry-after-limit",
  "expect 429, and the key still free: asked by the API, in the count of the tenant's keys, and in the store itself",
  "complete the blocking run: its worker finishes the job",
  "repeat the same request with the same key",
  "expect 200 and a new run",
  "verify that the stored key maps to the new run; a repeat gets the same run, another payload is refused",
  "all of it once with the strategy atomic and once with lock",
] as const;

export const keySurvives429: Drill = {
  name: "key-survives-429",
  question: "Can a start that was refused with 429 be repeated later with the same Idempotency-Key?",
  expectation:
    "The refusal leaves the key free; once the slot is free the same request starts one run, the key maps to it, and every repeat gets it.",
  steps: stepNames,
  locks: ["admission"],
  instance: { kind: "inside" },
  run,
};

const strategies = ["atomic", "lock"] as const satisfies readonly AdmissionStrategy[];

async function run(stage: Stage): Promise<Outcome> {
  const timed: TimedCheck[] = [];
  for (const strategy of strategies) timed.push(...(await withStrategy(stage, strategy)));
  return {
    checks: timed.map(({ tookMs: _took, strategy: _strategy, ...check }) => check),
    tables: [],
    plots: [plotOf(timed)],
    data: { timed },
  };
}

type TimedCheck = Check & { readonly strategy: AdmissionStrategy; readonly tookMs: number };

async function withStrategy(
  { target, signal, progress }: Stage,
  strategy: AdmissionStrategy,
): Promise<TimedCheck[]> {
  // A tenant of its own for each strategy: no gateway has anything of it in its memory.
  const tenant = await target.createTenant({ max_concurrent_runs: 1, admission_strategy: strategy });
  const worker = startBlockingWorker(tenant, target.urls[0] as string);
  try {
    const checks: TimedCheck[] = [];
    let sinceMs = runtime.now().monotonicMs;
    for await (const one of keySteps({ target, tenant, worker, strategy, signal })) {
      signal.throwIfAborted();
      progress(`${one.what}: ${one.seen}`);
      const nowMs = runtime.now().monotonicMs;
      checks.push({ ...one, strategy, tookMs: nowMs - sinceMs });
      sinceMs = nowMs;
    }
    return checks;
  } finally {
    await worker.stop();
  }
}

function plotOf(timed: readonly TimedCheck[]): Plot {
  return {
    title: "Time that each check took",
    kind: "bars",
    x: "check, in the order above",
    y: "ms",
    series: strategies.map((name) => ({
      name,
      points: timed
        .filter(({ strategy }) => strategy === name)
        .map(({ tookMs }, index) => [index + 1, Math.round(tookMs * 10) / 10] as const),
    })),
    note: "The start that is refused, and the one that succeeds with the same key, each take a request's time: nothing waits for a key to expire.",
  };
}

type Scene = {
  readonly target: Target;
  readonly tenant: DrillTenant;
  readonly worker: BlockingWorker;
  readonly strategy: AdmissionStrategy;
  readonly signal: AbortSignal;
};

const key = "retry-after-limit";
const workflow = "drill-blocking";
const asked = { workflow, key, input: { order: 17 } };

/** Nothing here takes long: whatever takes this long will not come. */
const endsWithinMs = 20_000;

async function* keySteps(scene: Scene): AsyncGenerator<Check> {
  const { target, tenant, strategy } = scene;
  const { client } = tenant;
  const named = (what: string, expected: string, seen: string | number, holds: boolean) =>
    check(`${strategy}: ${what}`, expected, seen, holds);
  const before = await decisionsOf(target, strategy);

  const { max_concurrent_runs: limit } = await target.platform.tenants.get(tenant.id);
  yield named("1 the limit is set", "max_concurrent_runs 1", `max_concurrent_runs ${limit}`, limit === 1);

  await client.workflows.save({ id: workflow, name: "Blocking", steps: { hold: { type: "worker", topic } } });
  const blocking = await fillSlot(scene);
  const { active_runs: active } = await target.platform.tenants.get(tenant.id);
  const held = `${active} active, a worker holds its job`;
  yield named("2 a long run fills the slot", "1 active, a worker holds its job", held, active === 1);

  const calls = watchReservations(scene);
  const refused = await tryStart(client, asked);
  const isRefused =
    refused.kind === "refused" && refused.status === 429 && refused.code === "max_concurrent_runs_reached";
  yield named("3-4 a start with a key", "429 max_concurrent_runs_reached", shownTry(refused), isRefused);
  const free = await bindingOf(tenant);
  yield named("4 the key after the 429", "unbound", free, free === "unbound");
  const keptFree = await keysKept(tenant);
  yield named("4 keys that the tenant keeps", "1: the blocking run's", keptFree, keptFree === "1");
  yield* inStore(scene, { calls: calls.stop(), expected: "idempotency_key_unbound", named });

  scene.worker.finish();
  const { status } = await client.runs.wait(blocking, { timeoutMs: endsWithinMs, signal: scene.signal });
  yield named("5 the blocking run is completed", "succeeded", status, status === "succeeded");

  const retried = await tryStart(client, asked);
  const runId = retried.kind === "started" ? retried.runId : undefined;
  const isNew = retried.kind === "started" && !retried.replayed && retried.runId !== blocking;
  yield named("6-7 the same request again", "200 and a new run", shownStart(retried), isNew);

  const bound = await bindingOf(tenant);
  yield named("8 the stored key", `bound to ${runId ?? "the new run"}`, bound, bound === `bound to ${runId}`);
  const keptBound = await keysKept(tenant);
  yield named("8 keys that the tenant keeps", "2: this one, too", keptBound, keptBound === "2");
  yield* inStore(scene, { expected: `bound ${runId}`, named });
  yield* repeats(scene, runId, named);
  if (before === undefined) return;
  const decided = ((await decisionsOf(target, strategy)) ?? 0) - before;
  yield named("decided by", `the strategy ${strategy}`, `${decided} decisions of ${strategy}`, decided > 0);
}

/** Reservations count, also those whose owner is gone. */
async function keysKept({ client }: DrillTenant): Promise<string> {
  return String((await client.status()).idempotency_keys?.used ?? "not told");
}

type StoreLook = {
  readonly expected: string;
  readonly named: typeof check;
  /** What the start that was refused asked of the store. */
  readonly calls?: readonly string[];
};

/** Where the store is the drill's own: the record itself, and what became of it on the way. */
async function* inStore(
  { target: { inside }, tenant, strategy }: Scene,
  { expected, named, calls }: StoreLook,
): AsyncGenerator<Check> {
  if (inside === undefined) return;
  if (calls !== undefined) {
    const reserving = reservingCalls[strategy];
    yield named("4 the store was asked", reserving, calls.join(", "), calls.join(", ") === reserving);
  }
  const request = { tenant: tenant.id as TenantId, digest: digestOf("start_run", key) };
  const found = await inside.plane.ports.store.inspectReservation(request, { deadlineMs: 5_000 });
  const seen = "runId" in found ? `${found.kind} ${found.runId}` : found.kind;
  yield named(
    `${calls === undefined ? 8 : 4} the key's record in the store`,
    expected,
    seen,
    seen === expected,
  );
}

/** Of a start that is refused at the limit: `lock` has reserved the key by then, and gives it back. */
const reservingCalls: Readonly<Record<AdmissionStrategy, string>> = {
  atomic: "admit: max_concurrent_runs_reached",
  lock: "reserve: reserved, cancelReservation: cancelled",
};

function watchReservations({ target: { inside }, tenant }: Scene): { stop(): readonly string[] } {
  const calls: string[] = [];
  const reserving: readonly OperationName[] = ["admit", "reserve", "cancelReservation", "createRun"];
  const unwatch = inside?.watchStore({
    answered(name, request, { kind }) {
      const isOurs = "tenant" in request && request.tenant === tenant.id;
      if (isOurs && reserving.includes(name)) calls.push(`${name}: ${kind}`);
    },
  });
  return {
    stop() {
      unwatch?.();
      return calls;
    },
  };
}

/** What the stored mapping is for. */
async function* repeats(
  { tenant: { client } }: Scene,
  runId: string | undefined,
  named: typeof check,
): AsyncGenerator<Check> {
  const again = await tryStart(client, asked);
  const isReplayed = again.kind === "started" && again.replayed && again.runId === runId;
  yield named(
    "8 a repeat with the key",
    `200, replayed, ${runId ?? "the new run"}`,
    shownStart(again),
    isReplayed,
  );
  const other = await tryStart(client, { ...asked, input: { order: 18 } });
  const isReused = other.kind === "refused" && other.code === "idempotency_key_reused";
  yield named("8 another payload with the key", "422 idempotency_key_reused", shownTry(other), isReused);
  let runs = 0;
  for await (const _run of client.runs.list()) runs += 1;
  yield named("runs in all", "2: the blocking one and the key's", String(runs), runs === 2);
}

/** The run of the job that a worker holds. */
async function fillSlot({ tenant: { client }, worker }: Scene): Promise<string> {
  const started = await tryStart(client, { workflow });
  if (started.kind !== "started")
    throw new Error(`the blocking run could not be started: ${shownTry(started)}`);
  const heldBy = await worker.holding;
  if (heldBy !== started.runId) throw new Error(`the worker holds ${heldBy}, not ${started.runId}`);
  return started.runId;
}

/** As in `unbound`, `pending for r-1`, `bound to r-1`. */
async function bindingOf({ client }: DrillTenant): Promise<string> {
  try {
    const { state, run_id } = await client.lookUpKey(key);
    return state === "bound" ? `bound to ${run_id}` : `pending for ${run_id}`;
  } catch (error) {
    if (error instanceof InterlockApiError && error.code === "idempotency_key_unbound") return "unbound";
    throw error;
  }
}

function shownStart(tried: StartTry): string {
  return tried.kind === "started" ? `${shownTry(tried)}, ${tried.runId}` : shownTry(tried);
}

/** Of a deployment others' decisions are counted, too, and behind a balancer each answer may be another gateway's. */
async function decisionsOf(target: Target, strategy: AdmissionStrategy): Promise<number | undefined> {
  if (target.inside === undefined) return undefined;
  return (await target.readMetrics()).sum("admission_decisions_total", { strategy });
}

const topic = "drill.blocking";

type BlockingWorker = {
  /** Resolves with the run whose job it took first. */
  readonly holding: Promise<string>;
  /** From now on every job is done at once. */
  finish(): void;
  stop(): Promise<void>;
};

function startBlockingWorker({ workerKey }: DrillTenant, url: string): BlockingWorker {
  let finish = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let take = (_runId: string) => {};
  const holding = new Promise<string>((resolve) => {
    take = resolve;
  });
  const running = worker({
    url,
    apiKey: workerKey,
    name: "drill-blocking-worker",
    topics: [topic],
    // A poll that waits for long would keep the drill's end waiting.
    pollWaitMs: 2_000,
    async handler({ runId }) {
      take(runId);
      await finished;
      return {};
    },
  });
  // A worker that the server rejects ends: the error reaches the caller that waits for the job.
  running.finished.catch(() => {});
  return {
    holding: Promise.race([holding, running.finished.then(() => holding)]),
    finish,
    async stop() {
      finish();
      await running.stop({ graceMs: 5_000 });
    },
  };
}
