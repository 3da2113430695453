// Checks on steps, claims, deliveries and approvals on histories written by hand: what only looks wrong is accepted, and what is wrong is found by that check alone.
import {
  accepted,
  begun,
  claim,
  claimed,
  decide,
  decided,
  duplicate,
  final,
  finalRun,
  get,
  type Line,
  lost,
  ok,
  refused,
  report,
  status,
  table,
  work,
} from "./history-sketches.ts";

const at = (from: number, to: number, client?: string) =>
  client === undefined ? { from, to } : { from, to, client };
const job = "a:s@1";

table("steps", [
  [
    "a repeated report",
    [],
    [
      ok(at(1, 2), report(job, "n"), accepted),
      ok(at(3, 4), report(job, "n"), duplicate),
      finalRun("a", "succeeded", { s: "n" }),
    ],
  ],
  [
    "a report without an answer was taken, and its repetition refused",
    [],
    [
      lost(1, report(job, "n")),
      refused(at(3, 4), report(job, "n"), "stale_claim"),
      finalRun("a", "succeeded", { s: "n" }),
    ],
  ],
  [
    "an accepted report of a run that was cancelled before",
    [],
    [ok(at(1, 2), report(job, "n"), accepted), finalRun("a", "cancelled")],
  ],
  [
    "a failure is accepted, and the next attempt too",
    [],
    [
      ok(at(1, 2), report(job, "n", "failed"), accepted),
      ok(at(3, 4), report("a:s@2", "m"), accepted),
      finalRun("a", "succeeded", { s: "m" }),
    ],
  ],
  [
    "completed twice",
    ["INV-22"],
    [ok(at(1, 2), report(job, "n"), accepted), finalRun("a", "succeeded", { s: "n" }, ["s", "s"])],
  ],
  ["nobody reported it", ["INV-22"], [finalRun("a", "succeeded", { s: "n" })]],
  [
    "it was refused",
    ["INV-22"],
    [refused(at(1, 2), report(job, "n"), "stale_claim"), finalRun("a", "succeeded", { s: "n" })],
  ],
  [
    "it was reported of another step",
    ["INV-22"],
    [lost(1, report("a:t@1", "n")), finalRun("a", "succeeded", { s: "n" })],
  ],
  [
    "it was reported as a failure",
    ["INV-22"],
    [lost(1, report(job, "n", "failed")), finalRun("a", "succeeded", { s: "n" })],
  ],
  [
    "accepted, and another is recorded",
    ["INV-22"],
    [
      ok(at(1, 2), report(job, "n"), accepted),
      lost(1, report("a:s@2", "m")),
      finalRun("a", "succeeded", { s: "m" }),
    ],
  ],
  [
    "accepted, and nothing is recorded",
    ["INV-22"],
    [ok(at(1, 2), report(job, "n"), accepted), finalRun("a", "succeeded")],
  ],
  [
    "two accepted for one job",
    ["INV-22"],
    [
      ok(at(1, 2), report(job, "n", "failed"), accepted),
      ok(at(3, 4), report(job, "m"), accepted),
      finalRun("a", "succeeded", { s: "m" }),
    ],
  ],
]);

table("claims", [
  [
    "the same worker asks again",
    [],
    [ok(at(1, 2), claim("w"), claimed(job)), ok(at(3, 4), claim("w"), claimed(job)), begun(5, "w", job)],
  ],
  [
    "an answer was lost, and the next attempt goes to another",
    [],
    [lost(1, claim("w")), ok(at(3, 4), claim("v"), claimed("a:s@2"))],
  ],
  [
    "a claim may be as old as the end that it overlaps",
    [],
    [ok(at(1, 6), claim("w"), claimed(job)), ok(at(2, 3), get("a"), status("cancelled"))],
  ],
  [
    "two workers",
    ["INV-21"],
    [ok(at(1, 2), claim("w"), claimed(job)), ok(at(1, 2), claim("v"), claimed(job))],
  ],
  [
    "an earlier attempt after a later one",
    ["INV-21"],
    [ok(at(1, 2), claim("w"), claimed("a:s@2")), ok(at(3, 4), claim("w"), claimed(job))],
  ],
  [
    "of a run that had ended",
    ["INV-21"],
    [ok(at(1, 2), get("a"), status("cancelled")), ok(at(3, 4), claim("w"), claimed(job))],
  ],
  ["begun without a claim", ["INV-21"], [lost(1, claim("w")), begun(3, "w", job)]],
  ["begun by another", ["INV-21"], [ok(at(1, 2), claim("w"), claimed(job)), begun(3, "v", job)]],
]);

