// The store as the processes of a small scenario reach it: each request and each answer is an event with its own faults.
import { MemoryRecords } from "../../src/adapters/memory-store.ts";
import { type Operations, operations, perform } from "../../src/adapters/operations/perform.ts";
import type { RecordKind, RecordKinds } from "../../src/adapters/operations/records.ts";
import {
  type Answer,
  type CallOptions,
  defaultStoreSettings,
  type OperationName,
  type RequestOf,
  type Store,
  storeFrom,
} from "../../src/ports/store.ts";
import { fnv1a, fnv1aStart } from "../../src/testing/seeded-random.ts";
import { type SimulatedProcess, wallEpochMs } from "../../src/testing/simulated-process.ts";
import type { SimulatedStoreOptions, StoreCall, StoreExecution } from "../../src/testing/simulated-store.ts";
import { JournaledRecords } from "../simulation/checks/journaled-records.ts";
import type { ChoiceKernel, EventLabel, Fault } from "./choice-kernel.ts";

/** One way, for every request and every answer. */
const travelMs = 1;

export function createChoiceStore(kernel: ChoiceKernel, options: SimulatedStoreOptions) {
  const records = options.records ?? new MemoryRecords();
  return new StoreOfChoices(kernel, { ...options, records });
}

type Call<Name extends OperationName> = {
  readonly caller: string;
  readonly name: Name;
  readonly request: RequestOf<Name>;
  readonly notAfterMs: number;
};

/** A call on its way; `settle` has an effect only once. */
type Pending<Name extends OperationName> = {
  readonly process: SimulatedProcess;
  readonly call: Call<Name>;
  /** Tells it from all others of its process. */
  readonly what: string;
  readonly deadlineMs: number;
  settle(answer: Answer<Name>): void;
};

class StoreOfChoices {
  readonly records: MemoryRecords;
  readonly #kernel: ChoiceKernel;
  readonly #options: SimulatedStoreOptions;
  readonly #table: Operations;

  constructor(kernel: ChoiceKernel, options: SimulatedStoreOptions & { readonly records: MemoryRecords }) {
    this.#kernel = kernel;
    this.#options = options;
    this.records = options.records;
    this.#table = options.table ?? operations;
  }

  connect(process: SimulatedProcess): Store {
    let calls = 0;
    return storeFrom(
      (name, request, call) => {
        calls += 1;
        return this.#call(process, calls, name, request, call);
      },
      async () => {},
    );
  }

  timeMs(): number {
    return Math.floor(this.#timeUs() / 1_000);
  }

  #timeUs(): number {
    return Math.floor((wallEpochMs + this.#kernel.nowMs()) * 1_000);
  }

  #call<Name extends OperationName>(
    process: SimulatedProcess,
    number: number,
    name: Name,
    request: RequestOf<Name>,
    { deadlineMs, notAfterMs = this.timeMs() + Math.floor(deadlineMs) }: CallOptions,
  ): Promise<Answer<Name>> {
    return new Promise((resolve) => {
      if (process.state() === "crashed") return;
      const call: Call<Name> = { caller: process.name, name, request, notAfterMs };
      const { onSend, onAnswer } = this.#options;
      let waiting = true;
      const settle = (answer: Answer<Name>) => {
        if (!waiting) return;
        waiting = false;
        cancelDeadline();
        onAnswer?.(call as unknown as StoreCall, answer as Answer<OperationName>);
        resolve(answer);
      };
      const cancelDeadline = process.clock.timer(deadlineMs, () =>
        settle({ kind: "unknown", cause: "deadline", notAfterMs }),
      );
      onSend?.(call as unknown as StoreCall);
      this.#send({ process, call, what: `${name} (call ${number})`, deadlineMs, settle });
    });
  }

  #send<Name extends OperationName>(pending: Pending<Name>): void {
    const { process, call, what, deadlineMs } = pending;
    const { notAfterMs } = call;
    // As late as it can be and still have its effect: the caller has given up by then.
    const ghost = (name: string) =>
      this.#kernel.schedule(
        { kind: "request", process: process.name, what: `${what}, ${name}` },
        Math.max(0, Math.floor(deadlineMs) - travelMs),
        () => void this.#execute(call, "first"),
      );
    const faults: readonly Fault[] = [
      { name: "the request is lost", happen: () => {} },
      { name: "the answer is lost", happen: () => void this.#execute(call, "first") },
      { name: "the request is late", happen: () => void ghost("late") },
      { name: "executed twice", happen: () => this.#executeTwice(pending) },
      {
        name: "the connection breaks, the request goes on",
        happen: () => {
          this.#reply(pending, { kind: "unknown", cause: "connection reset", notAfterMs });
          ghost("after its connection broke");
        },
      },
    ];
    this.#kernel.schedule({ kind: "request", process: process.name, what, faults }, travelMs, () =>
      this.#reply(pending, this.#execute(call, "first")),
    );
  }

