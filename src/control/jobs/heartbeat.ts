// A worker says which jobs it still works on; it learns which are lost and which are no longer wanted.
import { ask } from "../ask-until-known.ts";
import type { Beat, BeatResult, Caller, Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import type { Workers } from "./workers.ts";

/** Beats judged by one operation: it stays within its budget of 2 ms. */
const batchMax = 64;

export async function heartbeat(
  desk: { readonly engine: Engine; readonly workers: Workers },
  caller: Caller,
  worker: string,
  beats: readonly Beat[],
): Promise<{ readonly kind: "judged"; readonly answers: readonly BeatResult[] } | Trouble> {
  const { config } = desk.engine;
  const { tenant } = caller;
  desk.workers.beat(tenant, worker, beats);
  const answers: BeatResult[] = [];
  for (let first = 0; first < beats.length; first += batchMax) {
    const batch = beats.slice(first, first + batchMax).map(({ jobId, token, leaseMs, progress }) => ({
      jobId,
      token,
      leaseMs: leaseMs ?? config["jobs.leaseMs"],
      ...(progress === undefined ? {} : { progress: JSON.stringify(progress) }),
    }));
    const answer = await ask(desk.engine, "heartbeatJobs", { tenant, beats: batch });
    if (answer.kind !== "judged") return { kind: answer.kind, cause: answer.cause };
    answers.push(...answer.answers);
  }
  return { kind: "judged", answers };
}
