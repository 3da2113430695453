// The pure parts of the drills about trouble: what a ledger proves, how long there was no success, who took over which job.
import { describe, expect, test } from "vitest";
import { isRefusal } from "../../src/drills/failover/take-over.ts";
import {
  type EndRecord,
  judge,
  type Ledger,
  type StartRecord,
  type TimedNote,
} from "../../src/drills/load/ledger.ts";
import { answersDuring, outageTimes, wrongReads } from "../../src/drills/load/load-outcome.ts";
import { faultByCommand, runCommand, withoutSkew } from "../../src/drills/load/scene.ts";
import type { StartTry } from "../../src/drills/load/steady-load.ts";
import { countsPer, firstAfter, lengthOf, longestGap, quantile } from "../../src/drills/load/times.ts";
import { heldBy, takenOver, takenOverAfterMs } from "../../src/drills/worker-loss/drill.ts";

const yes = (sentMs: number, runId = "r1"): StartTry => ({
  kind: "started",
  runId,
  replayed: false,
  sentMs,
  tookMs: 10,
});
const refused = (sentMs: number, status: number, code: string): StartTry => ({
  kind: "refused",
  status,
  code,
  retryAfterMs: undefined,
  sentMs,
  tookMs: 10,
});

const start = (
  key: string,
  runId: string | undefined,
  tries: StartTry[] = [yes(100, runId)],
): StartRecord => ({
  key,
  order: 1,
  askedAtMs: tries[0]?.sentMs ?? 0,
  tries,
  ...(runId === undefined ? {} : { acknowledged: { runId, atMs: (tries.at(-1)?.sentMs ?? 0) + 10 } }),
});

const ended = (key: string, runId: string, kept: string | undefined = `${runId}:work@1`): EndRecord => ({
  key,
  repeated: { runId, replayed: true },
  run: { runId, status: "succeeded", createdAtMs: 105, endedAtMs: 300, counted: { work: kept } },
});

const claimed = (runId: string, { worker = "w1", attempt = 1, atMs = 110 } = {}): TimedNote => ({
  kind: "claimed",
  worker,
  jobId: `${runId}:work@${attempt}`,
  runId,
  step: "work",
  attempt,
  claimToken: "secret",
  atMs,
});
const done = (runId: string, { worker = "w1", attempt = 1, atMs = 200 } = {}): TimedNote => ({
  kind: "done",
  worker,
  jobId: `${runId}:work@${attempt}`,
  runId,
  step: "work",
  atMs,
});
const reported = (
  runId: string,
  verdict: string,
  { worker = "w1", attempt = 1, atMs = 210 } = {},
): TimedNote => ({
  kind: "reported",
  worker,
  jobId: `${runId}:work@${attempt}`,
  verdict,
  atMs,
});

const ledger = (parts: Partial<Ledger>): Ledger => ({ starts: [], reads: [], work: [], ends: [], ...parts });
const well = ledger({
  starts: [start("k1", "r1")],
  work: [claimed("r1"), done("r1"), reported("r1", "accepted")],
  ends: [ended("k1", "r1")],
});
const clean = {
  acknowledged: 1,
  undecided: [],
  lost: [],
  otherRun: [],
  notSucceeded: [],
  notDone: [],
  countedTwice: [],
  otherResult: [],
  doneTwice: [],
};

