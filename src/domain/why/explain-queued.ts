// Explains a run that waits for its rate or for a place at a gate: where, behind whom, what frees a place and when that may be.
import { formatTime } from "../engine/rfc3339.ts";
import type { GateId } from "../gates.ts";
import { tenantGate } from "../gates.ts";
import type { RunHeader, RunId } from "../run.ts";
import {
  type Explanation,
  type LiveRunFacts,
  type Part,
  type QueueItem,
  type RateItem,
  slotHolder,
  stoppedItem,
} from "./explanation.ts";
import { rateItem, rateSentence } from "./why-limited.ts";

/** What is known of the gate where the run waits. */
export type GateFacts = {
  readonly limit?: number;
  readonly active: number;
  readonly waiting: number;
  readonly holders: readonly RunHeader[];
  /** From the next on, as far as it was read. */
  readonly queue: readonly RunHeader[];
};

type QueuedRunFacts = Pick<LiveRunFacts, "header" | "slots"> & {
  readonly nowMs: number;
  readonly gate: Part<GateFacts>;
  /** When runs that passed this gate ended lately. */
  readonly ends: readonly number[];
  /** Of a run that comes back; one that has not begun has none. */
  readonly openSteps?: number;
};

/** Of runs ahead and of holders in one answer. */
const shownMax = 5;

export function explainQueuedRun(facts: QueuedRunFacts): Explanation {
  const { header, gate, slots, openSteps = 0 } = facts;
  const rated = rateItem(header);
  const item = gate.kind === "known" && rated === undefined ? queueItem(facts, gate.value) : rated;
  const stopped = stoppedItem(facts);
  const isStopped =
    stopped.length > 0 ? " The tenant is stopped: nobody is let through until it goes on." : "";
  return {
    run_id: header.runId,
    workflow_id: header.workflow,
    status: header.status,
    since: formatTime(header.updatedAtMs),
    summary: `${sentenceOf(item)}${isStopped}`,
    waiting_for: [...stopped, ...(item === undefined ? [] : [item])],
    open_steps: openSteps,
    not_shown: 0,
    unanswered: [
      ...(item === undefined ? ["the gate where it waits"] : []),
      ...(slots.kind === "unanswered" ? ["the tenant's limit and kill switch"] : []),
    ],
  };
}

function sentenceOf(item: QueueItem | RateItem | undefined): string {
  if (item === undefined) return "The run waits for a place at a gate.";
  return item.kind === "start_rate" ? rateSentence(item) : queueSentence(item);
}

/** Undefined when the run has got its place meanwhile. */
function queueItem({ header, nowMs, ends }: QueuedRunFacts, known: GateFacts): QueueItem | undefined {
  const waits = header.gates?.waits;
  const gate = header.gates?.gates[header.gates.held]?.gate;
  if (header.gates === undefined || waits === undefined || gate === undefined) return undefined;
  const { limit, active, waiting, holders, queue } = known;
  const index = queue.findIndex(({ runId }) => runId === header.runId);
  const ahead = index < 0 ? queue : queue.slice(0, index);
  const position = index < 0 ? undefined : index + 1;
  const expectedMs = position === undefined ? undefined : expectedAt(ends, position, nowMs);
  return {
    kind: "queued",
    since: formatTime(waits.sinceMs),
    gate,
    ...(limit === undefined ? {} : { limit }),
    ...{ active, waiting },
    ...(position === undefined ? {} : { position }),
    ahead: ahead.slice(0, shownMax).map(slotHolder),
    holders: holders.slice(0, shownMax).map(slotHolder),
    ...(header.gates.released === true ? {} : { deadline_at: formatTime(header.gates.deadlineAtMs) }),
    ...(expectedMs === undefined ? {} : { expected_at: formatTime(expectedMs) }),
    detail: whoIsThere(ahead, holders),
    what_to_do: header.gates.released
      ? `Nothing: it has begun before, and goes on when a place is free, before all who have not begun. ${raise(gate)}`
      : remedy(gate, holders, position === 1 ? undefined : header.runId),
  };
}

/** Fewer ends say nothing, and those of longer ago belong to another time. */
const endsMin = 3;
const endsWithinMs = 3_600_000;

/** As if runs went on ending as often as they did lately. */
function expectedAt(ends: readonly number[], position: number, nowMs: number): number | undefined {
  const recent = ends.filter((endedAtMs) => nowMs - endedAtMs <= endsWithinMs);
  if (recent.length < endsMin) return undefined;
  return Math.round(nowMs + (position * (nowMs - Math.min(...recent))) / recent.length);
}

function whoIsThere(ahead: readonly RunHeader[], holders: readonly RunHeader[]): string {
  const before = ahead.length === 0 ? "It is the next." : `Before it: ${named(ahead)}.`;
  return holders.length === 0
    ? before
    : `${before} The end of one of these frees a place: ${named(holders)}.`;
}

function named(runs: readonly RunHeader[]): string {
  const shown = runs.slice(0, shownMax).map(({ runId, status }) => `${runId} (${status})`);
  return runs.length > shownMax ? `${shown.join(", ")} and others` : shown.join(", ");
}

function remedy(gate: GateId, holders: readonly RunHeader[], behind: RunId | undefined): string {
  const [oldest] = holders;
  const move =
    behind === undefined ? "" : ` To put it before all others: interlock queue move ${behind} --head.`;
  const end = oldest === undefined ? "" : ` Or end the oldest holder: interlock runs cancel ${oldest.runId}.`;
  return `Nothing: it begins when a place is free.${move}${end} ${raise(gate)}`;
}

function raise(gate: GateId): string {
  if (gate === tenantGate) return "Or raise max_concurrent_runs of the tenant.";
  if (gate.startsWith("named."))
    return `Or raise the limit of ${gate.slice("named.".length)} in the tenant's settings (gates).`;
  return "Or save the workflow with a larger max.";
}

export function queueSentence({ gate, limit, active, position, ahead, expected_at }: QueueItem): string {
  const full = limit === undefined ? "has no limit any more" : `has ${active} of ${limit} places taken`;
  const place =
    position === undefined ? `behind more than ${ahead.length} others` : `at position ${position}`;
  const when =
    expected_at === undefined
      ? "when is not known"
      : `if runs go on ending as lately, until about ${expected_at}`;
  return `The run waits ${place} at the gate ${gate}, which ${full}: ${when}.`;
}
