// Checks on gates and queues on histories written by hand: runs that only may have had a place together are accepted.
import type { Operation } from "../../proof/history/record.ts";
import {
  begun,
  cancel,
  claim,
  claimed,
  done,
  final,
  finalRun,
  get,
  type Line,
  made,
  ok,
  start,
  status,
  table,
  work,
} from "./history-sketches.ts";

const at = (from: number, to: number) => ({ from, to });
const gated = (gates: string, key: string): Operation => ({ ...start(key), gates }) as Operation;
const jobOf = (run: string) => `${run}:one@1`;

/** A run that was started at 1, and whose only job was begun then. */
function begunRun(run: string, gates: string, beganUs: number): readonly Line[] {
  return [
    ok(at(1, 2), gated(gates, run), made(run)),
    ok(at(2, 3), claim("w"), claimed(jobOf(run))),
    begun(beganUs, "w", jobOf(run)),
  ];
}
const runs = (run: string, from: number) => ok(at(from, from + 1), get(run), status("running"));

table("gates", [
  ["as many as may have a place", [], [...begunRun("a", "g=1", 5), ...begunRun("b", "h=1", 6), runs("a", 8)]],
  [
    "one may have ended before the other began",
    [],
    [...begunRun("a", "g=1", 5), runs("a", 6), ...begunRun("b", "g=1", 9), runs("b", 10)],
  ],
  [
    "one had not ended when the other began",
    ["INV-31"],
    [...begunRun("a", "g=1", 5), ...begunRun("b", "g=1", 6), runs("a", 8), runs("b", 8)],
  ],
  [
    "in the second of its gates",
    ["INV-31"],
    [...begunRun("a", "g=1 h=1", 5), ...begunRun("b", "i=1 h=1", 6), runs("a", 8), runs("b", 8)],
  ],
  [
    "one has not begun, as far as anybody knows",
    [],
    [...begunRun("a", "g=1", 5), ok(at(1, 2), gated("g=1", "b"), made("b")), runs("a", 8)],
  ],
  [
    "who asked for a cancel did not know that a newer run had ended it",
    [],
    [
      ...[...begunRun("a", "g=1", 5), ...begunRun("b", "g=1", 6), runs("b", 8)],
      ...[ok(at(9, 10), cancel("a"), done), finalRun("a", "cancelled")],
    ],
  ],
]);

table("queues", [
  ["nobody waits in the end", [], [final({ of: "tenant", tenant: work, activeRuns: 0, queued: 0 })]],
  [
    "a run waits in the end",
    ["INV-37"],
    [ok(at(1, 2), gated("g=1", "a"), made("a")), finalRun("a", "queued")],
  ],
  ["one is counted", ["INV-37"], [final({ of: "tenant", tenant: work, activeRuns: 0, queued: 1 })]],
  [
    "queued, then pending, then running",
    [],
    [
      ok(at(1, 2), get("a"), status("queued")),
      ok(at(3, 4), get("a"), status("pending")),
      ok(at(5, 6), get("a"), status("running")),
    ],
  ],
  [
    "queued after it had begun",
    ["INV-17"],
    [ok(at(1, 2), get("a"), status("pending")), ok(at(3, 4), get("a"), status("queued"))],
  ],
]);
