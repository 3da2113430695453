// A request of every operation that succeeds, and the checks that every answer must pass; the walks over all routes use both.
import { expect } from "vitest";
import { problemBody } from "../../src/api/problem.ts";
import { errorsOf, type Route } from "../../src/api/route.ts";
import { type Operation, operations, routes } from "../../src/api/routes.ts";
import type { KeyRole } from "../../src/domain/api-key.ts";
import { type ErrorCode, errors } from "../../src/errors.ts";
import type { GatewayWorld, Received, TestKey, Things } from "./gateway-world.ts";

export const rows = operations.map((operation) => ({ operation, ...(routes[operation] as Route) }));
export type Row = (typeof rows)[number];

type Example = {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: string;
  readonly body?: Readonly<Record<string, unknown>>;
};

/** A missing operation does not compile. */
export const examples: { readonly [Name in Operation]: (things: Things) => Example } = {
  listWorkflows: () => ({}),
  saveWorkflow: () => ({
    body: { id: "another", name: "Another", steps: { one: { type: "worker", topic: "t" } } },
  }),
  validateWorkflow: () => ({
    body: { id: "another", name: "Another", steps: { one: { type: "worker", topic: "t" } } },
  }),
  getWorkflow: () => ({ params: { id: "simple" } }),
  removeWorkflow: () => ({ params: { id: "simple" } }),
  startRun: () => ({ params: { id: "simple" }, body: { customer: "c-2" } }),
  dryRunWorkflow: () => ({ params: { id: "simple" }, body: { input: {}, outputs: { one: { done: true } } } }),
  listRunsOfWorkflow: () => ({ params: { id: "simple" } }),
  cancelRunOfWorkflow: ({ runId }) => ({ params: { id: "simple", run_id: runId }, body: { reason: "over" } }),
  listRuns: () => ({ query: "status=running&workflow_id=simple&limit=10" }),
  getRun: ({ runId }) => ({ params: { id: runId } }),
  explainRun: ({ runId }) => ({ params: { id: runId } }),
  deleteRun: ({ runId }) => ({ params: { id: runId } }),
  cancelRun: ({ runId }) => ({ params: { id: runId }, body: {} }),
  readTimeline: ({ runId }) => ({ params: { id: runId } }),
  listItems: ({ listRunId }) => ({ params: { id: listRunId, step_id: "each" }, query: "limit=2" }),
  rerunRun: ({ runId }) => ({ params: { id: runId }, body: { from_step: "one" } }),
  listReadyJobs: () => ({ query: "topic=work" }),
  getJob: ({ jobId }) => ({ params: { id: jobId } }),
  pollJobs: () => ({ body: { worker_id: "w-2", topics: ["work"], poll_id: "p-2", max_jobs: 1, wait_ms: 0 } }),
  heartbeat: ({ jobId, claimToken }) => ({
    body: { worker_id: "w-1", jobs: [{ job_id: jobId, claim_token: claimToken, progress: { part: 0.5 } }] },
  }),
  reportResults: ({ jobId, claimToken }) => ({
    body: {
      worker_id: "w-1",
      results: [{ job_id: jobId, claim_token: claimToken, status: "succeeded", output: { done: true } }],
    },
  }),
  listWorkers: () => ({}),
  listQueues: () => ({}),
  listBudgets: () => ({ query: "periods=all" }),
  getGate: () => ({ params: { id: "by-workflow.queueing" }, query: "limit=5" }),
  moveQueued: ({ queuedRunId }) => ({ params: { id: queuedRunId }, body: { to: "head" } }),
  listPools: () => ({}),
  getPool: () => ({ params: { id: "batch" } }),
  setPool: () => ({ params: { id: "batch" }, body: { max_running: 3, topics: ["work"] } }),
  changePool: () => ({ params: { id: "batch" }, body: { max_running: null } }),
  removePool: () => ({ params: { id: "batch" } }),
  drainPool: () => ({ params: { id: "batch" }, body: {} }),
  addPoolTopic: () => ({ params: { id: "batch", topic: "more" } }),
  removePoolTopic: () => ({ params: { id: "batch", topic: "slow" } }),
  listTopics: () => ({}),
  setTopic: () => ({ params: { id: "slow" }, body: { max_running: 2 } }),
  removeTopic: () => ({ params: { id: "slow" } }),
  listApprovals: () => ({ query: "state=pending" }),
  approvalContext: ({ approvalId }) => ({ params: { job_id: approvalId } }),
  approve: ({ approvalId, approvalHash }) => ({
    params: { job_id: approvalId },
    body: { hash: approvalHash, reason: "seen" },
  }),
  reject: ({ approvalId }) => ({ params: { job_id: approvalId }, body: {} }),
  listDeadLetters: () => ({ query: "state=open&reason=retries_exhausted" }),
  listDeadLetterPage: () => ({}),
  inspectDeadLetter: ({ letterId }) => ({ params: { id: letterId } }),
  retryDeadLetter: ({ letterId }) => ({ params: { id: letterId }, body: {} }),
  removeDeadLetter: ({ letterId }) => ({ params: { id: letterId } }),
  purgeDeadLetters: () => ({
    body: { reason: "claims_lost", state: "retried", before: "2026-01-01T00:00:00Z" },
  }),
  listLocks: () => ({}),
  acquireLock: () => ({ body: { resource: "invoice/8", owner: "agent 8", ttl_ms: 60_000 } }),
  renewLock: ({ lockToken }) => ({ body: { resource: "invoice/7", token: lockToken, ttl_ms: 60_000 } }),
  releaseLock: ({ lockToken }) => ({ body: { resource: "invoice/7", token: lockToken } }),
  listAllLocks: () => ({}),
  breakLock: ({ lockFence }) => ({
    body: { namespace: "public", name: "invoice/7", fence: lockFence, reason: "its agent is gone" },
  }),
  listTenants: () => ({}),
  createTenant: () => ({ body: { id: "initech", max_concurrent_runs: 3 } }),
  getTenant: () => ({ params: { id: "acme" } }),
  changeTenant: () => ({ params: { id: "acme" }, body: { max_concurrent_runs: 9, stopped: null } }),
  removeTenant: () => ({ params: { id: "globex" } }),
  listKeys: () => ({}),
  createKey: () => ({ body: { role: "viewer", name: "new", tenant: "acme" } }),
  getKey: ({ keyId }) => ({ params: { id: keyId } }),
  revokeKey: ({ keyId }) => ({ params: { id: keyId } }),
  getPolicies: () => ({ query: "tenant=acme" }),
  setPolicies: () => ({ body: { tenant: "acme", policies: { "results.strategy": "retry" }, percent: 10 } }),
  removeRollout: () => ({ query: "tenant=globex" }),
  listCanaries: () => ({}),
  startCanary: () => ({
    body: { tenant: "acme", policies: { "results.strategy": "retry" }, percent: 10, for_seconds: 3_600 },
  }),
  getCanary: ({ canaryId }) => ({ params: { id: canaryId } }),
  rollBackCanary: ({ canaryId }) => ({ params: { id: canaryId }, body: { reason: "seen enough" } }),
  keepCanary: ({ canaryId }) => ({ params: { id: canaryId }, body: {} }),
  readEvents: () => ({ query: "limit=10" }),
  streamEvents: () => ({}),
  readAudit: () => ({ query: "limit=10&type=document_saved&actor=setup" }),
  verifyAudit: () => ({}),
  streamRunEvents: ({ runId }) => ({ params: { id: runId } }),
  lookUpKey: () => ({ params: { key: "bound-key" } }),
  getStatus: () => ({}),
  openApi: () => ({}),
  live: () => ({}),
  ready: () => ({}),
  metrics: () => ({}),
};

