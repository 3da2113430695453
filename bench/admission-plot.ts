// Draws the admission benchmark's plot: p99 by strategy, one panel per store and number of simultaneous starts.
import * as Plot from "@observablehq/plot";
import { parseHTML } from "linkedom";
import { burstName, limits } from "./admission-plan.ts";
import { formatNumber, type Lookup } from "./report.ts";
import { type Strategy, storeKinds, strategies } from "./targets.ts";

type Column = {
  readonly panel: string;
  /** Strategy and limit, in the order of the columns of a panel. */
  readonly place: string;
  readonly strategy: Strategy;
  readonly p99Ms: number;
};

const colours: Readonly<Record<Strategy, string>> = {
  "lock-fixed": "#b5484c",
  "lock-jitter": "#dd8f4f",
  atomic: "#2a7f62",
};

export function admissionPlot({ value }: Lookup, sizes: readonly number[]): string {
  const columns = storeKinds.flatMap((kind) =>
    sizes.flatMap((size) =>
      strategies.flatMap((strategy) =>
        limits.map((limit) => ({
          panel: `${kind}, ${formatNumber(size)} starts at once`,
          place: `${strategy} ${limit}`,
          strategy,
          p99Ms: value(`${burstName({ kind, strategy }, size, limit)}.p99_ms`),
        })),
      ),
    ),
  );
  return draw(columns);
}

function draw(columns: readonly Column[]): string {
  const { document } = parseHTML("<!doctype html><html><body></body></html>");
  const times = columns.map(({ p99Ms }) => p99Ms);
  // A logarithmic scale has no zero to stand on: columns begin at the power of ten below the smallest.
  const bottomMs = 10 ** Math.floor(Math.log10(Math.min(...times)) - 0.1);
  const panels = [...new Set(columns.map(({ panel }) => panel))];
  const column = { fx: "panel", x: "place" } as const;
  const svg = Plot.plot({
    document,
    width: 1100,
    height: 440,
    marginTop: 70,
    marginLeft: 60,
    marginRight: 10,
    marginBottom: 50,
    style: { fontFamily: "sans-serif", fontSize: "12px", background: "white" },
    fx: { label: null, domain: panels, padding: 0.08 },
    x: {
      label: "limit",
      domain: strategies.flatMap((strategy) => limits.map((limit) => `${strategy} ${limit}`)),
      tickFormat: (place: string) => place.split(" ")[1] ?? "",
      tickSize: 0,
      padding: 0.12,
    },
    y: {
      type: "log",
      domain: [bottomMs, Math.max(...times) * 1.6],
      label: "p99, ms",
      grid: true,
      tickFormat: (ms: number) => (Number.isInteger(Math.log10(ms)) ? ms.toLocaleString("en-US") : ""),
    },
    color: { domain: [...strategies], range: strategies.map((strategy) => colours[strategy]) },
    marks: [
      Plot.barY(columns, { ...column, y1: bottomMs, y2: "p99Ms", fill: "strategy" }),
      Plot.text(columns, {
        ...column,
        y: "p99Ms",
        text: ({ p99Ms }: Column) => formatNumber(p99Ms),
        dy: -7,
        fontSize: 10,
      }),
      ...legend(panels[0] ?? ""),
    ],
  });
  svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return `${svg.outerHTML}\n`;
}

/** Plot's own legend is HTML around the picture; this one is inside it. */
function legend(panel: string) {
  return strategies.flatMap((strategy, index) => {
    const common = { fx: () => panel, frameAnchor: "top-left", fill: colours[strategy] } as const;
    const dx = index * 95;
    return [
      Plot.dot([strategy], { ...common, symbol: "square", r: 5, dx: dx + 6, dy: -52 }),
      Plot.text([strategy], { ...common, text: () => strategy, textAnchor: "start", dx: dx + 16, dy: -56 }),
    ];
  });
}
