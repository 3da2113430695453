// Checks on runs and keys on histories written by hand: what only looks wrong is accepted, and what is wrong is found by that check alone.
import {
  cancel,
  claim,
  claimed,
  done,
  final,
  finalRun,
  get,
  type Line,
  lost,
  made,
  ok,
  refused,
  replayed,
  setLimit,
  start,
  status,
  table,
  work,
} from "./history-sketches.ts";

const at = (from: number, to: number, client?: string) =>
  client === undefined ? { from, to } : { from, to, client };
const of = (key: string, runId: string, tenant = work) => final({ of: "key", tenant, key, runId });

table("keys", [
  [
    "a repeated start finds its run",
    [],
    [ok(at(1, 2), start("k"), made("a")), ok(at(3, 4), start("k"), replayed("a"))],
  ],
  [
    "an unknown start took effect later",
    [],
    [lost(1, start("k")), ok(at(5, 6), start("k"), replayed("a")), of("k", "a")],
  ],
  [
    "of two at once, either may have made it",
    [],
    [ok(at(1, 9), start("k"), replayed("a")), ok(at(2, 8), start("k"), made("a"))],
  ],
  [
    "the same key of two tenants",
    [],
    [ok(at(1, 2), start("k"), made("a")), ok(at(1, 2), start("k", "usual", "else"), made("b"))],
  ],
  [
    "a lost other request explains a refusal",
    [],
    [lost(1, start("k", "other")), refused(at(3, 4), start("k"), "idempotency_key_reused")],
  ],
  ["two runs", ["INV-6"], [ok(at(1, 2), start("k"), made("a")), ok(at(3, 4), start("k"), made("b"))]],
  [
    "a run of another key",
    ["INV-6"],
    [ok(at(1, 2), start("k"), made("a")), ok(at(3, 4), start("m"), made("a"))],
  ],
  [
    "a run for two without keys",
    ["INV-6"],
    [ok(at(1, 2), start(undefined), made("a")), ok(at(3, 4), start(undefined), made("a"))],
  ],
  ["bound to another run in the end", ["INV-6"], [ok(at(1, 2), start("k"), made("a")), of("k", "b")]],
  ["bound to nothing in the end", ["INV-6"], [ok(at(1, 2), start("k"), made("a")), of("k", "")]],
  [
    "another request gets the run",
    ["INV-8"],
    [ok(at(1, 2), start("k"), made("a")), ok(at(3, 4), start("k", "other"), replayed("a"))],
  ],
  [
    "both have made it",
    ["INV-8"],
    [ok(at(1, 2), start("k"), made("a")), ok(at(3, 4), start("k"), made("a"))],
  ],
  ["a replay of nothing", ["INV-8"], [ok(at(1, 2), start("k"), replayed("a"))]],
  ["a replay without a key", ["INV-8"], [ok(at(1, 2), start(undefined), replayed("a"))]],
  ["refused as used by nobody", ["INV-8"], [refused(at(1, 2), start("k"), "idempotency_key_reused")]],
  [
    "refused as used by another, and its own",
    ["INV-8"],
    [
      lost(1, start("k", "other")),
      ok(at(2, 3), start("k"), made("a")),
      refused(at(4, 5), start("k"), "idempotency_key_reused"),
    ],
  ],
  [
    "a run of another tenant",
    ["INV-9"],
    [ok(at(1, 2), start("k"), made("a")), ok(at(3, 4), start("k", "usual", "else"), made("a"))],
  ],
]);

/** Started at this time, and seen alive at that. */
const lives = (runId: string, fromUs: number, seenUs: number): readonly Line[] => [
  ok(at(fromUs, fromUs + 1), start(runId), made(runId)),
  ok(at(seenUs, seenUs + 1), get(runId), status("running")),
];

