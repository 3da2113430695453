// The first commit of a run, computed before its admission is asked for: no admitted run is without a next step.
import type { RunChange } from "../run-change.ts";
import { unchanged } from "../run-change.ts";
import type { CompiledDefinition } from "../workflow/compiled.ts";
import { advance, concludeIfDone } from "./advance.ts";
import { beginRun } from "./apply-entry.ts";
import type { NewRunFacts } from "./contract.ts";
import { defaultLimits, type EngineLimits, newRunState, openDraft, toChange } from "./draft.ts";
import { factsRecordKey, inputRecordKey } from "./keys.ts";
import type { RunFacts } from "./records.ts";

/** Beyond this, as beyond the limits, a run is started by its inbox, so that no admission holds the store for long. */
const startStepsMax = 64;

type Start = {
  readonly change: RunChange;
  readonly large: boolean;
  /** What was evaluated and checked for it, in units of about 50 ns. */
  readonly work: number;
};

export function startRun(
  compiled: CompiledDefinition,
  facts: NewRunFacts,
  limits: EngineLimits = defaultLimits,
): Start {
  const first = [
    { key: inputRecordKey, body: JSON.stringify(facts.input) },
    { key: factsRecordKey, body: JSON.stringify(factsOf(facts)) },
  ];
  if (facts.rerun !== undefined) return startLater(first, 0);
  const draft = openDraft({
    compiled,
    runId: facts.runId,
    tenant: facts.tenant,
    actor: facts.actor,
    parent: undefined,
    nowMs: facts.nowMs,
    loaded: new Map(first.map(({ key, body }) => [key, body])),
    age: "new",
    limits: { ...limits, stepsMax: startStepsMax },
    run: newRunState(facts.nowMs),
  });
  if (facts.traceparent !== undefined) draft.run.traceparent = facts.traceparent;
  beginRun(draft, facts.nowMs);
  advance(draft);
  const work = limits.workMax - draft.work.left;
  // What lies outside the run, as the definition of a child, is looked up by the owner of its inbox.
  if (draft.queue.length > 0 || draft.missing.size > 0) return startLater(first, work);
  concludeIfDone(draft);
  const change = toChange(draft, "some");
  const records = [...first, ...change.records];
  const bytes = records.reduce(
    (sum, { key, body }) => sum + Buffer.byteLength(key) + Buffer.byteLength(body),
    0,
  );
  const isLarge = records.length > limits.startRecordsMax || bytes > limits.startBytesMax;
  return isLarge ? startLater(first, work) : { change: { ...change, records }, large: false, work };
}

function factsOf(facts: NewRunFacts): RunFacts {
  return {
    tenant: facts.tenant,
    actor: facts.actor,
    ...(facts.person === undefined ? {} : { person: facts.person }),
    separateDuties: facts.separateDuties,
    ...(facts.traceparent === undefined ? {} : { traceparent: facts.traceparent }),
    admittedAtMs: facts.nowMs,
    ...(facts.rerun === undefined ? {} : { rerun: facts.rerun }),
  };
}

function startLater(records: RunChange["records"], work: number): Start {
  const timeline = JSON.stringify([{ type: "run_admitted" }]);
  return { change: { ...unchanged, status: "pending", records, timeline }, large: true, work };
}
