// A real gateway on a memory store, with two tenants, a key of every role, and one of everything to ask about.
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { createPrometheusMetrics } from "../../src/adapters/prometheus-metrics.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { Config } from "../../src/config.ts";
import { type ControlPlane, createControlPlane } from "../../src/control-plane.ts";
import type { ApiKeyRecord, KeyRole } from "../../src/domain/api-key.ts";
import { platformTenant, type TenantId } from "../../src/domain/tenant.ts";
import { createGateway, type Gateway } from "../../src/gateway/server.ts";
import type { DefinitionJudge, Log } from "../../src/ports/ports.ts";
import { defaultStoreSettings, executeOn, type Store, storeFrom } from "../../src/ports/store.ts";
import { secretWatch } from "./secret-watch.ts";

export const acme = "acme" as TenantId;
export const globex = "globex" as TenantId;

export type TestKey = { readonly text: string; readonly key: ApiKeyRecord };
export type TenantKeys = Readonly<Record<Exclude<KeyRole, "platform" | "metrics">, TestKey>>;

export type Sent = {
  readonly key?: TestKey | string | undefined;
  readonly body?: unknown;
  /** Sent as it is. */
  readonly text?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
};

export type Received = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: { readonly [name: string]: unknown };
};

export type GatewayWorld = {
  readonly url: string;
  readonly plane: ControlPlane;
  readonly gateway: Gateway;
  readonly platform: TestKey;
  /** Of the platform, for a program that only collects metrics. */
  readonly metrics: TestKey;
  readonly acme: TenantKeys;
  readonly globex: TenantKeys;
  /** Everything logged so far, as JSON lines. */
  readonly logged: string[];
  /** How the store answers from now on. */
  setStore(mode: StoreMode): void;
  ask(method: string, path: string, sent?: Sent): Promise<Received>;
  close(): Promise<void>;
};

/** On a memory store of its own, unless one is given; that is closed with the world, too. */
export async function openGatewayWorld(
  given: Partial<Config> = {},
  base: Store = createMemoryStore({ clock: systemClock, settings: defaultStoreSettings }),
  judge?: DefinitionJudge,
): Promise<GatewayWorld> {
  const logged: string[] = [];
  const write = (message: string, fields: object = {}) => logged.push(JSON.stringify({ message, ...fields }));
  const log: Log = { info: write, warn: write, error: write };
  const { store, setStore } = switchableStore(base);
  const metrics = createPrometheusMetrics(10);
  let lastMetrics = "";
  secretWatch.watchOutput("the gateway's log", () => logged.join("\n"), "nothing");
  secretWatch.watchOutput("the gateway's metrics", () => lastMetrics, "nothing");
  secretWatch.note("a password in an address", canaryPassword);
  // Clients that keep their connections would make every stop take that long, and a minute may end while states are compared.
  const overrides = { "gateway.lingerMs": 0, "audit.refusals": "no", ...given } as const;
  const ports = { log, store, metrics, ...(judge === undefined ? {} : { judge }) };
  const plane = await createControlPlane({ overrides, ports });
  const gateway = createGateway({ ...plane, version: "test", metricsText: () => metrics.text() });
  const { url } = await gateway.listen({ port: 0 });
  const ask = asker(url);
  const world = { url, plane, gateway, logged, setStore, ask };
  await plane.api.createTenant({ actor: "setup", tenant: acme, settings: {} });
  await plane.api.createTenant({ actor: "setup", tenant: globex, settings: {} });
  return {
    ...world,
    platform: await makeKey(plane, platformTenant, "platform"),
    metrics: await makeKey(plane, platformTenant, "metrics"),
    acme: await tenantKeys(plane, acme),
    globex: await tenantKeys(plane, globex),
    async close() {
      setStore("answering");
      lastMetrics = await metrics.text();
      await gateway.close();
      await plane.close();
    },
  };
}

/** Stands in the causes of failures, as an address with a password would. */
const canaryPassword = "canary-password";

/** A store that can be told to fail, as one across a network would. */
/** `full`: it can be read, and takes no change, as SQLite on a full disk. */
type StoreMode = "answering" | "unavailable" | "unknown" | "full";

