// What a tenant's clients asked and were answered, in the words of the admission's specification.
import type { AdmissionAnswer, AdmissionOperation, AdmissionOptions } from "./admission-model.ts";
import { answeredAtUs, type Call, type History, okAnswer } from "./history.ts";
import type { TimedOperation } from "./linearize.ts";
import { isEnded } from "./run-evidence.ts";

type TimedAdmission = TimedOperation<AdmissionOperation, AdmissionAnswer>;

type Admission = AdmissionOptions & {
  readonly operations: readonly TimedAdmission[];
  /** That of each operation; none for what happens by itself. */
  readonly calls: ReadonlyArray<Call | undefined>;
  /** Runs were seen that keys may have made of which nobody knows what they are bound to: then nothing can be said. */
  readonly isAmbiguous: boolean;
};

/** A run is named by its key, or by its id if it has none. */
type Names = {
  numberOf(name: string): number;
  /** The run of an id: that of the key which was first answered with it. */
  runOf(runId: string): number;
  printOf(name: string, fingerprint: string): number;
  count(): number;
};

export function admissionOf(history: History, tenant: string): Admission {
  const names = createNames();
  const isOurs = ({ operation }: Call) => "tenant" in operation && operation.tenant === tenant;
  const starts = history.callsOf("start").filter(isOurs);
  const bound = bindKeys(history, tenant, starts, names);
  const operations: TimedAdmission[] = [];
  const calls: Array<Call | undefined> = [];
  const add = (call: Call | undefined, timed: TimedAdmission | undefined) => {
    if (timed === undefined) return;
    operations.push(timed);
    calls.push(call);
  };
  for (const call of starts) add(call, startOf(call, names, bound));
  const made = names.count();
  for (const call of history.callsOf("get").filter(isOurs)) add(call, getOf(call, names));
  const cancelled = new Set<string>();
  for (const call of history.callsOf("cancel").filter(isOurs)) {
    if (call.completion.kind !== "fail") cancelled.add(call.operation.runId);
    for (const timed of cancelOf(call, names)) add(call, timed);
  }
  for (const { runId, status, tenant: owner } of history.finalsOf("run")) {
    // Ended by somebody who did not tell.
    if (owner !== tenant || !isEnded(status) || cancelled.has(runId)) continue;
    add(undefined, { operation: { kind: "end", run: names.runOf(runId) }, invokedAtUs: 0 });
  }
  for (const call of history.callsOf("set_limit").filter(isOurs)) add(call, limitOf(call));
  const limit = history.setting.limits[tenant] ?? Number.POSITIVE_INFINITY;
  const unclaimed = Array.from({ length: names.count() - made }, (_, index) => made + index);
  const isAmbiguous = unclaimed.length > 0 && bound.areSomeUnknown;
  return { operations, calls, limit, runs: names.count(), unclaimed, isAmbiguous };
}

function createNames(): Names & { bind(runId: string, name: string): void } {
  const numbers = new Map<string, number>();
  const runs = new Map<string, number>();
  const prints = new Map<string, Map<string, number>>();
  const numberOf = (name: string) => {
    const number = numbers.get(name) ?? numbers.size;
    numbers.set(name, number);
    return number;
  };
  return {
    numberOf,
    runOf: (runId) => runs.get(runId) ?? numberOf(`run ${runId}`),
    bind: (runId, name) => {
      if (!runs.has(runId)) runs.set(runId, numberOf(name));
    },
    printOf(name, fingerprint) {
      const known = prints.get(name) ?? new Map<string, number>();
      prints.set(name, known);
      const print = known.get(fingerprint) ?? known.size + 1;
      known.set(fingerprint, print);
      return print;
    },
    count: () => numbers.size,
  };
}

type Bound = {
  /** By name: the first run that its key was answered with, or is bound to in the end. */
  readonly runs: ReadonlyMap<string, string>;
  /** Keys that nobody was answered with, and that are free in the end: no start with them had an effect. */
  readonly free: ReadonlySet<string>;
  readonly areSomeUnknown: boolean;
};

