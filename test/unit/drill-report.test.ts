// The report of a drill: one page that needs nothing else, and plots that show what was measured.
import { parseHTML } from "linkedom";
import { describe, expect, test } from "vitest";
import type { Plot } from "../../src/drills/drill.ts";
import { linearScale, plotSvg, reportPage, roundStep, shownNumber } from "../../src/drills/report.ts";
import { readingOf } from "../../src/drills/target/open-target.ts";

const bars: Plot = {
  title: "Arrivals",
  kind: "bars",
  x: "time, ms",
  y: "arrivals",
  series: [
    {
      name: "lock-fixed",
      points: [
        [0, 4],
        [10, 0],
        [20, 8],
      ],
    },
    { name: "atomic", points: [[0, 0]] },
  ],
};

const run = {
  name: "stale-owner",
  question: "Can a <stale> owner do harm?",
  expectation: "It cannot.",
  steps: ["One & two"],
  target: "an embedded instance",
  size: "quick",
  startedAtMs: 0,
  tookMs: 1_234,
  verdict: "not met",
  checks: [{ what: "release", expected: "409", seen: "200", holds: false }],
  tables: [{ title: "Numbers", columns: ["name", "ms"], rows: [["p95", 12]] }],
  plots: [bars],
  data: {},
} as const;

describe("the page", () => {
  const html = reportPage(run, { command: "interlock drill stale-owner", version: "1", time: "now" });

  test("loads nothing from elsewhere and runs no script", () => {
    expect(html).not.toMatch(/<script|<link|<img|@import|url\(/);
    const addresses = [...html.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, address]) => address);
    expect(addresses).toEqual(["stale-owner.json"]);
  });

  test("says the verdict, the check that does not hold and the numbers, with text escaped", () => {
    const { document } = parseHTML(html);
    expect(document.querySelector("strong.bad")?.textContent).toBe("Expectation not met.");
    expect(document.querySelector("td.bad")?.textContent).toBe("NO");
    expect(document.querySelector(".question")?.textContent).toBe("Can a <stale> owner do harm?");
    expect(document.querySelector("td.number")?.textContent).toBe("12");
  });
});

describe("plots", () => {
  test("bars of two series stand below each other on one scale, as high as their values", () => {
    const { document } = parseHTML(plotSvg(bars));
    const heights = [...document.querySelectorAll("rect")].map((bar) => Number(bar.getAttribute("height")));
    expect(heights).toHaveLength(2);
    expect((heights[1] as number) / (heights[0] as number)).toBeCloseTo(2, 1);
  });

  test("lines connect all their points, within the picture", () => {
    const points = [
      [0, 0],
      [5, 100],
      [9, -20],
    ] as const;
    const line: Plot = { ...bars, kind: "lines", series: [{ name: "one", points }] };
    const { document } = parseHTML(plotSvg(line));
    const places = (document.querySelector("polyline")?.getAttribute("points") ?? "").split(" ");
    expect(places).toHaveLength(3);
    for (const place of places) {
      const [x = -1, y = -1] = place.split(",").map(Number);
      expect(x).toBeGreaterThanOrEqual(0);
      expect(x).toBeLessThanOrEqual(860);
      expect(y).toBeGreaterThanOrEqual(0);
      expect(y).toBeLessThanOrEqual(372);
    }
  });

  test("a plot without points is drawn empty", () => {
    expect(plotSvg({ ...bars, series: [] })).toContain("<svg");
    expect(plotSvg({ ...bars, kind: "dots", series: [{ name: "none", points: [] }] })).toContain("<svg");
  });

  test("axes have round numbers that enclose the values", () => {
    expect(linearScale([0, 93], 0, 100, 5).ticks).toEqual([0, 20, 40, 60, 80, 100]);
    expect(roundStep(0.3)).toBeCloseTo(0.5);
    expect(roundStep(200)).toBe(200);
    expect(shownNumber(12_000.5)).toBe("12,000.5");
  });
});

test("metrics are summed over gateways and over labels that were not asked for", () => {
  const text = [
    "# HELP interlock_lock_not_owned_total x",
    'interlock_lock_not_owned_total{lock="public",operation="renew"} 2',
    'interlock_lock_not_owned_total{lock="run",operation="renew"} 3',
    "interlock_run_starts_total 7",
  ].join("\n");
  const reading = readingOf([text, text]);
  expect(reading.sum("lock_not_owned_total", { operation: "renew" })).toBe(10);
  expect(reading.sum("lock_not_owned_total", { lock: "public" })).toBe(4);
  expect(reading.sum("run_starts_total")).toBe(14);
  expect(reading.sum("run_starts")).toBe(0);
});