const letters = (count: number) => final({ of: "dead_letters", tenant: work, count });
const tried = (...attempts: readonly number[]): readonly Line[] =>
  attempts.map((attempt) => ok(at(attempt * 10, attempt * 10 + 1), claim("w"), claimed(`a:s@${attempt}`)));

table("deliveries", [
  ["the last attempt failed", [], [...tried(1, 2, 3), letters(1), finalRun("a", "failed")]],
  [
    "claims nobody saw may have been its attempts",
    [],
    [...tried(3), lost(1, claim("w")), lost(2, claim("w")), letters(1), finalRun("a", "failed")],
  ],
  [
    "one that nobody saw at all",
    [],
    [lost(1, claim("w")), lost(2, claim("w")), lost(3, claim("w")), letters(1)],
  ],
  ["tried too often", ["INV-23"], [...tried(1, 2, 3, 4), finalRun("a", "succeeded")]],
  ["a dead letter of nothing", ["INV-23"], [letters(1)]],
  [
    "a dead letter of a step that was completed",
    ["INV-23"],
    [...tried(1, 2, 3), letters(1), finalRun("a", "succeeded", {}, ["s"])],
  ],
  [
    "no dead letter of a step that ran out of attempts",
    ["INV-23"],
    [...tried(1, 2, 3), letters(0), finalRun("a", "failed")],
  ],
]);

const ask = "a:ask@1";
const approval = (state: string) => final({ of: "approval", tenant: work, approvalId: ask, state });

table("approvals", [
  [
    "the same decision twice",
    [],
    [
      ok(at(1, 2), decide(ask, "approved"), decided("approved")),
      ok(at(3, 4), decide(ask, "approved"), decided("approved")),
      finalRun("a", "succeeded"),
    ],
  ],
  [
    "a race",
    [],
    [
      ok(at(1, 9), decide(ask, "approved"), decided("approved")),
      refused(at(2, 8), decide(ask, "rejected"), "approval_already_decided", decided("approved")),
      approval("approved"),
      finalRun("a", "succeeded"),
    ],
  ],
  [
    "won by one without an answer",
    [],
    [
      lost(1, decide(ask, "rejected")),
      refused(at(3, 4), decide(ask, "approved"), "approval_already_decided", decided("rejected")),
      approval("rejected"),
    ],
  ],
  [
    "a decision before the end of its run, told later",
    [],
    [
      lost(1, decide(ask, "approved")),
      refused(at(3, 4), decide(ask, "rejected"), "run_ended"),
      refused(at(5, 6), decide(ask, "rejected"), "approval_already_decided", decided("approved")),
      finalRun("a", "succeeded"),
    ],
  ],
  [
    "two decisions",
    ["INV-25"],
    [
      ok(at(1, 2), decide(ask, "approved"), decided("approved")),
      ok(at(3, 4), decide(ask, "rejected"), decided("rejected")),
      finalRun("a", "succeeded"),
    ],
  ],
  [
    "a winner that nobody wanted",
    ["INV-25"],
    [refused(at(3, 4), decide(ask, "approved"), "approval_already_decided", decided("rejected"))],
  ],
  [
    "another in the end",
    ["INV-25"],
    [
      ok(at(1, 2), decide(ask, "rejected"), decided("rejected")),
      approval("expired"),
      finalRun("a", "denied"),
    ],
  ],
  [
    "decided after it had expired",
    ["INV-25"],
    [
      refused(at(1, 2), decide(ask, "approved"), "approval_expired"),
      ok(at(3, 4), decide(ask, "approved"), decided("approved")),
      finalRun("a", "succeeded"),
    ],
  ],
  [
    "told before it was asked for",
    ["INV-25"],
    [
      refused(at(1, 2), decide(ask, "approved"), "approval_already_decided", decided("rejected")),
      lost(3, decide(ask, "rejected")),
    ],
  ],
  [
    "approved, and nothing happened",
    ["INV-26"],
    [
      ok(at(1, 2), decide(ask, "approved"), decided("approved")),
      approval("approved"),
      finalRun("a", "waiting"),
    ],
  ],
  [
    "approved by one without an answer, and nothing happened",
    ["INV-26"],
    [lost(1, decide(ask, "approved")), approval("approved"), finalRun("a", "waiting")],
  ],
]);
