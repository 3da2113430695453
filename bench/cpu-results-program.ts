// The program behind cpu-results-load: reads an order per line, carries it out, and prints how many it did.
import { createInterface } from "node:readline";
import type { ResultsAnswer, ResultsOrder } from "./cpu-results-load.ts";
import { type Exchange, openExchange, postText } from "./http-exchange.ts";

type Job = { readonly job_id: string; readonly claim_token: string; readonly input: unknown };
type Claim = Extract<ResultsOrder, { readonly kind: "claim" }>;
type Report = Extract<ResultsOrder, { readonly kind: "report" }>;

const worker = "bench";
const batch = 10;
const reportConnections = 10;
/** The most that a poll may ask for. */
const claimBatch = 100;
const leaseMs = 300_000;

let claimed: Job[] = [];
/** A gateway remembers polls by their ids. */
let pollsMade = 0;

async function post<Body>(exchange: Exchange, path: string, key: string, body: object): Promise<Body> {
  const answer = await exchange.send(postText(`/api/v1${path}`, { "x-api-key": key }, JSON.stringify(body)));
  const text = answer.bytes.toString("utf8", answer.bodyAt);
  if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}: ${text}`);
  return JSON.parse(text) as Body;
}

/** Ends early when there are no more jobs. */
async function claim({ port, key, topic, jobsMax }: Claim): Promise<number> {
  claimed = [];
  const exchange = await openExchange(port);
  for (let found = 1; found > 0 && claimed.length < jobsMax; ) {
    pollsMade += 1;
    const { jobs } = await post<{ readonly jobs: readonly Job[] }>(exchange, "/jobs/poll", key, {
      worker_id: worker,
      topics: [topic],
      poll_id: `claim-${pollsMade}`,
      max_jobs: Math.min(claimBatch, jobsMax - claimed.length),
      wait_ms: 1_000,
      lease_ms: leaseMs,
    });
    found = jobs.length;
    claimed.push(...jobs);
  }
  exchange.close();
  return claimed.length;
}

async function report({ port, key, results }: Report): Promise<number> {
  const due = claimed.splice(0, results);
  const count = due.length;
  const lane = async () => {
    const exchange = await openExchange(port);
    while (due.length > 0) {
      const jobs = due.splice(0, batch);
      const items = jobs.map(({ job_id, claim_token, input }) => ({
        job_id,
        claim_token,
        status: "succeeded",
        output: input,
      }));
      const answer = await post<{ readonly results: ReadonlyArray<{ readonly kind: string }> }>(
        exchange,
        "/jobs/results",
        key,
        { worker_id: worker, results: items },
      );
      const refused = answer.results.find(({ kind }) => kind !== "accepted");
      if (refused !== undefined) throw new Error(`a result was ${refused.kind}`);
    }
    exchange.close();
  };
  await Promise.all(Array.from({ length: reportConnections }, lane));
  return count;
}

async function answerTo(line: string): Promise<ResultsAnswer> {
  try {
    const order = JSON.parse(line) as ResultsOrder;
    return { kind: "done", count: await (order.kind === "claim" ? claim(order) : report(order)) };
  } catch (error) {
    return { kind: "broken", cause: error instanceof Error ? error.message : String(error) };
  }
}

// Ends with its input: when the process that started it is gone, so is this one.
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answerTo(line)));
}
