// Why a history proves nothing: too little succeeded, nothing was broken, or something was never tried or never read.
import { unreadRuns } from "./check-kept.ts";
import type { History, OperationName } from "./history.ts";

export type Needs = {
  /** Of all operations. */
  readonly okFractionMin: number;
  /** Each at least once with success. */
  readonly operations: readonly OperationName[];
};

export const usualNeeds: Needs = {
  okFractionMin: 0.3,
  operations: ["start", "cancel", "get", "set_limit", "decide", "claim", "report", "acquire", "release"],
};

export function voidReasons(history: History, { okFractionMin, operations }: Needs): string[] {
  return [
    ...tooFewOk(history, okFractionMin),
    ...withoutFaults(history),
    ...operations
      .filter((name) => !history.callsOf(name).some(({ completion }) => completion.kind === "ok"))
      .map((name) => `no ${name} succeeded`),
    ...unread(history),
  ];
}

function tooFewOk({ calls }: History, okFractionMin: number): string[] {
  const ok = calls.filter(({ completion }) => completion.kind === "ok").length;
  if (calls.length > 0 && ok / calls.length >= okFractionMin) return [];
  return [`${ok} of ${calls.length} operations succeeded, and ${okFractionMin * 100} % must`];
}

function withoutFaults({ calls, faults }: History): string[] {
  if (faults.length === 0) return ["no fault was recorded"];
  const isDuringFault = calls.some(
    ({ completion, invokedAtUs }) =>
      completion.kind === "ok" &&
      faults.some(({ beginUs, endUs }) => beginUs <= completion.atUs && endUs >= invokedAtUs),
  );
  return isDuringFault ? [] : ["no operation succeeded during a fault"];
}

/** What was acknowledged and not looked for afterwards may be anything. */
function unread(history: History): string[] {
  const reasons: string[] = [];
  const runs = unreadRuns(history);
  if (runs.length > 0)
    reasons.push(`${runs.length} acknowledged runs were not read in the end, as ${runs[0]}`);
  const keys = new Set(history.finalsOf("key").map(({ tenant, key }) => `${tenant} ${key}`));
  const unreadKeys = new Set(
    history.callsOf("start").flatMap(({ operation: { tenant, key } }) => {
      return key === undefined || keys.has(`${tenant} ${key}`) ? [] : [`${tenant} ${key}`];
    }),
  );
  if (unreadKeys.size > 0)
    reasons.push(`${unreadKeys.size} keys were not read in the end, as ${[...unreadKeys][0]}`);
  const readSets = new Set(history.finalsOf("set").map(({ set }) => set));
  const sets = new Set(history.writes.flatMap(({ set }) => (readSets.has(set) ? [] : [set])));
  if (sets.size > 0) reasons.push(`the sets ${[...sets].join(", ")} were not read in the end`);
  const readTenants = new Set(history.finalsOf("tenant").map(({ tenant }) => tenant));
  const tenants = new Set(
    history.callsOf("start").flatMap(({ operation }) => {
      return readTenants.has(operation.tenant) ? [] : [operation.tenant];
    }),
  );
  if (tenants.size > 0) reasons.push(`the slots of ${[...tenants].join(", ")} were not read in the end`);
  return reasons;
}
