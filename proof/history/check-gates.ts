// How many runs certainly held a place of a gate at once, held against its limit; and that nobody waits at a gate in the end.
import { type Finding, standingOf } from "./finding.ts";
import { groupBy } from "./group-by.ts";
import { type History, okAnswer } from "./history.ts";
import type { HistoryRecord } from "./record.ts";
import { type KnownRun, knownRunsOf, parseJob } from "./run-evidence.ts";

/** A run that certainly had a place from its first effect to the last moment at which it had not ended. */
type Holder = {
  readonly gate: string;
  readonly limit: number;
  readonly run: KnownRun;
  readonly fromUs: number;
  readonly record: HistoryRecord;
};

export function checkGates(history: History): Finding[] {
  return [...groupBy(holdersOf(history), ({ gate }) => gate).values()].flatMap((holders) => {
    const finding = tooManyIn(history, holders);
    return finding === undefined ? [] : [finding];
  });
}

function holdersOf(history: History): Holder[] {
  const runs = knownRunsOf(history);
  const begun = firstEffects(history);
  const told = new Set<string>();
  return history.callsOf("start").flatMap((call) => {
    const { gates, tenant } = call.operation;
    const runId = okAnswer(call, "run")?.runId ?? "";
    const [run, first] = [runs.get(runId), begun.get(runId)];
    if (gates === undefined || run === undefined || first === undefined || told.has(runId)) return [];
    told.add(runId);
    return gates.split(" ").map((text) => {
      const [name = "", limit] = text.split("=");
      const gate = `${name} of ${tenant}`;
      return { gate, limit: Number(limit), run, fromUs: first.atUs, record: first.record };
    });
  });
}

/** A job exists once its run is admitted. */
function firstEffects({ effects }: History) {
  const first = new Map<string, (typeof effects)[number]>();
  for (const effect of effects) {
    const runId = parseJob(effect.jobId)?.runId;
    if (runId !== undefined && !first.has(runId)) first.set(runId, effect);
  }
  return first;
}

function tooManyIn(history: History, all: readonly Holder[]): Finding | undefined {
  const holders = all.filter(({ run, fromUs }) => run.livesUntilUs > fromUs);
  holders.sort((left, right) => left.fromUs - right.fromUs);
  let living: Holder[] = [];
  for (const next of holders) {
    living = living.filter(({ run }) => run.livesUntilUs >= next.fromUs);
    living.push(next);
    if (living.length <= next.limit) continue;
    const fromUs = Math.min(...living.map(({ run }) => run.mayBeginUs));
    return {
      invariant: "INV-31",
      standing: standingOf(history, { fromUs, toUs: next.fromUs }),
      sentence: `${living.length} runs had places of ${next.gate} at once, and its limit is ${next.limit}`,
      records: living.flatMap(({ run, record }) => [...run.records, record]),
    };
  }
  return undefined;
}

export function checkQueues(history: History): Finding[] {
  const left = history.finalsOf("run").filter(({ status }) => status === "queued");
  const runs = left.map(({ runId, tenant, record }): Finding => {
    const sentence = `run ${runId} of ${tenant} still waits at a gate in the end`;
    return { invariant: "INV-37", standing: "promised", sentence, records: [record] };
  });
  const counts = history.finalsOf("tenant").flatMap(({ tenant, queued = 0, record }): Finding[] => {
    if (queued === 0) return [];
    const sentence = `${queued} runs of ${tenant} count as waiting in the end`;
    return [{ invariant: "INV-37", standing: "promised", sentence, records: [record] }];
  });
  return [...runs, ...counts];
}