describe("what a ledger proves", () => {
  test("a start whose run succeeded by one result is as it should be", () => {
    expect(judge(well)).toEqual(clean);
  });

  test("an acknowledged run that is not there is lost, and has not succeeded", () => {
    const lost = {
      ...well,
      ends: [{ key: "k1", repeated: { runId: "r1", replayed: true }, run: undefined }],
    };
    expect(judge(lost)).toEqual({ ...clean, lost: ["k1"], notSucceeded: ["k1"] });
  });

  test("a key that names another run than the acknowledged one is told", () => {
    const [end] = well.ends as [EndRecord];
    const other = { ...well, ends: [{ ...end, repeated: { runId: "r2", replayed: true } }] };
    expect(judge(other).otherRun).toEqual(["k1"]);
  });

  test("a start that was never answered is undecided and nothing else", () => {
    const open = {
      ...well,
      starts: [...well.starts, start("k2", undefined, [refused(100, 503, "outcome_unknown")])],
    };
    expect(judge(open)).toEqual({ ...clean, undecided: ["k2"] });
  });

  test("a step that two attempts were told to have finished has counted twice", () => {
    const twice = [
      claimed("r1", { worker: "w2", attempt: 2 }),
      reported("r1", "accepted", { worker: "w2", attempt: 2 }),
    ];
    expect(judge({ ...well, work: [...well.work, ...twice] }).countedTwice).toEqual(["r1:work"]);
  });

  test("a report that was repeated because its answer was lost has counted once", () => {
    expect(judge({ ...well, work: [...well.work, reported("r1", "duplicate")] })).toEqual(clean);
  });

  test("work done twice of which one result was refused is allowed, and told", () => {
    const late = [
      claimed("r1", { worker: "w2", attempt: 2 }),
      done("r1", { worker: "w2", attempt: 2 }),
      reported("r1", "refused stale_claim", { worker: "w2", attempt: 2 }),
    ];
    expect(judge({ ...well, work: [...well.work, ...late] })).toEqual({ ...clean, doneTwice: ["r1:work"] });
  });

  test("a run that keeps the result of an attempt that was not accepted is told", () => {
    const again = [claimed("r1", { worker: "w2", attempt: 2 }), done("r1", { worker: "w2", attempt: 2 })];
    const wrong = { ...well, work: [...well.work, ...again], ends: [ended("k1", "r1", "r1:work@2")] };
    expect(judge(wrong).otherResult).toEqual(["r1:work"]);
  });

  test("a run that succeeded without anybody's work is told", () => {
    expect(judge({ ...well, work: [] }).notDone).toEqual(["r1:work"]);
    expect(judge({ ...well, ends: [ended("k1", "r1", "r1:work@7")] }).notDone).toEqual(["r1:work"]);
  });
});

describe("times without a success", () => {
  test("the longest gap is the one that touches the fault, not a longer one elsewhere", () => {
    const timesMs = [100, 200, 900, 1_000, 1_300, 1_400];
    expect(longestGap({ timesMs, endMs: 1_500 }, { fromMs: 1_050, toMs: 1_100 })).toEqual({
      fromMs: 1_000,
      toMs: 1_300,
    });
  });

  test("without a success after the fault the gap lasts until the end", () => {
    expect(lengthOf(longestGap({ timesMs: [100, 200], endMs: 5_000 }, { fromMs: 250, toMs: 300 }))).toBe(
      4_800,
    );
  });

  test("the first success afterwards is found in any order, or is none", () => {
    expect(firstAfter([500, 300, 100], 200)).toBe(300);
    expect(firstAfter([100], 200)).toBeUndefined();
  });

  test("successes are counted in slices that cover the whole load, also the empty ones", () => {
    expect(countsPer([0, 50, 250], { sliceMs: 100, endMs: 300 })).toEqual([
      [0, 2],
      [0.1, 0],
      [0.2, 1],
    ]);
  });

  test("quantiles are values that were there", () => {
    expect([quantile([3, 1, 2], 0.5), quantile([3, 1, 2], 1), quantile([], 0.5)]).toEqual([2, 3, undefined]);
  });

  test("a server's clock that is an hour ahead is taken back to ours", () => {
    const hourMs = 3_600_000;
    const [end] = well.ends as [EndRecord];
    const ahead = {
      ...end,
      run: {
        ...(end.run as NonNullable<EndRecord["run"]>),
        createdAtMs: 105 + hourMs,
        endedAtMs: 300 + hourMs,
      },
    };
    expect(withoutSkew(well.starts, [ahead])[0]?.run).toMatchObject({ createdAtMs: 105, endedAtMs: 300 });
  });
});

