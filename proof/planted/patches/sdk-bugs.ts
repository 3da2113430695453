// The planted bugs in the SDK.
import type { TextPatch } from "../planted-bug.ts";

const retries = "test/unit/sdk-retries.test.ts";
const call = "src/sdk/call.ts";

export const plantedSdkBugs: readonly TextPatch[] = [
  {
    name: "sdk-gathered-results-stay",
    what: "results that were gathered while a request was on its way are never sent: a worker that stops waits for them in vain",
    edits: [
      {
        file: "src/sdk/worker/results.ts",
        find: "        underWay -= 1;\n        flush();\n",
        replace: "        underWay -= 1;\n",
      },
      {
        file: "src/sdk/worker/results.ts",
        find: "cancelGathering = runtime.timer(gatherMsMax, flush);",
        replace: "cancelGathering = () => {};",
      },
    ],
    tests: ["test/unit/sdk-results.test.ts"],
  },
  {
    name: "handed-back-before-the-last-poll",
    what: "a worker that stops hands its job back while a poll of its own is open, and is given the next attempt",
    edits: [
      {
        file: "src/sdk/worker/worker.ts",
        find: "      this.#runtime.sleep(settleMs, hungUp.signal),\n",
        replace: "",
      },
    ],
    tests: ["test/unit/sdk-worker-stopping.test.ts"],
  },
  {
    name: "sdk-stretches-busy-delay",
    what: "the worker waits longer for a busy run than the server's policy says",
    edits: [
      {
        file: "src/sdk/worker/results.ts",
        find: `return verdict?.because === "run_busy" ? askedMs :`,
        replace: `return verdict?.because === "busy" ? askedMs :`,
      },
    ],
    tests: ["test/unit/sdk-results.test.ts"],
  },
  {
    name: "one-key-for-all-iterations",
    what: "every iteration of a loop has the same idempotency key: a provider makes one charge for three invoices",
    edits: [
      {
        file: "src/domain/job.ts",
        find: "return isFirst ?",
        replace: "return isFirst || true ?",
      },
    ],
    tests: ["test/unit/sdk-loops.test.ts"],
  },
  {
    name: "sdk-new-key-each-try",
    what: "every try of a start has an idempotency key of its own: a lost answer makes two runs",
    edits: [
      {
        file: call,
        find: "send(connection, request, { timeoutMs,",
        replace:
          "send(connection, requestOf(operation, identified(connection, operation, given)), { timeoutMs,",
      },
    ],
    tests: [retries],
  },
  {
    name: "sdk-repeats-everything",
    what: "what is not recognised when it comes again is repeated after a lost answer: two API keys are made",
    edits: [
      {
        file: "src/sdk/call.ts",
        find: "return identities[operation]?.(asked) ?? false;",
        replace: "return identities[operation]?.(asked) ?? true;",
      },
    ],
    tests: [retries],
  },
  {
    name: "sdk-retry-after-ignored",
    what: "pauses are shorter than the server asks for: callers pile up while it is overloaded",
    edits: [
      {
        file: call,
        find: "return (askedMs ?? 0) + jitterMs;",
        replace: "return Math.min(askedMs ?? jitterMs, jitterMs);",
      },
    ],
    tests: [retries],
  },
  {
    name: "sdk-last-event-id-not-sent",
    what: "a stream that connects again begins anew: events are missed or come twice",
    edits: [
      {
        file: "src/sdk/follow.ts",
        find: `...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }),`,
        replace: "",
      },
    ],
    tests: ["test/unit/sdk-events.test.ts"],
  },
  {
    name: "sdk-lock-from-answer",
    what: "a lock's time counts from the answer instead of the send: its holder works on when somebody else has it",
    edits: [
      {
        file: "src/sdk/with-lock.ts",
        find: "const since = earlier(later(sentAt, granted.waited_ms), runtime.now());",
        replace: "const since = earlier(later(runtime.now(), 0 * granted.waited_ms), runtime.now());",
      },
    ],
    tests: ["test/unit/sdk-with-lock.test.ts"],
  },
  {
    name: "sdk-lock-by-server-clock",
    what: "how long the server has waited is taken by its clock alone: an agent whose clock is slower works on when somebody else has the lock",
    edits: [
      {
        file: "src/sdk/with-lock.ts",
        find: "const since = earlier(later(sentAt, granted.waited_ms), runtime.now());",
        replace: "const since = earlier(later(sentAt, granted.waited_ms), later(sentAt, granted.waited_ms));",
      },
    ],
    tests: ["test/unit/sdk-lock-clocks.test.ts"],
  },
  {
    name: "sdk-heartbeats-asleep",
    what: "new jobs do not wake the heartbeats: work longer than the lease is done twice",
    edits: [
      {
        file: "src/sdk/worker/heartbeats.ts",
        find: "wake: () => woken.abort(),",
        replace: "wake: () => {},",
      },
    ],
    tests: ["test/unit/sdk-worker.test.ts"],
  },
  {
    name: "sdk-pause-unnoticed",
    what: "a job's signal waits for its timer: a process that was paused goes on with work that is another's by now",
    edits: [
      {
        file: "src/sdk/worker/job.ts",
        find: `    const signal = () => {
      this.#isOver();`,
        replace: "    const signal = () => {",
      },
    ],
    tests: ["test/unit/sdk-held-job.test.ts"],
  },
  {
    name: "fence-equal-refused",
    what: "the guard takes an attempt's second call for a superseded one",
    edits: [
      {
        file: "src/sdk/fence.ts",
        find: "known !== undefined && fence < known",
        replace: "known !== undefined && fence <= known",
      },
    ],
    tests: ["test/unit/sdk-fence.test.ts"],
  },
  {
    name: "sdk-duplicate-as-accepted",
    what: "a worker takes a result that was not applied, since its claim had reported something else, for accepted",
    edits: [
      {
        file: "src/sdk/worker/results.ts",
        find: `} else if (verdict.kind === "accepted") item.end`,
        replace: `} else if (verdict.kind !== "refused") item.end`,
      },
    ],
    tests: ["test/unit/sdk-worker.test.ts"],
  },
  {
    name: "sdk-half-a-result",
    what: "what a handler returns after the worker has stopped it is reported: half of the work counts as all of it",
    edits: [
      {
        file: "src/sdk/worker/worker.ts",
        find: `    if (held.stopReason === "worker_stopped") return;
    // The last look before the report: a process that was paused must not take its claim for granted.
    if (result === undefined || held.stopReason !== undefined) {`,
        replace: "    if (result === undefined) {",
      },
    ],
    tests: ["test/unit/sdk-worker-stopping.test.ts"],
  },
  {
    name: "sdk-begins-while-stopping",
    what: "jobs that arrive while the worker stops are begun instead of handed back: the stop takes as long as they do",
    edits: [
      {
        file: "src/sdk/worker/worker.ts",
        find: `        if (signal.aborted) job.stop("worker_stopped");\n`,
        replace: "",
      },
    ],
    tests: ["test/unit/sdk-worker-stopping.test.ts"],
  },
];
