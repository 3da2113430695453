// A second server that waits for the folder of the first: refused while that one lives, and started again and again, as a supervisor does.
import { runtime } from "../../sdk/runtime.ts";
import type { ServeProcess } from "../target/serve-process.ts";

export type Standby = {
  /** Starts that were refused because another process owns the data. */
  refusals(): number;
  /** Resolves when it has the folder and takes requests; rejects when it fails for another reason. */
  readonly taken: Promise<ServeProcess>;
  /** Starts no more; resolves when the last start is over. */
  stop(): Promise<void>;
};

const againAfterMs = 100;

export function startStandby(start: () => Promise<ServeProcess>): Standby {
  const stopping = new AbortController();
  let refusals = 0;
  const waitForFolder = async () => {
    for (;;) {
      try {
        return await start();
      } catch (error) {
        if (!isRefusal(error) || stopping.signal.aborted) throw error;
        refusals += 1;
        await runtime.sleep(againAfterMs, stopping.signal);
      }
    }
  };
  const taken = waitForFolder();
  taken.catch(() => undefined);
  return {
    refusals: () => refusals,
    taken,
    async stop() {
      stopping.abort();
      await taken.catch(() => undefined);
    },
  };
}

/** The server says so in its last words. */
export function isRefusal(error: unknown): boolean {
  return error instanceof Error && error.message.includes("store_in_use");
}
