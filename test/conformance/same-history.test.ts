// The same calm workload gives the same observable history in every mode: memory, SQLite, Redis and Redis Cluster (INV-30).
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Fence } from "../../src/domain/lock.ts";
import { defaultStoreSettings, type Store } from "../../src/ports/store.ts";
import { historyOf } from "../support/same-history.ts";
import { type StoreHost, type StoreName, startStoreHost, storeNames } from "../support/stores.ts";

const hosts: StoreHost[] = [];
const stores = new Map<StoreName, Store>();
/** The partition of a run's id is part of what is compared only by its place: all modes have the same tenant. */
const unique = randomBytes(4).toString("hex");

beforeAll(async () => {
  for (const name of storeNames) {
    const host = await startStoreHost(name);
    hosts.push(host);
    stores.set(name, await host.open(defaultStoreSettings));
  }
});

afterAll(() => Promise.all(hosts.map((host) => host.close())));

test("eight workloads have the same history on every store", async () => {
  const kinds = new Set<string | undefined>();
  for (let seed = 1; seed <= 8; seed += 1) {
    const memory = await historyOf(stores.get("memory") as Store, seed, `${unique}${seed}`);
    for (const [, kind] of memory.join("\n").matchAll(/"kind":"(\w+)"/g)) kinds.add(kind);
    for (const name of ["sqlite", "redis", "redis cluster"] as const) {
      const history = await historyOf(stores.get(name) as Store, seed, `${unique}${seed}`);
      const different = history.findIndex((line, index) => line !== memory[index]);
      expect(`${name} ${seed} ${history[different]}`).toBe(`${name} ${seed} ${memory[different]}`);
      expect(history).toHaveLength(memory.length);
    }
  }
  // Workloads in which nothing came about would be the same everywhere, too.
  expect([...wanted].filter((kind) => !kinds.has(kind))).toEqual([]);
});

const wanted = [
  ...["admitted", "replayed", "idempotency_key_reused", "max_concurrent_runs_reached", "workflow_not_found"],
  ...["accepted", "duplicate", "stale_claim", "extended", "lost"],
  ...["decided", "approval_already_decided", "approval_changed", "cancelling", "run_ended", "deleted"],
  ...["acquired", "lock_unavailable", "released", "renewed", "lock_not_owned"],
];

test("other workloads have other histories", async () => {
  const store = stores.get("memory") as Store;
  const one = await historyOf(store, 1, `${unique}a1`);
  expect(await historyOf(store, 1, `${unique}b1`)).toEqual(one);
  expect(await historyOf(store, 2, `${unique}c2`)).not.toEqual(one);
});

test("a store that gives away a lock that is held has another history", async () => {
  const store = stores.get("memory") as Store;
  const generous: Store = {
    ...store,
    acquireLock: async (request, options) => {
      const answer = await store.acquireLock(request, options);
      if (answer.kind !== "busy") return answer;
      const { storeTimeMs } = answer;
      return {
        kind: "acquired",
        fence: (storeTimeMs * 1_000) as Fence,
        expiresInMs: request.ttlMs,
        storeTimeMs,
      };
    },
  };
  const seeds = [1, 2, 3, 4, 5, 6, 7, 8];
  const histories = (of: Store, mark: string) =>
    Promise.all(seeds.map((seed) => historyOf(of, seed, `${unique}${mark}${seed}`)));
  expect(await histories(generous, "e")).not.toEqual(await histories(store, "d"));
});
