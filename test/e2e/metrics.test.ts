// What a server shows at /metrics after work of every kind: names, kinds and labels as the table says, and numbers that say what happened.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import { type MetricName, type MetricRow, metrics } from "../../src/metrics.ts";
import { defaultStoreSettings } from "../../src/ports/store.ts";
import {
  acme,
  type GatewayWorld,
  openGatewayWorld,
  simpleWorkflow,
  type TenantKeys,
} from "../support/gateway-world.ts";
import { type Exposed, readMetrics } from "../support/metrics-text.ts";
import { promtool } from "../support/promtool.ts";

const store = createMemoryStore({ clock: systemClock, settings: defaultStoreSettings });
let world: GatewayWorld;
let text = "";
let shown: Exposed;

beforeAll(async () => {
  world = await openGatewayWorld({}, store);
  await startsOfEveryKind();
  await locksOfEveryKind();
  await resultsOfEveryKind();
  const answer = await world.ask("GET", "/metrics", { key: world.platform });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toMatch(/^text\/plain/);
  text = answer.text;
  shown = readMetrics(text);
});

afterAll(() => world.close());

const start = (keys: TenantKeys, headers: Record<string, string> = {}, input: object = {}) =>
  world.ask("POST", "/api/v1/workflows/simple/runs", { key: keys.operator, body: input, headers });

const change = (tenant: string, body: object) =>
  world.ask("PATCH", `/api/v1/tenants/${tenant}`, { key: world.platform, body });

/** One admitted under each strategy, one replayed, one with a used key, one at the limit, one without a store. */
async function startsOfEveryKind(): Promise<void> {
  for (const { admin } of [world.acme, world.globex])
    await world.ask("POST", "/api/v1/workflows", { key: admin, body: simpleWorkflow });
  expect((await change("globex", { admission_strategy: "lock", max_concurrent_runs: 1 })).status).toBe(200);
  const key = { "idempotency-key": "once" };
  expect((await start(world.acme, key)).status).toBe(200);
  expect((await start(world.acme, key)).status).toBe(200);
  expect((await start(world.acme, key, { other: true })).status).toBe(422);
  expect((await start(world.globex)).status).toBe(200);
  expect((await start(world.globex)).status).toBe(429);
  world.setStore("unavailable");
  expect((await start(world.acme)).status).toBe(503);
  world.setStore("answering");
}

/** Acquired, renewed, renewed and released by a stranger, released. */
async function locksOfEveryKind(): Promise<void> {
  const lock = (verb: string, body: object) =>
    world.ask("POST", `/api/v1/locks/${verb}`, { key: world.acme.worker, body: { resource: "r", ...body } });
  const { token } = (await lock("acquire", { owner: "agent", ttl_ms: 60_000 })).json;
  const stranger = "somebody-else-0000";
  const answers = [
    await lock("renew", { token, ttl_ms: 60_000 }),
    await lock("renew", { token: stranger, ttl_ms: 60_000 }),
    await lock("release", { token: stranger }),
    await lock("release", { token }),
  ];
  expect(answers.map(({ status }) => status)).toEqual([200, 409, 409, 200]);
}

/** One applied at once, sent again and contradicted; then, under the strategy retry, one that finds its run busy for a while. */
async function resultsOfEveryKind(): Promise<void> {
  const first = await claim("p-1");
  expect(await report(first)).toBe("accepted");
  expect(await report(first)).toBe("accepted");
  expect(await report(first, { another: "result" })).toBe("duplicate");
  await change("acme", { results_strategy: "retry" });
  const { run_id: runId } = (await start(world.acme)).json;
  const second = await claim("p-2");
  const busy = {
    tenant: acme,
    lock: { namespace: "run", name: String(runId) },
    instance: "elsewhere",
  } as const;
  const token = "occupied-0000000000" as LockToken;
  await store.acquireLock({ ...busy, token, ttlMs: 400 }, { deadlineMs: 1_000 });
  expect(await report(second)).toBe("accepted");
}

type Claimed = { readonly job_id: string; readonly claim_token: string };

async function claim(pollId: string): Promise<Claimed> {
  const body = { worker_id: "w", topics: ["work"], poll_id: pollId, max_jobs: 1, wait_ms: 5_000 };
  const answer = await world.ask("POST", "/api/v1/jobs/poll", { key: world.acme.worker, body });
  const [job] = answer.json.jobs as readonly Claimed[];
  if (job === undefined) throw new Error(answer.text);
  return job;
}

async function report({ job_id, claim_token }: Claimed, output: object = {}): Promise<unknown> {
  const body = { worker_id: "w", results: [{ job_id, claim_token, status: "succeeded", output }] };
  const answer = await world.ask("POST", "/api/v1/jobs/results", { key: world.acme.worker, body });
  return (answer.json.results as ReadonlyArray<{ readonly kind: string }>)[0]?.kind;
}

/** The sum of what is shown under these labels. */
function shownFor(name: string, labels: Readonly<Record<string, string>> = {}): number {
  return shown.samples
    .filter((sample) => sample.name === `interlock_${name}`)
    .filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value))
    .reduce((sum, sample) => sum + sample.value, 0);
}

