// Checks on locks, sets, slots, admission and what a failover excuses on histories written by hand: what only looks wrong is accepted, and what is wrong is found by that check alone.
import { describe, expect, test } from "vitest";
import { checkHistory } from "../../proof/history/check-history.ts";
import {
  acquire,
  cancel,
  done,
  elements,
  failover,
  final,
  finalRun,
  get,
  granted,
  historyOf,
  type Line,
  ledger,
  lost,
  made,
  ok,
  readSet,
  refused,
  release,
  replayed,
  setLimit,
  start,
  status,
  table,
  verdictOf,
  work,
  written,
} from "./history-sketches.ts";

const at = (from: number, to: number, client?: string) =>
  client === undefined ? { from, to } : { from, to, client };
const of = (key: string, runId: string, tenant = work) => final({ of: "key", tenant, key, runId });

table("locks", [
  [
    "granted again when its lease may have run out",
    [],
    [ok(at(1, 2), acquire(1), granted(5)), ok(at(3, 1001), acquire(1), granted(6))],
  ],
  [
    "fences of grants that overlap may cross",
    [],
    [ok(at(1, 9000), acquire(1), granted(6)), ok(at(2, 8000), acquire(1), granted(5))],
  ],
  [
    "its holder asks again",
    [],
    [
      ok(at(1, 2, "c"), acquire(1), granted(5)),
      ok(at(3, 4, "c"), acquire(1), granted(5)),
      ok(at(5, 6, "c"), release(5), done),
    ],
  ],
  [
    "an acquire without an answer took effect, and its repeat is told of that grant, of which little time is left",
    [],
    [
      lost(1, acquire(1), "c"),
      ok(at(900, 901, "c"), acquire(1), granted(5)),
      ok(at(1100, 1101, "d"), acquire(1), granted(6)),
    ],
  ],
  [
    "an acquire without an answer that is older than another grant of its client",
    ["INV-13"],
    [
      lost(1, acquire(1), "c"),
      ok(at(100, 101, "c"), acquire(1), granted(4)),
      ok(at(102, 103, "c"), release(4), done),
      ok(at(900, 901, "c"), acquire(1), granted(5)),
      ok(at(1100, 1101, "d"), acquire(1), granted(6)),
    ],
  ],
  [
    "a release without an answer took effect",
    [],
    [ok(at(1, 2), acquire(1), granted(5)), lost(3, release(5)), ok(at(5, 6), acquire(1), granted(6))],
  ],
  [
    "a smaller fence",
    ["INV-11"],
    [
      ok(at(1, 2), acquire(), granted(5)),
      ok(at(3, 4), release(5), done),
      ok(at(5, 6), acquire(), granted(4)),
    ],
  ],
  [
    "the same fence for two",
    ["INV-11"],
    [ok(at(1, 2), acquire(), granted(5)), ok(at(1, 2), acquire(), granted(5))],
  ],
  [
    "the same fence after a release",
    ["INV-11"],
    [
      ok(at(1, 2, "c"), acquire(), granted(5)),
      ok(at(3, 4, "c"), release(5), done),
      ok(at(5, 6, "c"), acquire(), granted(5)),
    ],
  ],
  [
    "two holders at once",
    ["INV-13"],
    [ok(at(1, 2), acquire(1), granted(5)), ok(at(3, 4), acquire(1), granted(6))],
  ],
  [
    "released by an earlier holder",
    ["INV-13"],
    [
      ok(at(1, 2), acquire(1), granted(5)),
      ok(at(3, 1001), acquire(1), granted(6)),
      ok(at(1002, 1003), release(5), done),
    ],
  ],
  [
    "refused to its holder",
    ["INV-13"],
    [ok(at(1, 2), acquire(1), granted(5)), refused(at(3, 4), release(5), "lock_not_owned")],
  ],
]);

