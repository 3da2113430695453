// Failures as replies: all that differs between them comes from the table of errors.
import { describe, expect, test } from "vitest";
import { type ErrorCode, type ErrorRow, errors } from "../../src/errors.ts";
import type { Failure } from "../../src/gateway/handler.ts";
import { failureReply } from "../../src/gateway/http-reply.ts";
import { loadConfig } from "../../src/load-config.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { failureRows } from "../support/failure-table.ts";

const seeded = createSeededRandom(1);

function replyTo(
  failure: Failure,
  overrides: Parameters<typeof loadConfig>[0] = {},
  random: { fraction(): number } = seeded,
) {
  const { config } = loadConfig(overrides);
  const reply = failureReply({ config, ports: { random } } as never, failure, "req_1");
  return { ...reply, json: JSON.parse(String(reply.body)) as Record<string, unknown> };
}

describe("a failure", () => {
  const rows = Object.entries<ErrorRow>(errors).map(([code, row]) => ({ code: code as ErrorCode, ...row }));

  test.each(rows)("$code is answered by its row", ({ code, status, retryable, message, remedy }) => {
    const { status: sent, headers, json } = replyTo({ kind: code });
    expect(sent).toBe(status);
    expect(json).toMatchObject({ code, status, retryable, title: message, detail: remedy });
    const waits = retryable && [409, 429, 503].includes(status);
    expect(headers["retry-after"] !== undefined).toBe(waits);
  });

  /** An answer with everything that any row may show, and something that none may. */
  const rich = {
    ...{
      problems: [],
      resource: "r",
      holder: {},
      waitedMs: 7,
      fence: 3,
      version: 2,
      rollout: "ro",
      canary: "ca",
    },
    ...{
      state: "kept",
      approval: {},
      runStatus: "failed",
      active: 3,
      limit: 2,
      runs: [],
      quota: "streams",
      gate: "named.crm",
      ...{ rate: "start.tenant~1000", retryAfterMs: 5, budget: "tenant.all~usd~day", resetsAt: "soon" },
    },
    ...{ runId: "run_1", token: "tok", storeTimeMs: 5, cause: "redis-7" },
  };
  const standard = ["type", "title", "status", "detail", "error", "code", "retryable", "request_id"];

  test.each(failureRows)("$code is answered as the table of the tests says", (row) => {
    const { code, status, retryable, wait, members, effect } = row;
    // Which quota it is decides; those that are about runs pass.
    const { status: sent, headers, json } = replyTo({ kind: code, ...rich, quota: "active_runs" } as Failure);
    expect([sent, json.status, json.retryable, json.code]).toEqual([status, status, retryable, code]);
    expect(json.type).toBe(`urn:interlock:error:${code}`);
    expect(json.request_id).toBe("req_1");
    expect(json.error).toBe(json.title);
    expect(Object.keys(json).sort()).toEqual([...standard, ...members].sort());
    expect(json.outcome).toBe(members.includes("outcome") ? effect : undefined);
    expect("retry-after" in headers).toBe(wait !== undefined);
    const limits = code === "max_concurrent_runs_reached";
    expect(["ratelimit" in headers, "ratelimit-policy" in headers]).toEqual([limits, limits]);
    expect("www-authenticate" in headers).toBe(status === 401);
    expect(headers["content-type"]).toBe("application/problem+json");
  });

  test("shows the members of its row and nothing else of the answer", () => {
    const answer = { limit: 2, active: 3, runs: [], storeTimeMs: 5, cause: "redis-7" };
    const { json, body } = replyTo({ kind: "max_concurrent_runs_reached", ...answer });
    expect(json).toMatchObject({ limit: 2, active: 3, runs: [] });
    expect(String(body)).not.toMatch(/store_?time|redis-7/i);
    expect(replyTo({ kind: "outcome_unknown", runId: "r" }).json).toMatchObject({
      run_id: "r",
      outcome: "unknown",
    });
  });

  test("for want of a slot tells the limit in RateLimit fields, with the time of its Retry-After", () => {
    const { headers } = replyTo({ kind: "max_concurrent_runs_reached", limit: 2, active: 3 });
    expect(headers["ratelimit-policy"]).toBe('"max_concurrent_runs";q=2;qu="concurrent-requests"');
    expect(headers.ratelimit).toBe(`"max_concurrent_runs";r=0;t=${headers["retry-after"]}`);
  });

  test("for want of room names the quota; what ends by nobody's doing is not to be repeated", () => {
    const runs = replyTo({ kind: "quota_reached", quota: "active_runs", limit: 3 });
    expect(runs.json).toMatchObject({ quota: "active_runs", limit: 3, retryable: true });
    expect(runs.json.detail).toMatch(/^the tenant's quota active_runs is 3: end or cancel runs/);
    const keys = replyTo({ kind: "quota_reached", quota: "api_keys", limit: 3 });
    expect(keys.json.retryable).toBe(false);
    expect(keys.headers["retry-after"]).toBeUndefined();
  });
});

describe("Retry-After", () => {
  const admission = (seconds: number) => ({
    overrides: { "admission.retryAfterSeconds": seconds, "gateway.retryAfterSeconds": 30 },
  });

  test.each([
    [1, "max_concurrent_runs_reached"],
    [10, "max_concurrent_runs_reached"],
    [10, "idempotency_key_in_flight"],
    [10, "idempotency_quota_reached"],
    [10, "concurrency_gate_unavailable"],
    [10, "outcome_unknown"],
  ] as const)("spreads callers from %i s up to twice that (%s)", (baseSeconds, kind) => {
    const sources = admission(baseSeconds);
    const seconds = Array.from({ length: 100 }, () =>
      Number(replyTo({ kind }, sources).headers["retry-after"]),
    );
    for (const value of seconds) {
      expect(Number.isInteger(value)).toBe(true);
      expect(value).toBeGreaterThanOrEqual(baseSeconds);
      expect(value).toBeLessThanOrEqual(2 * baseSeconds);
    }
    const mostCommon = Math.max(
      ...[...new Set(seconds)].map((value) => seconds.filter((other) => other === value).length),
    );
    expect(mostCommon).toBeLessThan(0.75 * seconds.length);
  });

  /** Bases that no other one reaches, and chance at both of its ends. */
  const bases = { admission: 10, gateway: 30 } as const;
  const sources = {
    overrides: {
      "admission.retryAfterSeconds": bases.admission,
      "gateway.retryAfterSeconds": bases.gateway,
    },
  };

  test.each(failureRows)("of $code goes from its base to exactly twice that", ({ code, wait }) => {
    const at = (fraction: number) =>
      replyTo({ kind: code } as Failure, sources, { fraction: () => fraction }).headers["retry-after"];
    const base = wait === undefined ? undefined : bases[wait];
    expect([at(0), at(1 - 2 ** -53)]).toEqual(
      base === undefined ? [undefined, undefined] : [String(base), String(2 * base)],
    );
  });

  test("of anything else is the gateway's, unless the answer knows better", () => {
    const drawn = Number(replyTo({ kind: "overloaded" }, admission(1)).headers["retry-after"]);
    expect(drawn).toBeGreaterThanOrEqual(30);
    const known = replyTo({ kind: "too_many_failed_authentications", retryAfterSeconds: 7 });
    expect(known.headers["retry-after"]).toBe("7");
  });
});