test("Prometheus' own tool can read it and has nothing to say against it", () => {
  const { status, output } = promtool(["check", "metrics"], { input: text });
  expect(output).toBe("");
  expect(status).toBe(0);
});

describe("every metric of the table", () => {
  const rows = Object.entries<MetricRow>(metrics);

  test.each(rows)("%s has its kind", (name, { kind }) => {
    expect(shown.kinds.get(`interlock_${name}`)).toBe(kind);
  });

  test("and no other is shown", () => {
    expect([...shown.kinds.keys()].sort()).toEqual(rows.map(([name]) => `interlock_${name}`).sort());
  });

  test.each(rows)(
    "%s has exactly its labels, and values of their lists",
    (name, { kind, labels, values = {} }) => {
      const endings = kind === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
      for (const ending of endings) {
        const expected = ending === "_bucket" ? [...labels, "le"] : [...labels];
        for (const sample of shown.samples.filter((each) => each.name === `interlock_${name}${ending}`)) {
          expect(Object.keys(sample.labels).sort()).toEqual(expected.sort());
          for (const [label, known] of Object.entries(values)) expect(known).toContain(sample.labels[label]);
        }
      }
    },
  );
});

describe("the numbers say what happened", () => {
  const expected: ReadonlyArray<readonly [MetricName, Readonly<Record<string, string>>, number]> = [
    ["run_starts_total", {}, 3],
    ["admission_decisions_total", { strategy: "atomic", outcome: "admitted" }, 2],
    ["admission_decisions_total", { strategy: "atomic", outcome: "replayed" }, 1],
    ["admission_decisions_total", { strategy: "atomic", outcome: "key_reused" }, 1],
    ["admission_decisions_total", { strategy: "lock", outcome: "admitted" }, 1],
    ["admission_decisions_total", { strategy: "lock", outcome: "limit_reached" }, 1],
    ["admission_decisions_total", { outcome: "gate_unavailable" }, 1],
    ["idempotency_reservations_total", { outcome: "new" }, 1],
    ["idempotency_reservations_total", { outcome: "replayed" }, 1],
    ["idempotency_cleanup_failures_total", {}, 0],
    ["active_runs", { tenant: "globex" }, 1],
    ["http_requests_total", { operation: "startRun", status: "429" }, 1],
    ["http_requests_total", { operation: "startRun", status: "503" }, 1],
    ["lock_renewals_total", { lock: "public", outcome: "renewed" }, 1],
    ["lock_renewals_total", { lock: "public", outcome: "not_owned" }, 1],
    ["lock_releases_total", { lock: "public", outcome: "released" }, 1],
    ["lock_not_owned_total", { lock: "public", operation: "renew" }, 1],
    ["lock_not_owned_total", { lock: "public", operation: "release" }, 1],
    ["lock_releases_total", { lock: "admission", outcome: "released" }, 2],
    ["jobs_claimed_total", {}, 2],
    ["jobs_reported_total", { outcome: "succeeded" }, 2],
    ["inbox_entries_total", { kind: "result", fate: "duplicate" }, 1],
    ["run_lock_acquired_total", { path: "gateway", retries: "0" }, 0],
    ["sweep_repairs_total", {}, 0],
    ["stale_write_refused_total", {}, 0],
  ];

  test.each(expected)("%s %j is %d", (name, labels, value) => {
    expect(shownFor(name, labels)).toBe(value);
  });

  test.each([
    ["admission_wait_seconds", { tenant: "acme", endpoint: "start_run", outcome: "admitted" }, 2],
    ["lock_acquire_seconds", { lock: "admission", outcome: "acquired" }, 2],
    ["job_result_latency_seconds", { strategy: "handoff" }, 3],
    ["job_result_latency_seconds", { strategy: "retry" }, 1],
    ["run_lock_wait_seconds", { path: "gateway" }, 1],
  ] as const)("%s %j was observed so often: %d", (name, labels, times) => {
    expect(shownFor(`${name}_count`, labels)).toBe(times);
    expect(shownFor(`${name}_bucket`, { ...labels, le: "+Inf" })).toBe(times);
  });

  test("the result that met a busy run waited for it, and got it by a retry", () => {
    const retried = ["1", "2+"].map((retries) =>
      shownFor("run_lock_acquired_total", { path: "gateway", retries }),
    );
    expect(retried.reduce((sum, count) => sum + count, 0)).toBe(1);
    expect(shownFor("run_lock_wait_seconds_sum", { path: "gateway" })).toBeGreaterThan(0.2);
  });
});

test("only platform keys may read it", async () => {
  for (const key of [undefined, world.acme.admin, world.acme.worker]) {
    const answer = await world.ask("GET", "/metrics", { key });
    expect(answer.status).toBe(key === undefined ? 401 : 403);
    expect(answer.text).not.toContain("interlock_run_starts_total");
  }
  const bearer = { authorization: `Bearer ${world.platform.text}` };
  expect((await world.ask("GET", "/metrics", { headers: bearer })).status).toBe(200);
});
