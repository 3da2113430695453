// The store as simulated processes reach it: one memory state behind a network that delays, loses, repeats and breaks off.
import { MemoryRecords } from "../adapters/memory-store.ts";
import { type Operations, operations, perform } from "../adapters/operations/perform.ts";
import type { createStoreClock, StoreClock } from "../adapters/system/store-clock.ts";
import {
  type Answer,
  defaultStoreSettings,
  type OperationName,
  type OutcomeOf,
  type RequestOf,
  type Store,
  type StoreSettings,
  storeFrom,
  type Unavailable,
} from "../ports/store.ts";
import type { Kernel } from "./kernel.ts";
import { type SimulatedProcess, wallEpochMs } from "./simulated-process.ts";
import { type Call, type FaultCounts, Link, noStoreFaults, type StoreFaults } from "./store-link.ts";

export type SimulatedStore = {
  readonly records: MemoryRecords;
  /** The store port as this process has it, over a link of its own. */
  connect(process: SimulatedProcess): Store;
  /** The store's own clock, which never goes back. */
  timeMs(): number;
  /** How far the store's clock has jumped ahead of true time, as it may: a server's with its wall clock, an embedded one's only when it is opened. */
  jumpedMs(): number;
  setFaults(faults: StoreFaults): void;
  /** Sets the wall clock of the store's machine; that of an embedded store may also be set back. */
  jumpClock(ms: number): void;
  /** From now on, and for this long, nobody reaches the store. */
  goUnreachable(ms: number): void;
  /** The server is gone for a time, and with it every connection. */
  goDown(terms: DownTerms): void;
  /** Ends all outages: with faults set to none, everything works from here on. */
  heal(): void;
};

/**
 * `clockMs` is how far the clock of the server that comes back is off. It may be behind by less than the server was gone, so
 * that what it says first is later than all that was said before: fences rest on that, and clocks must be kept so.
 */
type DownTerms = { readonly downMs: number; readonly clockMs: number };

/** Where a process is in a call when something happens to it. */
export type CallMoment = "about to send" | "sent" | "answered";

export type SimulatedStoreOptions = {
  readonly settings?: StoreSettings;
  /** The state to work on; a new one by default. */
  readonly records?: MemoryRecords;
  /** The operations to perform; planted bugs swap one. */
  readonly table?: Operations;
  readonly faults?: StoreFaults;
  /** For a store inside a process: what makes its time of the clocks of its machine. Without it the time is that of a server's wall clock. */
  readonly embeddedClock?: typeof createStoreClock;
  /** Called for every fault that hits. */
  readonly faultCounts?: FaultCounts;
  /** Called when a flow makes a call, at that very moment. */
  readonly onSend?: (call: StoreCall) => void;
  /** Called when the caller gets its answer, at that very moment. */
  readonly onAnswer?: (call: StoreCall, answer: Answer<OperationName>) => void;
  /** Called after each execution at the store, before anybody hears of it. */
  readonly onOperation?: (execution: StoreExecution) => void;
  /** How long the answer is held back after the execution, until what it tells of is durable. */
  readonly heldBackMs?: (call: StoreCall) => number;
  /** Called at each moment of a call, in the process that makes it: it may be paused or crash right there. */
  readonly onMoment?: (process: SimulatedProcess, moment: CallMoment) => void;
  /** A second store that is asked the same. */
  readonly twin?: StoreTwin;
  /** Called before the request of a process that is gone is executed all the same. */
  readonly onGhost?: (call: StoreCall, sentAtMs: number) => void;
};

type NamedRequest = {
  [Name in OperationName]: { readonly name: Name; readonly request: RequestOf<Name> };
}[OperationName];

export type StoreCall = NamedRequest & { readonly caller: string; readonly notAfterMs: number };

type NamedOutcome = {
  [Name in OperationName]: {
    readonly name: Name;
    readonly request: RequestOf<Name>;
    readonly outcome: OutcomeOf<Name> | Unavailable;
  };
}[OperationName];

export type StoreExecution = NamedOutcome & {
  readonly caller: string;
  readonly notAfterMs: number;
  readonly storeTimeMs: number;
  readonly records: MemoryRecords;
  /** `second` when the transport sent it again. */
  readonly execution: "first" | "second";
};

export function createSimulatedStore(kernel: Kernel, options: SimulatedStoreOptions = {}): SimulatedStore {
  return new StoreServer(kernel, options);
}

class StoreServer implements SimulatedStore {
  readonly kernel: Kernel;
  readonly records: MemoryRecords;
  readonly options: SimulatedStoreOptions;
  faults: StoreFaults;
  #links: Link[] = [];
  /** How far the wall clock is off. */
  #wallOffsetMs = 0;
  #storeClock: StoreClock | undefined;
  /** The last time of an embedded store before it was closed, when that was, and how far it has jumped by being opened. */
  #storedMs = wallEpochMs;
  #closedAtMs = 0;
  #openedAheadMs = 0;
  #unreachableUntilMs = 0;
  #downUntilMs = 0;

