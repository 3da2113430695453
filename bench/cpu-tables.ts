// The table of the CPU benchmark: every part of every operation with its budget, and whether the budget is met.
import type { Bar } from "./bars.ts";
import { isMet } from "./bars.ts";
import { type CpuOperation, cpuOperations, floorParts, floorsOf } from "./cpu-plan.ts";
import { type CpuStore, partsOf } from "./cpu-target.ts";
import type { Part } from "./cpu-time.ts";
import { formatNumber, formatRange, formatTable, type Lookup } from "./report.ts";

/** In microseconds; only what is worth steering by has one. */
function budgetOf(store: CpuStore, operation: CpuOperation, part: Part): number | undefined {
  if (operation === "run") return undefined;
  if (part === "gateway") return { start: 85, result: 50 }[operation];
  if (part !== "store") return undefined;
  return store === "embedded"
    ? { start: 70, result: 50 }[operation]
    : { start: 35, result: undefined }[operation];
}

const partNames: Readonly<Record<Exclude<Part, "store">, string>> = {
  gateway: "gateway, main thread",
  gc: "V8's helpers and others",
  engine: "engine",
  bus: "NATS",
};

const partName = (part: Part, store: string) => (part === "store" ? store : partNames[part]);

export function cpuTable(lookup: Lookup, stores: readonly CpuStore[]): string {
  const floors = floorsOf(stores).flatMap((floor) => [
    ...floorParts[floor].map((part) =>
      cells(lookup, {
        what: `floor ${floor}: ${partName(part, floor === "http_commit" ? "SQLite thread" : "Redis")}`,
        name: `cpu.floor.${floor}.${part}_us`,
      }),
    ),
    cells(lookup, { what: `floor ${floor}: total`, name: `cpu.floor.${floor}.total_us` }),
  ]);
  const rows = stores.flatMap((store) =>
    cpuOperations.flatMap((operation) => [
      ...numbersOf(store, operation).map((number) => cells(lookup, number)),
      cells(lookup, { what: `${store} ${operation}: total`, name: `cpu.${store}.${operation}.total_us` }),
    ]),
  );
  return formatTable(["CPU time of one operation", "us", "by slice", "budget", ""], [...floors, ...rows]);
}

export function cpuBars(lookup: Lookup, stores: readonly CpuStore[]): readonly Bar[] {
  return stores
    .flatMap((store) => cpuOperations.flatMap((operation) => numbersOf(store, operation)))
    .filter(({ budget }) => budget !== undefined)
    .map((number) => barOf(lookup, number));
}

type Shown = { readonly what: string; readonly name: string; readonly budget?: number };

function numbersOf(store: CpuStore, operation: CpuOperation): readonly Shown[] {
  return partsOf[store].map((part) => {
    const budget = budgetOf(store, operation, part);
    return {
      what: `${store} ${operation}: ${partName(part, store === "embedded" ? "SQLite thread" : "Redis")}`,
      name: `cpu.${store}.${operation}.${part}_us`,
      ...(budget === undefined ? {} : { budget }),
    };
  });
}

function barOf(lookup: Lookup, { what, name, budget }: Shown): Bar {
  const measured = { what: `${what}, us`, measured: lookup.value(name), slices: lookup.slices(name) };
  return budget === undefined ? measured : { ...measured, bound: { kind: "at_most", value: budget } };
}

function cells(lookup: Lookup, shown: Shown): readonly string[] {
  const bar = barOf(lookup, shown);
  const verdict = bar.bound === undefined ? "" : isMet(bar) ? "met" : "MISSED";
  const budget = shown.budget === undefined ? "" : formatNumber(shown.budget);
  return [shown.what, formatNumber(bar.measured), formatRange(bar.slices ?? []), budget, verdict];
}
