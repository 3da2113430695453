// A history and its verdict in numbers, and those as lines of text.
import type { Verdict } from "./check-history.ts";
import type { Standing } from "./finding.ts";
import { groupBy } from "./group-by.ts";
import { type Call, type History, okAnswer } from "./history.ts";

type Counts = { readonly ok: number; readonly fail: number; readonly unknown: number };
type Latencies = { readonly p50Ms: number; readonly p99Ms: number; readonly maxMs: number };

export type Summary = {
  readonly verdict: Verdict["kind"];
  readonly startedAt: string;
  readonly seed: number;
  readonly durability: string;
  readonly seconds: number;
  readonly operations: Readonly<Record<string, Counts>>;
  readonly operationsTotal: number;
  readonly okFraction: number;
  readonly refusals: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
  readonly faultsTotal: number;
  /** `INV-6`: how often it is broken, by what is promised and what is not. */
  readonly findings: Readonly<Record<string, Readonly<Record<Standing, number>>>>;
  readonly voidReasons: readonly string[];
  /** What must be seen sometimes for the checks to have had anything to do. */
  readonly seen: Readonly<Record<string, number>>;
  /** The longest time in which no operation succeeded. */
  readonly longestUnavailableMs: number;
  readonly latencies: Readonly<Record<string, Latencies>>;
};

export function summarize(history: History, verdict: Verdict): Summary {
  const { calls, faults, setting } = history;
  const byOperation = [...groupBy(calls, ({ operation }) => operation.operation)];
  const ok = calls.filter(({ completion }) => completion.kind === "ok").length;
  const times = timesOf(history);
  return {
    verdict: verdict.kind,
    startedAt: setting.startedAt,
    seed: setting.seed,
    durability: setting.durability,
    seconds: (times.lastUs - times.firstUs) / 1e6,
    operations: Object.fromEntries(byOperation.map(([name, each]) => [name, countsOf(each)])),
    operationsTotal: calls.length,
    okFraction: calls.length === 0 ? 0 : ok / calls.length,
    refusals: count(calls.flatMap(({ completion }) => (completion.kind === "fail" ? [completion.code] : []))),
    faults: count(faults.map(({ name }) => name)),
    faultsTotal: faults.length,
    findings: findingsOf(verdict),
    voidReasons: verdict.voidReasons,
    seen: seenIn(history),
    longestUnavailableMs: longestUnavailableUs(times) / 1000,
    latencies: Object.fromEntries(
      byOperation.flatMap(([name, each]) => {
        const latencies = latenciesOf(each);
        return latencies === undefined ? [] : [[name, latencies] as const];
      }),
    ),
  };
}

function count(names: readonly string[]): Record<string, number> {
  const counted = [...groupBy(names, (name) => name)].map(([name, each]) => [name, each.length] as const);
  return Object.fromEntries(counted.sort(([, left], [, right]) => right - left));
}

function countsOf(calls: readonly Call[]): Counts {
  const { ok = 0, fail = 0, unknown = 0 } = count(calls.map(({ completion }) => completion.kind));
  return { ok, fail, unknown };
}

type Times = { readonly firstUs: number; readonly lastUs: number; readonly okUs: readonly number[] };

function timesOf({ calls }: History): Times {
  const okUs: number[] = [];
  let lastUs = calls[0]?.invokedAtUs ?? 0;
  for (const { completion, invokedAtUs } of calls) {
    if (completion.kind === "ok") okUs.push(completion.atUs);
    lastUs = Math.max(lastUs, completion.kind === "unknown" ? invokedAtUs : completion.atUs);
  }
  okUs.sort((left, right) => left - right);
  return { firstUs: calls[0]?.invokedAtUs ?? 0, lastUs, okUs };
}

function longestUnavailableUs({ firstUs, lastUs, okUs }: Times): number {
  let [longest, beforeUs] = [0, firstUs];
  for (const atUs of [...okUs, lastUs]) {
    longest = Math.max(longest, atUs - beforeUs);
    beforeUs = atUs;
  }
  return longest;
}