describe("an outage", () => {
  const outage = { struckAtMs: 1_000, awayAtMs: 1_010, mendingAtMs: 2_000, backAtMs: 2_200 };
  const starts = [
    start("k1", "r1", [yes(900)]),
    start("k2", "r2", [
      refused(1_100, 503, "store_unavailable"),
      refused(1_300, 503, "outcome_unknown"),
      yes(2_400, "r2"),
    ]),
  ];
  const ends = [ended("k1", "r1"), ended("k2", "r2")].map((end, index) => ({
    ...end,
    run: { ...(end.run as NonNullable<EndRecord["run"]>), endedAtMs: index === 0 ? 990 : 2_700 },
  }));

  test("recovery counts from the return, and the gap from success to success", () => {
    expect(outageTimes(ledger({ starts, ends }), outage)).toEqual({
      withoutStart: { fromMs: 910, toMs: 2_410 },
      startAgainMs: 210,
      runAgainMs: 500,
      allWellMs: 500,
    });
  });

  test("a run that has not ended makes the recovery endless", () => {
    const [first, second] = ends as [EndRecord, EndRecord];
    const open = {
      ...second,
      run: { ...(second.run as NonNullable<EndRecord["run"]>), endedAtMs: undefined },
    };
    expect(outageTimes(ledger({ starts, ends: [first, open] }), outage).allWellMs).toBeUndefined();
  });

  test("503 and silence are trouble; a yes and any other no are not", () => {
    const lost: StartTry = { kind: "no_answer", why: "lost", sentMs: 1_500, tookMs: 10 };
    const wrong = start("k3", undefined, [lost, refused(1_600, 404, "workflow_not_found"), yes(1_700)]);
    expect(answersDuring(ledger({ starts: [...starts, wrong] }), outage)).toMatchObject({
      trouble: 3,
      yes: 1,
      no: 1,
    });
  });

  test("what was sent before or answered after the outage is not held against it", () => {
    const across = start("k3", undefined, [
      { ...yes(1_005), tookMs: 10 },
      { ...yes(1_995), tookMs: 300 },
    ]);
    expect(answersDuring(ledger({ starts: [across] }), outage)).toMatchObject({ trouble: 0, yes: 0, no: 0 });
  });

  test("an acknowledged run that is told not to exist is a wrong no at any time", () => {
    const reads = ["read", "503 store_unavailable", "no answer (lost)", "404 run_not_found"];
    const seen = reads.map((outcome) => ({ atMs: 0, tookMs: 1, outcome }));
    expect(wrongReads(ledger({ reads: seen }))).toEqual(["404 run_not_found"]);
  });
});

describe("jobs of a lost worker", () => {
  const work = [claimed("r1"), claimed("r2"), done("r2"), claimed("r3", { worker: "w2" })];

  test("it has in hand what it claimed and has not done", () => {
    expect(heldBy(work, "w1").map(({ jobId }) => jobId)).toEqual(["r1:work@1"]);
  });

  test("a later attempt of another worker takes a job over; its own does not", () => {
    const held = heldBy(work, "w1");
    const own = [...work, claimed("r1", { attempt: 2, atMs: 500 })];
    expect(takenOverAfterMs(takenOver(own, held), 400)).toBeUndefined();
    const others = [...work, claimed("r1", { worker: "w2", attempt: 2, atMs: 2_400 })];
    expect(takenOverAfterMs(takenOver(others, held), 400)).toBe(2_000);
  });
});

describe("faults by command", () => {
  test("without one the drill says what to pass", () => {
    const wanted = { what: "the store", example: { fault: "stop it", mend: "start it" } };
    expect(() => faultByCommand({ sweep: false }, wanted)).toThrow(
      "cannot break the store itself. Pass the command that does: --fault 'stop it', and the one that mends it: --mend 'start it'.",
    );
  });

  test("a command that fails is told with what it said", async () => {
    await expect(runCommand("--fault", "echo no such unit; exit 3")).rejects.toThrow(
      "the command of --fault ended with 3: echo no such unit; exit 3\nno such unit",
    );
    await expect(runCommand("--fault", "true")).resolves.toBeUndefined();
  });

  test("a standby goes on waiting only while somebody else owns the data", () => {
    expect(isRefusal(new Error('the server ended:\n{"code":"store_in_use"}'))).toBe(true);
    expect(isRefusal(new Error("the server ended:\nconfig_invalid"))).toBe(false);
  });
});
