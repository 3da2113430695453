// The simulator's kernel: virtual time, one event after the other in an order that the seed decides, and a trace of it all.
import type { CancelTimer } from "../ports/ports.ts";
import { runInBursts } from "./run-in-bursts.ts";
import { createSeededRandom, fnv1a, fnv1aStart, fnv1aText, type SeededRandom } from "./seeded-random.ts";
import { type ProcessOptions, type SimulatedProcess, startProcess } from "./simulated-process.ts";

export type Kernel = {
  readonly random: SeededRandom;
  /** True virtual time, which no process can see: each has a clock of its own. */
  nowMs(): number;
  /** An event of the world outside all processes: it happens whatever becomes of them. With a gate, that is what happens. */
  after(delayMs: number, callback: () => void, gate?: Gate): CancelTimer;
  /** A new simulated process. A restart is a new process under a new name. */
  process(name: string, options?: ProcessOptions): SimulatedProcess;
  /** Adds a line to the trace; what tells two runs apart must be noted. */
  note(...parts: readonly NotePart[]): void;
  /** Ends the run at its next step with this error; for failures that are found inside promise chains. */
  fail(error: unknown): void;
  run(limits: RunLimits): Promise<RunEnd>;
  /** Runs events until the promise settles; an error when nothing is left to do and it is still pending. */
  complete<Value>(promise: Promise<Value>, limits?: Pick<RunLimits, "eventsMax">): Promise<Value>;
  /** Events run so far. */
  events(): number;
  /** FNV-1a over all notes, and the number of draws: equal for equal seeds. */
  traceHash(): string;
};

export type NotePart = string | number;

/** An event that has come due; once it is cancelled, its callback does nothing. */
export type Due = { readonly callback: () => void };

/** Decides what becomes of an event: it may be held back, and its callback called later or never. */
export type Gate = (due: Due) => void;

export type KernelOptions = {
  /** Receives every note as one line, with its virtual time. */
  readonly onNote?: (line: string) => void;
};

/** `untilMs` is virtual time; `until` is asked before each event. Without either the run ends when nothing is left to do. */
export type RunLimits = {
  readonly untilMs?: number;
  readonly until?: () => boolean;
  readonly eventsMax?: number;
};

export type RunEnd =
  /** `until` said so. */
  | { readonly kind: "done" }
  | { readonly kind: "time_reached" }
  /** No event is left. */
  | { readonly kind: "idle" }
  | { readonly kind: "events_spent" };

/** Far more than any test needs: what it stops are endless loops. */
const eventsMaxByDefault = 1_000_000;

export function createKernel(seed: number, options: KernelOptions = {}): Kernel {
  return new EventKernel(createSeededRandom(seed), options.onNote);
}

class EventKernel implements Kernel {
  readonly random: SeededRandom;
  readonly #tiebreaks: SeededRandom;
  readonly #onNote: ((line: string) => void) | undefined;
  readonly #heap = new EventHeap();
  readonly #names = new Set<string>();
  #nowMs = 0;
  #scheduled = 0;
  #events = 0;
  #hash = fnv1aStart;
  /** The time of the last note, and as a text: most events have several. */
  #notedMs = Number.NaN;
  #notedText = "";
  #failure: { readonly error: unknown } | undefined;

