// The three tables, row by row: errors, metrics and settings keep the forms that clients and operators rely on.
import { STATUS_CODES } from "node:http";
import { describe, expect, test } from "vitest";
import { settings } from "../../src/config.ts";
import { admissionOutcomes } from "../../src/domain/admission-outcomes.ts";
import { type ErrorCode, type ErrorRow, errors, InterlockError } from "../../src/errors.ts";
import { type MetricRow, metrics } from "../../src/metrics.ts";
import type { Setting } from "../../src/settings/kinds.ts";

const snakeCase = /^[a-z]+(_[a-z0-9]+)*$/;

describe("errors", () => {
  const rows = Object.entries<ErrorRow>(errors).map(([code, row]) => ({ code: code as ErrorCode, ...row }));

  test.each(rows)("$code is snake case, with a status, a message and a remedy", (row) => {
    expect(row.code).toMatch(snakeCase);
    // 499 is what servers log for a caller that went away; it is never sent.
    if (row.status !== 499) expect(STATUS_CODES).toHaveProperty(String(row.status));
    expect(row.status).toBeGreaterThanOrEqual(400);
    expect(row.message).toMatch(/^[a-z].*[^.]$/);
    expect(row.remedy).toMatch(/^[A-Z].*\.$/);
  });

  test.each(rows.filter(({ status }) => status === 429 || status === 503))(
    "$code ($status) says that repeating can help",
    ({ retryable }) => {
      expect(retryable).toBe(true);
    },
  );

  test.each(rows.filter(({ status }) => [400, 401, 403, 404, 413, 422].includes(status)))(
    "$code ($status) says that repeating cannot help",
    ({ retryable }) => {
      expect(retryable).toBe(false);
    },
  );

  test("no two errors share a message", () => {
    expect(new Set(rows.map(({ message }) => message)).size).toBe(rows.length);
  });

  test("the words that operators search for stand as they were", () => {
    expect(errors.max_concurrent_runs_reached.message).toBe("max concurrent runs reached");
    expect(errors.concurrency_gate_unavailable.message).toBe("workflow concurrency gate unavailable");
    expect(errors.lock_not_owned.message).toBe("lock not owned");
    expect(errors.lock_token_required.message).toBe("lock token required");
    expect(errors.approval_lock_busy.message).toBe("approval lock busy");
  });

  test("an error carries its code, its detail and what caused it", () => {
    const cause = new Error("below");
    const error = new InterlockError("lock_not_owned", "job 7", { cause });
    expect(error).toMatchObject({ name: "InterlockError", code: "lock_not_owned", detail: "job 7", cause });
    expect(error.message).toBe("lock not owned: job 7");
  });
});

describe("answers to a start", () => {
  test.each([
    [422, "idempotency_key_reused", "key_reused"],
    [409, "idempotency_key_in_flight", "in_flight"],
    [429, "max_concurrent_runs_reached", "limit_reached"],
    [403, "tenant_stopped", "tenant_stopped"],
    [503, "concurrency_gate_unavailable", "gate_unavailable"],
    [401, "unauthenticated", "credential_revoked"],
    [409, "version_conflict", "workflow_changed"],
    [429, "quota_reached", "run_quota_reached"],
    [429, "idempotency_quota_reached", "key_quota_reached"],
    [503, "outcome_unknown", "outcome_unknown"],
    [499, "request_cancelled", "cancelled"],
  ] as const)("are %i %s, counted as %s", (status, code, label) => {
    expect(errors[code].status).toBe(status);
    expect(admissionOutcomes[code]).toBe(label);
  });
});

describe("metrics", () => {
  const rows = Object.entries<MetricRow>(metrics).map(([name, row]) => ({ name, ...row }));

  test.each(rows)("$name has a name by its kind, labels in snake case, and a sentence of help", (row) => {
    expect(row.name).toMatch(snakeCase);
    expect(row.name.startsWith("interlock_")).toBe(false);
    if (row.kind === "counter") expect(row.name).toMatch(/_total$/);
    else expect(row.name).not.toMatch(/_total$/);
    if (row.kind === "histogram") expect(row.name).toMatch(/_(seconds|bytes|entries)$/);
    for (const label of row.labels) expect(label).toMatch(snakeCase);
    expect(new Set(row.labels).size).toBe(row.labels.length);
    expect(row.help).toMatch(/^[A-Z].*\.$/);
  });

  test("no label carries an id, except the tenant, which is capped", () => {
    const labels = new Set(rows.flatMap((row) => [...row.labels]));
    for (const label of labels) expect(label).not.toMatch(/(^|_)(id|run|job|key|token|name)$/);
  });

  test("the seeds' own are there with their labels", () => {
    expect(metrics.admission_wait_seconds.labels).toEqual(["tenant", "endpoint", "strategy", "outcome"]);
    expect(metrics.idempotency_cleanup_failures_total.labels).toEqual(["context"]);
    expect(metrics.lock_not_owned_total.labels).toEqual(["lock", "operation"]);
    expect(metrics.lock_abandoned_total.labels).toEqual(["lock", "policy", "cause"]);
    expect(metrics.lock_renewal_failed_total.labels).toEqual(["lock", "policy"]);
    expect(metrics.lock_busy_retries_total.labels).toEqual(["path", "policy"]);
  });
});

describe("settings", () => {
  const rows = Object.entries<Setting>(settings).map(([name, row]) => ({ name, ...row }));

  test.each(rows)("$name has a name of whole words, an environment name and a reason", (row) => {
    expect(row.name).toMatch(/^[a-z]+(\.[a-z][A-Za-z]*)+$/);
    expect(row.env).toMatch(/^[A-Z]+(_[A-Z]+)*$/);
    expect(row.why).toMatch(/^[A-Za-z].*\.$/);
  });

  test("environment names are unique", () => {
    expect(new Set(rows.map(({ env }) => env)).size).toBe(rows.length);
  });

  test.each(rows.filter((row) => row.kind === "number"))("$name has its default within its bounds", (row) => {
    if (row.kind !== "number") throw new Error("only numbers were asked for");
    expect(row.min).toBeLessThan(row.max);
    expect(row.default).toBeGreaterThanOrEqual(row.min);
    expect(row.default).toBeLessThanOrEqual(row.max);
  });

  test("a time in milliseconds says so at the end of its name and of its environment name", () => {
    for (const row of rows) {
      const isTime = row.kind === "number" && row.unit === "ms";
      expect(row.name.endsWith("Ms")).toBe(isTime);
      expect(row.env.endsWith("_MS")).toBe(isTime);
    }
  });
});
