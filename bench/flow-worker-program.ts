// The workers of the flow benchmark, as a process: each works 20 ms on a job. Says whose runs have ended when all of a crowd have.
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import type { WorkerOrder, WorkerSaid } from "./flow-crowd.ts";
import { workMs } from "./flow-plan.ts";
import { openExchange, postText } from "./http-exchange.ts";

type Job = {
  readonly job_id: string;
  readonly claim_token: string;
  readonly input: { readonly customer: number };
};

const { port, key, topic, workers } = JSON.parse(process.argv[2] ?? "{}") as WorkerOrder;
const headers = { "x-api-key": key };
let ends: number[] = [];
let expected = Number.POSITIVE_INFINITY;

function say(said: WorkerSaid): void {
  console.log(JSON.stringify(said));
}

function end(customer: number): void {
  ends.push(customer);
  if (ends.length !== expected) return;
  say({ kind: "ended", ends, endedMs: performance.timeOrigin + performance.now() });
}

async function work(name: string): Promise<never> {
  const exchange = await openExchange(port);
  const post = async <Reply>(path: string, body: object): Promise<Reply> => {
    const answer = await exchange.send(postText(path, headers, JSON.stringify(body)));
    const text = answer.bytes.toString("utf8", answer.bodyAt);
    if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}: ${text}`);
    return JSON.parse(text) as Reply;
  };
  for (let polls = 0; ; polls += 1) {
    const poll = { worker_id: name, topics: [topic], poll_id: `${name}-${polls}`, max_jobs: 1 };
    const { jobs } = await post<{ jobs: readonly Job[] }>("/api/v1/jobs/poll", { ...poll, wait_ms: 5_000 });
    for (const { job_id, claim_token, input } of jobs) {
      await delay(workMs);
      const results = [{ job_id, claim_token, status: "succeeded", output: {} }];
      await post("/api/v1/jobs/results", { worker_id: name, results });
      end(input.customer);
    }
  }
}

say({ kind: "ready" });
const working = Promise.all(Array.from({ length: workers }, (_, index) => work(`flow-${index}`)));
working.catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
// A line is the number of runs of the crowd that comes next.
for await (const line of createInterface({ input: process.stdin })) {
  ends = [];
  expected = Number(line);
}
process.exit(0);