function latenciesOf(calls: readonly Call[]): Latencies | undefined {
  const tookUs = calls.flatMap(({ completion, invokedAtUs }) =>
    completion.kind === "ok" ? [completion.atUs - invokedAtUs] : [],
  );
  if (tookUs.length === 0) return undefined;
  tookUs.sort((left, right) => left - right);
  const at = (fraction: number) => (tookUs[Math.ceil(fraction * tookUs.length) - 1] ?? 0) / 1000;
  return { p50Ms: at(0.5), p99Ms: at(0.99), maxMs: at(1) };
}

function findingsOf({ findings }: Verdict): Record<string, Record<Standing, number>> {
  return Object.fromEntries(
    [...groupBy(findings, ({ invariant }) => invariant)].map(([invariant, found]) => {
      const { promised = 0, excused = 0 } = count(found.map(({ standing }) => standing));
      return [invariant, { promised, excused }];
    }),
  );
}

function seenIn(history: History): Record<string, number> {
  const starts = history.callsOf("start");
  const answered = new Set(
    starts.flatMap((call) =>
      okAnswer(call, "run") === undefined ? [] : [`${call.operation.tenant} ${call.operation.key}`],
    ),
  );
  const resolved = starts.filter(
    ({ operation: { tenant, key }, completion }) =>
      completion.kind === "unknown" && key !== undefined && answered.has(`${tenant} ${key}`),
  );
  const jobs = history.callsOf("claim").flatMap((call) => okAnswer(call, "claimed")?.jobs ?? []);
  const lost = history.finalsOf("run").filter(({ status }) => status === "missing");
  return {
    "runs started": starts.filter((call) => okAnswer(call, "run")?.replayed === false).length,
    "starts answered with an earlier run": starts.filter((call) => okAnswer(call, "run")?.replayed).length,
    "unknown starts resolved by repeating": resolved.length,
    "jobs given": jobs.length,
    "jobs given again": jobs.filter(({ attempt }) => attempt > 1).length,
    "stale writes refused outside": history.writes.filter(({ accepted }) => !accepted).length,
    "dead letters": history.finalsOf("dead_letters").reduce((sum, letters) => sum + letters.count, 0),
    "runs missing in the end": lost.length,
  };
}

export function summaryLines(summary: Summary): string[] {
  const { operations, refusals, faults, findings, seen, latencies } = summary;
  const list = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .map(([name, times]) => `${name} ${times}`)
      .join(", ") || "none";
  const milliseconds = (ms: number) => `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
  return [
    `history of ${summary.startedAt}, seed ${summary.seed}, durability ${summary.durability}: ${summary.seconds.toFixed(0)} s, ` +
      `${summary.operationsTotal} operations (${(summary.okFraction * 100).toFixed(0)} % ok), ${summary.faultsTotal} faults`,
    ...Object.entries(operations).map(([name, { ok, fail, unknown }]) => {
      const { p50Ms, p99Ms, maxMs } = latencies[name] ?? { p50Ms: 0, p99Ms: 0, maxMs: 0 };
      const times = `p50 ${milliseconds(p50Ms)}, p99 ${milliseconds(p99Ms)}, longest ${milliseconds(maxMs)}`;
      return `  ${name}: ${ok} ok, ${fail} refused, ${unknown} unknown; ${times}`;
    }),
    `refusals: ${list(refusals)}`,
    `faults: ${list(faults)}`,
    `seen: ${list(seen)}`,
    `longest time without a success: ${milliseconds(summary.longestUnavailableMs)}`,
    ...Object.entries(findings).map(([invariant, { promised, excused }]) => {
      return `${invariant} is broken ${promised} times as promised, ${excused} times by what a failover may lose`;
    }),
    ...summary.voidReasons.map((reason) => `void: ${reason}`),
    verdictLine(summary.verdict),
  ];
}

function verdictLine(verdict: Verdict["kind"]): string {
  switch (verdict) {
    case "good":
      return "No promise was broken.";
    case "broken":
      return "Promises were broken.";
    case "void":
      return "This history proves nothing.";
  }
}
