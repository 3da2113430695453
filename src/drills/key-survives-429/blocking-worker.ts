// A real worker that takes jobs and keeps them until it is asked to finish: its run fills the tenant's slot meanwhile.
import { worker } from "../../sdk/worker/worker.ts";
import type { DrillTenant } from "../target/target.ts";

export const topic = "drill.blocking";

export type BlockingWorker = {
  /** Resolves with the run whose job it took first. */
  readonly holding: Promise<string>;
  /** From now on every job is done at once. */
  finish(): void;
  stop(): Promise<void>;
};

export function startBlockingWorker({ workerKey }: DrillTenant, url: string): BlockingWorker {
  let finish = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let take = (_runId: string) => {};
  const holding = new Promise<string>((resolve) => {
    take = resolve;
  });
  const running = worker({
    url,
    apiKey: workerKey,
    name: "drill-blocking-worker",
    topics: [topic],
    // A poll that waits for long would keep the drill's end waiting.
    pollWaitMs: 2_000,
    async handler({ runId }) {
      take(runId);
      await finished;
      return {};
    },
  });
  // A worker that the server rejects ends: the error reaches the caller that waits for the job.
  running.finished.catch(() => {});
  return {
    holding: Promise.race([holding, running.finished.then(() => holding)]),
    finish,
    async stop() {
      finish();
      await running.stop({ graceMs: 5_000 });
    },
  };
}
