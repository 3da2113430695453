// The bars of the admission benchmark: ratios within one run, so that they hold on a slow machine as on a fast one.
import { burstName, limits, sustainedName, tenantCounts, tenantsInWords } from "./admission-plan.ts";
import type { Bar } from "./bars.ts";
import type { Lookup } from "./report.ts";
import { type StoreKind, storeKinds } from "./targets.ts";

export function admissionBars(lookup: Lookup): readonly Bar[] {
  const { value } = lookup;
  return [...fasterThanLock(value), ...neverRefused(value), ...oneCommand(value), ...nearTheFloor(lookup)];
}

type Value = Lookup["value"];

function fasterThanLock(value: Value): readonly Bar[] {
  return storeKinds.flatMap((kind) =>
    limits.map((limit) => {
      const p99Ms = (strategy: "lock-fixed" | "atomic") =>
        value(`${burstName({ kind, strategy }, 100, limit)}.p99_ms`);
      return {
        what: `${kind}, N=100, limit ${limit}: p99 of lock-fixed / p99 of atomic`,
        measured: p99Ms("lock-fixed") / p99Ms("atomic"),
        bound: { kind: "at_least", value: 50 },
      };
    }),
  );
}

function neverRefused(value: Value): readonly Bar[] {
  return storeKinds.map((kind) => ({
    what: `${kind}, N=1000, both limits: largest share of atomic starts answered 503`,
    measured: largestOfBursts(value, kind, [1000], "share_503"),
    bound: { kind: "at_most", value: 0 },
  }));
}

function oneCommand(value: Value): readonly Bar[] {
  return storeKinds.map((kind) => ({
    what: `${kind}, all bursts: most commands per atomic decision`,
    measured: largestOfBursts(value, kind, [100, 1000], "commands_per_decision"),
    bound: { kind: "at_most", value: 1 },
  }));
}

function largestOfBursts(value: Value, kind: StoreKind, sizes: readonly number[], field: string): number {
  const names = sizes.flatMap((size) =>
    limits.map((limit) => `${burstName({ kind, strategy: "atomic" }, size, limit)}.${field}`),
  );
  return Math.max(...names.map(value));
}

function nearTheFloor(lookup: Lookup): readonly Bar[] {
  const ratio = (kind: StoreKind, tenants: number, floor: string): Bar => {
    const sustained = `${sustainedName({ kind, strategy: "atomic" }, tenants)}.per_s`;
    const floors = lookup.slices(floor);
    return {
      what: `${kind}, ${tenantsInWords(tenants)}: sustained atomic starts / ${floor}`,
      measured: lookup.value(sustained) / lookup.value(floor),
      slices: lookup.slices(sustained).map((perSecond, index) => perSecond / (floors[index] ?? Number.NaN)),
    };
  };
  const atLeast = (value: number) => ({ bound: { kind: "at_least", value } }) as const;
  return tenantCounts.flatMap((tenants) => [
    { ...ratio("redis", tenants, "floor.redis.evalsha.per_s"), ...atLeast(0.6) },
    ratio("redis", tenants, "floor.redis.start.per_s"),
    { ...ratio("sqlite", tenants, "floor.sqlite.commit.per_s"), ...atLeast(5) },
    ratio("sqlite", tenants, "floor.sqlite.row.per_s"),
  ]);
}
