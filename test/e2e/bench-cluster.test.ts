// The cluster benchmark promises its numbers by name, shows nothing that it does not measure, and measures real processes.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { formatBar } from "../../bench/bars.ts";
import { clusterBars, clusterTables } from "../../bench/cluster-bars.ts";
import { type ClusterLoader, startClusterLoader } from "../../bench/cluster-load.ts";
import { clusterPlan, clusterScales } from "../../bench/cluster-plan.ts";
import { type HttpLoader, startHttpLoader } from "../../bench/http-load.ts";
import { lookupIn } from "../../bench/report.ts";
import { measureInSlices } from "../../bench/slices.ts";

const promised = [
  "floor.jetstream.per_s",
  "peer.bullmq.three_step.per_s",
  "peer.bullmq.three_step.p50_ms",
  "runs.cluster.start.per_s",
  "runs.cluster.three_step.http.per_s",
  "runs.cluster.three_step.http.p50_ms",
  "runs.cluster.three_step.http.p99_ms",
  "runs.cluster.worker_loss_over_lease_ms",
  "runs.cluster.redis_commands_per_run",
  "runs.cluster.nats_messages_per_run",
  "runs.cluster.single.start.per_s",
  "runs.cluster.single.three_step.http.per_s",
];

const names = clusterPlan(clusterScales.quick).flatMap(({ name, fields }) =>
  Object.keys(fields).map((field) => `${name}.${field}`),
);

test("every promised number is measured once, quickly or in full", () => {
  expect(names).toEqual(expect.arrayContaining(promised));
  expect(new Set(names).size).toBe(names.length);
  const full = clusterPlan(clusterScales.full).map(({ name }) => name);
  expect(full).toEqual(clusterPlan(clusterScales.quick).map(({ name }) => name));
});

test("tables and bars show measured numbers only, and a bar that is missed is called so", () => {
  const all = (value: number) => lookupIn(names.map((name) => ({ name, value, unit: "", slices: [value] })));
  expect(clusterTables(all(7))).toContain("2 gateways, 2 engines");
  const lines = clusterBars(all(2_001)).map(formatBar);
  expect(lines.filter((line) => line.startsWith("MISSED"))).toEqual([
    expect.stringContaining("one process of each kind, ms: 2,001 (bar: at most 4)"),
    expect.stringContaining("ms after its lease: 2,001 (bar: at most 2,000)"),
  ]);
});

describe("one process of each kind", () => {
  let loaders: HttpLoader[];
  let runsLoader: ClusterLoader;
  beforeAll(() => {
    loaders = [startHttpLoader()];
    runsLoader = startClusterLoader();
  });
  afterAll(async () => {
    await Promise.all([...loaders, runsLoader].map((loader) => loader.stop()));
  });

  test("is measured, and a run of three steps costs five commands at the most", async () => {
    const scale = {
      ...clusterScales.quick,
      floorMs: 500,
      startMs: 500,
      saturationMs: 2_000,
      oneByOneRuns: 5,
    };
    const measurements = clusterPlan(scale).filter(({ name }) =>
      ["floor.jetstream", "runs.cluster.single"].includes(name),
    );
    const rounds = { open: async () => ({ loaders, runsLoader }), close: async () => {} };
    const progress = { step: () => {}, end: () => {} };
    const { value } = lookupIn(await measureInSlices({ measurements, ...rounds, progress }));
    expect(value("floor.jetstream.per_s")).toBeGreaterThan(0);
    expect(value("runs.cluster.single.start.per_s")).toBeGreaterThan(0);
    expect(value("runs.cluster.single.three_step.http.per_s")).toBeGreaterThan(0);
    // Under load starts and results of one turn share a command; alone each has its own.
    expect(value("runs.cluster.single.redis_commands_per_run")).toBeGreaterThan(0);
    expect(value("runs.cluster.single.redis_commands_per_run")).toBeLessThanOrEqual(5);
  });
});
