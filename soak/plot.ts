// Draws a soak: a panel for every series with its points, the part that is judged, and the fitted line.
import * as Plot from "@observablehq/plot";
import { parseHTML } from "linkedom";
import { shown } from "./judge.ts";
import { measureOf, type Series } from "./series.ts";

const panelWidth = 400;
const panelHeight = 170;
const columns = 3;
const headHeight = 44;

const colours = { flat: "#2a7f62", rises: "#b5484c", "too few points": "#888888" } as const;

export function soakPlot(title: string, series: readonly Series[], judgedFromMs: number): string {
  const rows = Math.ceil(series.length / columns);
  const width = columns * panelWidth;
  const height = headHeight + rows * panelHeight;
  const panels = series.map((each, index) => {
    const x = (index % columns) * panelWidth;
    const y = headHeight + Math.floor(index / columns) * panelHeight;
    return `<g transform="translate(${x},${y})">${panel(each, judgedFromMs)}</g>`;
  });
  const head = `<text x="16" y="28" font-size="17" font-weight="bold">${escaped(title)}</text>`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif">`,
    `<rect width="${width}" height="${height}" fill="white"/>${head}`,
    ...panels,
    "</svg>",
    "",
  ].join("\n");
}

function panel({ name, points, flatness }: Series, judgedFromMs: number): string {
  const { document } = parseHTML("<!doctype html><html><body></body></html>");
  const { unit } = measureOf(name);
  const colour = colours[flatness.verdict];
  const minutes = (atMs: number) => atMs / 60_000;
  const values = points.map(({ value }) => value);
  const top = Math.max(1, ...values) * 1.15;
  const bottom = Math.min(0, ...values) * 1.15;
  const svg = Plot.plot({
    document,
    width: panelWidth,
    height: panelHeight,
    marginTop: 42,
    marginLeft: 52,
    marginRight: 14,
    marginBottom: 28,
    style: { fontFamily: "sans-serif", fontSize: "11px", background: "white" },
    x: { label: null, tickFormat: (at: number) => `${at} min`, ticks: 5 },
    y: { label: null, domain: [bottom, top], grid: true, ticks: 4 },
    marks: [
      Plot.ruleX([minutes(judgedFromMs)], { stroke: "#999999", strokeDasharray: "3,3" }),
      Plot.dot(points, {
        x: ({ atMs }: { atMs: number }) => minutes(atMs),
        y: "value",
        r: 1.3,
        fill: ({ atMs }: { atMs: number }) => (atMs < judgedFromMs ? "#bbbbbb" : "#4c6f9c"),
      }),
      ...(flatness.line === undefined
        ? []
        : [
            Plot.line(flatness.line, {
              x: ({ atMs }: { atMs: number }) => minutes(atMs),
              y: "value",
              stroke: colour,
              strokeWidth: 2,
            }),
          ]),
    ],
  });
  const of = unit === "" ? "" : ` ${unit}`;
  const verdict =
    flatness.verdict === "too few points"
      ? "too few points"
      : `${flatness.verdict}: ${shown(flatness.rise)}${of} at a level of ${shown(flatness.level)}${of}, at most ${shown(flatness.riseMax)}`;
  return `${svg.outerHTML}<text x="16" y="14" font-size="13" font-weight="bold">${escaped(name)}</text><text x="16" y="30" font-size="11" fill="${colour}">${escaped(verdict)}</text>`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
