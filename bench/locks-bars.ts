// The bars of the locks benchmark, and its table.
import type { Bar } from "./bars.ts";
import { lockKinds, lockLibraries } from "./locks-plan.ts";
import { formatNumber, formatTable, type Lookup } from "./report.ts";

const nameOf = (kind: string, field: string) => `locks.redis.${kind}.c100.${field}`;

export function locksBars({ value }: Lookup): readonly Bar[] {
  return [
    {
      what: "commands per acquisition in the queue",
      measured: value(nameOf("queue", "commands_per_acquisition")),
      bound: { kind: "at_most", value: 3 },
    },
    {
      what: "Jain's fairness index of the queue",
      measured: value(nameOf("queue", "jain")),
      bound: { kind: "at_least", value: 0.98 },
    },
    ...lockLibraries.map(
      (library): Bar => ({
        what: `p95 wait in the queue / with ${library}`,
        measured: value(nameOf("queue", "p95_ms")) / value(nameOf(library, "p95_ms")),
        bound: { kind: "at_most", value: 0.5 },
      }),
    ),
  ];
}

const columns = ["per_s", "p50_ms", "p95_ms", "max_ms", "jain", "commands_per_acquisition"];

export function locksTable({ value }: Lookup): string {
  const rows = lockKinds.map((kind) => [
    kind,
    ...columns.map((field) => formatNumber(value(nameOf(kind, field)))),
  ]);
  const header = ["", "per second", "p50 ms", "p95 ms", "max ms", "Jain", "commands"];
  return `100 contenders for one lock, 1 ms of work with it and 1 ms elsewhere: waits from asking to having\n${formatTable(header, rows)}`;
}
