// Partitions: stored keys depend on the hash, so its values are pinned and its spread is checked.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { makeRunId, parseRunId } from "../../src/domain/run.ts";
import {
  parseTenantId,
  partitionCount,
  partitionLabel,
  partitionOf,
  type TenantId,
} from "../../src/domain/tenant.ts";

// Fixed, so that a green change stays green.
fc.configureGlobal({ seed: 1 });

describe("the partition of a tenant", () => {
  test.each([
    ["default", 30],
    ["acme", 47],
    ["globex", 14],
    ["tenant-1", 11],
    ["tenant-2", 30],
    ["A", 12],
  ])("of %j never changes", (tenant, partition) => {
    expect(partitionOf(tenant as TenantId)).toBe(partition);
  });

  test("is FNV-1a over the bytes of the id, modulo 64", () => {
    const fnv1a = (text: string) =>
      Buffer.from(text, "utf8").reduce(
        (hash, byte) => ((hash ^ BigInt(byte)) * 0x01000193n) % 2n ** 32n,
        0x811c9dc5n,
      );
    // The published test vectors of the hash, so that the yardstick itself is checked.
    expect(fnv1a("a")).toBe(0xe40c292cn);
    expect(fnv1a("foobar")).toBe(0xbf9cf968n);
    fc.assert(
      fc.property(fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/), (text) => {
        expect(partitionOf(text as TenantId)).toBe(Number(fnv1a(text) % 64n));
      }),
    );
  });

  test("is one of 64, and tenants use them all evenly", () => {
    const used = new Map<number, number>();
    for (let index = 0; index < 64_000; index += 1) {
      const partition = partitionOf(`tenant-${index}` as TenantId);
      used.set(partition, (used.get(partition) ?? 0) + 1);
    }
    expect([...used.keys()].sort((left, right) => left - right)).toEqual(
      Array.from({ length: partitionCount }, (_, index) => index),
    );
    for (const count of used.values()) {
      expect(count).toBeGreaterThan(850);
      expect(count).toBeLessThan(1_150);
    }
  });

  test("has a label of fixed width", () => {
    const labels = [partitionOf("acme" as TenantId), 0, 7, 63].map((number) =>
      partitionLabel(number as ReturnType<typeof partitionOf>),
    );
    expect(labels.slice(1)).toEqual(["p00", "p07", "p63"]);
    expect(labels[0]).toMatch(/^p\d\d$/);
  });
});

describe("a run id", () => {
  test("names the partition of its tenant", () => {
    const tenant = "acme" as TenantId;
    const runId = makeRunId(tenant, "0123456789abcdef");
    expect(runId).toBe(`run_${partitionLabel(partitionOf(tenant)).slice(1)}_0123456789abcdef`);
    expect(parseRunId(runId)).toBe(runId);
  });

  test.each([
    "",
    "run_07_short",
    "run_7_0123456789",
    "RUN_07_0123456789",
    "run_07_01234567 9",
    "run_99_0123456789",
  ])("is not read from %j", (text) => {
    expect(parseRunId(text)).toBeUndefined();
  });

  test("of every tenant can be read back", () => {
    for (let index = 0; index < 500; index += 1) {
      const runId = makeRunId(`tenant-${index}` as TenantId, "0123456789abcdef");
      expect(parseRunId(runId)).toBe(runId);
    }
  });
});

describe("a tenant id", () => {
  test.each(["a", "A.b_c-9", "x".repeat(64)])("is read from %j", (text) => {
    expect(parseTenantId(text)).toBe(text);
  });

  test.each(["", "-a", ".a", "a b", "a/b", "a:b", "a{b}", "ä", "x".repeat(65), "a\n"])(
    "is not read from %j",
    (text) => {
      expect(parseTenantId(text)).toBeUndefined();
    },
  );
});