const set = (...each: readonly string[]) => final({ of: "set", set: "set", elements: each });
const write = (atUs: number, fence: number, writer: string, element: string) =>
  written({ at: atUs, fence, writer, element });

table("sets", [
  [
    "a holder writes twice, and a stale one is refused",
    [],
    [
      write(1, 5, "w", "x"),
      write(2, 5, "w", "y"),
      write(3, 6, "v", "z"),
      written({ at: 4, fence: 5, writer: "w", element: "q" }, "refused"),
      set("x", "y", "z"),
    ],
  ],
  [
    "a reading that overlaps a write may have it or not",
    [],
    [
      ok(at(1, 9), readSet, elements("x")),
      ok(at(1, 9), readSet, elements()),
      write(5, 5, "w", "x"),
      set("x"),
    ],
  ],
  ["a stale write is taken", ["INV-12"], [write(1, 6, "w", "x"), write(2, 5, "v", "y"), set("x", "y")]],
  ["two writers with one fence", ["INV-12"], [write(1, 5, "w", "x"), write(2, 5, "v", "y"), set("x", "y")]],
  ["an element is lost", ["INV-12"], [write(1, 5, "w", "x"), write(2, 6, "v", "y"), set("y")]],
  [
    "an element is lost in between",
    ["INV-12"],
    [write(1, 5, "w", "x"), ok(at(2, 3), readSet, elements()), set("x")],
  ],
  [
    "a refused element is there",
    ["INV-12"],
    [
      write(1, 6, "w", "x"),
      written({ at: 2, fence: 5, writer: "v", element: "y" }, "refused"),
      set("x", "y"),
    ],
  ],
]);

const slots = (activeRuns: number) => final({ of: "tenant", tenant: work, activeRuns });

table("slots", [
  ["all have ended", [], [ok(at(1, 2), start("k"), made("a")), slots(0), finalRun("a", "succeeded")]],
  [
    "a child run has not ended, which holds none",
    [],
    [ok(at(1, 2), start("k"), made("a")), slots(0), finalRun("a", "succeeded"), finalRun("b", "running")],
  ],
  [
    "a slot without a run",
    ["INV-3"],
    [ok(at(1, 2), start("k"), made("a")), slots(1), finalRun("a", "succeeded")],
  ],
  [
    "a run that never ends",
    ["INV-3"],
    [ok(at(1, 2), start("k"), made("a")), slots(1), finalRun("a", "running")],
  ],
  [
    "a run without a slot",
    ["INV-2"],
    [ok(at(1, 2), start("k"), made("a")), slots(0), finalRun("a", "running")],
  ],
]);

const admit = (key: string, from: number, to: number) =>
  ok(at(from, to), start(key, "usual", ledger), made(`l${key}`));
const full = (key: string, from: number, to: number) =>
  refused(at(from, to), start(key, "usual", ledger), "max_concurrent_runs_reached");
const cancelled = (key: string, from: number, to: number) =>
  ok(at(from, to), cancel(`l${key}`, ledger), done);

