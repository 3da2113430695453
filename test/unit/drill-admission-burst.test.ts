// The pure parts of the drill admission-burst: its numbers, its plan, and what it makes of what it saw.
import { describe, expect, test } from "vitest";
import {
  clientPauseMs,
  crowdFormedMs,
  mostAtOnce,
  planOf,
  type Variant,
} from "../../src/drills/admission-burst/crowd.ts";
import { rawOf } from "../../src/drills/admission-burst/drill.ts";
import { combOf, type Measured } from "../../src/drills/admission-burst/measure.ts";
import {
  type Burst,
  burstTable,
  clientsTable,
  countsOf,
  isComb,
  judgeBursts,
  judgeCrowds,
  judgeSweep,
  latencyPlot,
  lockPlots,
  percent,
  quantileMs,
  successPlots,
  sweepTable,
} from "../../src/drills/admission-burst/tables.ts";
import { DrillImpossible } from "../../src/drills/drill.ts";
import type { StartTry } from "../../src/drills/load/steady-load.ts";
import { binned } from "../../src/drills/load/times.ts";

/** The same sequence each time. */
function fractions(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

const ascending = (times: number[]) => times.sort((left, right) => left - right);

/** `contenders` come back every beat, each a little off. */
function wavesOf(contenders: number, beatMs: number, spreadMs: number): number[] {
  const fraction = fractions(7);
  const times = Array.from({ length: 60 }, (_, wave) =>
    Array.from({ length: contenders }, () => wave * beatMs + fraction() * spreadMs),
  );
  return ascending(times.flat());
}

function spreadOf(count: number, untilMs: number): number[] {
  const fraction = fractions(11);
  return ascending(Array.from({ length: count }, () => fraction() * untilMs));
}

describe("the comb", () => {
  test("waves of polls are in one fifth of the beat, whatever a try adds to the interval", () => {
    for (const beatMs of [10, 11.5, 13, 20]) {
      const comb = combOf(wavesOf(40, beatMs, 1.5), 10);
      expect(comb.share, `beat ${beatMs}`).toBeGreaterThan(0.95);
      // Three beats of ten fit into two of fifteen, too: what matters is the share.
      expect(comb.windows).toBeGreaterThan(5);
    }
  });

  test("arrivals at random times are not, however dense they are", () => {
    for (const count of [300, 1_000, 5_000]) {
      expect(combOf(spreadOf(count, 1_000), 10).share, String(count)).toBeLessThan(0.45);
    }
  });

  test("with too few there is no number, and nothing is called a comb", () => {
    const none = combOf(spreadOf(30, 1_000), 10);
    expect(none).toEqual({ share: Number.NaN, beatMs: Number.NaN, windows: 0 });
    expect(isComb(none, none)).toBe(false);
    expect(combOf([], 10).windows).toBe(0);
  });

  test("it has to stand out from the jittered arrivals", () => {
    const comb = (share: number) => ({ share, beatMs: 12, windows: 9 });
    expect(isComb(comb(0.9), comb(0.4))).toBe(true);
    expect(isComb(comb(0.9), undefined)).toBe(true);
    expect(isComb(comb(0.9), comb(0.85))).toBe(false);
    expect(isComb(comb(0.49), comb(0.2))).toBe(false);
  });
});

describe("times", () => {
  test("bins count what falls into them and leave out what lies outside", () => {
    expect(binned([-1, 0, 1.9, 2, 5.9, 6], { binMs: 2, untilMs: 6 })).toEqual([
      [0, 2],
      [2, 1],
      [4, 1],
    ]);
  });

  test("intervals that only touch were not there at once", () => {
    expect(mostAtOnce([])).toBe(0);
    expect(
      mostAtOnce([
        [0, 5],
        [5, 9],
        [9, 12],
      ]),
    ).toBe(1);
    expect(
      mostAtOnce([
        [0, 5],
        [4, 9],
        [3, 6],
        [8, 10],
      ]),
    ).toBe(3);
  });
});

test("the crowd has formed when as many have come as there are, those who came back not counted", () => {
  const arrivalsMs = [0, 1, 2, 11, 12, 20, 21];
  const dueMs = [10.5, 11.5, 19];
  expect(crowdFormedMs({ arrivalsMs, dueMs }, 3)).toBe(2);
  expect(crowdFormedMs({ arrivalsMs, dueMs }, 4)).toBe(21);
  expect(crowdFormedMs({ arrivalsMs, dueMs }, 9)).toBe(0);
});

const at = (sentMs: number, tookMs: number) => ({ sentMs, tookMs });
const yes = (tookMs = 10): StartTry => ({ kind: "started", runId: "r", replayed: false, ...at(0, tookMs) });
const no = (status: number, code: string, tookMs = 10): StartTry => ({
  ...{ kind: "refused", status, code, retryAfterMs: 1_000, ...at(0, tookMs) },
});
const full = (tookMs = 10) => no(429, "max_concurrent_runs_reached", tookMs);
const busy = (tookMs = 10) => no(503, "concurrency_gate_unavailable", tookMs);

describe("answers", () => {
  test("are told apart by what they mean", () => {
    const lost: StartTry = { kind: "no_answer", why: "lost", ...at(0, 1) };
    const tries = [yes(), full(), full(), busy(), no(503, "overloaded"), no(429, "too_many_requests"), lost];
    expect(countsOf(tries)).toEqual({
      ...{ tries: 7, started: 1, refused: 2, gateUnavailable: 1, other503: 1, other: 2 },
    });
  });

  test("shares and quantiles of nothing are no numbers to stumble over", () => {
    expect([percent(1, 8), percent(0, 0), quantileMs([], 0.95)]).toEqual(["12.5 %", "-", 0]);
    expect(quantileMs([1.2, 2.6, 9.4, 4.1], 0.5)).toBe(3);
  });
});

describe("the plan", () => {
  test("has one burst as asked, and clients that retry at 1x and at 10x", () => {
    const { requests, bursts, sweep } = planOf("full", { sweep: false });
    expect([requests, bursts.map(({ clients }) => clients), sweep]).toEqual([100, [100, 1_000], undefined]);
    expect(planOf("quick", { sweep: false }).bursts.map(({ clients }) => clients)).toEqual([10, 100]);
  });

  test("stays below what one tenant may have under way", () => {
    const { bursts } = planOf("full", { sweep: false, requests: 1_000 });
    expect(bursts).toEqual([
      { name: "1x, 1000 clients", clients: 1_000 },
      { name: "1.5x, 1500 clients", clients: 1_500 },
    ]);
    expect(() => planOf("full", { sweep: false, requests: 5_000 })).toThrow(DrillImpossible);
    expect(() => planOf("full", { sweep: false, requests: 2 })).toThrow(DrillImpossible);
  });

  test("the grid has every wait budget with every client budget, one try among them", () => {
    const { sweep } = planOf("full", { sweep: true });
    expect(sweep?.waitsMs).toContain(2_000);
    expect(sweep?.budgetsMs[0]).toBe(0);
  });

  test("fixed clients wait the same each time, jittered ones up to a ceiling that grows", () => {
    const shape = { kind: "exponential", baseMs: 100, maxMs: 400 } as const;
    expect([0, 1, 5].map((retry) => clientPauseMs("fixed", shape, retry))).toEqual([100, 100, 100]);
    for (let draw = 0; draw < 50; draw += 1) {
      expect(clientPauseMs("jitter", shape, 0)).toBeLessThan(100);
      expect(clientPauseMs("jitter", shape, 9)).toBeLessThan(400);
    }
  });
});

function burstOf(variant: Variant, tries: readonly StartTry[], more: Partial<Burst> = {}): Burst {
  const started = tries.filter(({ kind }) => kind === "started").length;
  return {
    variant,
    clients: tries.length,
    tries,
    ends: tries.map(({ kind, tookMs }) => ({ isStarted: kind === "started", atMs: tookMs })),
    atOnceMost: started,
    toldMost: started,
    activeAfter: started,
    gate: { busyRetries: 0, activeMost: started, arrivalsMs: [], dueMs: [] },
    comb: { share: Number.NaN, beatMs: Number.NaN, windows: 0 },
    ...more,
  };
}

const comb = (share: number) => ({ share, beatMs: 12, windows: 9 });
const goodBursts = [
  burstOf("lock-fixed", [yes(100), yes(200), full(300), busy(2_000)], { comb: comb(0.9) }),
  burstOf("lock-jitter", [yes(100), yes(100), full(300), busy(2_000)], { comb: comb(0.35) }),
  burstOf("atomic", [yes(), yes(), full(20), full(20)]),
];
const broken = (bursts: readonly Burst[]) =>
  judgeBursts(bursts)
    .filter(({ holds }) => !holds)
    .map(({ what }) => what);
const instead = (burst: Burst) => goodBursts.map((good) => (good.variant === burst.variant ? burst : good));

describe("the verdict", () => {
  test("is good when all is well", () => {
    expect(broken(goodBursts)).toEqual([]);
  });

  test("is bad when more than the limit were admitted, and when fewer were although others were refused", () => {
    for (const activeMost of [2, 3]) {
      const gate = { busyRetries: 0, activeMost, arrivalsMs: [], dueMs: [] };
      const many = burstOf("atomic", [yes(), yes(), yes(), full()], { gate });
      expect(broken(instead(many))).toEqual(["atomic: 4 starts at once"]);
    }
    const few = burstOf("lock-jitter", [yes(), full(), full(300), busy(2_000)], { comb: comb(0.35) });
    expect(broken(instead(few))).toEqual(["lock-jitter: 4 starts at once"]);
  });

  test("a gate that was unavailable to all others has refused nobody", () => {
    const starved = burstOf("lock-fixed", [yes(), busy(2_000), busy(2_000)], { comb: comb(0.9) });
    expect(broken(instead(starved))).toEqual([]);
  });

  test("is bad when atomic answers any 503, or takes longer than a lock", () => {
    for (const code of ["concurrency_gate_unavailable", "overloaded", "outcome_unknown"]) {
      const burst = burstOf("atomic", [yes(), yes(), full(), no(503, code)]);
      expect(broken(instead(burst)), code).toEqual(["atomic: 503 among 4 starts"]);
    }
    const decided = ["lock-fixed", "lock-jitter"].map((variant, index) =>
      burstOf(variant as Variant, [yes(), yes(), full(300), full(400)], { comb: comb(0.9 - index / 2) }),
    );
    const slow = burstOf("atomic", [yes(), yes(), full(700), full(700)]);
    expect(broken([...decided, slow])).toEqual([
      "P95 to a decision, atomic beside lock-fixed",
      "P95 to a decision, atomic beside lock-jitter",
    ]);
  });

  test("a gate that is unavailable soon is not faster for it", () => {
    const soon = burstOf("lock-jitter", [yes(), yes(), busy(1), busy(1)], { comb: comb(0.35) });
    expect(broken(instead(soon))).toEqual([]);
  });

  test("is bad without the comb of lock-fixed, and with anybody at the lock of atomic", () => {
    const even = burstOf("lock-fixed", goodBursts[0]?.tries ?? [], { comb: comb(0.4) });
    expect(broken(instead(even))).toEqual(["lock-fixed: retries due in the fullest fifth of the beat"]);
    const gate = { busyRetries: 0, activeMost: 2, arrivalsMs: [0, 10], dueMs: [10] };
    const crowded = burstOf("atomic", goodBursts[2]?.tries ?? [], { gate });
    expect(broken(instead(crowded))).toEqual(["atomic: arrivals at the lock key"]);
  });

  test("of a deployment says nothing of what cannot be seen from outside", () => {
    const outside = goodBursts.map(({ comb: _comb, ...burst }) => ({
      ...burst,
      comb: undefined,
      gate: { busyRetries: 3 },
    }));
    expect(judgeBursts(outside).map(({ what }) => what)).not.toContain("atomic: arrivals at the lock key");
    expect(broken(outside)).toEqual([]);
    expect(lockPlots(outside)).toEqual([]);
    expect(burstTable(outside).rows[0]).toContain("not seen from outside");
  });

  test("is bad when retrying clients, the record or the store saw a third active run", () => {
    const terms = planOf("quick", { sweep: false }).clients;
    const crowd = {
      ...burstOf("atomic", [yes(), full(), yes()]),
      policy: "jitter",
      terms,
      name: "1x",
    } as const;
    expect(judgeCrowds([crowd]).map(({ holds }) => holds)).toEqual([true]);
    const wrong: ReadonlyArray<Partial<Measured>> = [
      { atOnceMost: 3 },
      { toldMost: 3 },
      { gate: { ...crowd.gate, activeMost: 3 } },
      { tries: [full()] },
      { tries: [yes(), no(500, "internal")] },
    ];
    for (const more of wrong) {
      expect(judgeCrowds([{ ...crowd, ...more }]).map(({ holds }) => holds)).toEqual([false]);
      const cell = { waitMs: 100, budgetMs: 0, measured: { ...crowd, ...more } };
      expect(judgeSweep([cell]).map(({ holds }) => holds)).toEqual([false]);
    }
  });
});

describe("tables, plots and raw data", () => {
  test("have a row or a series for each of what was measured, as wide as their heads", () => {
    const terms = planOf("quick", { sweep: false }).clients;
    const crowds = goodBursts.map((burst) => ({ ...burst, policy: "fixed", terms, name: "1x" }) as const);
    const cells = goodBursts.map((measured) => ({ budgetMs: 0, measured }));
    for (const table of [burstTable(goodBursts), clientsTable(crowds), sweepTable(cells, "as deployed")]) {
      expect(table.rows.map((row) => row.length)).toEqual(goodBursts.map(() => table.columns.length));
    }
    const [plot] = successPlots(crowds);
    expect(plot?.series.map(({ name }) => name)).toEqual(
      goodBursts.map(({ variant }) => `${variant}, clients: fixed delay`),
    );
    expect(latencyPlot(goodBursts).series[0]?.points.at(-1)).toEqual([100, 2_000]);
    expect(lockPlots(goodBursts).map(({ series }) => series.length)).toEqual([3, 3]);
  });

  test("measures P50, P95 and the shares of 429 and 503 of every variant", () => {
    const { columns, rows } = burstTable(goodBursts);
    const cell = (row: number, name: string) => rows[row]?.[columns.indexOf(name)];
    const told = ["variant", "P50 ms", "P95 ms", "200", "429", "503 gate"].map((name) => cell(0, name));
    expect(told).toEqual(["lock-fixed", 200, 2_000, 2, "25.0 %", "25.0 %"]);
    expect(["variant", "429", "503 gate"].map((name) => cell(2, name))).toEqual([
      "atomic",
      "50.0 %",
      "0.0 %",
    ]);
  });

  test("raw data keeps every try and every arrival on one line", () => {
    const gate = { busyRetries: 1, arrivalsMs: [0, 0.4, 2.1], dueMs: [1.5] };
    const raw = rawOf(burstOf("atomic", [yes(12.4), full(3)], { gate }));
    expect(raw).toMatchObject({
      tries: "0+12:200 0+3:429",
      gotRunAtMs: "12",
      arrivalsPerMs: "2 0 1",
      retriesDuePerMs: "0 1",
      busyRetries: 1,
    });
  });
});
