// Reads back how every start has ended: its key is sent once more, and its run is looked at until it has ended.
import { parseTime } from "../../domain/engine/rfc3339.ts";
import type { Client } from "../../sdk/client.ts";
import { InterlockApiError, InterlockConnectionError } from "../../sdk/client-errors.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { Run } from "../../sdk/wait-for-run.ts";
import { hasEnded } from "../../sdk/wait-for-run.ts";
import { tryStart } from "../try-start.ts";
import type { EndedRun, EndRecord, StartRecord } from "./ledger.ts";
import { workflowId } from "./load-workflow.ts";

export type ReadingEnds = {
  readonly client: Client;
  readonly withinMs: number;
  readonly signal: AbortSignal;
  /** What the wall clock showed when the load began. */
  readonly beganWallMs: number;
};

const atOnce = 8;
const againAfterMs = 100;

/** Runs that have not ended in time are reported with their present status. */
export async function readEnds(
  reading: ReadingEnds,
  starts: readonly StartRecord[],
): Promise<readonly EndRecord[]> {
  const deadlineMs = runtime.now().monotonicMs + reading.withinMs;
  const isLate = () => runtime.now().monotonicMs > deadlineMs || reading.signal.aborted;
  const ends: EndRecord[] = [];
  const waiting = [...starts];
  const lane = async () => {
    for (let start = waiting.shift(); start !== undefined; start = waiting.shift()) {
      const run = await readRun(reading, start, isLate);
      ends.push({ key: start.key, repeated: await repeat(reading, start, isLate), run });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  reading.signal.throwIfAborted();
  return ends;
}

async function readRun(
  { client, beganWallMs }: ReadingEnds,
  { acknowledged }: StartRecord,
  isLate: () => boolean,
): Promise<EndedRun | undefined> {
  if (acknowledged === undefined) return undefined;
  for (;;) {
    const run = await client.runs.get(acknowledged.runId).catch(missing);
    if (run === "missing") return undefined;
    const isOver = isLate();
    if (run !== "no answer" && (isOver || hasEnded(run))) return endedRun(run, beganWallMs);
    if (isOver) throw new Error(`run ${acknowledged.runId} cannot be read: the server does not answer`);
    await runtime.sleep(againAfterMs);
  }
}

async function repeat(
  { client }: ReadingEnds,
  { key, order }: StartRecord,
  isLate: () => boolean,
): Promise<EndRecord["repeated"]> {
  for (;;) {
    const tried = await tryStart(client, { workflow: workflowId, key, input: { order } });
    if (tried.kind === "started") return { runId: tried.runId, replayed: tried.replayed };
    const isPassing = tried.kind === "no_answer" || tried.status === 503;
    if (!isPassing || isLate()) return undefined;
    await runtime.sleep(againAfterMs);
  }
}

/** Only the product's own word counts as an absence: of the run, or of everything, the tenant's keys among it. */
function missing(error: unknown): "missing" | "no answer" {
  if (error instanceof InterlockApiError) return error.retryable ? "no answer" : "missing";
  if (error instanceof InterlockConnectionError) return "no answer";
  throw error;
}

function endedRun({ run_id, status, created_at, completed_at, steps }: Run, beganWallMs: number): EndedRun {
  const sinceBegin = (time: string | undefined) => {
    const wallMs = time === undefined ? undefined : parseTime(time);
    return wallMs === undefined ? undefined : wallMs - beganWallMs;
  };
  return {
    runId: run_id,
    status,
    createdAtMs: sinceBegin(created_at) ?? 0,
    endedAtMs: sinceBegin(completed_at),
    counted: Object.fromEntries(Object.entries(steps).map(([name, { output }]) => [name, jobIn(output)])),
  };
}

function jobIn(output: unknown): string | undefined {
  const { job } = (output ?? {}) as { readonly job?: unknown };
  return typeof job === "string" ? job : undefined;
}
