// A recorded history put together: every invocation with what became of it, faults from begin to end, and what was read last.
import { groupBy } from "./group-by.ts";
import type { Answer, Effect, Final, HistoryRecord, Operation, Setting, SinkWrite } from "./record.ts";

export type OperationName = Operation["operation"];

type Completion =
  | { readonly kind: "ok"; readonly atUs: number; readonly answer: Answer }
  /** It had no effect, and never will. */
  | { readonly kind: "fail"; readonly atUs: number; readonly code: string; readonly answer?: Answer }
  /** `never completed` when nobody has told of it again. */
  | { readonly kind: "unknown"; readonly code: string };

export type Call<Name extends OperationName = OperationName> = {
  readonly client: string;
  readonly operation: Operation & { readonly operation: Name };
  readonly invokedAtUs: number;
  readonly completion: Completion;
  /** Its invocation, and its completion if there is one. */
  readonly records: readonly HistoryRecord[];
};

type Fault = {
  readonly name: string;
  readonly target: string;
  readonly beginUs: number;
  /** Infinity when nobody has told of its end. */
  readonly endUs: number;
};

export type Timed<Item> = Item & { readonly atUs: number; readonly record: HistoryRecord };

export type FinalOf<Of extends Final["of"]> = Extract<Final, { readonly of: Of }> & {
  readonly record: HistoryRecord;
};

export type History = {
  readonly setting: Setting;
  /** In the order of their invocations. */
  readonly calls: readonly Call[];
  readonly faults: readonly Fault[];
  readonly effects: ReadonlyArray<Timed<Effect>>;
  readonly writes: ReadonlyArray<Timed<SinkWrite>>;
  callsOf<Name extends OperationName>(name: Name): ReadonlyArray<Call<Name>>;
  finalsOf<Of extends Final["of"]>(of: Of): ReadonlyArray<FinalOf<Of>>;
};

/** `place` is that of the record at fault, from 0 on. */
type Assembled =
  | { readonly kind: "history"; readonly history: History }
  | { readonly kind: "broken"; readonly place: number; readonly problem: string };

/** Recorded as refusals although they say that the effect is not known. */
const tellingNothing = new Set([
  "outcome_unknown",
  "effect_unknown",
  "lock_outcome_unknown",
  "lock_abandoned",
  "request_cancelled",
  "internal",
]);

type Invocation = Extract<HistoryRecord, { readonly type: "invoke" }>;
type CompletionRecord = Extract<HistoryRecord, { readonly type: "ok" | "fail" | "unknown" }>;

export function assembleHistory(records: readonly HistoryRecord[]): Assembled {
  const [first] = records;
  if (first?.type !== "begin") return broken(0, "the first record is not `begin`");
  const paired = pair(records);
  if (paired.kind === "broken") return paired;
  const { calls } = paired;
  const byName = groupBy(calls, ({ operation }) => operation.operation);
  const finals = records.flatMap((record) => (record.type === "final" ? [{ ...record, record }] : []));
  const finalsByKind = groupBy(finals, ({ of }) => of);
  const inTime = <Item extends { readonly atUs: number }>(items: Item[]) =>
    items.sort((left, right) => left.atUs - right.atUs);
  const history: History = {
    setting: first,
    calls,
    faults: faultsOf(records),
    effects: inTime(records.flatMap((record) => (record.type === "effect" ? [{ ...record, record }] : []))),
    writes: inTime(records.flatMap((record) => (record.type === "write" ? [{ ...record, record }] : []))),
    callsOf: <Name extends OperationName>(name: Name) =>
      (byName.get(name) ?? []) as unknown as ReadonlyArray<Call<Name>>,
    finalsOf: <Of extends Final["of"]>(of: Of) => (finalsByKind.get(of) ?? []) as unknown as FinalOf<Of>[],
  };
  return { kind: "history", history };
}

function broken(place: number, problem: string): Extract<Assembled, { readonly kind: "broken" }> {
  return { kind: "broken", place, problem };
}

