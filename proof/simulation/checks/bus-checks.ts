// The way of every message: delivered so often and no more, put off only while that can help, its dead letter written first (INV-23).
import { parseJobId } from "../../../src/domain/job.ts";
import { isTerminal } from "../../../src/domain/run.ts";
import type { BusMessage, BusStream, Handlers, Verdict } from "../../../src/ports/bus.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { FaultCounts } from "../../../src/testing/store-link.ts";
import type { BusObserver, ObservedMessage } from "../bus/bus-observer.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import type { KnownState } from "./known-state.ts";

type BusChecksParts = {
  readonly known: KnownState;
  readonly marks: Marks;
  readonly faultCounts: FaultCounts;
  /** Deliveries of a result after which it goes to the dead letters. */
  readonly resultDeliveriesMax: number;
  /** What a check finds inside a handler must not get lost in it. */
  fail(error: unknown): void;
};

type Sent = { readonly stream: BusStream; readonly sent: BusMessage };

/** Of hints and notices; a check is asked about for as long as its job is held. */
const hintDeliveriesMax = 10;
/** The messages that come again at the end, of those published last. */
const rememberedMax = 40;

export class BusChecks implements BusObserver {
  readonly #parts: BusChecksParts;
  /** Handlers begun, by message and life. */
  readonly #handled = new WeakMap<object, Map<number, number>>();
  readonly #letters = new Set<string>();
  /** Jobs whose message the bus has lost. */
  readonly #forgotten = new Set<string>();
  #published: Sent[] = [];
  #isOver = false;

  constructor(parts: BusChecksParts) {
    this.#parts = parts;
  }

  fault(kind: string): void {
    this.#parts.faultCounts.hit(kind);
  }

  published(stream: BusStream, sent: BusMessage): void {
    this.#published = [...this.#published.slice(1 - rememberedMax), { stream, sent }];
  }

  repeated(): void {
    this.#parts.marks.hit("redelivered_past_window");
  }

  publishedUnknown(): void {
    this.#parts.marks.hit("publish_unknown");
  }

  forgotten(_stream: BusStream, { body }: BusMessage): void {
    const jobId = jobOf(body);
    if (jobId !== undefined) this.#forgotten.add(jobId);
  }

  streamRemoved(): void {
    this.#parts.marks.hit("stream_removed");
  }

  lateWordRefused(): void {
    this.#parts.marks.hit("late_ack_refused");
  }

  /** INV-23: until its dead letter is written the message stays. */
  dropped(stream: BusStream, { subject }: BusMessage): void {
    if (stream !== "results") return;
    const { tenant, jobId } = partsOf(subject);
    if (parseJobId(jobId) === undefined) return;
    mustHold(
      this.#letters.has(`${tenant} ${jobId}`),
      "INV-23",
      () => `the result of ${jobId} was dropped, and no dead letter tells of it`,
    );
  }

  watched(handlers: Handlers, message: ObservedMessage): Handlers {
    const { stream, sent } = message;
    const { marks } = this.#parts;
    return {
      ...handlers,
      handle: async (delivery) => {
        this.#guarding(() => this.#countDelivery(message));
        const hadEnded = stream === "results" && this.#hasEnded(sent.subject);
        const verdict = await handlers.handle(delivery);
        if (hadEnded) this.#guarding(() => this.#judgeOfEnded(sent, verdict));
        return verdict;
      },
      giveUp: async (delivery, because) => {
        if (because === "deliveries_exhausted" && stream === "results") marks.hit("deliveries_exhausted");
        await handlers.giveUp(delivery, because);
      },
    };
  }

  observe({ name, request, outcome }: StoreExecution): void {
    if (name === "putDocument" && outcome.kind === "saved" && request.collection === "deadLetter") {
      this.#letters.add(`${request.tenant} ${request.id}`);
    }
    if (name !== "claimJobs" || outcome.kind !== "judged" || this.#forgotten.size === 0) return;
    for (const [index, { jobId }] of request.claims.entries()) {
      if (outcome.answers[index]?.kind !== "claimed" || !this.#forgotten.delete(jobId)) continue;
      this.#parts.marks.hit("bus_forgot_and_repaired");
    }
  }

  /** What comes again when everything has ended: from now on each must be done with at once. */
  toRepeat(): readonly Sent[] {
    this.#isOver = true;
    return this.#published;
  }

  #countDelivery({ identity, life, stream, sent }: ObservedMessage): void {
    const lives = this.#handled.get(identity) ?? new Map<number, number>();
    const times = (lives.get(life) ?? 0) + 1;
    this.#handled.set(identity, lives.set(life, times));
    if (stream === "checks") return;
    const max = stream === "results" ? this.#parts.resultDeliveriesMax : hintDeliveriesMax;
    mustHold(
      times <= max,
      "INV-23",
      () => `${sent.subject} of ${stream} was handled ${times} times; ${max} are allowed`,
    );
  }

  /** INV-23: of a run that has ended or is gone, nothing waits for its lock; in peace nothing waits at all. */
  #judgeOfEnded({ subject }: BusMessage, verdict: Verdict): void {
    const waits = verdict.kind === "retry" && verdict.because === "run lock busy";
    mustHold(
      !waits && (!this.#isOver || verdict.kind === "done"),
      "INV-23",
      () => `the result ${subject}, whose run had ended, was not done with: ${JSON.stringify(verdict)}`,
    );
  }

  #hasEnded(subject: string): boolean {
    const runId = parseJobId(partsOf(subject).jobId)?.runId;
    const run = runId === undefined ? undefined : this.#parts.known.run(runId);
    return run === undefined || run.removed || isTerminal(run.status);
  }

  #guarding(check: () => void): void {
    try {
      check();
    } catch (error) {
      this.#parts.fail(error);
    }
  }
}

/** `<tenant>/<job>`. */
function partsOf(subject: string): { readonly tenant: string; readonly jobId: string } {
  const slash = subject.indexOf("/");
  return { tenant: subject.slice(0, slash), jobId: subject.slice(slash + 1) };
}

/** The job that a hint or a result is about. */
function jobOf(body: string): string | undefined {
  const { hint, report } = JSON.parse(body) as {
    readonly hint?: { readonly jobId: string };
    readonly report?: { readonly jobId: string };
  };
  return hint?.jobId ?? report?.jobId;
}
