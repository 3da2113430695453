// A run's status moves forward only: queued, pending, then running or waiting, then one end that stays.
import { type Finding, standingOf } from "./finding.ts";
import { groupBy } from "./group-by.ts";
import type { History } from "./history.ts";
import { isEnded, type Observation, observationsOf } from "./run-evidence.ts";

export function checkStatuses(history: History): Finding[] {
  const byRun = groupBy(observationsOf(history), ({ runId }) => runId);
  return [...byRun.values()].flatMap((seen) => {
    const finding = checkEnds(history, seen) ?? checkOrder(history, seen);
    return finding === undefined ? [] : [finding];
  });
}

function rankOf(status: string): number {
  if (isEnded(status)) return 2;
  if (status === "queued") return -1;
  return status === "pending" ? 0 : 1;
}

/** However the readings overlap, a run has one end. */
function checkEnds(history: History, seen: readonly Observation[]): Finding | undefined {
  const ended = seen.filter(({ status }) => isEnded(status));
  const [first] = ended;
  const other = ended.find(({ status }) => status !== first?.status);
  if (first === undefined || other === undefined) return undefined;
  return found(history, first, other, `run ${first.runId} was seen ${first.status} and ${other.status}`);
}

/** A reading that was asked for after another was answered shows nothing earlier. */
function checkOrder(history: History, seen: readonly Observation[]): Finding | undefined {
  const asked = [...seen].sort((left, right) => left.fromUs - right.fromUs);
  const answered = [...seen].sort((left, right) => left.toUs - right.toUs);
  let furthest: Observation | undefined;
  let next = 0;
  for (const later of asked) {
    for (let done = answered[next]; done !== undefined && done.toUs < later.fromUs; done = answered[next]) {
      if (furthest === undefined || rankOf(done.status) > rankOf(furthest.status)) furthest = done;
      next += 1;
    }
    if (furthest === undefined || rankOf(later.status) >= rankOf(furthest.status)) continue;
    const sentence = `run ${later.runId} was ${furthest.status}, and ${later.status} after that`;
    return found(history, furthest, later, sentence);
  }
  return undefined;
}

function found(history: History, first: Observation, other: Observation, sentence: string): Finding {
  const fromUs = Math.min(first.fromUs, other.fromUs);
  const standing = standingOf(history, { fromUs, toUs: Math.max(first.toUs, other.toUs) });
  return { invariant: "INV-17", standing, sentence, records: [...first.records, ...other.records] };
}
