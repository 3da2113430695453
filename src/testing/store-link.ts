// One process's connection to the simulated store: what can go wrong on it, at which rate, and what becomes of requests and replies.
import type { CancelTimer } from "../ports/ports.ts";
import type { Answer, CallOptions, OperationName, RequestOf } from "../ports/store.ts";
import type { Kernel } from "./kernel.ts";
import type { SeededRandom } from "./seeded-random.ts";
import type { SimulatedProcess } from "./simulated-process.ts";
import type { CallMoment, SimulatedStoreOptions, StoreCall, StoreExecution } from "./simulated-store.ts";

export type StoreFaults = {
  /** Usual travel time of a request or of a reply, one way: uniform up to this. */
  readonly travelMsMax: number;
  /** With it, usual travel times have a heavy tail instead: most are short, a few take very long. */
  readonly tail?: LatencyTail;
  /** A request or reply that takes up to `longDelayMsMax`: it may arrive after its caller gave up. */
  readonly longDelayRate: number;
  readonly longDelayMsMax: number;
  readonly requestLostRate: number;
  /** The operation had its effect, and the answer is lost. */
  readonly replyLostRate: number;
  /** The connection breaks: the caller knows at once that it will not know. The request may still have got through. */
  readonly connectionResetRate: number;
  /** The transport sends the request again: it is executed twice, at once or up to `longDelayMsMax` later. */
  readonly doubleExecutionRate: number;
  /** The caller's link, or the store for everybody, is unreachable for up to `outageMsMax`. */
  readonly outageRate: number;
  readonly outageMsMax: number;
  /** The store's own clock jumps forward by up to `clockJumpMsMax`. */
  readonly clockJumpRate: number;
  readonly clockJumpMsMax: number;
};

/** A Pareto tail: the probability to take `n` times as long falls with the power `alpha` of `n`. Nothing takes longer than `msMax`. */
export type LatencyTail = { readonly alpha: number; readonly msMax: number };

/** The travel time that belongs to a fraction from 0 to below 1. */
export function travelMsOf({ travelMsMax, tail }: StoreFaults, fraction: number): number {
  if (tail === undefined) return fraction * travelMsMax;
  return Math.min(tail.msMax, (travelMsMax / 4) * (1 - fraction) ** (-1 / tail.alpha));
}

export const noStoreFaults: StoreFaults = {
  travelMsMax: 3,
  longDelayRate: 0,
  longDelayMsMax: 0,
  requestLostRate: 0,
  replyLostRate: 0,
  connectionResetRate: 0,
  doubleExecutionRate: 0,
  outageRate: 0,
  outageMsMax: 0,
  clockJumpRate: 0,
  clockJumpMsMax: 0,
};

/** Names of what went wrong, such as `request lost`; a new fault is named where it is injected. */
export class FaultCounts {
  readonly #counts = new Map<string, number>();

  hit(kind: string, times = 1): void {
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + times);
  }

  /** By kind, in alphabetical order. */
  byKind(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#counts].sort(([left], [right]) => (left < right ? -1 : 1)));
  }
}

export type Call<Name extends OperationName> = {
  readonly caller: string;
  readonly name: Name;
  readonly request: RequestOf<Name>;
  readonly notAfterMs: number;
};

/** The server as its links know it. */
type LinkedServer = {
  readonly kernel: Kernel;
  readonly options: SimulatedStoreOptions;
  readonly faults: StoreFaults;
  timeMs(): number;
  jumpClock(ms: number): void;
  goUnreachable(ms: number): void;
  isReachable(): boolean;
  isDown(): boolean;
  hit(fault: string): void;
  execute<Name extends OperationName>(
    call: Call<Name>,
    execution: StoreExecution["execution"],
  ): { readonly answer: Answer<Name>; readonly storeTimeMs: number };
};

/** A request on its way. */
type Pending<Name extends OperationName> = {
  readonly asked: Asked<Name>;
  readonly call: Call<Name>;
  readonly deadlineMs: number;
  readonly sentAtMs: number;
  /** The connection broke: the request may still arrive, a reply cannot. */
  broken: boolean;
};

type AnyPending = Pending<OperationName>;

/** What a flow waits for. One object: closures in its place were 5 % of all memory. */
type Asked<Name extends OperationName> = {
  readonly options: CallOptions;
  readonly resolve: (answer: Answer<Name>) => void;
  readonly startMs: number;
  call: Call<Name>;
  pending: AnyPending | undefined;
  waiting: boolean;
  /** A second request is the last. */
  sent: number;
  cancelDeadline: CancelTimer | undefined;
};

