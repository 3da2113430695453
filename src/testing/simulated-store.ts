// The store as simulated processes reach it: one memory state behind a network that delays, loses, repeats and breaks off.
import { MemoryRecords } from "../adapters/memory/memory-records.ts";
import { type Operations, operations, perform } from "../adapters/operations/perform.ts";
import {
  type Answer,
  type CallOptions,
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
import type { SeededRandom } from "./seeded-random.ts";
import { type SimulatedProcess, wallEpochMs } from "./simulated-process.ts";
import { noStoreFaults, type StoreFaults } from "./store-faults.ts";

export type SimulatedStore = {
  readonly records: MemoryRecords;
  /** The store port as this process has it, over a link of its own. */
  connect(process: SimulatedProcess): Store;
  /** The store's own clock, which never goes back. */
  timeMs(): number;
  setFaults(faults: StoreFaults): void;
  jumpClock(ms: number): void;
  /** From now on, and for this long, nobody reaches the store. */
  goUnreachable(ms: number): void;
  /** Ends all outages: with faults set to none, everything works from here on. */
  heal(): void;
};

export type SimulatedStoreOptions = {
  readonly settings?: StoreSettings;
  /** The state to work on; a new one by default. */
  readonly records?: MemoryRecords;
  /** The operations to perform; planted bugs swap one. */
  readonly table?: Operations;
  readonly faults?: StoreFaults;
  /** Called when a flow makes a call, at that very moment. */
  readonly onSend?: (call: StoreCall) => void;
  /** Called when the caller gets its answer, at that very moment. */
  readonly onAnswer?: (call: StoreCall, answer: Answer<OperationName>) => void;
  /** Called after each execution at the store, before anybody hears of it. */
  readonly onOperation?: (execution: StoreExecution) => void;
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
  #jumpedMs = 0;
  #unreachableUntilMs = 0;

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

  jumpClock(ms: number): void {
    if (ms < 0) throw new Error("the store's clock never goes back");
    this.kernel.note("store clock jumped by", ms);
    this.#jumpedMs += ms;
  }

  goUnreachable(ms: number): void {
    this.kernel.note("store unreachable for", ms);
    this.#unreachableUntilMs = Math.max(this.#unreachableUntilMs, this.kernel.nowMs() + ms);
  }

  heal(): void {
    this.#unreachableUntilMs = 0;
    for (const link of this.#links) link.cutUntilMs = 0;
  }

  isReachable(): boolean {
    return this.kernel.nowMs() >= this.#unreachableUntilMs;
  }

  execute<Name extends OperationName>(
    call: Call<Name>,
    execution: StoreExecution["execution"],
  ): { readonly answer: Answer<Name>; readonly storeTimeMs: number } {
    const settings = this.options.settings ?? defaultStoreSettings;
    const context = { records: this.records, nowUs: this.#timeUs(), settings };
    const answer = perform(this.options.table ?? operations, context, call);
    const storeTimeMs = this.timeMs();
    this.kernel.note("store", call.caller, call.name, answer.kind, storeTimeMs);
    const { records } = this;
    const executed = { ...call, outcome: answer, storeTimeMs, records, execution };
    this.options.onOperation?.(executed as unknown as StoreExecution);
    return { answer, storeTimeMs };
  }

  #timeUs(): number {
    return Math.floor((wallEpochMs + this.kernel.nowMs() + this.#jumpedMs) * 1000);
  }
}

type Call<Name extends OperationName> = {
  readonly caller: string;
  readonly name: Name;
  readonly request: RequestOf<Name>;
  readonly notAfterMs: number;
};

/** A call on its way; `settle` has an effect only once. */
type Pending<Name extends OperationName> = {
  readonly call: Call<Name>;
  readonly deadlineMs: number;
  /** The connection broke: the request may still arrive, a reply cannot. */
  broken: boolean;
  settle(answer: Answer<Name>, storeTimeMs?: number): void;
};

/** The connection of one process, with what its adapter remembers: the last store time it saw. */
class Link {
  /** While cut off, this process alone does not reach the store. */
  cutUntilMs = 0;
  readonly #server: StoreServer;
  readonly #process: SimulatedProcess;
  readonly #random: SeededRandom;
  #seen: { readonly storeTimeMs: number; readonly monotonicMs: number };

  constructor(server: StoreServer, process: SimulatedProcess) {
    this.#server = server;
    this.#process = process;
    this.#random = process.random.stream("store");
    this.#seen = { storeTimeMs: server.timeMs(), monotonicMs: process.clock.monotonicMs() };
  }

  call<Name extends OperationName>(
    name: Name,
    request: RequestOf<Name>,
    options: CallOptions,
  ): Promise<Answer<Name>> {
    return new Promise((resolve) => {
      const { clock } = this.#process;
      if (this.#process.state() === "crashed") return;
      const { onAnswer, onSend } = this.#server.options;
      const leftMs = this.#countdown(options.deadlineMs);
      const callUntil = (notAfterMs: number) => ({ caller: this.#process.name, name, request, notAfterMs });
      let call: Call<Name> = callUntil(options.notAfterMs ?? this.#storeTimeMs() + options.deadlineMs);
      let waiting = true;
      const settle = (answer: Answer<Name>) => {
        if (!waiting) return;
        waiting = false;
        cancelDeadline();
        onAnswer?.(call as unknown as StoreCall, answer as Answer<OperationName>);
        resolve(answer);
      };
      const attempt = (tooLate: (storeTimeMs: number) => void) => {
        const arrived = (answer: Answer<Name>, storeTimeMs?: number) => {
          if (waiting && storeTimeMs !== undefined) this.#learn(storeTimeMs);
          const refused = answer.kind === "unavailable" && answer.cause === "too_late";
          if (waiting && refused && storeTimeMs !== undefined) tooLate(storeTimeMs);
          else settle(answer);
        };
        this.#send({ call, deadlineMs: leftMs(), broken: false, settle: arrived });
      };
      const giveUp = () => settle({ kind: "unavailable", cause: "too_late" });
      const cancelDeadline = clock.timer(options.deadlineMs, () =>
        settle({ kind: "unknown", cause: "deadline", notAfterMs: call.notAfterMs }),
      );
      onSend?.(call as unknown as StoreCall);
      attempt((storeTimeMs) => {
        if (options.notAfterMs !== undefined || leftMs() < 1) {
          giveUp();
          return;
        }
        // The estimate of the store's time was wrong. The refusal told the right one and had no effect: ask once more.
        call = callUntil(storeTimeMs + Math.floor(leftMs()));
        attempt(giveUp);
      });
    });
  }

  #countdown(ms: number): () => number {
    const { clock } = this.#process;
    const startMs = clock.monotonicMs();
    return () => ms - (clock.monotonicMs() - startMs);
  }

  #learn(storeTimeMs: number): void {
    this.#seen = { storeTimeMs, monotonicMs: this.#process.clock.monotonicMs() };
  }

  /** An estimate, as real adapters make it: behind by what the last answer took, and by the drift of the clocks since. */
  #storeTimeMs(): number {
    const sinceMs = this.#process.clock.monotonicMs() - this.#seen.monotonicMs;
    return Math.floor(this.#seen.storeTimeMs + sinceMs);
  }

  #send<Name extends OperationName>(pending: Pending<Name>): void {
    const { kernel, faults } = this.#server;
    const random = this.#random;
    this.#startOutage();
    if (!this.#isReachable()) {
      this.#process.deliver(this.#usualTravelMs(), () =>
        pending.settle({ kind: "unavailable", cause: "connection refused" }),
      );
      return;
    }
    const broken = random.chance(faults.connectionResetRate);
    if (broken) this.#breakOff(pending, this.#usualTravelMs());
    if (random.chance(faults.requestLostRate)) return;
    // What a broken connection still delivers is most dangerous while it may have an effect and the caller asks again.
    const travelMs = broken ? random.fraction() * pending.deadlineMs : this.#travelMs();
    kernel.after(travelMs, () => this.#arrive(pending));
  }

  #arrive<Name extends OperationName>(pending: Pending<Name>): void {
    const { kernel, faults } = this.#server;
    const random = this.#random;
    if (!this.#isReachable()) {
      this.#breakOff(pending, 0);
      return;
    }
    if (random.chance(faults.clockJumpRate)) {
      this.#server.jumpClock(Math.ceil(random.fraction() * faults.clockJumpMsMax));
    }
    const { answer, storeTimeMs } = this.#server.execute(pending.call, "first");
    if (random.chance(faults.doubleExecutionRate)) {
      const laterMs = random.chance(0.5) ? 0 : this.#longDelayMs();
      kernel.after(laterMs, () => this.#executeAgain(pending));
      return;
    }
    this.#reply(pending, answer, storeTimeMs);
  }

  /**
   * A transport sends again only because it did not hear of the first execution, so the second one's answer counts.
   * That it came too late says nothing about the first: an adapter that sent twice can then only answer `unknown`.
   */
  #executeAgain<Name extends OperationName>(pending: Pending<Name>): void {
    const { answer, storeTimeMs } = this.#server.execute(pending.call, "second");
    const { notAfterMs } = pending.call;
    const tooLate = answer.kind === "unavailable";
    this.#reply(
      pending,
      tooLate ? { kind: "unknown", cause: "sent twice", notAfterMs } : answer,
      storeTimeMs,
    );
  }

  #reply<Name extends OperationName>(
    pending: Pending<Name>,
    answer: Answer<Name>,
    storeTimeMs: number,
  ): void {
    if (pending.broken || this.#random.chance(this.#server.faults.replyLostRate)) return;
    this.#process.deliver(this.#travelMs(), () => pending.settle(answer, storeTimeMs));
  }

  #breakOff<Name extends OperationName>(pending: Pending<Name>, delayMs: number): void {
    const { notAfterMs } = pending.call;
    pending.broken = true;
    this.#process.deliver(delayMs, () =>
      pending.settle({ kind: "unknown", cause: "connection reset", notAfterMs }),
    );
  }

  #startOutage(): void {
    const { faults, kernel } = this.#server;
    const random = this.#random;
    if (!random.chance(faults.outageRate)) return;
    const ms = random.fraction() * faults.outageMsMax;
    if (random.chance(0.3)) {
      this.#server.goUnreachable(ms);
    } else {
      kernel.note(this.#process.name, "cut off for", ms);
      this.cutUntilMs = Math.max(this.cutUntilMs, kernel.nowMs() + ms);
    }
  }

  #isReachable(): boolean {
    return this.#server.isReachable() && this.#server.kernel.nowMs() >= this.cutUntilMs;
  }

  #travelMs(): number {
    const slow = this.#random.chance(this.#server.faults.longDelayRate);
    return slow ? this.#longDelayMs() : this.#usualTravelMs();
  }

  /** Squared, so that delays just around the usual deadlines are the most frequent. */
  #longDelayMs(): number {
    return this.#random.fraction() ** 2 * this.#server.faults.longDelayMsMax;
  }

  #usualTravelMs(): number {
    return this.#random.fraction() * this.#server.faults.travelMsMax;
  }
}
