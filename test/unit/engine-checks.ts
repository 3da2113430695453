// What every commit of a run must keep, checked by looking at all its records: counters, open children, nothing left behind.
import assert from "node:assert/strict";
import type { Applied } from "../../src/domain/engine/apply.ts";
import { attemptOf, childAt, parseTimer, runRecordKey, stepOfRecord } from "../../src/domain/engine/keys.ts";
import {
  isOpen,
  type KnownRecord,
  readStepRecord,
  type StepStatus,
} from "../../src/domain/engine/records.ts";
import { isTerminal, type RunChange } from "../../src/domain/run.ts";
import type { World } from "./engine-world.ts";

const none = { running: 0, waiting: 0 };

/** The counters equal reality. */
export function checkCounts(world: World): void {
  if (!world.records.has("run")) return;
  const { run } = world;
  const counted: Partial<Record<StepStatus, number>> = {};
  for (const status of Object.values(world.shown)) {
    if (status !== "pending") counted[status] = (counted[status] ?? 0) + 1;
  }
  assert.deepEqual(
    Object.fromEntries(Object.entries(run.counts).filter(([, count]) => count !== 0)),
    counted,
  );
  assert.deepEqual(run.items ?? none, openItems(world));
  if (run.work === undefined && run.callOff === undefined) checkControllers(world);
}

/** Counted anew from all steps: nothing runs, and nothing waits for a retry or for another run. */
export function checkIdle(world: World, { idle, status }: RunChange): void {
  if (world.compiled.flowControl?.releases !== true) return;
  const open = [...world.records].flatMap(([key, body]) => {
    const { status, waitingFor = "" } = key.startsWith("step/")
      ? readStepRecord(body)
      : { status: "pending" };
    return status === "running" || (status === "waiting" && /^(retry|child_run)$/.test(waitingFor))
      ? [key]
      : [];
  });
  assert.equal(idle === true, status === "waiting" && open.length === 0, `${status}: ${open.join(", ")}`);
}

function openItems(world: World): typeof none {
  const open = { ...none };
  for (const [key, body] of world.records) {
    if (!key.startsWith("step/") || !key.endsWith("]")) continue;
    const { status } = readStepRecord(body);
    if (status === "running" || status === "waiting") open[status] += 1;
  }
  return open;
}

/** A step that waits for its children knows how many are open; one that has ended left none open. */
function checkControllers(world: World): void {
  for (const step of world.compiled.steps.values()) {
    const record = world.step(step.id);
    const { children } = record;
    if (step.loop !== undefined) {
      const isBodyOpen = isOpen(world.step(step.loop.body));
      assert.deepEqual({ step: step.id, isBodyOpen }, { step: step.id, isBodyOpen: isOpen(record) });
    }
    if (children === undefined) continue;
    let open = 0;
    for (let index = 0; index < children.total; index += 1) {
      if (isOpen(world.step(childAt(step, index)))) open += 1;
    }
    const expected = isOpen(record) ? children.open : 0;
    assert.deepEqual({ step: step.id, open }, { step: step.id, open: expected });
  }
}

/** An ended run leaves nothing behind that could still happen. */
export function checkNothingLeft(world: World): void {
  const { run, jobs, timers, approvals } = world;
  assert.equal(run.ended, world.status);
  const open = [...jobs.values()]
    .filter(({ state }) => state === "ready" || state === "held")
    .map(({ jobId }) => jobId);
  assert.deepEqual({ open, timers: [...timers.keys()] }, { open: [], timers: [] });
  assert.deepEqual(
    [...approvals.values()].filter(({ state }) => state === "pending"),
    [],
  );
  assert.deepEqual(openItems(world), none);
  for (const child of world.children) assert.ok(isTerminal(child.status) || child.isCancelling, child.runId);
}

/** With an empty inbox every open step waits for something that will come, and nothing is out that no step waits for. */
export function checkSettled(world: World): void {
  assert.deepEqual(world.inbox, []);
  const waitedFor = new Set<string>();
  for (const [key, body] of world.records) {
    if (!key.startsWith("step/")) continue;
    const step = key.slice("step/".length);
    const record = readStepRecord(body);
    const { attempt } = record;
    if (record.status === "running") waitedFor.add(`job ${step}@${attempt}`);
    if (record.waitingFor === "approval") waitedFor.add(`approval ${step}@${attempt}`);
    if (record.waitingFor === "delay") waitedFor.add(`timer delay/${step}@${attempt}`);
    if (record.waitingFor === "retry") waitedFor.add(`timer retry/${step}@${attempt + 1}`);
    if (record.waitingFor === "child_run") waitedFor.add(`run ${record.childRunId}`);
  }
  assert.deepEqual([...out(world)].sort(), [...waitedFor].sort());
}

function out(world: World): Set<string> {
  const found = new Set<string>();
  const nameOf = (id: string) => {
    const name = attemptOf(world.runId, id);
    return `${name?.step}@${name?.attempt}`;
  };
  for (const { jobId } of [...world.ready(), ...world.held()]) found.add(`job ${nameOf(jobId)}`);
  for (const [id, { state }] of world.approvals) if (state === "pending") found.add(`approval ${nameOf(id)}`);
  for (const timerId of world.timers.keys()) {
    const kind = parseTimer(timerId)?.kind;
    if (kind === "delay" || kind === "retry") found.add(`timer ${timerId}`);
  }
  for (const child of world.children) {
    if (!isTerminal(child.status) && !child.isCancelling) found.add(`run ${child.runId}`);
  }
  return found;
}

/** What a process would remember of a commit instead of the texts: it says the same, and nobody may change it. */
export function* statesInHand({
  change,
  written,
}: Extract<Applied, { kind: "applied" }>): Iterable<readonly [string, KnownRecord]> {
  for (const { key, body } of change.records) {
    const step = stepOfRecord(key);
    const ofStep = step === undefined ? undefined : written?.steps.get(step);
    const state = key === runRecordKey ? written?.run : ofStep;
    if (state === undefined) continue;
    assert.deepEqual(JSON.parse(JSON.stringify(state)), JSON.parse(body));
    yield [key, frozen(state)];
  }
}

function frozen<Value>(value: Value): Value {
  if (value === null || typeof value !== "object") return value;
  for (const inner of Object.values(value)) frozen(inner);
  return Object.freeze(value);
}