table("admission of a tenant whose runs only a cancel ends", [
  [
    "full, and free again",
    [],
    [admit("1", 1, 2), admit("2", 3, 4), full("3", 5, 6), cancelled("1", 7, 8), admit("3", 9, 10)],
  ],
  [
    "a cancel may take effect after its answer",
    [],
    [admit("1", 1, 2), admit("2", 3, 4), cancelled("1", 5, 6), full("3", 7, 8), admit("3", 9, 10)],
  ],
  [
    "a cancel without an answer makes room",
    [],
    [admit("1", 1, 2), admit("2", 3, 4), lost(5, cancel("l1", ledger)), admit("3", 9, 10)],
  ],
  [
    "a start without an answer fills it",
    [],
    [
      admit("1", 1, 2),
      lost(3, start("2", "usual", ledger)),
      full("3", 5, 6),
      ok(at(7, 8), start("2", "usual", ledger), replayed("l2")),
    ],
  ],
  [
    "one without a key and an answer fills it",
    [],
    [admit("1", 1, 2), lost(3, start(undefined, "usual", ledger)), full("3", 5, 6)],
  ],
  [
    "a run that nobody was told of is seen, and ends",
    [],
    [
      lost(1, start(undefined, "usual", ledger)),
      ok(at(3, 4), get("lx", ledger), status("running")),
      ok(at(5, 6), cancel("lx", ledger), done),
    ],
  ],
  ["refused as full with a place free", ["INV-19"], [admit("1", 1, 2), full("3", 5, 6)]],
  ["admitted when full", ["INV-19"], [admit("1", 1, 2), admit("2", 3, 4), admit("3", 5, 6)]],
  [
    "a key that is known to have come to nothing does not fill it",
    ["INV-19"],
    [admit("1", 1, 2), lost(3, start("2", "usual", ledger)), full("3", 5, 6), of("2", "", ledger)],
  ],
  [
    "refused as full with its own run there",
    ["INV-19"],
    [ok(at(1, 2), setLimit(1, ledger), done), admit("1", 3, 4), full("1", 5, 6)],
  ],
  [
    "a run is seen alive after another took its place",
    ["INV-19"],
    [
      ok(at(1, 2), setLimit(1, ledger), done),
      admit("1", 3, 4),
      cancelled("1", 5, 6),
      admit("2", 7, 8),
      ok(at(9, 10), get("l1", ledger), status("running")),
    ],
  ],
]);

describe("durability", () => {
  const gone = [ok(at(1, 2), start("k"), made("a")), finalRun("a", "missing")];
  const again = [ok(at(60, 61), start("k"), made("b")), finalRun("b", "succeeded")];
  const standings = (lines: readonly Line[], durability: "process" | "replicated") =>
    verdictOf(lines, { durability }).findings.map(({ invariant, standing }) => `${invariant} ${standing}`);

  test("what a failover lost is excused at `process`, and only there", () => {
    expect(standings([...gone, failover(10, 50)], "process")).toEqual(["INV-18 excused"]);
    expect(standings([...gone, failover(10, 50)], "replicated")).toEqual(["INV-18 promised"]);
  });

  test("without a failover nothing is excused, and nothing that came after one", () => {
    expect(standings(gone, "process")).toEqual(["INV-18 promised"]);
    expect(standings([...gone, failover(0, 0.5)], "process")).toEqual(["INV-18 promised"]);
  });

  test("a key whose run was lost may get another", () => {
    expect(standings([...gone, ...again, failover(10, 50)], "process")).toEqual([
      "INV-6 excused",
      "INV-18 excused",
    ]);
  });

  test("fences grow and sets lose nothing across a failover at every level", () => {
    const locks = [
      ok(at(1, 2), acquire(), granted(5)),
      failover(10, 50),
      ok(at(60, 61), acquire(), granted(4)),
    ];
    const sets = [write(1, 6, "w", "x"), failover(10, 50), write(60, 5, "v", "y"), set("x", "y")];
    expect(standings([...locks, ...sets], "process")).toContain("INV-11 promised");
    expect(standings([...locks, ...sets], "process")).toContain("INV-12 promised");
  });

  test("excused findings alone do not break a history", () => {
    expect(verdictOf([...gone, failover(10, 50)], { durability: "process" }).kind).toBe("void");
    expect(verdictOf([...gone, failover(10, 50)], { durability: "replicated" }).kind).toBe("broken");
  });
});

test("an order that is not decided within the budget makes a history void, never good", () => {
  const lines = [admit("1", 1, 2), admit("2", 3, 4), full("3", 5, 6)];
  const { kind, undecided, voidReasons } = checkHistory(historyOf(lines), { stepsMax: 1 });
  expect([kind, undecided.map(({ invariant }) => invariant)]).toEqual(["void", ["INV-19"]]);
  expect(voidReasons.some((reason) => reason.startsWith("not decided (INV-19)"))).toBe(true);
});
