// A kernel whose order is chosen from outside: messages may be late, timers are exact, and every step is a list of options.

import type { CancelTimer } from "../../src/ports/ports.ts";
import type { Kernel, NotePart, RunEnd, RunLimits } from "../../src/testing/kernel.ts";
import { runInBursts } from "../../src/testing/run-in-bursts.ts";
import {
  createSeededRandom,
  fnv1a,
  fnv1aStart,
  fnv1aText,
  type SeededRandom,
} from "../../src/testing/seeded-random.ts";
import {
  type ProcessOptions,
  type SimulatedProcess,
  startProcess,
} from "../../src/testing/simulated-process.ts";

/** `timer` happens when it is due; a `request` or an `answer` is on its way, and may be overtaken by anything. */
type EventKind = "timer" | "request" | "answer";

/** Something else that may happen instead of the event. */
export type Fault = { readonly name: string; readonly happen: () => void };

export type EventLabel = {
  readonly kind: EventKind;
  /** Absent for events of the world outside all processes. */
  readonly process?: string;
  /** Tells it from all others of its process; for the same history of the process it is the same. */
  readonly what: string;
  readonly faults?: readonly Fault[];
};

type PendingEvent = EventLabel & {
  readonly atMs: number;
  readonly sequence: number;
  readonly callback: () => void;
};

/** What may happen next. The first option is the earliest event, as it is. */
export type Option = {
  readonly text: string;
  /** Another event than the earliest. */
  readonly overtakes: boolean;
  readonly isFault: boolean;
};

/** Asked at every step with more than one option; `stop` ends the run there. */
type Chooser = (options: readonly Option[]) => number | "stop";

export type ChoiceKernel = Kernel & {
  /** As `after`, with what the event is. */
  schedule(label: EventLabel, delayMs: number, callback: () => void): CancelTimer;
  /** What this process schedules while the work is done gets this label. */
  labelled<Value>(label: EventLabel, work: () => Value): Value;
  /** These may be paused for so long, or crash, whenever something happens to them. */
  mayFail(names: readonly string[], pauseMs: number): void;
  /** Runs as the chooser says until the condition holds. */
  explore(until: () => boolean, choose: Chooser): Promise<"done" | "stopped">;
  /** Requests and answers on their way. */
  messages(): number;
  /** All that decides how it goes on, but for the records of the store. */
  stateText(): string;
};

/** Far more than a scenario needs: what it stops are loops without an end. */
const eventsMaxByDefault = 100_000;

export function createChoiceKernel(onNote?: (line: string) => void): ChoiceKernel {
  return new SteeredKernel(onNote);
}

class SteeredKernel implements ChoiceKernel {
  readonly random: SeededRandom = createSeededRandom(1);
  readonly #onNote: ((line: string) => void) | undefined;
  readonly #pending = new Set<PendingEvent>();
  readonly #processes = new Map<string, SimulatedProcess>();
  /** For each process what happened to it so far, as a hash: with it, what it will do is decided. */
  readonly #histories = new Map<string, number>();
  readonly #scheduledBy = new Map<string, number>();
  #fallible: readonly string[] = [];
  #pauseMs = 0;
  #label: EventLabel | undefined;
  #nowMs = 0;
  #scheduled = 0;
  #events = 0;
  #hash = fnv1aStart;
  #failure: { readonly error: unknown } | undefined;

  constructor(onNote: ((line: string) => void) | undefined) {
    this.#onNote = onNote;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  after(delayMs: number, callback: () => void): CancelTimer {
    return this.schedule({ kind: "timer", what: `world ${this.#count("")}` }, delayMs, callback);
  }

  schedule(label: EventLabel, delayMs: number, callback: () => void): CancelTimer {
    if (!(delayMs >= 0)) throw new Error(`an event cannot be ${delayMs} ms from now`);
    const atMs = this.#nowMs + delayMs;
    const event = { ...label, atMs, sequence: this.#scheduled, callback };
    this.#scheduled += 1;
    this.#pending.add(event);
    return () => {
      this.#pending.delete(event);
    };
  }

  labelled<Value>(label: EventLabel, work: () => Value): Value {
    this.#label = label;
    try {
      return work();
    } finally {
      this.#label = undefined;
    }
  }

  process(name: string, options: ProcessOptions = {}): SimulatedProcess {
    if (this.#processes.has(name)) throw new Error(`a process named ${name} was already started`);
    const after: Kernel["after"] = (delayMs, callback, gate = (due) => due.callback()) => {
      const label = this.#label ?? { kind: "timer", process: name, what: `timer ${this.#count(name)}` };
      const due = { callback };
      const cancel = this.schedule(label, delayMs, () => gate(due));
      return () => {
        due.callback = () => {};
        cancel();
      };
    };
    const own: Kernel = {
      random: this.random,
      nowMs: () => this.#nowMs,
      after,
      process: () => this.process(name),
      note: (...parts) => this.note(...parts),
      fail: (error) => this.fail(error),
      run: (limits) => this.run(limits),
      complete: (promise, limits) => this.complete(promise, limits),
      events: () => this.#events,
      traceHash: () => this.traceHash(),
    };
    const process = startProcess(own, name, options);
    this.#processes.set(name, process);
    return process;
  }

  mayFail(names: readonly string[], pauseMs: number): void {
    this.#fallible = names;
    this.#pauseMs = pauseMs;
  }

  note(...parts: readonly NotePart[]): void {
    const line = `${this.#nowMs} ${parts.join(" ")}`;
    this.#onNote?.(line);
    this.#hash = fnv1a(this.#hash, line);
  }

  fail(error: unknown): void {
    this.#failure ??= { error };
  }

  async explore(until: () => boolean, choose: Chooser): Promise<"done" | "stopped"> {
    let stopped = false;
    await this.#loop(eventsMaxByDefault, () => {
      if (until()) return { kind: "done" };
      const choices = this.#choices();
      if (choices.length === 0) throw new Error(`deadlock at ${this.#nowMs} ms: no event is left`);
      const chosen = choices.length === 1 ? 0 : choose(choices);
      if (chosen === "stop") {
        stopped = true;
        return { kind: "done" };
      }
      const choice = choices[chosen];
      if (choice === undefined) throw new Error(`there are ${choices.length} options, and no ${chosen}`);
      this.note(`step ${choice.text}`);
      this.#happen(choice.event, choice.happen, choice.isFault ? choice.text : choice.event.what);
      return undefined;
    });
    return stopped ? "stopped" : "done";
  }

