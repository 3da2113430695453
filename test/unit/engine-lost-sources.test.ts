// Another run that is being deleted while it is read: what is gone is said to be gone, and never taken for nothing.
import { expect, test } from "vitest";
import { apply, type RunView } from "../../src/domain/engine/apply.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { InboxEntry } from "../../src/domain/inbox.ts";
import { parseRunId, type RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { compileDefinition } from "../../src/domain/workflow/compile.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";

const runId = parseRunId("run_07_abcdefgh12") as RunId;
const other = parseRunId("run_07_otherrun99") as RunId;
const done = { status: "succeeded", attempt: 1, startedAtMs: 1, endedAtMs: 2 };

function compile(steps: JsonValue) {
  const reading = readDefinition({ id: "wf", steps });
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  return compileDefinition("wf", reading.definition);
}

/** Applies one entry to a run with these records; whatever else is asked for is not there. */
function applyTo(steps: JsonValue, given: Readonly<Record<string, JsonValue>>, entry: InboxEntry) {
  const records = new Map<string, string | undefined>(
    Object.entries(given).map(([key, value]) => [key, JSON.stringify(value)]),
  );
  const view: RunView = { runId, tenant: "acme" as TenantId, actor: "ann", version: 1, records };
  for (;;) {
    const applied = apply(compile(steps), view, [entry], 1_000);
    if (applied.kind === "applied") {
      const bodies = applied.change.records.map(({ key, body }) => [key, JSON.parse(body)] as const);
      return { status: applied.change.status, ...Object.fromEntries(bodies) };
    }
    for (const key of applied.records) records.set(key, undefined);
  }
}

const parent = {
  run: { counts: { waiting: 1 }, startedAtMs: 1 },
  input: {},
  "step/sub": { status: "waiting", attempt: 1, waitingFor: "child_run", childRunId: other, startedAtMs: 1 },
};
const childEnded: InboxEntry = {
  kind: "child_ended",
  entryId: "e1",
  runId: other,
  step: "sub",
  attempt: 1,
  status: "succeeded",
};
const plain = { sub: { type: "subworkflow", input: { workflow_id: "child" } } };
const mapped = {
  sub: {
    type: "subworkflow",
    input: { workflow_id: "child", output_mapping: { text: `\${child.steps.write.output}` } },
  },
};
const lost = { status: "failed", error: { code: "child_run_lost" } };

test("a child whose output is gone while its state is still there fails the step", () => {
  const ended = applyTo(plain, { ...parent, [`${other}#run`]: { ended: "succeeded" } }, childEnded);
  expect(ended).toMatchObject({ status: "failed", "step/sub": lost });
});

test("a child whose output was too large to be kept is not taken for a lost one", () => {
  const given = {
    ...parent,
    [`${other}#run`]: { ended: "succeeded" },
    [`${other}#output`]: { omitted: true },
  };
  expect(applyTo(plain, given, childEnded)).toMatchObject({
    status: "succeeded",
    "step/sub": { status: "succeeded", omitted: true },
  });
});

test("a child of which the mapping reads a step whose output is gone fails the step", () => {
  const given = {
    ...parent,
    [`${other}#run`]: { ended: "succeeded" },
    [`${other}#output`]: { output: null },
    [`${other}#step/write`]: { ...done, outputKey: "result/write@1" },
  };
  expect(applyTo(mapped, given, childEnded)).toMatchObject({ status: "failed", "step/sub": lost });
});

test("a rerun that cannot take over an output fails and says so, instead of going on without it", () => {
  const steps = { first: { topic: "work" }, second: { topic: "work", depends_on: ["first"] } };
  const facts = {
    ...{ tenant: "acme", actor: "ann", separateDuties: false, admittedAtMs: 1 },
    rerun: { of: other, fromStep: "second" },
  };
  const given = {
    input: {},
    facts,
    [`${other}#step/first`]: { ...done, outputKey: "result/first@1" },
    [`${other}#step/second`]: { status: "failed", attempt: 1 },
  };
  const ended = applyTo(
    steps,
    { run: { counts: {}, startedAtMs: 0 }, ...given },
    { kind: "started", entryId: "s" },
  );
  expect(ended).toMatchObject({ status: "failed", run: { error: { code: "rerun_source_lost" } } });
});
