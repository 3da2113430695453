// A calm workload that a seed draws, asked one after the other of a control plane on some store: what can be seen of it, as lines.
import { createInProcessBus } from "../../src/adapters/in-process-bus.ts";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { type ControlProcess, startControlProcess } from "../../src/control/control-process.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { Fingerprint, JsonValue } from "../../src/domain/fingerprint.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import type { RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { loadConfig } from "../../src/load-config.ts";
import { silentTracer } from "../../src/ports/ports.ts";
import type { Store } from "../../src/ports/store.ts";
import { createSeededRandom, type SeededRandom } from "../../src/testing/seeded-random.ts";
import { silentLog } from "./silent-log.ts";

const call = { deadlineMs: 5_000 };

/** What the workload remembers of its own answers. */
type Scene = {
  readonly process: ControlProcess;
  readonly store: Store;
  readonly tenant: TenantId;
  readonly random: SeededRandom;
  readonly runs: RunId[];
  readonly claimed: ClaimedJob[];
  readonly tokens: LockToken[];
};

type Act = (scene: Scene) => Promise<unknown>;

/** Every line is one answer, or one record of the end; ids, tokens, fences and times are named by their places. */
export async function historyOf(store: Store, seed: number, unique: string): Promise<readonly string[]> {
  const random = createSeededRandom(seed);
  const { config } = loadConfig({ overrides: { "jobs.leaseMs": 60_000 } });
  const instance = "host:1";
  const ports = {
    store,
    clock: systemClock,
    random: createSeededRandom(seed).stream("ports"),
    log: silentLog,
    metrics: new MemoryMetrics(10),
    tracer: silentTracer,
    instance,
  };
  // Nothing by itself: what is asked is all that happens.
  const bus = createInProcessBus({ clock: systemClock, log: silentLog });
  const process = startControlProcess({ ports, bus, config }, { roles: new Set(), check: undefined });
  const tenant = `same-${unique}` as TenantId;
  const scene: Scene = { process, store, tenant, random, runs: [], claimed: [], tokens: [] };
  const lines: unknown[] = [await prepare(scene)];
  for (let step = 1; step <= 80; step += 1) {
    const [name, act] = random.pick(acts);
    const answer = await act(scene);
    // What goes on after an answer has ended before the next question.
    await process.engine.background.idle();
    // What one store does in one millisecond and another in two would be listed in another order.
    await systemClock.sleep(2);
    lines.push({ step, name, answer });
  }
  lines.push(...(await everything(scene)));
  await process.stop();
  await bus.close();
  const names = new Map<string, string>();
  return lines.map((line) => comparable(JSON.stringify(line, inOrder), names));
}

async function prepare({ process, tenant, random }: Scene): Promise<unknown> {
  const caller = { tenant, actor: "author" };
  await process.api.createTenant({ actor: "operator", tenant, settings: { maxConcurrentRuns: 2 } });
  const saved: unknown[] = [];
  for (const id of ["first", "second"])
    saved.push(await process.api.saveWorkflow({ caller, definition: drawWorkflow(random, id) }));
  return saved;
}

/** Without anything that depends on time. */
function drawWorkflow(random: SeededRandom, id: string): JsonValue {
  const steps: Record<string, JsonValue> = {};
  for (let index = 1; index <= random.integer(2, 4); index += 1) {
    const depends_on = Object.keys(steps).filter(() => random.chance(0.5));
    const type = random.pick(["worker", "worker", "approval", "transform", "condition"]);
    const own: Readonly<Record<string, JsonValue>> = {
      worker: { topic: "work", input: { what: "${input.what}" } },
      approval: { input: { what: "${input.what}" } },
      transform: { input: { what: "${input.what}" } },
      condition: { condition: "input.flag" },
    };
    steps[`s${index}`] = { type, depends_on, ...(own[type] as object) };
  }
  return { id, name: id, risk: random.pick(["high", "standard", "low"]), steps };
}

const start: Act = async (scene) => {
  const { process, tenant, random, runs } = scene;
  const fingerprint = random.pick(["v1:usual", "v1:usual", "v1:other"]) as Fingerprint;
  const key = random.chance(0.6) ? { key: { text: `key-${random.integer(1, 6)}`, fingerprint } } : {};
  const input = { what: random.pick(["a", "b"]), flag: random.chance(0.7) };
  const caller = { tenant, actor: random.pick(["ann", "bob"]) };
  const workflow = random.pick(["first", "first", "second", "third"]);
  const answer = await process.api.startWorkflow({ caller, workflow, input, ...key });
  if (answer.kind === "admitted") runs.push(answer.runId);
  return answer;
};

const poll: Act = async ({ process, tenant, random, claimed }) => {
  const places = random.integer(1, 3);
  const asked = { worker: "w", topics: ["work"], pollId: random.token(), places, waitMs: 0 };
  const answer = await process.api.pollJobs({ caller: { tenant, actor: "w" }, ...asked });
  if (answer.kind === "jobs") claimed.push(...answer.jobs);
  return answer;
};

/** A job that was reported before is still there to be reported again. */
const report: Act = async ({ process, tenant, random, claimed }) => {
  if (claimed.length === 0) return "nothing was claimed";
  const { job, token } = random.pick(claimed);
  const stale = random.chance(0.1) ? (claimed[0]?.token ?? token) : token;
  const { jobId } = job;
  const outcome = random.pick(["succeeded", "succeeded", "succeeded", "failed", "failed_retryable"] as const);
  const said =
    outcome === "succeeded" ? { output: { n: random.integer(1, 9) } } : { error: { message: "no" } };
  return process.api.reportResult({ caller: { tenant, actor: "w" }, jobId, token: stale, outcome, ...said });
};

const beat: Act = async ({ process, tenant, random, claimed }) => {
  if (claimed.length === 0) return "nothing was claimed";
  const beats = claimed.slice(-3).map(({ job, token }) => ({ jobId: job.jobId, token }));
  return process.api.heartbeat({
    caller: { tenant, actor: "w" },
    worker: random.pick(["w", "other"]),
    beats,
  });
};

const decide: Act = async ({ process, tenant, random }) => {
  const state = random.chance(0.8) ? ({ state: "pending" } as const) : {};
  const listed = await process.api.listApprovals({ tenant, limit: 10, ...state });
  if (listed.kind !== "listed" || listed.approvals.length === 0) return listed;
  const { approvalId, hash } = random.pick(listed.approvals);
  const decision = random.pick(["approved", "approved", "rejected"] as const);
  const shown = random.chance(0.1) ? { hash: "what somebody else saw" } : { hash };
  const caller = { tenant, actor: random.pick(["ann", "cy"]) };
  return process.api.decideApproval({ caller, approvalId, decision, ...shown });
};

const cancel: Act = async ({ process, tenant, random, runs }) => {
  if (runs.length === 0) return "nothing was started";
  return process.api.cancelRun({
    caller: { tenant, actor: "bob" },
    runId: random.pick(runs),
    reason: "no longer wanted",
  });
};

const remove: Act = async ({ process, tenant, random, runs }) => {
  if (runs.length === 0) return "nothing was started";
  return process.api.deleteRun({ caller: { tenant, actor: "bob" }, runId: random.pick(runs) });
};

const lock: Act = async ({ process, tenant, random, tokens }) => {
  const caller = { tenant, actor: "ann" };
  const resource = random.pick(["one", "two"]);
  const known = tokens.length > 0 ? random.pick(tokens) : undefined;
  const choice = random.integer(1, 3);
  if (choice === 1 || known === undefined) {
    const token = random.token() as LockToken;
    tokens.push(token);
    return process.api.acquireLock({ caller, resource, ttlMs: 60_000, waitMs: 0, wait: "queue", token });
  }
  const grant = { resource, token: known };
  if (choice === 2) return process.api.releaseLock({ tenant, ...grant });
  return process.api.renewLock({ tenant, ...grant, ttlMs: 60_000 });
};

const look: Act = async ({ process, tenant, random, runs }) => {
  const listed = await process.api.listRuns({ tenant, limit: random.integer(1, 5) });
  const run = runs.length === 0 ? undefined : await process.api.getRun({ tenant, runId: random.pick(runs) });
  return { listed, run };
};

const acts: ReadonlyArray<readonly [string, Act]> = [
  ["start", start],
  ["start", start],
  ["poll", poll],
  ["poll", poll],
  ["report", report],
  ["report", report],
  ["report", report],
  ["heartbeat", beat],
  ["decide", decide],
  ["decide", decide],
  ["cancel", cancel],
  ["remove", remove],
  ["lock", lock],
  ["look", look],
];

/** All that is left at the end: runs with their timelines, approvals, events. */
async function everything({ store, tenant, runs }: Scene): Promise<readonly unknown[]> {
  const found: unknown[] = [];
  for (const runId of runs) {
    found.push(await store.loadRun({ tenant, runId, records: ["run", "input"] }, call));
    found.push(await store.readTimeline({ tenant, runId, after: 0, limit: 100 }, call));
  }
  found.push(await store.listApprovals({ tenant, limit: 100 }, call));
  found.push(await store.readEvents({ tenant, after: 0, limit: 1_000 }, call));
  found.push(await store.readEvents({ tenant, after: 0, limit: 1_000, of: "trail" }, call));
  found.push(await store.countActive({ tenant }, call));
  return found;
}

/** Which field comes first says nothing. */
function inOrder(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** Ids and tokens by the order in which they are first seen; a time or a fence by nothing. */
function comparable(text: string, names: Map<string, string>): string {
  const named = (kind: string) => (id: string) => {
    const known = names.get(id) ?? `${kind}-${names.size}`;
    names.set(id, known);
    return known;
  };
  return text
    .replaceAll(/"(\w*Ms)":[\d.]+/g, '"$1":0')
    .replaceAll(/"since":"[^"]+"/g, '"since":"time"')
    .replaceAll(/same-[0-9a-f]+/g, () => "tenant")
    .replaceAll(/run_\d\d_[0-9a-f]+/g, named("run"))
    .replaceAll(/[0-9a-f]{64}/g, named("hash"))
    .replaceAll(/[0-9a-f]{32}/g, named("token"))
    .replaceAll(/\d{16}/g, "fence")
    .replaceAll(/\d{13}/g, "time");
}