/** The connection of one process, with what its adapter remembers: the last store time it saw. */
export class Link {
  /** While cut off, this process alone does not reach the store. */
  cutUntilMs = 0;
  readonly #server: LinkedServer;
  readonly #process: SimulatedProcess;
  readonly #random: SeededRandom;
  /** What has been sent and not been answered. */
  readonly #underWay = new Set<AnyPending>();
  #seen: { readonly storeTimeMs: number; readonly monotonicMs: number };

  constructor(server: LinkedServer, process: SimulatedProcess) {
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
      if (this.#process.state() === "crashed") return;
      const call = { caller: this.#process.name, name, request, notAfterMs: this.#notAfterMs(options) };
      this.#server.options.onSend?.(call as unknown as StoreCall);
      // Between the last look at the clock and the call: nothing in the process can notice what happens here.
      if (this.#runsOn("about to send")) return this.#begin(call, options, resolve);
      const later = () => this.#begin({ ...call, notAfterMs: this.#notAfterMs(options) }, options, resolve);
      this.#process.deliver(0, later);
    });
  }

  #notAfterMs({ notAfterMs, deadlineMs }: CallOptions): number {
    return notAfterMs ?? this.#storeTimeMs() + deadlineMs;
  }

  /** The server is gone, and nobody hears of what it did last. */
  breakAll(): void {
    for (const pending of this.#underWay) this.#breakOff(pending, this.#usualTravelMs());
    this.#underWay.clear();
  }

  /** What may happen to the process at this moment, and whether it then goes on at once: if not, it does after a pause, or never. */
  #runsOn(moment: CallMoment): boolean {
    this.#server.options.onMoment?.(this.#process, moment);
    return this.#process.state() === "running";
  }

