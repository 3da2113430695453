// Canaries as the HTTP contract shows them: both sides by their measures, never their raw counts.
import type { CanaryStatus } from "../control/canaries/canaries.ts";
import type { Canary } from "../domain/canary.ts";
import {
  type ArmSamples,
  type CanaryMetric,
  canaryMetricNames,
  guardText,
  measure,
} from "../domain/canary-guard.ts";
import { formatTime } from "../domain/engine/rfc3339.ts";

const windowsShown = 10;

export function canaryView(canary: Canary) {
  const { id, tenant, policies, percent, state, reason, decidedBy, endedAtMs } = canary;
  return {
    id,
    ...(tenant === undefined ? {} : { tenant: tenant as string }),
    ...{ policies, percent, state },
    ...(reason === undefined ? {} : { reason }),
    started_by: canary.startedBy,
    ...(decidedBy === undefined ? {} : { decided_by: decidedBy }),
    started_at: formatTime(canary.startedAtMs),
    ends_at: formatTime(canary.endsAtMs),
    ...(endedAtMs === undefined ? {} : { ended_at: formatTime(endedAtMs) }),
    window_seconds: canary.windowMs / 1_000,
    samples_min: canary.samplesMin,
    windows_in_a_row: canary.windowsInARow,
    guards: canary.guards.map(guardText),
  };
}

export function canaryStatusView({ canary, book, standings, missing, nowMs }: CanaryStatus) {
  const { startedAtMs, windowMs, endedAtMs = nowMs } = canary;
  const minutes = Math.max(1 / 60, (endedAtMs - startedAtMs) / 60_000);
  return {
    ...canaryView(canary),
    arms: {
      canary: armView(book.totals.canary, minutes),
      control: armView(book.totals.control, minutes),
    },
    standings: standings.map(({ guard, latest, brokenInARow }) => ({
      guard: guardText(guard),
      verdict: latest.verdict,
      canary: rounded(latest.canary),
      control: rounded(latest.control),
      broken_in_a_row: brokenInARow,
    })),
    windows: book.windows.slice(-windowsShown).map(({ window, arms }) => ({
      number: window,
      started_at: formatTime(startedAtMs + window * windowMs),
      canary: windowView(arms.canary),
      control: windowView(arms.control),
    })),
    missing: [...missing],
  };
}

function armView(samples: ArmSamples, minutes: number) {
  return {
    results: samples.results,
    busy_retries: samples.busyRetries,
    busy_retries_per_minute: rounded(samples.busyRetries / minutes) ?? 0,
    starts: samples.starts,
    starts_unavailable: samples.startsUnavailable,
    measures: measuresOf(samples),
  };
}

function windowView(samples: ArmSamples) {
  return { results: samples.results, starts: samples.starts, measures: measuresOf(samples) };
}

function measuresOf(samples: ArmSamples): Record<CanaryMetric, number | null> {
  const measured = canaryMetricNames.map((metric) => [metric, rounded(measure(metric, samples))]);
  return Object.fromEntries(measured) as Record<CanaryMetric, number | null>;
}

function rounded(value: number | undefined): number | null {
  return value === undefined ? null : Number(value.toPrecision(6));
}
