// Where a run stands at its gates, by its own state.
import { orderedNumber, type StoredRun } from "../../../src/adapters/operations/records.ts";
import { type GateId, headLevel, type QueuePlace, tenantGate } from "../../../src/domain/gates.ts";
import { isTerminal } from "../../../src/domain/run.ts";

export type GatePosition = {
  /** In which it holds a place. */
  readonly held: readonly GateId[];
  /** Absent unless it waits. */
  readonly waiting?: Waiting;
  /** What it stands under in the set of a gate. */
  readonly member: string;
  /** Of the tenant's own gate. */
  readonly slot: string;
  readonly deadlineAtMs: number;
  /** When its rate lets it go on to its first gate; absent unless it waits for that. */
  readonly startsAtMs?: number;
};

export type Waiting = QueuePlace & {
  readonly gate: GateId;
  /** At the head level each run is a key of its own. */
  readonly key: string;
  readonly weight: number;
  readonly agingMs: number;
};

/** Undefined for what has no place of its own: a run that has ended, is gone, or belongs to another. */
export function positionOf(state: StoredRun | undefined): GatePosition | undefined {
  if (state === undefined || state.deleted || state.parent !== undefined || isTerminal(state.status))
    return undefined;
  const { runId, gates, admittedAtMs } = state;
  const slot = `${orderedNumber(admittedAtMs)} ${runId}`;
  if (gates === undefined) return { held: [tenantGate], member: slot, slot, deadlineAtMs: 0 };
  const ids = gates.gates.map(({ gate }) => gate);
  const { held, waits, deadlineAtMs, startsAtMs, askedAtMs, fairnessKey, weight, agingMs } = gates;
  const position = {
    held: ids.slice(0, held),
    member: `${orderedNumber(askedAtMs)} ${runId}`,
    slot,
    deadlineAtMs,
    ...(startsAtMs === undefined ? {} : { startsAtMs }),
  };
  const gate = ids[held];
  if (waits === undefined || gate === undefined) return position;
  const key = waits.level === headLevel ? runId : fairnessKey;
  return { ...position, waiting: { ...waits, gate, key, weight, agingMs } };
}
