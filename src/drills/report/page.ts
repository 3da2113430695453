// The report of a drill as one HTML page: verdict, checks, tables and plots, with nothing loaded from elsewhere.
import type { Check, Plot, Table } from "../drill.ts";
import type { DrillRun } from "../run-drill.ts";
import { escaped, plotSvg } from "./plot.ts";

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
