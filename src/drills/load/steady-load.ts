// A steady load: clients that start runs under keys and send each again until it is answered, and a reader of what was acknowledged.
import { type Client, createClient } from "../../sdk/client.ts";
import { InterlockApiError, InterlockConnectionError } from "../../sdk/client-errors.ts";
import { runtime } from "../../sdk/runtime.ts";
import { type StartTry, tryStart } from "../try-start.ts";
import type { ReadRecord, StartRecord } from "./ledger.ts";

type LoadOptions = {
  /** Clients spread over them, and each stays where it is. */
  readonly urls: readonly string[];
  readonly apiKey: string;
  readonly clients: number;
  /** Between two starts of one client. */
  readonly everyMs: number;
  /** Of the drill: since the load began. */
  nowMs(): number;
};

export type SteadyLoad = {
  readonly starts: readonly StartRecord[];
  readonly reads: readonly ReadRecord[];
  acknowledged(): readonly StartRecord[];
  /** Nothing new is started; resolves when every start is answered, or after the time given. */
  stop(patienceMs: number): Promise<void>;
};

/** Without an answer for so long it is asked again. */
const timeoutMs = 3_000;
/** As a client does after a 503. */
const againAfterMs = 100;
const readEveryMs = 150;

export function startSteadyLoad(options: LoadOptions): SteadyLoad {
  const stopping = new AbortController();
  const leaving = new AbortController();
  const starts: StartRecord[] = [];
  const reads: ReadRecord[] = [];
  const acknowledged = () => starts.filter((start) => start.acknowledged !== undefined);
  const clientFor = (index: number) => clientAt(options, index);

  async function startRuns(number: number): Promise<void> {
    const client = clientFor(number);
    // Clients take turns, so that a success is seen soon after it is possible again.
    await runtime.sleep((number * options.everyMs) / options.clients, stopping.signal);
    for (let order = 1; !stopping.signal.aborted; order += 1) {
      const record = { key: `${number}-${order}`, order, askedAtMs: options.nowMs(), tries: [] };
      starts.push(record);
      await startOnce(options, client, record, leaving.signal);
      // Spread again after an outage, which has made them ask all at once.
      const turnMs = options.everyMs * (0.5 + runtime.fraction());
      const restMs = record.askedAtMs + turnMs - options.nowMs();
      await runtime.sleep(Math.max(0, restMs), stopping.signal);
    }
  }

  async function readRuns(): Promise<void> {
    for (let turn = 0; !stopping.signal.aborted; turn += 1) {
      const known = acknowledged();
      const runId = known[Math.floor(runtime.fraction() * known.length)]?.acknowledged?.runId;
      if (runId !== undefined) reads.push(await readOnce(options, clientFor(turn), runId));
      await runtime.sleep(readEveryMs, stopping.signal);
    }
  }

  const lanes = Promise.all([
    ...Array.from({ length: options.clients }, (_, number) => startRuns(number)),
    readRuns(),
  ]);
  // Told by `stop`, and not as a rejection that nobody handles meanwhile.
  lanes.catch(() => undefined);
  return {
    starts,
    reads,
    acknowledged,
    async stop(patienceMs) {
      stopping.abort();
      const cancel = runtime.timer(patienceMs, () => leaving.abort());
      await lanes;
      cancel();
    },
  };
}

export function clientAt({ urls, apiKey }: Pick<LoadOptions, "urls" | "apiKey">, index: number): Client {
  const url = urls[index % urls.length];
  return createClient({ url, apiKey, timeoutMs, retry: { attemptsMax: 1 } });
}

/** The same key until it is answered: what is not known is asked again. */
async function startOnce(
  { nowMs }: LoadOptions,
  client: Client,
  record: StartRecord,
  signal: AbortSignal,
): Promise<void> {
  const { key, order } = record;
  while (record.acknowledged === undefined && !signal.aborted) {
    const sentAtMs = nowMs();
    const tried = await tryStart(client, { workflow: workflowId, key, input: { order } });
    record.tries.push({ ...tried, sentMs: sentAtMs });
    if (tried.kind === "started") record.acknowledged = { runId: tried.runId, atMs: nowMs() };
    else await runtime.sleep(againAfterMs, signal);
  }
}

async function readOnce({ nowMs }: LoadOptions, client: Client, runId: string): Promise<ReadRecord> {
  const atMs = nowMs();
  const outcome = await client.runs.get(runId).then(() => "read", failureName);
  return { atMs, tookMs: nowMs() - atMs, outcome };
}

function failureName(error: unknown): string {
  if (error instanceof InterlockApiError) return `${error.status} ${error.code}`;
  if (error instanceof InterlockConnectionError) return `no answer (${error.reason})`;
  throw error;
}

/** Trouble is 503 or no answer at all, never an answer to the question. */
export function isTrouble(tried: StartTry): boolean {
  return tried.kind === "no_answer" || (tried.kind === "refused" && tried.status === 503);
}

export const workflowId = "drill-load";
export const topic = "drill-work";
export const lastStep = "finish";

export const loadWorkflow = {
  id: workflowId,
  name: "Steady load of a drill",
  steps: {
    prepare: { type: "worker", topic },
    [lastStep]: { type: "worker", topic, depends_on: ["prepare"] },
  },
} as const;
