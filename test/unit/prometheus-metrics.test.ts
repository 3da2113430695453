// Metrics for Prometheus: every row of the table is exported, and tenants beyond the cap share a label.
import { describe, expect, test } from "vitest";
import { bucketsOf, createPrometheusMetrics } from "../../src/adapters/prometheus-metrics.ts";
import { type MetricName, type MetricRow, metrics } from "../../src/metrics.ts";

describe("metrics for Prometheus", () => {
  test("every row of the table is there with its kind and its help", async () => {
    const text = await createPrometheusMetrics(10).text();
    for (const [name, row] of Object.entries<MetricRow>(metrics)) {
      expect(text).toContain(`# HELP interlock_${name} ${row.help}\n`);
      expect(text).toContain(`# TYPE interlock_${name} ${row.kind}\n`);
    }
  });

  test("counters grow, gauges are set, histograms fill their buckets", async () => {
    const exported = createPrometheusMetrics(10);
    exported.count("http_requests_total", { operation: "startRun", status: "200" });
    exported.count("http_requests_total", { operation: "startRun", status: "200" });
    exported.set("active_runs", { tenant: "acme" }, 7);
    exported.observe("http_request_seconds", { operation: "startRun" }, 0.003);
    const text = await exported.text();
    expect(text).toMatch(/interlock_http_requests_total\{operation="startRun",status="200"\} 2\n/);
    expect(text).toMatch(/interlock_active_runs\{tenant="acme"\} 7\n/);
    expect(text).toMatch(/interlock_http_request_seconds_bucket\{le="0\.0025",operation="startRun"\} 0\n/);
    expect(text).toMatch(/interlock_http_request_seconds_bucket\{le="0\.005",operation="startRun"\} 1\n/);
    expect(text).toMatch(/interlock_http_request_seconds_sum\{operation="startRun"\} 0\.003\n/);
  });

  test("counters whose labels are closed lists begin at 0, so that their first event is a rise", async () => {
    const exported = createPrometheusMetrics(10);
    const before = await exported.text();
    expect(before).toMatch(/interlock_sweep_repairs_total\{kind="slot_freed"\} 0\n/);
    expect(before).toMatch(/interlock_run_starts_total 0\n/);
    expect(before.match(/^interlock_lock_abandoned_total\{.*\} 0$/gm)).toHaveLength(30);
    expect(before).not.toMatch(/^interlock_http_requests_total\{/m);
    exported.count("sweep_repairs_total", { kind: "slot_freed" });
    expect(await exported.text()).toMatch(/interlock_sweep_repairs_total\{kind="slot_freed"\} 1\n/);
  });

  test("the waits of starts and results, and the delays around 500 ms, lie between bounds of their own", () => {
    const boundsOf = (name: MetricName) => bucketsOf(name);
    expect(boundsOf("admission_wait_seconds")).toEqual(expect.arrayContaining([0.001, 0.1, 1, 2, 5]));
    expect(boundsOf("run_lock_wait_seconds")).toEqual(expect.arrayContaining([0.1, 1, 2, 3]));
    const around = boundsOf("lock_busy_retry_delay_seconds").filter((bound) => bound > 0.3 && bound < 0.7);
    expect(around).toEqual([0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65]);
    for (const [name, row] of Object.entries<MetricRow>(metrics)) {
      const bounds = row.kind === "histogram" ? bucketsOf(name) : [];
      expect(bounds, name).toEqual([...bounds].sort((one, other) => one - other));
    }
  });

  test("tenants beyond the cap are counted together, those known before keep their own series", async () => {
    const exported = createPrometheusMetrics(2);
    for (const tenant of ["one", "two", "three", "four", "one"]) {
      exported.set("active_runs", { tenant }, tenant.length);
    }
    const text = await exported.text();
    const series = [...text.matchAll(/interlock_active_runs\{tenant="([a-z]+)"\}/g)].map(([, name]) => name);
    expect(series.sort()).toEqual(["one", "other", "two"]);
  });

  test("hostile labels cannot add lines", async () => {
    const exported = createPrometheusMetrics(2);
    exported.set("active_runs", { tenant: 'a"} 1\nforged 1\n' }, 1);
    expect(await exported.text()).not.toMatch(/^forged/m);
  });
});
