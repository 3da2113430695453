// A worker that takes jobs and does nothing with them: it waits to be killed. Prints a line when it has them.
type Options = {
  readonly url: string;
  readonly key: string;
  readonly topic: string;
  readonly jobs: number;
  readonly leaseMs: number;
};

const options = JSON.parse(process.argv[2] ?? "{}") as Options;
let taken = 0;
for (let polls = 0; taken < options.jobs; polls += 1) {
  const response = await fetch(`${options.url}/api/v1/jobs/poll`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": options.key },
    body: JSON.stringify({
      worker_id: "holder",
      topics: [options.topic],
      poll_id: `holder-${polls}`,
      max_jobs: options.jobs - taken,
      wait_ms: 1_000,
      lease_ms: options.leaseMs,
    }),
  });
  if (response.status !== 200) throw new Error(`a poll was answered with ${response.status}`);
  taken += ((await response.json()) as { jobs: unknown[] }).jobs.length;
}
console.log(JSON.stringify({ takenAtMs: Date.now() }));
setInterval(() => {}, 60_000);
