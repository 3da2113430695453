// Text patches of runs that give their places back while they wait: when, to whom, and how they come back.

import type { TextPatch } from "../planted-bug.ts";

const released = "src/adapters/operations/released.ts";
const grants = "src/adapters/redis/lua/parts/grants.lua";
const conformance = "test/conformance/store.test.ts";

export const plantedReleaseBugs: readonly TextPatch[] = [
  bug(
    "released-while-entries-wait",
    "a run gives its places back although something has happened to it meanwhile: nothing brings it back",
    released,
    `  if (entriesWaiting > 0 || cancelRequested !== undefined || !hasAll) return state;`,
    `  if (cancelRequested !== undefined || !hasAll) return state;`,
  ),
  bug(
    "released-places-stay-empty",
    "the places that a run gives back are handed to nobody before a sweep",
    "src/adapters/operations/grants.ts",
    `isTerminal(after.status) || isAway(after) ? heldBy(before) : [];`,
    `isTerminal(after.status) ? heldBy(before) : [];`,
  ),
  bug(
    "applied-without-its-places",
    "a decision on a run whose places are taken is applied at once: more runs work than the limit allows",
    "src/adapters/operations/inbox.ts",
    `  if (holder !== undefined || isAway(waiting)) {`,
    `  if (holder !== undefined) {`,
  ),
  bug(
    "comes-back-behind-starts",
    "a run that comes back waits behind those that have not begun",
    released,
    `      return joinQueue(context, next, { level: returnLevel, sinceMs: nowMs(context) });`,
    `      return joinQueue(context, next, { level: next.gates.priority, sinceMs: nowMs(context) });`,
  ),
  bug(
    "overtakes-those-that-come-back",
    "a run that comes back takes a free place although another one comes back there before it",
    released,
    `  return hasRoom(context, tenant, gate) && queue?.levels[returnLevel] === undefined;`,
    `  return hasRoom(context, tenant, gate) && queue !== null;`,
  ),
  bug(
    "cancel-waits-for-places",
    "the cancel of a run that has given its places back waits until it has them again",
    released,
    `  return entry.kind === "cancel" || (entry.kind === "timer"`,
    `  return (entry.kind === "timer"`,
  ),
  bug(
    "goes-on-without-and-keeps",
    "a run that is cancelled while it comes back keeps the places that it had again already",
    released,
    `  freePlaces(context, left);
  for (const gate of heldBy(left))`,
    `  for (const gate of heldBy(left))`,
  ),
  bug(
    "uncounted-while-released",
    "runs that have given their places back count for no quota: a tenant may keep any number",
    "src/adapters/operations/tenants.ts",
    ` + records.size("released", tenant)`,
    ``,
  ),
  bug(
    "superseded-after-it-began",
    "a start at a gate that keeps only the newest ends a run that comes back as one that never began",
    "src/adapters/operations/grants.ts",
    `    if (isAway(waiting)) continue;`,
    ``,
  ),
  bug(
    "retry-kept-from-its-idle-run",
    "a step that waits for its retry counts as waiting for somebody: the run gives its places back and works on",
    "src/domain/engine/records.ts",
    `(waitingFor === "retry" || waitingFor === "child_run")`,
    `waitingFor === "child_run"`,
    "test/unit/idle-runs.test.ts",
  ),
  bug(
    "released-places-kept-lua",
    "a run on Redis that gives its places back stays a member of its gates",
    grants,
    `  for _, id in ipairs(grants.heldBy(run)) do gates.freePlace(known, run, gates.of(known, id)) end
  run.held, run.away = 0, true`,
    `  run.held, run.away = 0, true`,
  ),
  bug(
    "comes-back-as-a-new-run-lua",
    "a run on Redis that comes back is counted as admitted anew: its slot is another one than the proof looks for",
    grants,
    `gate.isTenants and redis.call("HGET", known.runPrefix .. run.id, "admittedAt") or run.asked)`,
    `run.asked)`,
  ),
  bug(
    "released-not-forgotten-lua",
    "a run on Redis that has come back still counts among those that have given their places back",
    grants,
    `  goBack(known, run)
  forgetReleased(known, run)`,
    `  goBack(known, run)`,
  ),
  bug(
    "timer-wakes-without-places-lua",
    "a timer that the sweep fires on Redis names the run to its processes before it has its places",
    "src/adapters/redis/lua/sweep.lua",
    `    way.free = way.free and not way.away.away
`,
    ``,
  ),
];

function bug(
  name: string,
  what: string,
  file: string,
  find: string,
  replace: string,
  test = conformance,
): TextPatch {
  return { name, what, edits: [{ file, find, replace }], tests: [test] };
}