  run({ untilMs, until, eventsMax = eventsMaxByDefault }: RunLimits): Promise<RunEnd> {
    return this.#loop(eventsMax, () => {
      if (until?.()) return { kind: "done" };
      const next = this.#earliest(this.#pending);
      if (untilMs !== undefined && (next === undefined || next.atMs > untilMs)) {
        this.#nowMs = Math.max(this.#nowMs, untilMs);
        return { kind: "time_reached" };
      }
      if (next === undefined) return { kind: "idle" };
      this.#happen(next, next.callback, next.what);
      return undefined;
    });
  }

  async complete<Value>(promise: Promise<Value>, limits: Pick<RunLimits, "eventsMax"> = {}): Promise<Value> {
    let settled = false;
    const settle = () => {
      settled = true;
    };
    promise.then(settle, settle);
    const end = await this.run({ ...limits, until: () => settled });
    if (end.kind !== "done") throw new Error(`${end.kind} at ${this.#nowMs} ms, and the promise is pending`);
    return promise;
  }

  events(): number {
    return this.#events;
  }

  traceHash(): string {
    return fnv1aText(this.#hash);
  }

  messages(): number {
    let amount = 0;
    for (const { kind } of this.#pending) if (kind !== "timer") amount += 1;
    return amount;
  }

  stateText(): string {
    const parts = [String(this.#nowMs), String(this.random.draws())];
    for (const [name, hash] of this.#histories) parts.push(`${name} ${hash}`);
    for (const { kind, process, what, atMs } of this.#pending) {
      if (kind !== "timer" || process === undefined) parts.push(`${process} ${kind} ${what} ${atMs}`);
    }
    return parts.sort().join("\n");
  }

  /** Promise chains of any depth have run to their next wait whenever a step is taken. */
  #loop(eventsMax: number, step: () => RunEnd | undefined): Promise<RunEnd> {
    let events = 0;
    return runInBursts(() => {
      if (this.#failure !== undefined) throw this.#failure.error;
      const end = events >= eventsMax ? ({ kind: "events_spent" } as const) : step();
      events += 1;
      return end;
    });
  }

  #happen(event: PendingEvent, happen: () => void, what: string): void {
    this.#pending.delete(event);
    this.#nowMs = Math.max(this.#nowMs, event.atMs);
    this.#events += 1;
    // A request is the store's matter: its process learns of it by the answer.
    if (event.process !== undefined && event.kind !== "request") {
      const before = this.#histories.get(event.process) ?? fnv1aStart;
      this.#histories.set(event.process, fnv1a(before, `${this.#nowMs} ${what}`));
    }
    happen();
  }

  #choices(): ReadonlyArray<Option & { readonly event: PendingEvent; readonly happen: () => void }> {
    return this.#candidates().flatMap((event, index) => {
      const overtakes = index > 0;
      const text = `${event.process ?? "world"}: ${event.what}`;
      const plain = { text, overtakes, isFault: false, event, happen: event.callback };
      const faults = this.#faultsOf(event).map(({ name, happen }) => ({
        ...{ text: `${text} — ${name}`, overtakes, isFault: true, event, happen },
      }));
      return [plain, ...faults];
    });
  }

  /** Everything that is due at the time of the next timer: it is exact, and messages may be as late as it gets. */
  #candidates(): readonly PendingEvent[] {
    const timers = [...this.#pending].filter(({ kind }) => kind === "timer");
    const horizonMs = this.#earliest(timers)?.atMs ?? Number.POSITIVE_INFINITY;
    return [...this.#pending].filter(({ atMs }) => atMs <= horizonMs).sort(byTime);
  }

  #earliest(events: Iterable<PendingEvent>): PendingEvent | undefined {
    let first: PendingEvent | undefined;
    for (const event of events) if (first === undefined || byTime(event, first) < 0) first = event;
    return first;
  }

  #faultsOf(event: PendingEvent): readonly Fault[] {
    const { kind, process: name, faults = [] } = event;
    if (kind === "request" || name === undefined || !this.#fallible.includes(name)) return faults;
    const process = this.#processes.get(name);
    if (process?.state() !== "running") return faults;
    const pause = () => {
      process.pause(this.#pauseMs);
      event.callback();
    };
    return [
      ...faults,
      { name: `${name} crashes before`, happen: () => process.crash() },
      { name: `${name} is paused before`, happen: pause },
    ];
  }

  #count(name: string): number {
    const count = (this.#scheduledBy.get(name) ?? 0) + 1;
    this.#scheduledBy.set(name, count);
    return count;
  }
}

function byTime(one: PendingEvent, other: PendingEvent): number {
  return one.atMs - other.atMs || one.sequence - other.sequence;
}