table("limits", [
  ["as many as the limit", [], [...lives("a", 1, 90), ...lives("b", 11, 90)]],
  ["an unknown start is a maybe", [], [...lives("a", 1, 90), ...lives("b", 11, 90), lost(20, start("c"))]],
  ["one may have ended in between", [], [...lives("a", 1, 15), ...lives("b", 11, 90), ...lives("c", 21, 90)]],
  [
    "a raised limit may be in force before its answer",
    [],
    [...lives("a", 1, 90), ...lives("b", 11, 90), ok(at(18, 80), setLimit(3)), ...lives("c", 21, 90)],
  ],
  [
    "a raise without an answer may come later",
    [],
    [
      lost(1, setLimit(3)),
      ok(at(3, 4), setLimit(2)),
      ...lives("a", 5, 90),
      ...lives("b", 11, 90),
      ...lives("c", 21, 90),
    ],
  ],
  [
    "lowering ends nobody's run",
    [],
    [
      ...lives("a", 1, 90),
      ...lives("b", 11, 90),
      ok(at(20, 25), setLimit(1)),
      ok(at(91, 92), get("a"), status("running")),
    ],
  ],
  ["one too many", ["INV-1"], [...lives("a", 1, 90), ...lives("b", 11, 90), ...lives("c", 21, 90)]],
  [
    "one too many under a lowered limit",
    ["INV-1"],
    [...lives("a", 1, 90), ok(at(3, 4), setLimit(1)), ...lives("b", 11, 90)],
  ],
  [
    "one too many after a raise was taken back",
    ["INV-1"],
    [
      ok(at(1, 2), setLimit(3)),
      ok(at(3, 4), setLimit(2)),
      ...lives("a", 5, 90),
      ...lives("b", 11, 90),
      ...lives("c", 21, 90),
    ],
  ],
  [
    "a claim shows that it lives",
    ["INV-1"],
    [
      ...lives("a", 1, 90),
      ...lives("b", 11, 90),
      ok(at(21, 22), start("c"), made("c")),
      ok(at(30, 31), claim("w"), claimed("c:s@1")),
    ],
  ],
]);

table("what was acknowledged", [
  ["is there", [], [ok(at(1, 2), start("k"), made("a")), finalRun("a", "succeeded")]],
  ["an unknown start may come to nothing", [], [lost(1, start("k")), of("k", "")]],
  [
    "a reading that overlaps the start may be early",
    [],
    [ok(at(1, 9), start("k"), made("a")), refused(at(2, 4), get("a"), "run_not_found")],
  ],
  [
    "a cancelled run may have ended before",
    [],
    [ok(at(1, 2), start("k"), made("a")), ok(at(3, 4), cancel("a"), done), finalRun("a", "succeeded")],
  ],
  ["a run is gone", ["INV-18"], [ok(at(1, 2), start("k"), made("a")), finalRun("a", "missing")]],
  [
    "a replayed run is gone",
    ["INV-18"],
    [lost(1, start("k")), ok(at(3, 4), start("k"), replayed("a")), finalRun("a", "missing"), of("k", "")],
  ],
  [
    "a run is not found in between",
    ["INV-18"],
    [
      ok(at(1, 2), start("k"), made("a")),
      refused(at(3, 4), get("a"), "run_not_found"),
      finalRun("a", "succeeded"),
    ],
  ],
  [
    "a cancel comes to nothing",
    ["INV-18"],
    [ok(at(1, 2), start("k"), made("a")), ok(at(3, 4), cancel("a"), done), finalRun("a", "running")],
  ],
]);

table("statuses", [
  [
    "to and fro between running and waiting",
    [],
    [ok(at(1, 2), get("a"), status("waiting")), ok(at(3, 4), get("a"), status("running"))],
  ],
  [
    "readings that overlap may cross",
    [],
    [ok(at(1, 9), get("a"), status("running")), ok(at(2, 8), get("a"), status("succeeded"))],
  ],
  [
    "back to pending",
    ["INV-17"],
    [ok(at(1, 2), get("a"), status("running")), ok(at(3, 4), get("a"), status("pending"))],
  ],
  [
    "alive after its end",
    ["INV-17"],
    [ok(at(1, 2), get("a"), status("cancelled")), ok(at(3, 4), get("a"), status("running"))],
  ],
  ["alive in the end", ["INV-17"], [ok(at(1, 2), get("a"), status("failed")), finalRun("a", "running")]],
  [
    "two ends, even at once",
    ["INV-17"],
    [ok(at(1, 9), get("a"), status("failed")), ok(at(2, 8), get("a"), status("succeeded"))],
  ],
]);
