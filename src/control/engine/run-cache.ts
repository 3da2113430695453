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
  readonly records: KnownRecords;
  version: number;
  /** The one that made this version: a store that has lost commits gives their numbers again. Empty while it is not known. */
  commitId: string;
  status: RunStatus;
  /** A proposal is on its way: the next result goes to the inbox. */
  proposing: boolean;
};

/** Records by key, undefined for one that is known to be absent. Whatever is put in counts, however it came here. */
export class KnownRecords extends Map<string, string | undefined> {
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  override set(key: string, body: string | undefined): this {
    this.#bytes += sizeOf(key, body) - (this.has(key) ? sizeOf(key, this.get(key)) : 0);
    return super.set(key, body);
  }

  override delete(key: string): boolean {
    if (this.has(key)) this.#bytes -= sizeOf(key, this.get(key));
    return super.delete(key);
  }
}

function sizeOf(key: string, body: string | undefined): number {
  return key.length + (body?.length ?? 0);
}

export type RunCache = {
  get(runId: RunId): CachedRun | undefined;
  put(run: CachedRun): void;
  forget(runId: RunId): void;
};

type RunCacheLimits = {
  readonly runsMax: number;
  /** Of one run, and of all together. */
  readonly runBytesMax: number;
  readonly bytesMax: number;
};

export function createRunCache(limits: RunCacheLimits): RunCache {
  const runs = new Map<RunId, { readonly run: CachedRun; readonly bytes: number }>();
  let bytes = 0;
  const forget = (runId: RunId) => {
    bytes -= runs.get(runId)?.bytes ?? 0;
    runs.delete(runId);
  };
  return {
    get(runId) {
      const entry = runs.get(runId);
      if (entry === undefined) return undefined;
      // Used again: the oldest unused one is the first to go.
      runs.delete(runId);
      runs.set(runId, entry);
      return entry.run;
    },
    put(run) {
      forget(run.runId);
      const own = run.records.bytes;
      if (own > limits.runBytesMax || limits.runsMax === 0) return;
      runs.set(run.runId, { run, bytes: own });
      bytes += own;
      for (const oldest of runs.keys()) {
        if (runs.size <= limits.runsMax && bytes <= limits.bytesMax) return;
        forget(oldest);
      }
    },
    forget,
  };
}
