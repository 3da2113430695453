// A worker in any language looks like this: HTTP and JSON, and nothing of the product is imported.
//
//   npx tsx examples/09-worker-without-sdk.ts http://127.0.0.1:7300 .interlock/keys.json demo.hello
//
// It needs a server (npx interlock serve) and works until Ctrl-C.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const [url = "http://127.0.0.1:7300", keysFile = ".interlock/keys.json", topic = "demo.hello"] =
  process.argv.slice(2);
const { worker: key } = JSON.parse(readFileSync(keysFile, "utf8")) as { readonly worker: string };
const worker_id = `example-${process.pid}`;

type Job = {
  readonly job_id: string;
  readonly claim_token: string;
  readonly lease_ms: number;
  readonly input: unknown;
};

for (let polls = 0; ; polls += 1) {
  const poll = {
    worker_id,
    topics: [topic],
    poll_id: `${worker_id}-${polls}`,
    max_jobs: 10,
    wait_ms: 20_000,
  };
  const { jobs } = await post<{ jobs: readonly Job[] }>("/jobs/poll", poll);
  await Promise.all(jobs.map(perform));
}

async function perform(job: Job): Promise<void> {
  const claim = { job_id: job.job_id, claim_token: job.claim_token };
  // Keeps the claim alive while the work takes long; after `lease_ms` of silence another worker gets the job.
  const beating = setInterval(() => {
    post("/jobs/heartbeat", { worker_id, jobs: [claim] }).catch(console.error);
  }, job.lease_ms / 3);
  const output = { hello: job.input };
  clearInterval(beating);
  for (;;) {
    const result = { ...claim, status: "succeeded", output };
    const { results } = await post<{ results: ReadonlyArray<{ readonly kind: string }> }>("/jobs/results", {
      worker_id,
      results: [result],
    });
    console.log(job.job_id, results[0]?.kind);
    // accepted and duplicate are stored, refused is dropped for good: only retry has to be sent again.
    if (results[0]?.kind !== "retry") return;
    await sleep(1_000);
  }
}

/** Repeats what was not answered: a poll with the same poll_id gets the same jobs, a result is taken once. */
async function post<Body>(path: string, body: object): Promise<Body> {
  for (;;) {
    try {
      const response = await fetch(`${url}/api/v1${path}`, {
        method: "POST",
        headers: { "X-API-Key": key, "Content-Type": "application/json" },
        body: JSON.stringify(body),
      });
      if (response.ok) return (await response.json()) as Body;
      console.error(path, response.status, await response.text());
      if (response.status < 500 && response.status !== 429) process.exit(1);
    } catch (error) {
      console.error(path, String(error));
    }
    await sleep(1_000);
  }
}
