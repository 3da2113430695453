// Plots as SVG text, without any library or outside file: bars below each other, or lines and dots in one picture.
import type { Plot, Series } from "../drill.ts";

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

export function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
