// The operations on gates and on the runs that wait at them as script calls.
import type { BudgetId, LedgerId } from "../../domain/budgets.ts";
import type { GateId } from "../../domain/gates.ts";
import type { RunId } from "../../domain/run.ts";
import type { GateState, LedgerState } from "../../ports/queue-operations.ts";
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
  listLedgers: {
    keys: (keys) => [keys.start, keys.due],
    args: ({ tenant, after, limit }) => [tenant, after, String(limit)],
    read: { listed: ([rows]) => ({ ledgers: (rows as readonly LedgerRow[]).map(parseLedger) }) },
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

/** Whole numbers up to 2^53 - 1 come as texts; an amount that is not set is -1. */
type LedgerRow = readonly [
  ledger: LedgerId,
  spent: string,
  reserved: string,
  crossed: number,
  firstAtMs: string,
  amount: string,
  parked: number,
];

function parseLedger([ledger, spent, reserved, crossed, firstAtMs, amount, parked]: LedgerRow): LedgerState {
  const space = ledger.lastIndexOf(" ");
  return {
    ledger,
    budget: ledger.slice(0, space) as BudgetId,
    periodStartMs: Number(ledger.slice(space + 1)),
    spent: Number(spent),
    reserved: Number(reserved),
    crossed,
    firstAtMs: Number(firstAtMs),
    ...(amount === "-1" ? {} : { amount: Number(amount) }),
    parked,
  };
}

/** An absent limit is an empty text. */
type GateRow = readonly [gate: GateId, limit: string | number, active: number, waiting: number];

function parseGate([gate, limit, active, waiting]: GateRow): GateState {
  const state = { gate, active: Number(active), waiting: Number(waiting) };
  return limit === "" ? state : { ...state, limit: Number(limit) };
}