function switchableStore(base: Store): { readonly store: Store; setStore: GatewayWorld["setStore"] } {
  const execute = executeOn(base);
  let mode: StoreMode = "answering";
  const store = storeFrom(
    async (name, request, options) => {
      if (mode === "unavailable")
        return { kind: "unavailable", cause: `redis://:${canaryPassword}@store down` };
      if (mode === "unknown") return { kind: "unknown", cause: "no answer", notAfterMs: 0 };
      if (mode === "full" && !/^(get|list|load|read|count|inspect)/.test(name))
        return { kind: "unavailable", cause: "disk full: database or disk is full" };
      return execute(name, request, options);
    },
    () => base.close(),
  );
  return {
    store,
    setStore: (next) => {
      mode = next;
    },
  };
}

async function tenantKeys(plane: ControlPlane, tenant: TenantId): Promise<TenantKeys> {
  return {
    admin: await makeKey(plane, tenant, "admin"),
    operator: await makeKey(plane, tenant, "operator"),
    viewer: await makeKey(plane, tenant, "viewer"),
    worker: await makeKey(plane, tenant, "worker"),
    approver: await makeKey(plane, tenant, "approver"),
  };
}

export async function makeKey(plane: ControlPlane, tenant: TenantId, role: KeyRole): Promise<TestKey> {
  const made = await plane.api.createKey({ by: "setup", tenant, role, name: `${role} of ${tenant}` });
  if (made.kind !== "created") throw new Error(`no key: ${made.kind}`);
  secretWatch.noteAllIn(made.text);
  return made;
}

function asker(url: string): GatewayWorld["ask"] {
  return async (method, path, { key, body, text, headers = {}, signal } = {}) => {
    const keyText = typeof key === "string" ? key : key?.text;
    const payload = text ?? (body === undefined ? undefined : JSON.stringify(body));
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(keyText === undefined ? {} : { "x-api-key": keyText }),
        ...(payload === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(payload === undefined ? {} : { body: payload }),
      ...(signal === undefined ? {} : { signal }),
    });
    const received = await textOf(response);
    secretWatch.noteAllIn(received);
    if (typeof payload === "string") secretWatch.noteAllIn(payload);
    const isJson = response.headers.get("content-type")?.includes("json") === true && received !== "";
    return {
      status: response.status,
      headers: response.headers,
      text: received,
      json: isJson ? (JSON.parse(received) as Received["json"]) : {},
    };
  };
}

/** Of a stream, which has no end, only what it begins with. */
async function textOf(response: Response): Promise<string> {
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return response.text();
  const reader = response.body?.getReader();
  const { value } = (await reader?.read()) ?? {};
  await reader?.cancel();
  return new TextDecoder().decode(value);
}

export const simpleWorkflow = {
  id: "simple",
  name: "Simple",
  steps: { one: { type: "worker", topic: "work" } },
};

export const guardedWorkflow = {
  id: "guarded",
  name: "Guarded",
  steps: {
    ok: { type: "approval" },
    after: { type: "worker", topic: "work", depends_on: ["ok"] },
  },
};

export const listWorkflow = {
  id: "list",
  name: "List",
  steps: { each: { type: "worker", topic: "list", for_each: "[1, 2, 3]", input: { number: "${item}" } } },
};

export const queueingWorkflow = {
  id: "queueing",
  name: "Queueing",
  concurrency: [{ max: 1, at_limit: "queue" }],
  steps: { one: { type: "worker", topic: "queueing" } },
};

export type Things = {
  readonly runId: string;
  /** A run with a list of items. */
  readonly listRunId: string;
  /** A run that waits at a gate. */
  readonly queuedRunId: string;
  readonly jobId: string;
  readonly claimToken: string;
  readonly approvalId: string;
  readonly approvalHash: string;
  readonly keyId: string;
  readonly letterId: string;
  readonly lockToken: string;
  readonly lockFence: number;
  /** Of the platform, for all tenants. */
  readonly canaryId: string;
};

