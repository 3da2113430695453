// The report of a drill as one HTML page with plots as SVG: nothing is loaded from elsewhere.
import type { Check, Plot, Series, Table } from "./drill.ts";
import type { DrillRun } from "./run-drill.ts";

const width = 860;
const margin = { left: 64, right: 16, top: 26, bottom: 44 };
const panelHeight = { bars: 110, whole: 300 };
/** The page defines them for light and dark. */
const colours = ["var(--one)", "var(--two)", "var(--three)", "var(--four)", "var(--five)", "var(--six)"];

export function plotSvg(plot: Plot): string {
  return plot.kind === "bars" ? barPanels(plot) : sharedPanel(plot);
}

/** One panel a series, all with the same scales: a comb beside a flat line is seen at once. */
function barPanels(plot: Plot): string {
  const x = horizontal(plot);
  const step = narrowestStep(plot.series);
  const barWidth = Math.max(1, Math.min(24, (x.at(step) - x.at(0)) * 0.9));
  const panels = plot.series.map((series, index) => {
    const top = margin.top + index * (panelHeight.bars + 24);
    const y = vertical(plot, top, panelHeight.bars, 3);
    const bars = series.points
      .filter(([, value]) => value !== 0)
      .map(([at, value]) => {
        const yValue = y.at(value);
        return `<rect x="${pixel(x.at(at))}" y="${pixel(yValue)}" width="${pixel(barWidth)}" height="${pixel(y.at(0) - yValue)}" fill="${colourOf(index)}"/>`;
      });
    const title = `<text x="${margin.left}" y="${top - 8}" class="series">${escaped(series.name)}</text>`;
    return [title, yAxis(y), ...bars].join("");
  });
  const height = margin.top + plot.series.length * (panelHeight.bars + 24) + margin.bottom - 16;
  const bottom = margin.top + plot.series.length * (panelHeight.bars + 24) - 24;
  return picture(plot, height, [...panels, xAxis(x, bottom), axisTitles(plot, height, bottom)]);
}

function sharedPanel(plot: Plot): string {
  const x = horizontal(plot);
  const y = vertical(plot, margin.top, panelHeight.whole, 5);
  const drawn = plot.series.map(({ points }, index) => {
    const colour = colourOf(index);
    const places = points.map(([at, value]) => `${pixel(x.at(at))},${pixel(y.at(value))}`);
    if (plot.kind === "lines")
      return `<polyline points="${places.join(" ")}" fill="none" stroke="${colour}" stroke-width="1.8"/>`;
    return points
      .map(
        ([at, value]) =>
          `<circle cx="${pixel(x.at(at))}" cy="${pixel(y.at(value))}" r="2.2" fill="${colour}" fill-opacity="0.7"/>`,
      )
      .join("");
  });
  const bottom = margin.top + panelHeight.whole;
  const height = bottom + margin.bottom;
  const legend = plot.series.map(
    ({ name }, index) =>
      `<rect x="${margin.left + index * 160}" y="6" width="10" height="10" fill="${colourOf(index)}"/>` +
      `<text x="${margin.left + index * 160 + 15}" y="15" class="series">${escaped(name)}</text>`,
  );
  return picture(plot, height, [
    yAxis(y),
    ...drawn,
    ...legend,
    xAxis(x, bottom),
    axisTitles(plot, height, bottom),
  ]);
}

function picture(plot: Plot, height: number, parts: readonly string[]): string {
  return (
    `<svg viewBox="0 0 ${width} ${pixel(height)}" role="img" aria-label="${escaped(plot.title)}" xmlns="http://www.w3.org/2000/svg">` +
    `<title>${escaped(plot.title)}</title>${parts.join("")}</svg>`
  );
}

function horizontal({ series }: Plot): Scale {
  const values = series.flatMap(({ points }) => points.map(([at]) => at));
  return linearScale(values, margin.left, width - margin.right, 10);
}

function vertical({ series }: Plot, top: number, height: number, ticks: number): Scale {
  const values = series.flatMap(({ points }) => points.map(([, value]) => value));
  return linearScale(values, top + height, top, ticks);
}

function xAxis(x: Scale, bottom: number): string {
  return x.ticks
    .map(
      (tick) =>
        `<line x1="${pixel(x.at(tick))}" x2="${pixel(x.at(tick))}" y1="${bottom}" y2="${bottom + 4}" class="axis"/>` +
        `<text x="${pixel(x.at(tick))}" y="${bottom + 17}" class="tick" text-anchor="middle">${shownNumber(tick)}</text>`,
    )
    .join("");
}

function yAxis(y: Scale): string {
  return y.ticks
    .map(
      (tick) =>
        `<line x1="${margin.left}" x2="${width - margin.right}" y1="${pixel(y.at(tick))}" y2="${pixel(y.at(tick))}" class="grid"/>` +
        `<text x="${margin.left - 6}" y="${pixel(y.at(tick) + 4)}" class="tick" text-anchor="end">${shownNumber(tick)}</text>`,
    )
    .join("");
}

function axisTitles({ x, y }: Plot, height: number, bottom: number): string {
  const middle = (margin.top + bottom) / 2;
  return (
    `<text x="${(margin.left + width - margin.right) / 2}" y="${pixel(height - 6)}" class="tick" text-anchor="middle">${escaped(x)}</text>` +
    `<text x="14" y="${pixel(middle)}" class="tick" text-anchor="middle" transform="rotate(-90 14 ${pixel(middle)})">${escaped(y)}</text>`
  );
}

