// What a soak concludes from its numbers: robust slopes, verdicts just below and above their bounds, trimmed records, the report.
import { describe, expect, test } from "vitest";
import { countTrimmed, timesWanted, violationsOf } from "../../soak/judge.ts";
import { parseSoakOptions, UsageError } from "../../soak/options.ts";
import { soakPlot } from "../../soak/plot.ts";
import { dataOf, pageOf, type Soaked } from "../../soak/report.ts";
import { judgedFrom, judgeSeries, measureOf, sampleEveryMs } from "../../soak/series.ts";
import { judgeFlatness, type Point, theilSen } from "../../soak/slope.ts";
import { createTally, kinds, noteFailure, noteMade, type RecordKind } from "../../soak/tally.ts";
import { withEdit } from "../../soak/windows.ts";

const points = (count: number, valueAt: (index: number) => number): Point[] =>
  Array.from({ length: count }, (_, index) => ({ atMs: index * 1_000, value: valueAt(index) }));

describe("the slope", () => {
  test("of a straight line is that of the line", () => {
    expect(theilSen(points(20, (index) => 5 + 3 * index))).toBeCloseTo(0.003, 12);
  });

  test("stays while a quarter of the points are wild, where least squares would tilt", () => {
    expect(theilSen(points(40, (index) => (index % 4 === 3 ? 10_000 : 100 + index)))).toBeCloseTo(0.001, 4);
  });

  test("is no number without two moments", () => {
    expect(theilSen([])).toBeNaN();
    expect(theilSen([{ atMs: 1, value: 1 }])).toBeNaN();
  });
});

describe("a series", () => {
  const bound = { share: 0.1, floor: 4 };
  /** Rises by so much in all, around a level. */
  const rising = (level: number, rise: number) =>
    judgeFlatness(
      points(11, (index) => level - rise / 2 + (rise * index) / 10),
      bound,
    );

  test.each([
    { where: "below its share of the level", level: 100, rise: 9.99, verdict: "flat" },
    { where: "at its share of the level", level: 100, rise: 10, verdict: "flat" },
    { where: "above its share of the level", level: 100, rise: 10.01, verdict: "rises" },
    { where: "below the floor of a small level", level: 10, rise: 3.99, verdict: "flat" },
    { where: "above the floor of a small level", level: 10, rise: 4.01, verdict: "rises" },
    { where: "that falls", level: 100, rise: -50, verdict: "flat" },
  ])("$where is judged as $verdict", ({ level, rise, verdict }) => {
    const judged = rising(level, rise);
    expect(judged.verdict).toBe(verdict);
    expect(judged.rise).toBeCloseTo(rise, 6);
    expect(judged.level).toBeCloseTo(level, 6);
  });

  test("of four points is not judged, of five it is", () => {
    expect(
      judgeFlatness(
        points(4, () => 1),
        bound,
      ).verdict,
    ).toBe("too few points");
    expect(
      judgeFlatness(
        points(5, () => 1),
        bound,
      ).verdict,
    ).toBe("flat");
  });

  test("is judged without what came before the stocks were full", () => {
    const filling = points(100, (index) => Math.min(index, 30) * 10);
    const [series] = judgeSeries(new Map([["redis keys", filling]]), 30_000);
    expect(series?.flatness.verdict).toBe("flat");
    expect(judgeFlatness(filling.slice(0, 30), bound).verdict).toBe("rises");
  });

  test("has the bound of its kind, and none is left without", () => {
    expect(measureOf("gateway memory").bound.floor).toBe(12);
    expect(measureOf("redis memory").bound.floor).toBe(1);
    expect(() => measureOf("humidity")).toThrow("no bound for humidity");
  });

  test("is judged from the first tenth on, or from twice the longest window if that is later", () => {
    expect(judgedFrom(1_800_000, 45)).toBe(180_000);
    expect(judgedFrom(1_800_000, 46)).toBe(184_000);
    expect(judgedFrom(1_800_000, 1)).toBe(180_000);
    expect([sampleEveryMs(1_800_000), sampleEveryMs(360_000), sampleEveryMs(1_000)]).toEqual([
      5_000, 1_000, 100,
    ]);
  });
});

/** Every kind made so often, and so many of it kept. */
function trimmedOf(made: number, kept: number) {
  const tally = createTally();
  const all = Object.keys(kinds) as RecordKind[];
  for (const kind of all) for (let count = 0; count < made; count += 1) noteMade(tally, kind);
  tally.trimmedTimelines = made;
  const still = Object.fromEntries(all.map((kind) => [kind, kept]));
  return { tally, trimmed: countTrimmed(tally, { kept: still, numbered: {} }) };
}