function bindKeys(
  history: History,
  tenant: string,
  starts: readonly Call<"start">[],
  names: ReturnType<typeof createNames>,
): Bound {
  const runs = new Map<string, string>();
  const free = new Set<string>();
  const bind = (name: string, runId: string) => {
    if (runs.has(name)) return;
    runs.set(name, runId);
    names.bind(runId, name);
  };
  for (const call of starts) {
    const runId = okAnswer(call, "run")?.runId;
    if (runId !== undefined) bind(nameOf(call.operation.key, runId), runId);
  }
  for (const { key, runId, tenant: owner } of history.finalsOf("key")) {
    const name = nameOf(key, runId);
    if (owner !== tenant) continue;
    if (runId !== "") bind(name, runId);
    else if (!runs.has(name)) free.add(name);
  }
  const areSomeUnknown = starts.some(({ operation: { key }, completion }) => {
    const name = nameOf(key, "");
    return key !== undefined && completion.kind === "unknown" && !runs.has(name) && !free.has(name);
  });
  return { runs, free, areSomeUnknown };
}

function nameOf(key: string | undefined, runId: string): string {
  return key === undefined ? `run ${runId}` : `key ${key}`;
}

function startOf(call: Call<"start">, names: Names, { runs, free }: Bound): TimedAdmission | undefined {
  const { completion, invokedAtUs, operation } = call;
  const { key, fingerprint } = operation;
  const runId = okAnswer(call, "run")?.runId;
  const name = key === undefined && runId === undefined ? undefined : nameOf(key, runId ?? "");
  const run = name === undefined ? undefined : names.numberOf(name);
  const asked: AdmissionOperation = {
    kind: "start",
    run,
    print: name === undefined ? 1 : names.printOf(name, fingerprint),
  };
  if (completion.kind === "unknown") {
    return name !== undefined && free.has(name) ? undefined : { operation: asked, invokedAtUs };
  }
  const timed = (answer: AdmissionAnswer): TimedAdmission => {
    return { operation: asked, invokedAtUs, completion: { atUs: completion.atUs, answer } };
  };
  if (completion.kind === "fail") {
    if (completion.code === "max_concurrent_runs_reached") return timed("limit_reached");
    return completion.code === "idempotency_key_reused" ? timed("key_reused") : undefined;
  }
  const { answer } = completion;
  const isMeant = runId !== undefined && name !== undefined && runs.get(name) === runId;
  if (answer.kind !== "run" || !isMeant || names.runOf(runId) !== run) return timed("impossible");
  return timed(answer.replayed ? "replayed" : "created");
}

function getOf(call: Call<"get">, names: Names): TimedAdmission | undefined {
  const { completion, invokedAtUs, operation } = call;
  const looked: AdmissionOperation = { kind: "look", run: names.runOf(operation.runId) };
  const timed = (answer: AdmissionAnswer): TimedAdmission => {
    return { operation: looked, invokedAtUs, completion: { atUs: answeredAtUs(call), answer } };
  };
  const status = okAnswer(call, "status")?.status;
  if (status !== undefined) return timed(isEnded(status) ? "ended" : "lives");
  return completion.kind === "fail" && completion.code === "run_not_found" ? timed("absent") : undefined;
}

/** `done` says that the run is there and will end: it may end later. */
function cancelOf(call: Call<"cancel">, names: Names): readonly TimedAdmission[] {
  const { completion, invokedAtUs, operation } = call;
  const run = names.runOf(operation.runId);
  const ends: TimedAdmission = { operation: { kind: "end", run }, invokedAtUs };
  const timed = (kind: "look" | "end", answer: AdmissionAnswer): TimedAdmission => {
    return { operation: { kind, run }, invokedAtUs, completion: { atUs: answeredAtUs(call), answer } };
  };
  if (completion.kind === "unknown") return [ends];
  if (completion.kind === "fail") return completion.code === "run_not_found" ? [timed("look", "absent")] : [];
  const status = okAnswer(call, "status")?.status;
  return status !== undefined && isEnded(status) ? [timed("end", "done")] : [timed("look", "exists"), ends];
}

function limitOf({ completion, invokedAtUs, operation }: Call<"set_limit">): TimedAdmission | undefined {
  const asked: AdmissionOperation = { kind: "set_limit", limit: operation.limit };
  if (completion.kind === "fail") return undefined;
  if (completion.kind === "unknown") return { operation: asked, invokedAtUs };
  return { operation: asked, invokedAtUs, completion: { atUs: completion.atUs, answer: "done" } };
}
