// Runs that a process remembers: everything they hold counts, and what does not fit is forgotten, the longest unused first.
import { describe, expect, test } from "vitest";
import { type CachedRun, createRunCache, KnownRecords } from "../../src/control/engine/after-commit.ts";
import type { RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";

const plenty = { runsMax: 100, runBytesMax: 1_000, bytesMax: 10_000 };

/** A run with one record of so many characters, its key included. */
function run(name: string, size: number): CachedRun {
  const records = new KnownRecords();
  records.set("key", "x".repeat(size - 3));
  return {
    tenant: "acme" as TenantId,
    runId: name as RunId,
    actor: "ann",
    definition: "hash",
    version: 1,
    status: "running",
    commitId: "commit",
    proposing: false,
    records,
  };
}

describe("the records of a run", () => {
  test("count by what they hold, however it was put there, overwritten or taken away", () => {
    const records = new KnownRecords();
    records.set("a", "12345").set("bc", undefined);
    expect(records.bytes).toBe(8);
    records.set("a", "1").set("bc", "12");
    expect(records.bytes).toBe(6);
    records.delete("bc");
    records.delete("never there");
    expect(records.bytes).toBe(2);
    records.delete("a");
    expect(records.bytes).toBe(0);
  });

  test("count a state that is in hand as a text of the largest size that is kept so", () => {
    const records = new KnownRecords();
    records.set("step/a", { status: "running", attempt: 1 });
    expect(records.bytes).toBe(6 + 256);
    records.set("step/a", "{}");
    expect(records.bytes).toBe(8);
  });
});

describe("remembering runs", () => {
  const namesIn = (cache: ReturnType<typeof createRunCache>, names: readonly string[]) =>
    names.filter((name) => cache.get(name as RunId) !== undefined);

  test("leaves out one that is too large, and forgets what was known of it", () => {
    const cache = createRunCache(plenty);
    cache.put(run("a", 1_000));
    expect(namesIn(cache, ["a"])).toEqual(["a"]);
    cache.put(run("a", 1_001));
    expect(namesIn(cache, ["a"])).toEqual([]);
  });

  test("counts a run that has grown since by what it holds now", () => {
    const cache = createRunCache(plenty);
    const growing = run("a", 500);
    cache.put(growing);
    growing.records.set("result", "x".repeat(600));
    cache.put(growing);
    expect(namesIn(cache, ["a"])).toEqual([]);
  });

  test("forgets those that nobody has used for longest when there are too many, and never one of the latest half", () => {
    const cache = createRunCache({ ...plenty, runsMax: 4 });
    for (const name of ["a", "b"]) cache.put(run(name, 10));
    cache.put(run("c", 10));
    cache.get("a" as RunId);
    cache.put(run("d", 10));
    expect(namesIn(cache, ["b"])).toEqual([]);
    expect(namesIn(cache, ["a", "c", "d"])).toEqual(["a", "c", "d"]);
  });

  test("never remembers more of them than it may", () => {
    const cache = createRunCache({ ...plenty, runsMax: 7 });
    const names = Array.from({ length: 50 }, (_, index) => `run-${index}`);
    for (const name of names) cache.put(run(name, 10));
    const latest = names.slice(-3);
    expect(namesIn(cache, latest)).toEqual(latest);
    expect(namesIn(cache, names).length).toBeLessThanOrEqual(7);
  });

  test("forgets those that nobody has used for longest when all together hold too much, and counts what is gone no longer", () => {
    const cache = createRunCache({ ...plenty, bytesMax: 2_000 });
    for (const name of ["a", "b", "c"]) cache.put(run(name, 500));
    cache.put(run("d", 900));
    expect(namesIn(cache, ["a", "b"])).toEqual([]);
    cache.forget("c" as RunId);
    cache.forget("never there" as RunId);
    for (const name of ["e", "f"]) cache.put(run(name, 450));
    // Asked for last, since one that is used again may take the place of others.
    expect(namesIn(cache, ["c", "e", "f", "d"])).toEqual(["e", "f", "d"]);
  });

  test("leaves out one that would take more than half of what all may hold", () => {
    const cache = createRunCache({ ...plenty, bytesMax: 1_000 });
    cache.put(run("a", 501));
    cache.put(run("b", 500));
    expect(namesIn(cache, ["a", "b"])).toEqual(["b"]);
  });

  test("keeps nothing when it is turned off", () => {
    const cache = createRunCache({ ...plenty, runsMax: 0 });
    cache.put(run("a", 10));
    expect(namesIn(cache, ["a"])).toEqual([]);
  });
});