describe("the verdict", () => {
  test("wants every stock replaced twelve times in half an hour, and of other times their share", () => {
    expect([timesWanted(30), timesWanted(10)]).toEqual([12, 4]);
    const enough = trimmedOf(130, 10);
    expect(violationsOf({ series: [], ...enough, minutes: 30 })).toEqual([]);
    const short = trimmedOf(129, 10);
    const violations = violationsOf({ series: [], ...short, minutes: 30 });
    expect(violations).toHaveLength(Object.keys(kinds).length - 1);
    expect(violations[0]).toBe("ended runs were trimmed 11.9 times, not 12: 129 made, 10 kept");
  });

  test("counts records that number themselves by their numbers", () => {
    const tally = createTally();
    const trimmed = countTrimmed(tally, {
      kept: { "event rows": 1_000 },
      numbered: { "event rows": 15_000 },
    });
    expect(trimmed.find(({ kind }) => kind === "event rows")).toMatchObject({ trimmed: 14_000, times: 14 });
  });

  test("names what was never trimmed, what rises and what failed", () => {
    const { tally, trimmed } = trimmedOf(50, 50);
    noteFailure(tally, "start: internal", "first");
    noteFailure(tally, "start: internal", "second");
    const series = judgeSeries(new Map([["server heap", points(50, (index) => 20 + index)]]), 0);
    const violations = violationsOf({ series, trimmed, tally, minutes: 2 });
    expect(violationsOf({ series, trimmed, tally, minutes: 1.99 })).toEqual(violations.slice(-1));
    expect(violations[0]).toBe("server heap rises by 49 MB at a level of 44.5: at most 2.23");
    expect(violations).toContain("dead letters were trimmed 0 times, not 0.8: 50 made, 50 kept");
    expect(violations.at(-1)).toBe("start: internal, 2 times: first");
  });
});

describe("the report", () => {
  const parsed = parseSoakOptions(["--minutes", "30", "--store", "redis", "--out", "/nowhere"]);
  if (parsed.kind !== "run") throw new Error("options were asked for");
  const { options } = parsed;
  const measured = new Map([
    ["server heap", points(40, () => 25)],
    ["start p50", points(40, (index) => index)],
    ["redis keys", points(2, () => 7)],
  ]);
  const series = judgeSeries(measured, 10_000);
  const { tally, trimmed } = trimmedOf(130, 10);
  const soaked: Soaked = {
    store: "redis",
    tally,
    trimmed,
    series,
    judgedFromMs: 10_000,
    violations: violationsOf({ series, trimmed, tally, minutes: 30 }),
    plotName: "soak-redis.svg",
  };

  test("has every record, every series and every violation", () => {
    const page = pageOf(options, [soaked]);
    for (const kind of Object.keys(kinds)) expect(page).toContain(`| ${kind} | 130 |`);
    expect(page).toContain("| server heap | 25 MB | 0 MB | 2 MB | flat |");
    expect(page).toContain("- **start p50 rises by 29 ms at a level of 24.5: at most 12.3**");
    expect(page).toContain("- **redis keys has too few points to be judged**");
    expect(page).toContain("![every series](soak-redis.svg)");
    const data = JSON.parse(dataOf(options, [soaked])) as { stores: Array<{ violations: string[] }> };
    expect(data.stores[0]?.violations).toEqual(soaked.violations);
  });

  test("draws a panel for every series with its verdict", () => {
    const svg = soakPlot("a < b", series, 10_000);
    expect(svg).toContain("a &lt; b");
    for (const { name } of series) expect(svg).toContain(`>${name}</text>`);
    expect(svg).toContain("rises: 29 ms at a level of 24.5 ms, at most 12.3");
    expect(svg.match(/<circle/g)).toHaveLength(82);
  });
});

describe("the command line", () => {
  test("refuses what it does not know, with the usage", () => {
    for (const words of [
      ["--minutes", "0"],
      ["--store", "tape"],
      ["--plant", "tree"],
      ["--frob"],
      ["--record", "--plant", "leak"],
      ["--rate", "x"],
    ])
      expect(() => parseSoakOptions(words)).toThrow(UsageError);
    expect(parseSoakOptions(["--help"]).kind).toBe("help");
  });

  test("soaks both stores unless it is told which", () => {
    const storesOf = (...words: string[]) => {
      const parsed_ = parseSoakOptions(words);
      return parsed_.kind === "run" ? parsed_.options.stores : [];
    };
    expect(storesOf()).toEqual(["embedded", "redis"]);
    expect(storesOf("--store", "embedded")).toEqual(["embedded"]);
  });
});

test("a window whose constant is gone, or there twice, is an error", () => {
  const edit = { file: "a.js", find: "const dayMs = 1;", put: "const dayMs = 2;" };
  expect(withEdit("x; const dayMs = 1; y", edit)).toBe("x; const dayMs = 2; y");
  expect(() => withEdit("x; y", edit)).toThrow("0 times");
  expect(() => withEdit("const dayMs = 1; const dayMs = 1;", edit)).toThrow("2 times");
});
