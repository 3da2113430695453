// Runs as this process last committed them: the next result can then be decided before the store is asked.
import type { ParentStep, RunId, RunStatus } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";

/** Never trusted: a commit computed from it names the version, and the store refuses it when the run has moved on. */
export type CachedRun = {
  readonly tenant: TenantId;
  readonly runId: RunId;
  readonly actor: string;
  readonly definition: string;
  readonly parent?: ParentStep;
  readonly records: Map<string, string | undefined>;
  version: number;
  status: RunStatus;
  bytes: number;
  /** A proposal is on its way: the next result goes to the inbox. */
  proposing: boolean;
};

export type RunCache = {
  get(runId: RunId): CachedRun | undefined;
  put(run: CachedRun): void;
  forget(runId: RunId): void;
};

export function createRunCache(limits: { readonly runsMax: number; readonly runBytesMax: number }): RunCache {
  const runs = new Map<RunId, CachedRun>();
  return {
    get(runId) {
      const run = runs.get(runId);
      if (run === undefined) return undefined;
      // Used again: the oldest unused one is the first to go.
      runs.delete(runId);
      runs.set(runId, run);
      return run;
    },
    put(run) {
      runs.delete(run.runId);
      if (run.bytes > limits.runBytesMax || limits.runsMax === 0) return;
      const [oldest] = runs.keys();
      if (runs.size >= limits.runsMax && oldest !== undefined) runs.delete(oldest);
      runs.set(run.runId, run);
    },
    forget: (runId) => void runs.delete(runId),
  };
}