/** Its own params replaced where others are given. */
export function pathOf(row: Row, things: Things, others: Readonly<Record<string, string>> = {}): string {
  const { params = {}, query } = examples[row.operation](things);
  const path = row.path.replaceAll(/\{([a-z_]+)\}/g, (_all, name: string) =>
    encodeURIComponent(others[name] ?? params[name] ?? ""),
  );
  return query === undefined ? path : `${path}?${query}`;
}

export function withQuery(path: string, query: string): string {
  return path.includes("?") ? `${path}&${query}` : `${path}?${query}`;
}

/** A key that may; absent for what is open. */
export function keyFor(row: Row, world: GatewayWorld): TestKey | undefined {
  if (row.access === "open") return undefined;
  if (row.access === "metrics") return world.platform;
  const [role = "platform"] = row.access.includes("admin") ? (["admin"] as const) : row.access;
  return keyOf(role, world);
}

export function keyOf(role: KeyRole, world: GatewayWorld): TestKey {
  return role === "platform" || role === "metrics" ? world[role] : world.acme[role];
}

/** What every failure must be, whatever went wrong. */
export function expectProblem(
  row: Row | undefined,
  answer: Received,
  code: ErrorCode | readonly ErrorCode[],
): void {
  const codes = typeof code === "string" ? [code] : code;
  expect(codes, answer.text).toContain(answer.json.code);
  const { status, retryable } = errors[answer.json.code as ErrorCode];
  expect(answer.status).toBe(status);
  expect(answer.headers.get("content-type")).toBe("application/problem+json");
  expect(problemBody.parse(answer.json)).toMatchObject({
    status,
    retryable,
    request_id: answer.headers.get("x-request-id"),
  });
  if (retryable && [409, 429, 503].includes(status)) {
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  }
  if (row !== undefined) expect(errorsOf(row)).toContain(answer.json.code);
  expectHeaders(answer);
}

export function expectSuccess(row: Row, answer: Received): void {
  expect(Object.keys(row.replies), answer.text).toContain(String(answer.status));
  const schema = row.replies[answer.status];
  if (answer.status === 204) expect(answer.text).toBe("");
  else if (row.mediaType !== undefined) expect(answer.headers.get("content-type")).toContain(row.mediaType);
  else if (row.operation !== "metrics") expect(schema?.parse(answer.json)).toEqual(answer.json);
  expectHeaders(answer);
}

function expectHeaders({ headers }: Received): void {
  expect(headers.get("x-request-id")).toMatch(/^[A-Za-z0-9._:-]{1,128}$/);
  expect(headers.get("x-content-type-options")).toBe("nosniff");
  expect(headers.get("cache-control")).toBe("no-store");
  expect(headers.get("content-security-policy")).toContain("default-src 'none'");
  expect(headers.get("server")).toBeNull();
  for (const name of headers.keys()) expect(name).not.toMatch(/^access-control-/);
}
