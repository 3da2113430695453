// Scales of a plot: from values to pixels, and the round numbers that stand at its axes.
export type Scale = {
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
