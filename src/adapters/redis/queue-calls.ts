// The operations on gates and on the runs that wait at them as script calls.
import type { GateId } from "../../domain/gates.ts";
import type { RunId } from "../../domain/run.ts";
import type { GateState } from "../../ports/queue-operations.ts";
import type { StoreOf } from "../../ports/store.ts";
import { unencoded } from "./keys.ts";
import { headerFields, parseHeaders, parseWoken, settingsArgs } from "./run-format.ts";
import { credentialWord, type ScriptCalls } from "./script-call.ts";

export const queueCalls: ScriptCalls<keyof StoreOf<"queues">> = {
  handOn: {
    keys: (keys) => [keys.start, keys.due],
    args: ({ tenant, gate }, settings) => [...settingsArgs(settings), tenant, unencoded("gate", gate)],
    read: {
      handed_on: ([woken, more]) => ({ woken: woken as readonly RunId[], more: more === 1 }),
    },
  },
  listGates: {
    keys: (keys) => [keys.start, keys.due],
    args: ({ tenant, after, limit }) => [tenant, after, String(limit)],
    read: {
      listed: ([rows, queued]) => ({
        gates: (rows as readonly GateRow[]).map(parseGate),
        queued: Number(queued),
      }),
    },
  },
  inspectGate: {
    keys: (keys) => [keys.start, keys.due],
    args: ({ tenant, gate, limit }) => [tenant, unencoded("gate", gate), String(limit), ...headerFields],
    read: {
      gate: ([row, holders, queue], { tenant }) => ({
        state: parseGate(row as GateRow),
        holders: parseHeaders(tenant, holders),
        queue: parseHeaders(tenant, queue),
      }),
    },
  },
  moveQueued: {
    keys: (keys) => [keys.start, keys.due],
    args: ({ tenant, runId, to, moveId, actor, credential }, settings) => [
      ...settingsArgs(settings),
      tenant,
      unencoded("run id", runId),
      String(to),
      actor,
      credentialWord(credential),
      unencoded("move id", moveId),
    ],
    read: {
      moved: ([gate, woken]) => ({ gate: gate as GateId, ...parseWoken(woken) }),
    },
  },
};

/** An absent limit is an empty text. */
type GateRow = readonly [gate: GateId, limit: string | number, active: number, waiting: number];

function parseGate([gate, limit, active, waiting]: GateRow): GateState {
  const state = { gate, active: Number(active), waiting: Number(waiting) };
  return limit === "" ? state : { ...state, limit: Number(limit) };
}