/** The files of several processes may have been joined in any order: all invocations are looked for first. */
function pair(
  records: readonly HistoryRecord[],
): { readonly kind: "calls"; readonly calls: Call[] } | ReturnType<typeof broken> {
  const invocations = new Map<string, { readonly invocation: Invocation; completion?: CompletionRecord }>();
  for (const [place, record] of records.entries()) {
    if (record.type === "begin" && place > 0) return broken(place, "a second `begin`");
    if (record.type !== "invoke") continue;
    if (invocations.has(record.id)) return broken(place, `a second invocation ${record.id}`);
    invocations.set(record.id, { invocation: record });
  }
  for (const [place, record] of records.entries()) {
    if (record.type !== "ok" && record.type !== "fail" && record.type !== "unknown") continue;
    const open = invocations.get(record.id);
    if (open === undefined) return broken(place, `${record.id} was completed and never invoked`);
    if (open.completion !== undefined) return broken(place, `${record.id} was completed twice`);
    if (record.atUs < open.invocation.atUs) return broken(place, `${record.id} ended before it began`);
    if (record.type === "ok" && !answersOf[open.invocation.operation].includes(record.answer.kind)) {
      return broken(place, `${open.invocation.operation} cannot be answered with ${record.answer.kind}`);
    }
    open.completion = record;
  }
  const calls = [...invocations.values()].map(({ invocation, completion }) => callOf(invocation, completion));
  calls.sort((left, right) => left.invokedAtUs - right.invokedAtUs);
  return { kind: "calls", calls };
}

const answersOf: Readonly<Record<OperationName, ReadonlyArray<Answer["kind"]>>> = {
  start: ["run"],
  cancel: ["done", "status"],
  get: ["status"],
  set_limit: ["done"],
  decide: ["decided"],
  claim: ["claimed"],
  report: ["report"],
  acquire: ["lock"],
  release: ["done"],
  read_set: ["set"],
};

function callOf(invocation: Invocation, completed: CompletionRecord | undefined): Call {
  return {
    client: invocation.client,
    operation: invocation,
    invokedAtUs: invocation.atUs,
    completion: completionOf(completed),
    records: completed === undefined ? [invocation] : [invocation, completed],
  };
}

function completionOf(record: CompletionRecord | undefined): Completion {
  if (record === undefined) return { kind: "unknown", code: "never completed" };
  switch (record.type) {
    case "ok":
      return { kind: "ok", atUs: record.atUs, answer: record.answer };
    case "unknown":
      return { kind: "unknown", code: record.code };
    case "fail": {
      const { answer, atUs, code } = record;
      if (tellingNothing.has(code)) return { kind: "unknown", code };
      return { kind: "fail", atUs, code, ...(answer === undefined ? {} : { answer }) };
    }
  }
}

/** An end without a begin is of a fault that does not last, as is a begin whose end bears the same time. */
function faultsOf(records: readonly HistoryRecord[]): Fault[] {
  const told = records.flatMap((record) => (record.type === "fault" ? [record] : []));
  told.sort((left, right) => left.atUs - right.atUs);
  const open = new Map<string, number[]>();
  const faults: Array<{ name: string; target: string; beginUs: number; endUs: number }> = [];
  for (const { name, target, phase, atUs } of told) {
    const places = open.get(`${name} ${target}`) ?? [];
    open.set(`${name} ${target}`, places);
    const place = phase === "end" ? places.shift() : undefined;
    if (place !== undefined) (faults[place] as { endUs: number }).endUs = atUs;
    else if (phase === "end") faults.push({ name, target, beginUs: atUs, endUs: atUs });
    else places.push(faults.push({ name, target, beginUs: atUs, endUs: Number.POSITIVE_INFINITY }) - 1);
  }
  return faults;
}

/** When it is certain that it has been done: Infinity when nobody knows. */
export function answeredAtUs({ completion }: Call): number {
  return completion.kind === "unknown" ? Number.POSITIVE_INFINITY : completion.atUs;
}

/** Its answer of this kind, if it was done. */
export function okAnswer<Kind extends Answer["kind"]>(
  { completion }: Call,
  kind: Kind,
): Extract<Answer, { readonly kind: Kind }> | undefined {
  if (completion.kind !== "ok" || completion.answer.kind !== kind) return undefined;
  return completion.answer as Extract<Answer, { readonly kind: Kind }>;
}