  #begin<Name extends OperationName>(
    call: Call<Name>,
    options: CallOptions,
    resolve: (answer: Answer<Name>) => void,
  ): void {
    const asked: Asked<Name> = {
      options,
      resolve,
      startMs: this.#process.clock.monotonicMs(),
      call,
      pending: undefined,
      waiting: true,
      sent: 0,
      cancelDeadline: undefined,
    };
    asked.cancelDeadline = this.#process.clock.timer(options.deadlineMs, () =>
      this.#settle(asked, { kind: "unknown", cause: "deadline", notAfterMs: asked.call.notAfterMs }),
    );
    this.#attempt(asked);
    this.#server.options.onMoment?.(this.#process, "sent");
  }

  #attempt<Name extends OperationName>(asked: Asked<Name>): void {
    if (asked.pending !== undefined) this.#underWay.delete(asked.pending);
    asked.sent += 1;
    const [sentAtMs, deadlineMs] = [this.#server.kernel.nowMs(), this.#leftMs(asked)];
    const pending: Pending<Name> = { asked, call: asked.call, deadlineMs, sentAtMs, broken: false };
    asked.pending = pending as unknown as AnyPending;
    this.#underWay.add(asked.pending);
    this.#send(pending);
  }

  /** The answer has come to the process; it has an effect only once. */
  #arrived<Name extends OperationName>(
    asked: Asked<Name>,
    answer: Answer<Name>,
    storeTimeMs: number | undefined,
  ): void {
    if (asked.waiting && storeTimeMs !== undefined) {
      this.#learn(storeTimeMs);
      if (answer.kind === "unavailable" && answer.cause === "too_late") {
        this.#refused(asked, storeTimeMs);
        return;
      }
    }
    this.#settle(asked, answer);
  }

  /** The estimate of the store's time was wrong. The refusal carried the right one and had no effect: ask once more. */
  #refused<Name extends OperationName>(asked: Asked<Name>, storeTimeMs: number): void {
    if (asked.sent > 1 || asked.options.notAfterMs !== undefined || this.#leftMs(asked) < 1) {
      this.#settle(asked, { kind: "unavailable", cause: "too_late" });
      return;
    }
    const notAfterMs = storeTimeMs + Math.floor(this.#leftMs(asked));
    asked.call = { ...asked.call, notAfterMs };
    this.#attempt(asked);
  }

  #settle<Name extends OperationName>(asked: Asked<Name>, answer: Answer<Name>): void {
    if (!asked.waiting) return;
    asked.waiting = false;
    if (asked.pending !== undefined) this.#underWay.delete(asked.pending);
    asked.cancelDeadline?.();
    if (this.#runsOn("answered")) this.#answer(asked, answer);
    else this.#process.deliver(0, () => this.#answer(asked, answer));
  }

  #answer<Name extends OperationName>({ call, resolve }: Asked<Name>, answer: Answer<Name>): void {
    this.#server.options.onAnswer?.(call as unknown as StoreCall, answer as Answer<OperationName>);
    resolve(answer);
  }

  #leftMs({ options, startMs }: Pick<Asked<never>, "options" | "startMs">): number {
    return options.deadlineMs - (this.#process.clock.monotonicMs() - startMs);
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
        this.#arrived(pending.asked, { kind: "unavailable", cause: "connection refused" }, undefined),
      );
      return;
    }
    const broken = random.chance(faults.connectionResetRate);
    if (broken) this.#breakOff(pending, this.#usualTravelMs());
    if (random.chance(faults.requestLostRate)) {
      this.#server.hit("request lost");
      return;
    }
    // What a broken connection still delivers is most dangerous while it may have an effect and the caller asks again.
    const travelMs = broken ? random.fraction() * pending.deadlineMs : this.#travelMs();
    kernel.after(travelMs, () => this.#arrive(pending));
  }

  #arrive<Name extends OperationName>(pending: Pending<Name>): void {
    const { faults } = this.#server;
    if (!this.#isReachable()) {
      this.#breakOff(pending, 0);
      return;
    }
    if (this.#process.state() === "crashed") {
      this.#server.options.onGhost?.(pending.call as unknown as StoreCall, pending.sentAtMs);
    }
    if (this.#random.chance(faults.clockJumpRate)) {
      this.#server.jumpClock(Math.ceil(this.#random.fraction() * faults.clockJumpMsMax));
    }
    const { twin } = this.#server.options;
    if (twin === undefined) {
      this.#executeFirst(pending);
      return;
    }
    twin.gather({
      call: pending.call as unknown as StoreCall,
      execute: () => this.#executeFirst(pending),
      lose: () => this.#breakOff(pending, 0),
    });
  }

  #executeFirst<Name extends OperationName>(pending: Pending<Name>): void {
    const random = this.#random;
    const { answer, storeTimeMs } = this.#server.execute(pending.call, "first");
    if (random.chance(this.#server.faults.doubleExecutionRate)) {
      const laterMs = random.chance(0.5) ? 0 : this.#longDelayMs();
      this.#server.kernel.after(laterMs, () => this.#executeAgain(pending));
      return;
    }
    this.#reply(pending, answer, storeTimeMs);
  }

  /**
   * A transport sends again only because it did not hear of the first execution, so the second one's answer counts.
   * That it came too late says nothing about the first: an adapter that sent twice can then only answer `unknown`.
   */
  #executeAgain<Name extends OperationName>(pending: Pending<Name>): void {
    if (this.#server.isDown()) {
      this.#breakOff(pending, 0);
      return;
    }
    this.#server.hit("double execution");
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
    const heldBackMs = this.#server.options.heldBackMs?.(pending.call as unknown as StoreCall) ?? 0;
    if (heldBackMs > 0) {
      this.#server.kernel.after(heldBackMs, () => this.#replyNow(pending, answer, storeTimeMs));
    } else {
      this.#replyNow(pending, answer, storeTimeMs);
    }
  }

  #replyNow<Name extends OperationName>(
    pending: Pending<Name>,
    answer: Answer<Name>,
    storeTimeMs: number,
  ): void {
    if (pending.broken) return;
    if (this.#random.chance(this.#server.faults.replyLostRate)) {
      this.#server.hit("reply lost");
      return;
    }
    // On its way: not even the end of the server stops it.
    this.#underWay.delete(pending as unknown as AnyPending);
    this.#process.deliver(this.#travelMs(), () => this.#arrived(pending.asked, answer, storeTimeMs));
  }

  #breakOff<Name extends OperationName>(pending: Pending<Name>, delayMs: number): void {
    const { notAfterMs } = pending.call;
    pending.broken = true;
    this.#server.hit("connection reset");
    this.#process.deliver(delayMs, () =>
      this.#arrived(pending.asked, { kind: "unknown", cause: "connection reset", notAfterMs }, undefined),
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
      this.#server.hit("link outage");
      this.cutUntilMs = Math.max(this.cutUntilMs, kernel.nowMs() + ms);
    }
  }

  #isReachable(): boolean {
    return this.#server.isReachable() && this.#server.kernel.nowMs() >= this.cutUntilMs;
  }

  #travelMs(): number {
    const slow = this.#random.chance(this.#server.faults.longDelayRate);
    if (slow) this.#server.hit("long delay");
    return slow ? this.#longDelayMs() : this.#usualTravelMs();
  }

  /** Squared, so that delays just around the usual deadlines are the most frequent. */
  #longDelayMs(): number {
    return this.#random.fraction() ** 2 * this.#server.faults.longDelayMsMax;
  }

  #usualTravelMs(): number {
    return travelMsOf(this.#server.faults, this.#random.fraction());
  }
}