  constructor(kernel: Kernel, options: SimulatedStoreOptions) {
    this.kernel = kernel;
    this.options = options;
    this.records = options.records ?? new MemoryRecords();
    this.faults = options.faults ?? noStoreFaults;
  }

  connect(process: SimulatedProcess): Store {
    const link = new Link(this, process);
    this.#links.push(link);
    return storeFrom(
      (name, request, call) => link.call(name, request, call),
      async () => {},
    );
  }

  timeMs(): number {
    return Math.floor(this.#timeUs() / 1000);
  }

  setFaults(faults: StoreFaults): void {
    this.faults = faults;
  }

  jumpedMs(): number {
    return this.options.embeddedClock === undefined ? this.#wallOffsetMs : this.#openedAheadMs;
  }

  jumpClock(ms: number): void {
    if (ms < 0 && this.options.embeddedClock === undefined) {
      throw new Error("the store's clock never goes back");
    }
    this.kernel.note("store clock jumped by", ms);
    this.hit("store clock jump");
    this.#wallOffsetMs += ms;
  }

  goUnreachable(ms: number): void {
    this.kernel.note("store unreachable for", ms);
    this.hit("store outage");
    this.#unreachableUntilMs = Math.max(this.#unreachableUntilMs, this.kernel.nowMs() + ms);
  }

  goDown({ downMs, clockMs }: DownTerms): void {
    if (this.options.embeddedClock !== undefined) this.#closeEmbedded();
    else if (clockMs <= -downMs) throw new Error("the store's clock never goes back");
    this.kernel.note("store down for", downMs, "its clock off by", clockMs);
    this.#wallOffsetMs += clockMs;
    this.#downUntilMs = Math.max(this.#downUntilMs, this.kernel.nowMs() + downMs);
    for (const link of this.#links) link.breakAll();
  }

  heal(): void {
    this.#unreachableUntilMs = 0;
    for (const link of this.#links) link.cutUntilMs = 0;
  }

  hit(fault: string): void {
    this.options.faultCounts?.hit(fault);
  }

  isReachable(): boolean {
    return !this.isDown() && this.kernel.nowMs() >= this.#unreachableUntilMs;
  }

  /** Then nothing is executed, whatever still arrives. */
  isDown(): boolean {
    return this.kernel.nowMs() < this.#downUntilMs;
  }

  execute<Name extends OperationName>(
    call: Call<Name>,
    execution: StoreExecution["execution"],
  ): { readonly answer: Answer<Name>; readonly storeTimeMs: number } {
    const settings = this.options.settings ?? defaultStoreSettings;
    const context = { records: this.records, nowUs: this.#timeUs(), settings };
    const answer = perform(this.options.table ?? operations, context, call);
    if (this.options.twin !== undefined) {
      const performed = { ...call, answer, wallMs: this.#nowMs() };
      this.options.twin.performed(performed as unknown as PerformedCall);
    }
    const storeTimeMs = this.timeMs();
    this.kernel.note("store", call.caller, call.name, answer.kind, storeTimeMs);
    // Field by field: spreading the call took 5 % of a simulation.
    const { caller, name, request, notAfterMs } = call;
    const { records } = this;
    const executed = { caller, name, request, notAfterMs, outcome: answer, storeTimeMs, records, execution };
    this.options.onOperation?.(executed as unknown as StoreExecution);
    return { answer, storeTimeMs };
  }

  #timeUs(): number {
    return Math.floor(this.#nowMs() * 1000);
  }

  #nowMs(): number {
    const { embeddedClock } = this.options;
    if (embeddedClock === undefined) return this.#wallMs();
    if (this.isDown()) return this.#storedMs;
    this.#storeClock ??= this.#openEmbedded(embeddedClock);
    return this.#storeClock.nowMs();
  }

  #wallMs(): number {
    return wallEpochMs + this.kernel.nowMs() + this.#wallOffsetMs;
  }

  #openEmbedded(createClock: typeof createStoreClock): StoreClock {
    const clock = { monotonicMs: () => this.kernel.nowMs(), wallMs: () => this.#wallMs() };
    const opened = createClock({ clock, storedMs: this.#storedMs });
    const closedForMs = this.kernel.nowMs() - this.#closedAtMs;
    this.#openedAheadMs += opened.nowMs() - this.#storedMs - closedForMs;
    return opened;
  }

  #closeEmbedded(): void {
    this.#storedMs = this.#nowMs();
    if (!this.isDown()) this.#closedAtMs = this.kernel.nowMs();
    this.#storeClock = undefined;
  }
}

export type ArrivedCall = {
  readonly call: StoreCall;
  /** Performs the call, and sends its answer. */
  execute(): void;
  /** The store is gone: its caller will not know. */
  lose(): void;
};

export type PerformedCall = StoreCall & {
  readonly answer: Answer<OperationName>;
  /** The store's time, before it is rounded. */
  readonly wallMs: number;
};

export type StoreTwin = {
  /** A call has arrived: the twin says when it is executed, and whether at all. */
  gather(arrived: ArrivedCall): void;
  performed(call: PerformedCall): void;
};