/** The distance of neighbouring bars; 1 where there are none. */
function narrowestStep(series: readonly Series[]): number {
  const steps = series.flatMap(({ points }) =>
    points.slice(1).map(([at], index) => at - (points[index]?.[0] ?? at)),
  );
  return Math.min(...steps.filter((step) => step > 0), Number.POSITIVE_INFINITY) === Number.POSITIVE_INFINITY
    ? 1
    : Math.min(...steps.filter((step) => step > 0));
}

function colourOf(index: number): string {
  return colours[index % colours.length] as string;
}

function pixel(value: number): string {
  return String(Math.round(value * 10) / 10);
}

type Scale = {
  readonly ticks: readonly number[];
  at(value: number): number;
};

/** `from` and `to` are pixels; `to` may be the smaller one, as on a vertical axis. */
export function linearScale(values: readonly number[], from: number, to: number, wanted: number): Scale {
  const low = Math.min(0, ...values);
  const high = Math.max(low + 1e-9, ...values);
  const step = roundStep((high - low) / wanted);
  const first = Math.floor(low / step) * step;
  const last = Math.ceil(high / step - 1e-9) * step;
  const count = Math.max(1, Math.round((last - first) / step));
  const ticks = Array.from({ length: count + 1 }, (_, index) => first + index * step);
  return { ticks, at: (value) => from + ((value - first) / (last - first)) * (to - from) };
}

/** 1, 2 or 5 times a power of ten, at least as large. */
export function roundStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= step * (1 - 1e-9)) ?? 10;
  return factor * power;
}

/** At most three digits after the point, and none that say nothing. */
export function shownNumber(value: number): string {
  return Number(value.toFixed(3)).toLocaleString("en-US", { maximumFractionDigits: 3 });
}

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

type PageFacts = {
  /** How to make it again. */
  readonly command: string;
  readonly version: string;
  /** As in 2026-11-15 21:04 UTC. */
  readonly time: string;
};

export function reportPage(run: DrillRun, { command, version, time }: PageFacts): string {
  const isMet = run.verdict === "met";
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Drill ${escaped(run.name)}: ${run.verdict}</title>
<style>${style}</style>
</head>
<body>
<main>
<p class="kind">Interlock ${escaped(version)} &middot; drill</p>
<h1>${escaped(run.name)}</h1>
<p class="question">${escaped(run.question)}</p>
<p><strong class="${isMet ? "good" : "bad"}">Expectation ${run.verdict}.</strong> ${escaped(run.expectation)}</p>
<p class="facts">${escaped(run.target)} &middot; ${run.size} size &middot; ${(run.tookMs / 1000).toFixed(1)} s &middot; ${escaped(time)}</p>
<pre>${escaped(command)}</pre>
<h2>Steps</h2>
<ol>${run.steps.map((step) => `<li>${escaped(step)}</li>`).join("")}</ol>
<h2>Checks</h2>
${checksTable(run.checks)}
${run.plots.map(figure).join("\n")}
${run.tables.map(tableSection).join("\n")}
<p class="facts">The raw data is in <a href="${escaped(run.name)}.json">${escaped(run.name)}.json</a>.</p>
</main>
</body>
</html>
`;
}

function checksTable(checks: readonly Check[]): string {
  const rows = checks.map(
    ({ what, expected, seen, holds }) =>
      `<tr><td class="${holds ? "good" : "bad"}">${holds ? "yes" : "NO"}</td><td>${escaped(what)}</td><td>${escaped(expected)}</td><td>${escaped(seen)}</td></tr>`,
  );
  return `<table><thead><tr><th>Holds</th><th>What</th><th>Expected</th><th>Seen</th></tr></thead><tbody>${rows.join("")}</tbody></table>`;
}

function tableSection({ title, columns, rows }: Table): string {
  const head = columns.map((column) => `<th>${escaped(column)}</th>`).join("");
  const body = rows.map(
    (row) =>
      `<tr>${row.map((cell) => `<td${typeof cell === "number" ? ' class="number"' : ""}>${escaped(String(cell))}</td>`).join("")}</tr>`,
  );
  return `<h2>${escaped(title)}</h2><table><thead><tr>${head}</tr></thead><tbody>${body.join("")}</tbody></table>`;
}

function figure(plot: Plot): string {
  const note = plot.note === undefined ? "" : `<figcaption>${escaped(plot.note)}</figcaption>`;
  return `<h2>${escaped(plot.title)}</h2><figure>${plotSvg(plot)}${note}</figure>`;
}

const style = `
:root { color-scheme: light dark; --ink: #1c2330; --quiet: #5b6472; --paper: #ffffff; --line: #dfe3ea; --good: #19703a; --bad: #b3261e;
  --one: #2f6fde; --two: #d9730d; --three: #19906b; --four: #a03bb8; --five: #b3261e; --six: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --quiet: #9aa3b2; --paper: #14171d; --line: #2c323d; --good: #5fcf8b; --bad: #ff8a80;
  --one: #7aa7ff; --two: #ffb066; --three: #5fd1ab; --four: #d99bea; --five: #ff8a80; --six: #9aa3b2; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 900px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { margin: 0 0 4px; font-size: 28px; } h2 { margin: 32px 0 8px; font-size: 18px; }
.kind, .facts, figcaption { color: var(--quiet); font-size: 14px; } .question { font-size: 18px; margin: 0 0 12px; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
pre { background: color-mix(in srgb, var(--line) 45%, transparent); padding: 10px 12px; overflow-x: auto; border-radius: 6px; font-size: 13px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; } th, td { text-align: left; padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 0; } svg { width: 100%; height: auto; } .series { font: 13px system-ui, sans-serif; fill: var(--ink); }
.tick { font: 12px system-ui, sans-serif; fill: var(--quiet); } .grid { stroke: var(--line); } .axis { stroke: var(--quiet); }
`;
