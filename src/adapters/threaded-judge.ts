// Judges definitions in a thread, tenants in turn; the thread is replaced when one takes too long or ends it.
import type { Worker } from "node:worker_threads";
import { createFairQueue, type FairQueueLimits } from "../domain/slices.ts";
import type { TenantId } from "../domain/tenant.ts";
import { type SentDefinition, tooLong } from "../domain/workflow/judge.ts";
import type { CancelTimer, Clock, DefinitionJudge, JudgeAnswer, Log } from "../ports/ports.ts";
import type { FromJudge, ToJudge } from "./judge-thread.ts";
import { startThread } from "./system/system.ts";

export type ThreadedJudgeOptions = {
  readonly clock: Clock;
  readonly log: Log;
  readonly waiting: FairQueueLimits;
  readonly timeoutMs: number;
  /** Another program for the thread, as `startThread` takes it. */
  readonly program?: URL;
};

type Job = ToJudge & { answer(answer: JudgeAnswer): void };

/** Definitions of 1 MiB take 150 MB at most. */
const heapMegabytesMax = 512;

/** On a machine with much else to do, from source. */
const startTimeoutMs = 60_000;

export function createThreadedJudge(options: ThreadedJudgeOptions): DefinitionJudge {
  const { clock, log, waiting, timeoutMs } = options;
  const queue = createFairQueue<Job>(waiting);
  let thread: { readonly worker: Worker; state: "starting" | "idle" | "judging" } | undefined;
  let current: Job | undefined;
  let cancelTimer: CancelTimer = () => undefined;
  let isClosed = false;

  /** Ends it, whatever it does; what it was judging is not tried again, since it may have been the cause. */
  const replace = (cause: string): Promise<number> | undefined => {
    cancelTimer();
    const ended = thread?.worker.terminate();
    thread = undefined;
    // A thread that did not even start must not be started for ever for the same definition.
    const job = current ?? queue.take();
    current = undefined;
    if (job !== undefined) log.warn("a definition was not judged", { tenant: job.tenant, cause });
    job?.answer({ kind: "overloaded", cause });
    next();
    return ended;
  };

  const start = () => {
    const program = options.program ?? new URL("./judge-thread", import.meta.url);
    const worker = startThread(program, { resourceLimits: { maxOldGenerationSizeMb: heapMegabytesMax } });
    const started: NonNullable<typeof thread> = { worker, state: "starting" };
    const isOurs = () => thread === started;
    const ended = (cause: string) => void (isOurs() && replace(cause));
    worker.on("message", (message: FromJudge) => {
      if (!isOurs()) return;
      cancelTimer();
      started.state = "idle";
      const job = current;
      current = undefined;
      if (message.kind === "verdict") job?.answer(message.verdict);
      next();
    });
    worker.on("error", (error) => ended(`the judging thread failed: ${error.message}`));
    worker.on("exit", () => ended("the judging thread ended"));
    cancelTimer = clock.timer(startTimeoutMs, () => ended("the judging thread did not start"));
    return started;
  };

  const next = (): void => {
    if (isClosed) return;
    if (queue.size() === 0) {
      if (current === undefined) thread?.worker.unref();
      return;
    }
    thread ??= start();
    thread.worker.ref();
    if (thread.state !== "idle") return;
    current = queue.take();
    if (current === undefined) return;
    thread.state = "judging";
    const message: ToJudge = { tenant: current.tenant, sent: current.sent };
    thread.worker.postMessage(message);
    cancelTimer = clock.timer(timeoutMs, () => void replace(`judging took longer than ${timeoutMs} ms`));
  };

  return {
    judge: (tenant: TenantId, sent: SentDefinition) =>
      new Promise((answer) => {
        const refused = tooLong(sent);
        if (refused !== undefined) return answer(refused);
        if (isClosed) return answer({ kind: "overloaded", cause: stopping });
        const put = queue.put(tenant, { tenant, sent, answer });
        if (put === "owner_full") return answer(tooManyOfTenant);
        if (put === "full") return answer({ kind: "overloaded", cause: "too many definitions wait" });
        next();
      }),
    async close() {
      isClosed = true;
      const ended = replace(stopping);
      for (let job = queue.take(); job !== undefined; job = queue.take())
        job.answer({ kind: "overloaded", cause: stopping });
      await ended;
    },
  };
}

const stopping = "the server is stopping";

const tooManyOfTenant = {
  kind: "too_many_requests",
  detail: "as many definitions wait to be judged as may",
} as const;
