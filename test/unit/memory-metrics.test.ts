// Metrics in memory: what is counted can be read back by any part of its labels, and tenants are capped.
import { describe, expect, test } from "vitest";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";

const waited = (tenant: string) =>
  ({ tenant, endpoint: "start_run", strategy: "atomic", outcome: "admitted" }) as const;

describe("metrics in memory", () => {
  test("counters add up, and are read by any part of their labels", () => {
    const metrics = new MemoryMetrics(10);
    metrics.count("lock_not_owned_total", { lock: "job", operation: "renew" });
    metrics.count("lock_not_owned_total", { lock: "job", operation: "release" });
    metrics.count("lock_not_owned_total", { lock: "run", operation: "release" });
    metrics.count("lock_not_owned_total", { lock: "run", operation: "release" });
    expect(metrics.total("lock_not_owned_total")).toBe(4);
    expect(metrics.total("lock_not_owned_total", { lock: "job" })).toBe(2);
    expect(metrics.total("lock_not_owned_total", { operation: "release" })).toBe(3);
    expect(metrics.total("lock_not_owned_total", { lock: "run", operation: "renew" })).toBe(0);
    expect(metrics.total("lock_renewal_failed_total")).toBe(0);
  });

  test("the order of labels does not matter", () => {
    const metrics = new MemoryMetrics(10);
    metrics.count("lock_not_owned_total", { lock: "job", operation: "renew" });
    metrics.count("lock_not_owned_total", { operation: "renew", lock: "job" });
    expect(metrics.total("lock_not_owned_total", { lock: "job", operation: "renew" })).toBe(2);
  });

  test("a counter without labels counts", () => {
    const metrics = new MemoryMetrics(10);
    metrics.count("run_starts_total", {});
    metrics.count("run_starts_total", {});
    expect(metrics.total("run_starts_total")).toBe(2);
  });

  test("a gauge keeps its last value per series", () => {
    const metrics = new MemoryMetrics(10);
    metrics.set("active_runs", { tenant: "a" }, 3);
    metrics.set("active_runs", { tenant: "a" }, 1);
    metrics.set("active_runs", { tenant: "b" }, 5);
    expect(metrics.total("active_runs", { tenant: "a" })).toBe(1);
    expect(metrics.total("active_runs")).toBe(6);
  });

  test("a histogram keeps every value observed", () => {
    const metrics = new MemoryMetrics(10);
    for (const value of [0.5, 0.1, 0.5]) metrics.observe("admission_wait_seconds", waited("a"), value);
    expect(metrics.observed("admission_wait_seconds", { tenant: "a" })).toEqual([0.5, 0.1, 0.5]);
    expect(metrics.observed("admission_wait_seconds", { tenant: "b" })).toEqual([]);
  });

  test("tenants beyond the cap share one label, and the first ones keep theirs", () => {
    const metrics = new MemoryMetrics(2);
    for (const tenant of ["a", "b", "c", "d", "a", "c"]) {
      metrics.observe("admission_wait_seconds", waited(tenant), 1);
    }
    const observed = (tenant: string) => metrics.observed("admission_wait_seconds", { tenant }).length;
    expect(["a", "b", "c", "d", "other"].map(observed)).toEqual([2, 1, 0, 0, 3]);
  });

  test("the cap is one for all metrics, so that a tenant has its own label in all or in none", () => {
    const metrics = new MemoryMetrics(1);
    metrics.set("active_runs", { tenant: "a" }, 1);
    metrics.observe("admission_wait_seconds", waited("b"), 1);
    expect(metrics.observed("admission_wait_seconds", { tenant: "other" })).toEqual([1]);
  });

  test("the number of series stays bounded however many tenants come", () => {
    const metrics = new MemoryMetrics(100);
    for (let index = 0; index < 10_000; index += 1) {
      metrics.observe("admission_wait_seconds", waited(`tenant-${index}`), 1);
    }
    expect(metrics.observed("admission_wait_seconds", { tenant: "other" })).toHaveLength(9_900);
    expect(metrics.observed("admission_wait_seconds")).toHaveLength(10_000);
  });
});