  constructor(random: SeededRandom, onNote: ((line: string) => void) | undefined) {
    this.random = random;
    this.#tiebreaks = random.stream("tiebreak");
    this.#onNote = onNote;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  after(delayMs: number, callback: () => void, gate: Gate = letPass): CancelTimer {
    if (!(delayMs >= 0)) throw new Error(`an event cannot be ${delayMs} ms from now`);
    const event: HeapEvent = {
      atMs: this.#nowMs + delayMs,
      tiebreak: (this.#tiebreaks.fraction() * 2 ** 32 - 2 ** 31) | 0,
      sequence: this.#scheduled,
      gate,
      callback,
      cancelled: false,
    };
    this.#scheduled += 1;
    this.#heap.add(event);
    return () => {
      event.cancelled = true;
      event.callback = nothing;
    };
  }

  process(name: string, options: ProcessOptions = {}): SimulatedProcess {
    if (this.#names.has(name)) throw new Error(`a process named ${name} was already started`);
    this.#names.add(name);
    return startProcess(this, name, options);
  }

  note(...parts: readonly NotePart[]): void {
    if (this.#notedMs !== this.#nowMs) {
      this.#notedMs = this.#nowMs;
      this.#notedText = `${this.#nowMs}`;
    }
    // The hash of the line, part by part: to join it for nobody but the hash took 2 % of a simulation.
    let hash = fnv1a(this.#hash, this.#notedText);
    for (const part of parts) hash = fnv1a(fnv1a(hash, " "), typeof part === "string" ? part : `${part}`);
    this.#hash = hash;
    this.#onNote?.(`${this.#notedText} ${parts.join(" ")}`);
  }

  fail(error: unknown): void {
    this.#failure ??= { error };
  }

  run(limits: RunLimits): Promise<RunEnd> {
    let events = 0;
    return runInBursts(() => {
      const end = this.#step(limits, events);
      events += 1;
      return end;
    });
  }

  /** Runs one event, or says why none is to be run. */
  #step({ untilMs, until, eventsMax = eventsMaxByDefault }: RunLimits, events: number): RunEnd | undefined {
    if (this.#failure !== undefined) throw this.#failure.error;
    if (until?.()) return { kind: "done" };
    const next = this.#heap.peek();
    if (untilMs !== undefined && (next === undefined || next.atMs > untilMs)) {
      this.#nowMs = Math.max(this.#nowMs, untilMs);
      return { kind: "time_reached" };
    }
    if (next === undefined) return { kind: "idle" };
    if (events >= eventsMax) return { kind: "events_spent" };
    this.#heap.take();
    this.#nowMs = next.atMs;
    this.#events += 1;
    next.gate(next);
    return undefined;
  }

  async complete<Value>(promise: Promise<Value>, limits: Pick<RunLimits, "eventsMax"> = {}): Promise<Value> {
    let settled = false;
    const settle = () => {
      settled = true;
    };
    promise.then(settle, settle);
    const end = await this.run({ ...limits, until: () => settled });
    if (end.kind === "idle") {
      throw new Error(`deadlock at ${this.#nowMs} ms: no event is left, and the promise is still pending`);
    }
    if (end.kind === "events_spent") {
      throw new Error(
        `no end in sight at ${this.#nowMs} ms: the events allowed are spent, the promise is pending`,
      );
    }
    return promise;
  }

  events(): number {
    return this.#events;
  }

  traceHash(): string {
    return `${fnv1aText(this.#hash)}-${this.random.draws()}`;
  }
}

type HeapEvent = {
  readonly atMs: number;
  /** What was drawn, as a whole number of 32 bits: V8 keeps a fraction in an object of its own. */
  readonly tiebreak: number;
  readonly sequence: number;
  readonly gate: Gate;
  callback: () => void;
  cancelled: boolean;
};

const letPass: Gate = ({ callback }) => callback();

/** In the place of a cancelled event's callback: it stays in the heap until its time, and must keep nothing else alive. */
const nothing = () => {};

class EventHeap {
  readonly #events: HeapEvent[] = [];

  add(event: HeapEvent): void {
    const events = this.#events;
    let index = events.length;
    events.push(event);
    while (index > 0) {
      const parent = (index - 1) >>> 1;
      const above = events[parent] as HeapEvent;
      if (!isBefore(event, above)) break;
      events[index] = above;
      index = parent;
    }
    events[index] = event;
  }

  /** The earliest event that is not cancelled, left in place. */
  peek(): HeapEvent | undefined {
    while (this.#events[0]?.cancelled) this.#removeFirst();
    return this.#events[0];
  }

  /** The earliest event that is not cancelled, taken out. */
  take(): HeapEvent | undefined {
    const first = this.peek();
    if (first !== undefined) this.#removeFirst();
    return first;
  }

  #removeFirst(): void {
    const events = this.#events;
    const moved = events.pop();
    if (moved === undefined || events.length === 0) return;
    let index = 0;
    for (;;) {
      const left = 2 * index + 1;
      if (left >= events.length) break;
      const right = left + 1;
      const rightIsLess =
        right < events.length && isBefore(events[right] as HeapEvent, events[left] as HeapEvent);
      const child = rightIsLess ? right : left;
      const below = events[child] as HeapEvent;
      if (!isBefore(below, moved)) break;
      events[index] = below;
      index = child;
    }
    events[index] = moved;
  }
}

function isBefore(one: HeapEvent, other: HeapEvent): boolean {
  if (one.atMs !== other.atMs) return one.atMs < other.atMs;
  if (one.tiebreak !== other.tiebreak) return one.tiebreak < other.tiebreak;
  return one.sequence < other.sequence;
}
