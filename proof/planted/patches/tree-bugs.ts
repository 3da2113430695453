// Planted bugs in trees of runs and in retries: children, what their parents hear, and runs that are opened again.
import type { TextPatch } from "../planted-bug.ts";

const conformance = "test/conformance/store.test.ts";
const inbox = "src/adapters/operations/inbox.ts";
const children = "src/adapters/operations/children.ts";
const reopening = "src/adapters/operations/retries.ts";
const retriesLua = "src/adapters/redis/lua/commit.lua";
const reopeningLua = "src/adapters/redis/lua/parts/reopen-runs.lua";

function bug(name: string, what: string, file: string, find: string, replace: string): TextPatch {
  return { name, what, edits: [{ file, find, replace }], tests: [conformance] };
}

export const plantedTreeBugs: readonly TextPatch[] = [
  {
    name: "child-takes-a-slot",
    what: "a child takes a slot of its own: a tree fills the tenant's limit and waits for itself",
    edits: [
      {
        file: children,
        find: `  putState(context, appendEntry(context, empty, { kind: "started", entryId: runId }));`,
        replace: `  context.records.put("active", tenant, activeMember(empty), {});
  putState(context, appendEntry(context, empty, { kind: "started", entryId: runId }));`,
      },
      {
        file: children,
        find: `import { appendEntry, putState,`,
        replace: `import { activeMember, appendEntry, putState,`,
      },
    ],
    tests: [conformance],
  },
  bug(
    "child-takes-a-slot-lua",
    "the same in the Redis scripts",
    "src/adapters/redis/lua/parts/plan-change.lua",
    `      writes[#writes + 1] = { "ZADD", start .. "runs:" .. tenant, 0, id }`,
    `      writes[#writes + 1] = { "ZADD", start .. "runs:" .. tenant, 0, id }
      writes[#writes + 1] = { "ZADD", activeKey, now, id }`,
  ),
  bug(
    "child-born-twice",
    "a child that exists is created again: what it has done is overwritten",
    children,
    `  return children.filter(({ runId }) => context.records.get("run", tenant, runId) === undefined);`,
    `  return children.filter(({ runId }) => context.records.get("run", tenant, runId)?.status !== "ended");`,
  ),
  bug(
    "ended-parent-is-told",
    "the end of a child is appended to the inbox of a parent that has ended: its run waits for an owner for ever",
    children,
    "  if (waiting === undefined || waiting.deleted || isTerminal(waiting.status)) return;",
    "  if (waiting === undefined || waiting.deleted) return;",
  ),
  bug(
    "ended-parent-is-told-lua",
    "the same in the Redis scripts",
    "src/adapters/redis/lua/parts/plan-change.lua",
    "if parentStatus and not terminal[parentStatus] then",
    "if parentStatus then",
  ),
  bug(
    "parent-is-told-by-every-commit",
    "a parent hears of its child's end with every commit of the child",
    "src/adapters/operations/changes.ts",
    `  return isTerminal(change.status) ? endRun(context, next, change.status) : next;`,
    `  if (!isTerminal(change.status)) tellParent(context, next, "succeeded");
  return isTerminal(change.status) ? endRun(context, next, change.status) : next;`,
  ),
  bug(
    "tree-without-limit",
    "a commit does not look at the size of its tree: a workflow that starts itself fills the store",
    inbox,
    `  if (!fitsTree(context, state, request.change)) return { kind: "tree_full" };\n`,
    "",
  ),
  bug(
    "ended-child-is-cancelled",
    "a child that has ended is cancelled after all",
    children,
    "  if (child === undefined || child.deleted || isTerminal(child.status)) return;",
    "  if (child === undefined || child.deleted) return;",
  ),
  bug(
    "reopened-without-a-slot",
    "a run is opened again whatever the tenant's limit says",
    reopening,
    `  if (isClosed) return`,
    `  if (isClosed && tenant === "") return`,
  ),
  bug(
    "reopened-without-a-slot-lua",
    "the same in the Redis script",
    reopeningLua,
    `not gates.isOpen(known, gate) then`,
    `limit and redis.call("ZCARD", activeKey) < 0 then`,
  ),
  bug(
    "reopened-run-is-removed",
    "a run that was opened again is removed at the time of its first end",
    reopening,
    `  clearDue(context, { kind: "retention", tenant, subject: runId }, removeAtMs);\n`,
    "",
  ),
  bug(
    "reopened-key-expires",
    "the key of a run that was opened again expires: its client starts the run a second time",
    reopening,
    `  putReservation(context, state.tenant, digest, { state: "bound", runId, fingerprint });`,
    `  putReservation(context, state.tenant, digest, { ...bound, runId, fingerprint });`,
  ),
  bug(
    "child-reopened-without-its-parent",
    "the retry of a child's letter opens the child alone: nobody waits for its end",
    reopening,
    `    putState(context, bringEntry(context, open, waits));`,
    `    if (run === open) putState(context, bringEntry(context, open, waits));`,
  ),
  bug(
    "child-reopened-without-its-parent-lua",
    "the same in the Redis script",
    reopeningLua,
    `      writes[#writes + 1] = run.waits`,
    `      writes[#writes + 1] = run.attention`,
  ),
  bug(
    "retry-behind-what-may-end-the-parent",
    "a child is opened again while its parent has something else to apply, which may end it: nobody waits for the child",
    reopening,
    `    return isBusy ? { kind: "busy" } : { kind: "possible", above };`,
    `    return isBusy && above.length === 0 ? { kind: "busy" } : { kind: "possible", above };`,
  ),
  {
    name: "child-of-a-retry-set-aside-goes-on",
    what: "the entry by which a run was to wait for its reopened child is set aside: the run fails, and the child goes on",
    edits: [
      {
        file: "src/domain/engine/apply-entry.ts",
        find: `  if (entry?.kind === "poisoned") return reopenedChild(readPoison(entry.was));\n`,
        replace: "",
      },
    ],
    tests: ["test/unit/engine-attempts.test.ts"],
  },
  bug(
    "letter-retried-twice",
    "a dead letter can be retried again and again",
    inbox,
    `  if (revision > 1) return { kind: "repeat" };\n`,
    "",
  ),
  bug(
    "discarded-retry-is-lost",
    "a retry that waits when its run ends is lost: its letter says that it was retried, and nothing ever happens",
    "src/adapters/operations/changes.ts",
    `  giveLettersBack(context, state);\n`,
    "",
  ),
  bug(
    "discarded-retry-is-lost-lua",
    "the same in the Redis script",
    retriesLua,
    `discarded[index], "1" .. rest }`,
    `discarded[index], "2" .. rest }`,
  ),
  bug(
    "applied-retry-is-given-back-lua",
    "the end of a run opens letters whose retries were applied by earlier commits: they can be retried twice",
    retriesLua,
    `retryText(retry.place - consumed, retry.letter)`,
    `retryText(retry.place, retry.letter)`,
  ),
  bug(
    "any-run-is-reopened",
    "a run is opened again however it ended",
    reopening,
    `  const failed = status === "failed" || status === "timed_out";`,
    `  const failed = status !== "pending";`,
  ),
];
