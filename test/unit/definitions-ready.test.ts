// The cache of compiled definitions: concurrent callers share the work, and no tenant pushes out the others.

import { describe, expect, test } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { systemClock, systemRandom } from "../../src/adapters/system/system.ts";
import { engineTerms } from "../../src/control/engine/engine.ts";
import { compilingText, createDefinitions } from "../../src/control/workflows/definitions.ts";
import { createFairCache } from "../../src/control/workflows/fair-cache.ts";
import { createTurns } from "../../src/control/workflows/turns.ts";
import { createFairQueue, type Sliced } from "../../src/domain/slices.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { definitionHash, definitionText } from "../../src/domain/workflow/definition.ts";
import { loadConfig } from "../../src/load-config.ts";
import type { Clock, Ports } from "../../src/ports/ports.ts";
import { defaultStoreSettings } from "../../src/ports/store.ts";
import { ordinarySteps } from "../support/costly-definitions.ts";

const acme = "acme" as TenantId;
const globex = "globex" as TenantId;

function countingClock(): Clock & { yields: number } {
  const clock = {
    ...systemClock,
    yields: 0,
    yield: () => {
      clock.yields += 1;
      return systemClock.yield();
    },
  };
  return clock;
}

async function scene() {
  const clock = countingClock();
  const store = createMemoryStore({ clock: systemClock, settings: defaultStoreSettings });
  const text = definitionText(ordinarySteps(1_000));
  const hash = definitionHash(text);
  const document = { collection: "definition", id: hash, body: text, changeId: hash, actor: "test" } as const;
  for (const tenant of [acme, globex])
    await store.putDocument({ tenant, ...document }, { deadlineMs: 1_000 });
  const ports = { store, clock, random: systemRandom } as unknown as Ports;
  const terms = engineTerms(loadConfig().config);
  return { clock, definitions: createDefinitions({ ports, terms }), hash, ports, terms };
}

test("a process that was given a way to make definitions ready uses it", async () => {
  const { ports, hash, terms } = await scene();
  const asked: string[] = [];
  const definitions = createDefinitions({ ports, terms }, (text) => {
    asked.push(definitionHash(text));
    return compilingText(text);
  });
  expect((await definitions.pinned(acme, hash)).kind).toBe("compiled");
  expect(asked).toEqual([hash]);
});

describe("a large definition", () => {
  test("is made ready once for all who ask at the same time", async () => {
    const { clock, definitions, hash } = await scene();
    const [first, second] = await Promise.all([
      definitions.pinned(acme, hash),
      definitions.pinned(acme, hash),
    ]);
    if (first.kind !== "compiled" || second.kind !== "compiled") throw new Error("it is stored");
    expect(second.definition).toBe(first.definition);
    expect(definitions.remembered(acme, hash)).toBe(first.definition);
    const { yields } = clock;
    expect(yields).toBeGreaterThan(5);
    await definitions.pinned(acme, hash);
    expect(clock.yields).toBe(yields);
    await definitions.pinned(globex, hash);
    expect(clock.yields).toBe(2 * yields);
  });
});

describe("turns", () => {
  test("are taken by tenants one slice each, and what is short is done at once", async () => {
    const told: string[] = [];
    function* work(name: string, slices: number): Sliced<string> {
      for (let slice = 1; slice <= slices; slice += 1) {
        told.push(`${name}${slice}`);
        if (slice < slices) yield;
      }
      return name;
    }
    const turns = createTurns(systemClock);
    expect(turns.take(acme, work("short", 1))).toBe("short");
    await Promise.all([
      turns.take(acme, work("a", 3)),
      turns.take(acme, work("b", 3)),
      turns.take(globex, work("c", 3)),
    ]);
    expect(told).toEqual(["short1", "a1", "b1", "c1", "a2", "b2", "c2", "a3", "c3", "b3"]);
  });

  test("tell those that wait that the work broke", async () => {
    function* broken(): Sliced<string> {
      yield;
      throw new Error("broken");
    }
    await expect(createTurns(systemClock).take(acme, broken())).rejects.toThrow("broken");
  });
});

describe("what is remembered", () => {
  test("is forgotten by the tenant that holds most, the least used first", () => {
    const cache = createFairCache<number>({ entriesMax: 4, sizeMax: 100 });
    cache.put(globex, "only", { value: 0, size: 1 });
    for (const value of [1, 2, 3]) cache.put(acme, `a${value}`, { value, size: 1 });
    cache.get(acme, "a1");
    cache.put(acme, "a4", { value: 4, size: 1 });
    expect(["a1", "a2", "a3", "a4"].map((name) => cache.get(acme, name))).toEqual([1, undefined, 3, 4]);
    expect(cache.get(globex, "only")).toBe(0);
  });

  test("is bounded by its size, too", () => {
    const cache = createFairCache<string>({ entriesMax: 10, sizeMax: 100 });
    cache.put(globex, "small", { value: "s", size: 10 });
    cache.put(acme, "large", { value: "l", size: 60 });
    cache.put(acme, "larger", { value: "x", size: 80 });
    expect([cache.get(acme, "large"), cache.get(acme, "larger"), cache.get(globex, "small")]).toEqual([
      undefined,
      "x",
      "s",
    ]);
    cache.put(acme, "larger", { value: "y", size: 5 });
    cache.put(acme, "large", { value: "l", size: 80 });
    expect([cache.get(acme, "large"), cache.get(acme, "larger")]).toEqual(["l", "y"]);
    cache.delete(acme, "larger");
    expect(cache.get(acme, "larger")).toBeUndefined();
  });
});

test("owners of a queue take turns, within their bounds", () => {
  const queue = createFairQueue<string>({ ownerMax: 3, max: 5 });
  expect(["a1", "a2", "a3", "a4"].map((item) => queue.put("a", item))).toEqual([
    "queued",
    "queued",
    "queued",
    "owner_full",
  ]);
  expect(["b1", "b2", "b3"].map((item) => queue.put("b", item))).toEqual(["queued", "queued", "full"]);
  expect(Array.from({ length: 6 }, () => queue.take())).toEqual(["a1", "b1", "a2", "b2", "a3", undefined]);
  expect(queue.size()).toBe(0);
});
