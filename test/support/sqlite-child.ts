// A process that owns a SQLite store: reports whether it could open it, admits runs, ends every third, prints all answers.
import { openSqliteStore } from "../../src/adapters/sqlite/sqlite-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import { type RunId, unchanged } from "../../src/domain/run.ts";
import type { InterlockError } from "../../src/errors.ts";
import type { Store } from "../../src/ports/store.ts";
import { admission, call, settings, silentLog, tenant } from "./sqlite-support.ts";

export type ChildOptions = {
  readonly directory: string;
  /** Callers that admit one run after the other; 0 only opens the store. */
  readonly inFlight: number;
  /** The number of the first run; later ones count up. */
  readonly first: number;
};

/** The id of a run that was admitted, or that was ended; or any other answer to an admission. */
export type ChildLine =
  | { readonly opened: true }
  | { readonly refused: string; readonly message: string }
  | { readonly runId: RunId }
  | { readonly endedRunId: RunId }
  | { readonly answer: string; readonly cause: string }
  | { readonly fatal: string };

async function main({ directory, inFlight, first }: ChildOptions): Promise<void> {
  let store: Store;
  try {
    store = await openSqliteStore({
      directory,
      settings,
      clock: systemClock,
      log: silentLog,
      onFatal: (error) => say({ fatal: error.code }),
    });
  } catch (error) {
    const { code, message } = error as InterlockError;
    say({ refused: code, message });
    return;
  }
  say({ opened: true });
  let next = first;
  const workOnAndOn = async () => {
    for (;;) {
      const index = next++;
      const answer = await store.admit(admission(index, { body: "x".repeat(200) }), call);
      if (answer.kind === "admitted") say({ runId: answer.runId });
      else say({ answer: answer.kind, cause: "cause" in answer ? answer.cause : "" });
      if (answer.kind === "unavailable") return;
      if (answer.kind === "admitted" && index % 3 === 0) await end(store, answer.runId);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, workOnAndOn));
}

async function end(store: Store, runId: RunId): Promise<void> {
  const lock = { namespace: "run", name: runId } as const;
  const token = `token-${runId}` as LockToken;
  const ttlMs = 60_000;
  const grant = await store.acquireLock({ tenant, lock, token, instance: "child", ttlMs }, call);
  if (grant.kind !== "acquired") return;
  const guard = { lock, token, fence: grant.fence, policy: "fence", ttlMs } as const;
  const change = { ...unchanged, status: "succeeded", timeline: "[]" } as const;
  const commit = { commitId: `commit-${runId}`, expectedVersion: 1, consumed: 0, change };
  const ended = await store.commit({ tenant, runId, guard, ...commit }, call);
  if (ended.kind === "committed") say({ endedRunId: runId });
}

/** Printed before the next call is made: with a pipe, standard output is written at once. */
function say(line: ChildLine): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

await main(JSON.parse(process.argv[2] as string) as ChildOptions);