  /** As a transport that did not hear of the first execution: the answer of the second one counts. */
  #executeTwice<Name extends OperationName>(pending: Pending<Name>): void {
    const { process, call, what } = pending;
    const { notAfterMs } = call;
    this.#execute(call, "first");
    this.#kernel.schedule(
      { kind: "request", process: process.name, what: `${what}, again` },
      travelMs,
      () => {
        const answer = this.#execute(call, "second");
        const tooLate = answer.kind === "unavailable";
        this.#reply(pending, tooLate ? { kind: "unknown", cause: "sent twice", notAfterMs } : answer);
      },
    );
  }

  #execute<Name extends OperationName>(
    call: Call<Name>,
    execution: StoreExecution["execution"],
  ): Answer<Name> {
    const { records } = this;
    const settings = this.#options.settings ?? defaultStoreSettings;
    const answer = perform(this.#table, { records, nowUs: this.#timeUs(), settings }, call);
    const storeTimeMs = this.timeMs();
    this.#kernel.note("store", call.caller, call.name, answer.kind);
    const executed = { ...call, outcome: answer, storeTimeMs, records, execution };
    this.#options.onOperation?.(executed as unknown as StoreExecution);
    return answer;
  }

  #reply<Name extends OperationName>({ process, what, settle }: Pending<Name>, answer: Answer<Name>): void {
    // The text holds all of it: what a process will do follows from what it was told.
    const told = `${what} answered ${answer.kind} ${fnv1a(fnv1aStart, JSON.stringify(answer)) >>> 0}`;
    const label: EventLabel = { kind: "answer", process: process.name, what: told };
    this.#kernel.labelled(label, () => process.deliver(travelMs, () => settle(answer)));
  }
}

export class HashedRecords extends JournaledRecords {
  /** Sums over all records, by two hashes: they do not depend on the order in which the records were written. */
  #sums: readonly [number, number] = [0, 0];

  override put<Kind extends RecordKind>(
    kind: Kind,
    scope: string,
    member: string,
    value: RecordKinds[Kind],
  ): void {
    this.#add(-1, kind, scope, member);
    super.put(kind, scope, member, value);
    this.#add(1, kind, scope, member);
  }

  override erase(kind: RecordKind, scope: string, member: string): void {
    this.#add(-1, kind, scope, member);
    super.erase(kind, scope, member);
  }

  contentHash(): string {
    return this.#sums.join();
  }

  #add(sign: 1 | -1, kind: RecordKind, scope: string, member: string): void {
    const value = this.get(kind, scope, member);
    if (value === undefined) return;
    const text = `${kind}\n${scope}\n${member}\n${JSON.stringify(value)}`;
    const [one, other] = this.#sums;
    this.#sums = [
      (one + sign * fnv1a(fnv1aStart, text)) | 0,
      (other + sign * fnv1a(Math.imul(fnv1aStart, 31), text)) | 0,
    ];
  }
}
