// Trees of runs: a commit creates and cancels children in its own operation, and the end of a child tells its parent.
import {
  type ChildRun,
  isTerminal,
  type RunChange,
  type RunId,
  type TerminalStatus,
} from "../../domain/run.ts";
import { type Context, nowMs, orderedNumber, type StoredRun } from "./records.ts";
import { appendEntry, putState, scopeOf } from "./run-records.ts";
import { appendEvent } from "./tenants.ts";

/** Whether the tree keeps within its limit with these children. A root that was removed counts no longer. */
export function fitsTree(context: Context, state: StoredRun, { children }: RunChange): boolean {
  if (children.length === 0) return true;
  const root = rootOf(context, state);
  if (root === undefined) return true;
  return sizeOf(root) + newChildren(context, state, children).length <= context.settings.runsPerRootMax;
}

/**
 * Says which approvals a change asks for, creates its children and cancels those that are no longer wanted: their rows follow
 * the change's own. Stores the run, which may be the root.
 */
export function changeTree(context: Context, state: StoredRun, change: RunChange): StoredRun {
  for (const { approvalId: subject, step } of change.approvals) {
    const row = { type: "approval_requested", subject, actor: "engine", detail: `step ${step}` } as const;
    appendEvent(context, state.tenant, row);
  }
  const created = newChildren(context, state, change.children);
  for (const child of created) insertChild(context, state, child);
  const next = created.length === 0 ? state : countRuns(context, state, created.length);
  for (const runId of change.cancelChildren) cancelChild(context, next, runId);
  return next;
}

/** A child's end is an entry of its parent's inbox, unless nobody would apply it any more. */
export function tellParent(context: Context, state: StoredRun, status: TerminalStatus): void {
  const { tenant, runId, parent } = state;
  if (parent === undefined) return;
  const waiting = context.records.get("run", tenant, parent.runId);
  if (waiting === undefined || waiting.deleted || isTerminal(waiting.status)) return;
  const { step, attempt } = parent;
  const entryId = `child:${runId}`;
  putState(
    context,
    appendEntry(context, waiting, { kind: "child_ended", entryId, runId, step, attempt, status }),
  );
}

/** One that exists is left alone, also when only its grave is left. */
function newChildren(
  context: Context,
  { tenant }: StoredRun,
  children: readonly ChildRun[],
): readonly ChildRun[] {
  return children.filter(({ runId }) => context.records.get("run", tenant, runId) === undefined);
}

/** It shares the slot of its root and has no key: only its parent's commit can have created it. */
function insertChild(context: Context, state: StoredRun, child: ChildRun): void {
  const { tenant } = state;
  const { runId, workflow, definition, step, attempt, records } = child;
  const admittedAtMs = nowMs(context);
  const depth = (state.parent?.depth ?? 0) + 1;
  const scope = scopeOf(tenant, runId);
  for (const { key, body } of records) context.records.put("runRecord", scope, key, { body });
  context.records.put("timeline", scope, orderedNumber(1), {
    commitId: runId,
    atMs: admittedAtMs,
    body: admittedRow,
  });
  const empty: StoredRun = {
    runId,
    tenant,
    workflow,
    definition,
    status: "pending",
    version: 1,
    actor: state.runId,
    admittedAtMs,
    updatedAtMs: admittedAtMs,
    parent: { runId: state.runId, step, attempt, root: rootIdOf(state), depth },
    entriesAppended: 0,
    entriesWaiting: 0,
    drains: 0,
  };
  putState(context, appendEntry(context, empty, { kind: "started", entryId: runId }));
  appendEvent(context, tenant, {
    type: "run_admitted",
    subject: runId,
    actor: state.runId,
    detail: workflow,
  });
}

/** The first timeline row of a child: its parent's commit has no row for it. */
const admittedRow = '[{"type":"run_admitted"}]';

function cancelChild(context: Context, { tenant, runId: actor, version }: StoredRun, runId: RunId): void {
  const child = context.records.get("run", tenant, runId);
  if (child === undefined || child.deleted || isTerminal(child.status)) return;
  if (child.cancelRequested !== undefined) return;
  const entryId = `cancel:${actor}:${version}`;
  const cancelled = { ...child, cancelRequested: entryId };
  const entry = { kind: "cancel", entryId, actor, reason: cancelReason } as const;
  putState(context, appendEntry(context, cancelled, entry));
  appendEvent(context, tenant, { type: "cancel_requested", subject: runId, actor, detail: cancelReason });
}

const cancelReason = "parent run ended";

/** Runs that ended count as well: what is bounded is how many a tree ever starts. */
function countRuns(context: Context, state: StoredRun, created: number): StoredRun {
  const root = rootOf(context, state);
  if (root === undefined) return state;
  const counted = { ...root, treeSize: sizeOf(root) + created };
  putState(context, counted);
  return root === state ? counted : state;
}

function rootOf(context: Context, state: StoredRun): StoredRun | undefined {
  if (state.parent === undefined) return state;
  const root = context.records.get("run", state.tenant, state.parent.root);
  return root?.deleted ? undefined : root;
}

function rootIdOf({ runId, parent }: StoredRun): RunId {
  return parent?.root ?? runId;
}

function sizeOf({ treeSize = 1 }: StoredRun): number {
  return treeSize;
}
