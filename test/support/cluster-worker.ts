// A worker as a process of its own: polls for batches, writes down what it did, reports, and goes over to another gateway when it must.
import { appendFileSync } from "node:fs";
import { createClusterClient } from "./cluster-client.ts";

export type WorkerOptions = {
  readonly name: string;
  readonly urls: readonly string[];
  /** Of one tenant each; lanes are spread over them. */
  readonly keys: readonly string[];
  readonly topic: string;
  /** Polls under way at once, spread over the gateways. */
  readonly lanes: number;
  readonly batch: number;
  /** Where every worker appends what it did. */
  readonly effectsFile: string;
};

/** What became of one job in the hands of one worker; `did` is written before the result is reported. */
export type Effect = {
  readonly what: "did" | "taken" | "refused";
  readonly run: string;
  readonly step: string;
  readonly attempt: number;
  readonly fence: number;
  readonly effect: string;
};

type Job = {
  readonly job_id: string;
  readonly run_id: string;
  readonly step_id: string;
  readonly attempt: number;
  readonly claim_token: string;
  readonly fence: number;
};
type Answer = { readonly job_id: string; readonly kind: "accepted" | "duplicate" | "refused" | "retry" };

const options = JSON.parse(process.argv[2] ?? "{}") as WorkerOptions;

/** Differs with every claim: two of them for one step would be seen. */
const effectOf = ({ job_id, claim_token }: Job) => `${job_id} ${claim_token}`;

/** One write for all of them: lines of several processes do not mix. */
function note(what: Effect["what"], jobs: readonly Job[]): void {
  if (jobs.length === 0) return;
  const lines = jobs.map((job) => {
    const { run_id: run, step_id: step, attempt, fence } = job;
    return `${JSON.stringify({ what, run, step, attempt, fence, effect: effectOf(job) } satisfies Effect)}\n`;
  });
  appendFileSync(options.effectsFile, lines.join(""));
}

async function work(lane: number): Promise<never> {
  const worker_id = `${options.name}-${lane}`;
  const { urls, keys } = options;
  const key = keys[lane % keys.length] as string;
  const client = createClusterClient(urls, key, Math.floor(lane / keys.length));
  async function report(jobs: readonly Job[]): Promise<void> {
    for (let rest = jobs; rest.length > 0; ) {
      const results = rest.map((job) => ({
        job_id: job.job_id,
        claim_token: job.claim_token,
        status: "succeeded",
        output: { effect: effectOf(job) },
      }));
      const { status, body } = await client.post<{ results: readonly Answer[] }>("/jobs/results", {
        worker_id,
        results,
      });
      if (status !== 200) throw new Error(`results were answered with ${status}: ${JSON.stringify(body)}`);
      const kinds = new Map(body.results.map(({ job_id, kind }) => [job_id, kind]));
      const having = (...wanted: ReadonlyArray<Answer["kind"]>) =>
        rest.filter(({ job_id }) => wanted.includes(kinds.get(job_id) ?? "retry"));
      note("taken", having("accepted", "duplicate"));
      note("refused", having("refused"));
      rest = having("retry");
    }
  }
  for (let polls = 0; ; polls += 1) {
    const { status, body } = await client.post<{ jobs: readonly Job[] }>("/jobs/poll", {
      worker_id,
      topics: [options.topic],
      poll_id: `${worker_id}-${polls}`,
      max_jobs: options.batch,
      wait_ms: 2_000,
    });
    if (status !== 200) throw new Error(`a poll was answered with ${status}: ${JSON.stringify(body)}`);
    note("did", body.jobs);
    await report(body.jobs);
  }
}

console.log(JSON.stringify({ kind: "ready" }));
await Promise.all(Array.from({ length: options.lanes }, (_, lane) => work(lane)));