/** One of everything, of tenant acme: a run with a claimed job, an approval, a bound key, an API key to spare, a lock, a pool. */
export async function makeThings({ ask, acme: keys, plane, platform }: GatewayWorld): Promise<Things> {
  await ask("POST", "/api/v1/workflows", { key: keys.admin, body: simpleWorkflow });
  await ask("POST", "/api/v1/workflows", { key: keys.admin, body: guardedWorkflow });
  const started = await ask("POST", "/api/v1/workflows/simple/runs", {
    key: keys.operator,
    body: { customer: "c-1" },
    headers: { "idempotency-key": "bound-key" },
  });
  const polled = await ask("POST", "/api/v1/jobs/poll", {
    key: keys.worker,
    body: { worker_id: "w-1", topics: ["work"], poll_id: "p-1", max_jobs: 1, wait_ms: 5_000 },
  });
  const [job] = polled.json.jobs as Array<{ job_id: string; claim_token: string }>;
  await ask("POST", "/api/v1/workflows/guarded/runs", { key: keys.operator, body: {} });
  const approvals = await ask("GET", "/api/v1/approvals", { key: keys.viewer });
  const [approval] = approvals.json.items as Array<{ job_id: string; hash: string }>;
  if (job === undefined || approval === undefined) throw new Error(`${polled.text} ${approvals.text}`);
  const spare = await makeKey(plane, acme, "viewer");
  await ask("PUT", "/api/v1/pools/batch", { key: keys.admin, body: { max_running: 5, topics: ["slow"] } });
  await ask("PUT", "/api/v1/topics/slow", { key: keys.admin, body: { max_running: 5 } });
  await ask("POST", "/api/v1/workflows", { key: keys.admin, body: listWorkflow });
  const list = await ask("POST", "/api/v1/workflows/list/runs", { key: keys.operator, body: {} });
  await ask("POST", "/api/v1/workflows", { key: keys.admin, body: queueingWorkflow });
  const startQueueing = () =>
    ask("POST", "/api/v1/workflows/queueing/runs", { key: keys.operator, body: { customer: "c-1" } });
  await startQueueing();
  const queued = await startQueueing();
  const lock = await ask("POST", "/api/v1/locks/acquire", {
    key: keys.worker,
    body: { resource: "invoice/7", owner: "agent 7", ttl_ms: 3_600_000 },
  });
  const fencing = { policies: { "renewal.policy": "fence" }, percent: 5 };
  await ask("PUT", "/api/v1/policies", { key: platform, body: { tenant: "globex", ...fencing } });
  const canary = await ask("POST", "/api/v1/canaries", {
    key: platform,
    body: { ...fencing, for_seconds: 86_400 },
  });
  return {
    canaryId: String(canary.json.id),
    runId: String(started.json.run_id),
    queuedRunId: String(queued.json.run_id),
    listRunId: String(list.json.run_id),
    jobId: job.job_id,
    claimToken: job.claim_token,
    approvalId: approval.job_id,
    approvalHash: approval.hash,
    keyId: spare.key.keyId,
    letterId: await makeLetter(ask, keys),
    lockToken: String(lock.json.token),
    lockFence: Number(lock.json.fence),
  };
}

const fragileWorkflow = {
  id: "fragile",
  name: "Fragile",
  steps: { break: { type: "worker", topic: "fragile" } },
};

/** A run that failed and left a dead letter. */
export async function makeLetter(
  ask: GatewayWorld["ask"],
  keys: TenantKeys,
  pollId = "p-3",
): Promise<string> {
  await ask("POST", "/api/v1/workflows", { key: keys.admin, body: fragileWorkflow });
  await ask("POST", "/api/v1/workflows/fragile/runs", { key: keys.operator, body: { part: 1 } });
  const polled = await ask("POST", "/api/v1/jobs/poll", {
    key: keys.worker,
    body: { worker_id: "w-3", topics: ["fragile"], poll_id: pollId, max_jobs: 1, wait_ms: 5_000 },
  });
  const [job] = polled.json.jobs as Array<{ job_id: string; claim_token: string }>;
  if (job === undefined) throw new Error(polled.text);
  const { job_id, claim_token } = job;
  const result = { job_id, claim_token, status: "failed", error: { message: "it broke", code: "broken" } };
  await ask("POST", "/api/v1/jobs/results", {
    key: keys.worker,
    body: { worker_id: "w-3", results: [result] },
  });
  const path = `/api/v1/dlq/${encodeURIComponent(job_id)}`;
  const endMs = performance.now() + 5_000;
  for (;;) {
    const letter = await ask("GET", path, { key: keys.viewer });
    if (letter.json.run_status === "failed") return job_id;
    if (performance.now() > endMs) throw new Error(letter.text);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
