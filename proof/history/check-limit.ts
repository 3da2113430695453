// How many runs of a tenant certainly lived at once, held against every limit that may have been in force when the last was admitted.
import { type Finding, standingOf } from "./finding.ts";
import { groupBy } from "./group-by.ts";
import { answeredAtUs, type Call, type History } from "./history.ts";
import { isEnded, type KnownRun, knownRunsOf } from "./run-evidence.ts";

/** A limit that may have been in force from its request until a later one was certainly in its place. */
type LimitSpan = {
  readonly limit: number;
  readonly fromUs: number;
  readonly untilUs: number;
  readonly call?: Call;
};

export function checkLimits(history: History): Finding[] {
  const byTenant = groupBy(knownRunsOf(history).values(), ({ tenant }) => tenant);
  return [...byTenant].flatMap(([tenant, runs]) => checkTenant(history, tenant, runs));
}

function checkTenant(history: History, tenant: string, runs: readonly KnownRun[]): Finding[] {
  const limits = limitsOf(history, tenant);
  const lowest = Math.min(...limits.map(({ limit }) => limit));
  const living = new Set<KnownRun>();
  const ends = runs.filter(({ existsUs, livesUntilUs }) => livesUntilUs > existsUs);
  const begins = [...ends].sort((left, right) => left.existsUs - right.existsUs);
  ends.sort((left, right) => left.livesUntilUs - right.livesUntilUs);
  let ended = 0;
  for (const run of begins) {
    for (let end = ends[ended]; end !== undefined && end.livesUntilUs < run.existsUs; end = ends[ended]) {
      living.delete(end);
      ended += 1;
    }
    living.add(run);
    if (living.size <= lowest) continue;
    const finding = judge(history, tenant, living, limits);
    // What follows from one run too many is not told again for each further one.
    if (finding !== undefined) return [finding];
  }
  return [];
}

/**
 * All of these lived together when the last of them was admitted. Whichever that was, it was not admitted before the latest
 * request among them, nor after the latest answer.
 */
function judge(
  history: History,
  tenant: string,
  living: ReadonlySet<KnownRun>,
  limits: readonly LimitSpan[],
): Finding | undefined {
  const runs = [...living];
  const fromUs = Math.max(...runs.map(({ mayBeginUs }) => mayBeginUs));
  const toUs = Math.max(...runs.map(({ existsUs }) => existsUs));
  const possible = limits.filter((span) => span.fromUs <= toUs && span.untilUs > fromUs);
  const highest = Math.max(...possible.map(({ limit }) => limit));
  if (runs.length <= highest) return undefined;
  const firstUs = Math.min(
    ...runs.map(({ mayBeginUs }) => mayBeginUs),
    ...possible.map((span) => span.fromUs),
  );
  return {
    invariant: "INV-1",
    standing: standingOf(history, { fromUs: firstUs, toUs }),
    sentence: `${runs.length} runs of ${tenant} lived at once, and its limit was at most ${highest}`,
    records: [
      ...runs.flatMap(({ records }) => records),
      ...possible.flatMap(({ call }) => call?.records ?? []),
    ],
  };
}

function limitsOf({ setting, callsOf }: History, tenant: string): LimitSpan[] {
  const calls = callsOf("set_limit").filter(
    ({ operation, completion }) => operation.tenant === tenant && completion.kind !== "fail",
  );
  /** The answer of the first that was both asked for and answered after this moment. */
  const nextUs = supersededBy(calls);
  const initial = {
    limit: setting.limits[tenant] ?? Number.POSITIVE_INFINITY,
    fromUs: Number.NEGATIVE_INFINITY,
    untilUs: nextUs(Number.NEGATIVE_INFINITY),
  };
  const asked = calls.map((call) => ({
    limit: call.operation.limit,
    fromUs: call.invokedAtUs,
    // One without an answer may come at any time: nothing later is certain to be in its place.
    untilUs: nextUs(answeredAtUs(call)),
    call,
  }));
  return [initial, ...asked];
}

function supersededBy(calls: readonly Call[]): (afterUs: number) => number {
  const answered = calls.filter(({ completion }) => completion.kind === "ok");
  // From the last one back: the earliest answer among those that were asked for at or after it.
  const earliest: number[] = [];
  for (let index = answered.length - 1; index >= 0; index -= 1) {
    const atUs = answeredAtUs(answered[index] as Call);
    earliest[index] = Math.min(atUs, earliest[index + 1] ?? Number.POSITIVE_INFINITY);
  }
  return (afterUs) => {
    let [low, high] = [0, answered.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((answered[middle] as Call).invokedAtUs > afterUs) high = middle;
      else low = middle + 1;
    }
    return earliest[low] ?? Number.POSITIVE_INFINITY;
  };
}

export function checkSlots(history: History): Finding[] {
  const started = knownRunsOf(history);
  const open = history
    .finalsOf("run")
    .filter(
      ({ runId, status }) =>
        started.has(runId) && !["missing", "queued"].includes(status) && !isEnded(status),
    );
  const openOf = groupBy(open, ({ tenant }) => tenant);
  return history.finalsOf("tenant").flatMap(({ tenant, activeRuns, record }): Finding[] => {
    const runs = openOf.get(tenant) ?? [];
    const records = [record, ...runs.map((run) => run.record)];
    if (runs.length > activeRuns) {
      const sentence = `${runs.length} runs of ${tenant} have not ended, and ${activeRuns} slots are taken`;
      return [{ invariant: "INV-2", standing: "promised", sentence, records }];
    }
    if (activeRuns === 0) return [];
    const sentence = `${activeRuns} slots of ${tenant} are taken in the end`;
    return [{ invariant: "INV-3", standing: "promised", sentence, records }];
  });
}
