// The capacity page is the one that its input gives, and its model adds up.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  type CapacityInput,
  hashOf,
  inputNames,
  needsOf,
  perMemory,
  perThread,
  plan,
  retentionDaysAt,
  spreadOf,
} from "../../scripts/capacity-model.ts";
import { capacityPage } from "../../scripts/capacity-page.ts";
import { partitionCount, partitionOf, type TenantId } from "../../src/domain/tenant.ts";

const folder = join(dirname(dirname(import.meta.dirname)), "docs/guide");
const read = (name: string) => readFileSync(join(folder, name), "utf8");
const input = JSON.parse(read("capacity-input.json")) as CapacityInput;

test("docs/guide/capacity.md is what npm run capacity writes from its input", () => {
  expect(Object.keys(input.numbers).sort()).toEqual([...inputNames].sort());
  expect(read("capacity.md")).toBe(capacityPage(input));
});

describe("what a rate needs", () => {
  const round = {
    node: "26",
    numbers: {
      ...input.numbers,
      "cpu.cluster.run.gateway_us": 300,
      "cpu.cluster.run.store_us": 120,
      "bytes.run.redis.memory_bytes": 1_000,
    },
  };

  test("a thread is planned to be busy for its share of the time, and never fewer than two gateways serve", () => {
    expect(needsOf(round, 1_000)).toMatchObject({ gateways: 2, mastersForCpu: 1, engines: 2 });
    expect(needsOf(round, 10_000)).toMatchObject({ gateways: 5, mastersForCpu: 2 });
    expect(perThread(round, "cpu.cluster.run.store_us")).toBe(5_000);
  });

  test("memory grows with rate and retention, and the rate that fits is the inverse of it", () => {
    const fits = perMemory(round, 4);
    expect(needsOf(round, fits).redisGib).toBeCloseTo(4 * plan.masterGib);
    expect(needsOf(round, fits).mastersForMemory).toBe(4);
    expect(retentionDaysAt(round, perMemory(round, partitionCount))).toBeCloseTo(plan.retentionDays);
  });
});

describe("tenants and partitions", () => {
  test("the model hashes tenants as the product does", () => {
    for (const tenant of ["a", "acme", "tenant-7-4711"]) {
      expect(hashOf(tenant) % partitionCount).toBe(partitionOf(tenant as TenantId));
    }
  });

  test("equal tenants are spread evenly, and the busiest partition has the largest tenant when one is large", () => {
    const common = { tenants: 100_000, partitions: 64, seeds: [1, 2, 3] };
    expect(spreadOf({ ...common, exponent: 0 }).busiest).toBeLessThan(1.1);
    const skewed = spreadOf({ ...common, exponent: 1.1 });
    expect(skewed.busiestShare).toBeGreaterThan(skewed.largestTenantShare);
    expect(skewed.worst).toBeGreaterThanOrEqual(skewed.busiest);
  });

  test("the same seeds give the same spread", () => {
    const options = { tenants: 1_000, exponent: 1, partitions: 64, seeds: [5] };
    expect(spreadOf(options)).toEqual(spreadOf(options));
  });
});
