// Settings that are remembered for a few seconds: many who ask at once cost one read, and no read outlives a change.
import { expect, test } from "vitest";
import { systemClock } from "../../src/adapters/system/system.ts";
import { createTenantCache } from "../../src/control/admission/tenant-cache.ts";
import type { TenantId, TenantSettings } from "../../src/domain/tenant.ts";

const acme = "acme" as TenantId;

test("those who ask at once share one read, and what it gives is remembered", async () => {
  const cache = createTenantCache(systemClock, 60_000);
  let reads = 0;
  const read = async () => {
    reads += 1;
    return { maxConcurrentRuns: 3 };
  };
  const answers = await Promise.all([cache.shareRead(acme, read), cache.shareRead(acme, read)]);
  expect(answers).toEqual([{ maxConcurrentRuns: 3 }, { maxConcurrentRuns: 3 }]);
  expect(reads).toBe(1);
  expect(cache.recall(acme)).toEqual({ maxConcurrentRuns: 3 });
});

test("a read that began before a change is neither shared after it nor remembered", async () => {
  const cache = createTenantCache(systemClock, 60_000);
  let answer = (_settings: TenantSettings): void => undefined;
  const old = new Promise<TenantSettings>((resolve) => {
    answer = resolve;
  });
  const before = cache.shareRead(acme, () => old);
  cache.forget(acme);
  const after = cache.shareRead(acme, async () => ({ maxConcurrentRuns: 5 }));
  expect(await after).toEqual({ maxConcurrentRuns: 5 });
  answer({ maxConcurrentRuns: 3 });
  expect(await before).toEqual({ maxConcurrentRuns: 3 });
  expect(cache.recall(acme)).toEqual({ maxConcurrentRuns: 5 });
});
