// Text patches of gates and queues: who gets a place, who waits, in which order, and what is handed on when.

import type { TextPatch } from "../planted-bug.ts";

const gates = "src/adapters/operations/gates.ts";
const grants = "src/adapters/operations/grants.ts";
const queues = "src/adapters/operations/queues.ts";
const conformance = "test/conformance/store.test.ts";
const edges = "test/conformance/edges.test.ts";

export const plantedGateBugs: readonly TextPatch[] = [
  bug(
    "hand-over-left-to-the-sweep",
    "the end of a run frees its place and hands it to nobody: who waits does so until a sweep",
    "src/adapters/operations/inbox.ts",
    `  const woken = wokenIn(handOnPlaces(context, state, next));`,
    `  const woken = wokenIn([]);`,
  ),
  bug(
    "cancel-keeps-places-from-others",
    "a run that is cancelled while it waits frees the places before, and nobody gets them",
    grants,
    `  moves.freed.push(...heldBy(state));`,
    `  if (status === "timed_out") moves.freed.push(...heldBy(state));`,
  ),
  bug(
    "overtakes-a-queue",
    "a start takes a free place although others wait for it",
    gates,
    `activeAt(context, tenant, gate) < limit && readQueue(context, tenant, gate) === undefined;`,
    `activeAt(context, tenant, gate) < limit;`,
  ),
  bug(
    "queues-before-all-are-judged",
    "only the first gate that is full is judged: a start waits there although a later one rejects",
    gates,
    `  for (const { gate, atLimit } of closed) {`,
    `  for (const { gate, atLimit } of closed.slice(0, 1)) {`,
  ),
  bug(
    "place-not-held",
    "a run that waits holds no place before: others take it, and the limit is exceeded when it goes on",
    gates,
    `  putPlace(context, next, gate);
  return next;`,
    `  if (next.gates.held === next.gates.gates.length) for (const each of gatesOf(next)) putPlace(context, next, each);
  return next;`,
  ),
  bug(
    "waits-under-a-lock",
    "createRun lets a run wait: the caller holds the admission lock and is told that it was admitted",
    gates,
    `  const mayWait = strategy === "atomic" && run.start === "inbox";`,
    `  const mayWait = run.start === "inbox";`,
  ),
  bug(
    "virtual-time-not-moved",
    "a grant does not move the level's virtual time: a key that comes anew is ahead of all that have been served",
    queues,
    `grantedWeight === undefined ? before : Math.max(before, line?.tag ?? 0);`,
    `before;`,
  ),
  bug(
    "weights-ignored",
    "every key moves on by the same, whatever its weight",
    "src/domain/gates.ts",
    `  return virtual + Math.floor(virtualUnit / weight);`,
    `  return virtual + Math.floor(virtualUnit / Math.min(weight, 1));`,
  ),
  bug(
    "first-come-only",
    "at a grant the tag of the key stays: a customer with many runs is served to the end before the others",
    queues,
    `    putKey(context, scope, key, { tag: tagAfter(virtual, grantedWeight), arrival: next.arrival });`,
    `    putKey(context, scope, key, { tag: line.tag, arrival: next.arrival });`,
  ),
  bug(
    "age-above-all",
    "age lifts a run above the highest priority, and above what an operator has moved to the head",
    "src/domain/gates.ts",
    `  return Math.min(prioritiesMax, level + Math.floor(`,
    `  return Math.min(99, level + Math.floor(`,
    edges,
  ),
  bug(
    "urgency-not-inherited",
    "a run that holds a place for which somebody urgent waits is itself in no hurry",
    grants,
    `  return Math.max(state.gates.priority, ...behind);`,
    `  return Math.max(state.gates.priority, behind.length - 9);`,
  ),
  bug(
    "all-moves-in-one-operation",
    "an operation hands on to everybody: it takes as long as there are runs that wait",
    grants,
    `hasWork(context, tenant, gate) && granted < movesMax)`,
    `hasWork(context, tenant, gate) && granted >= 0)`,
  ),
  bug(
    "stopped-tenant-goes-on",
    "a tenant that is stopped grants places to those who wait",
    gates,
    `    readTenant(context, tenant).settings.stopped !== true &&\n`,
    "",
  ),
  bug(
    "raised-limit-unnoticed",
    "settings are saved and nobody looks at the gates: a raised limit, or the end of a stop, helps nobody who waits",
    "src/adapters/operations/tenants.ts",
    `  if (settings.stopped !== true) lookAtGates(context, tenant);\n`,
    "",
  ),
  bug(
    "two-wait-where-one-may",
    "the newest joins the queue, and the older one goes on waiting",
    grants,
    `  if (onlyNewest) replaceWaiting(context, state, moves);\n`,
    "",
  ),
  bug(
    "cancels-one-after-the-other",
    "the newest asks the oldest to cancel although another is cancelling already: two are lost for one",
    grants,
    `members.some(({ cancelRequested }) => cancelRequested !== undefined)`,
    `oldest.cancelRequested !== undefined`,
  ),
  bug(
    "deadline-one-late",
    "a run that has waited for as long as it may is found by the sweep at that millisecond, and left there for ever",
    "src/adapters/operations/sweep.ts",
    `state.gates.deadlineAtMs > nowMs(context)`,
    `state.gates.deadlineAtMs >= nowMs(context)`,
    edges,
  ),
  bug(
    "reopened-with-the-slot-alone",
    "a run that is opened again holds a place in the tenant's gate alone",
    gates,
    `  for (const gate of gatesOf(state)) putPlace(context, state, gate);`,
    `  for (const gate of gatesOf(state).slice(-1)) putPlace(context, state, gate);`,
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
