// Workers over HTTP in a process of their own: each polls for a batch, does nothing, and reports all results at once.
import { Agent, request } from "node:http";

type Options = {
  readonly port: number;
  readonly key: string;
  readonly topic: string;
  readonly workers: number;
  readonly batch: number;
};

type Polled = {
  readonly jobs: ReadonlyArray<{
    readonly job_id: string;
    readonly claim_token: string;
    readonly input: unknown;
  }>;
};

const options = JSON.parse(process.argv[2] ?? "{}") as Options;
const agent = new Agent({ keepAlive: true, maxSockets: options.workers });

function post<Answer>(path: string, body: object): Promise<Answer> {
  const text = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const headers = {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(text),
      "x-api-key": options.key,
    };
    const sent = request(
      { host: "127.0.0.1", port: options.port, path, method: "POST", agent, headers },
      (reply) => {
        const chunks: Buffer[] = [];
        reply.on("data", (chunk: Buffer) => chunks.push(chunk));
        reply.on("end", () => {
          const answer = Buffer.concat(chunks).toString();
          if (reply.statusCode === 200) resolve(JSON.parse(answer) as Answer);
          else reject(new Error(`${path} answered ${reply.statusCode}: ${answer}`));
        });
      },
    );
    sent.on("error", reject);
    sent.end(text);
  });
}

async function work(name: string): Promise<never> {
  for (let polls = 0; ; polls += 1) {
    const { jobs } = await post<Polled>("/api/v1/jobs/poll", {
      worker_id: name,
      topics: [options.topic],
      poll_id: `${name}-${polls}`,
      max_jobs: options.batch,
      wait_ms: 5_000,
    });
    if (jobs.length === 0) continue;
    const results = jobs.map(({ job_id, claim_token, input }) => ({
      job_id,
      claim_token,
      status: "succeeded",
      output: input,
    }));
    await post("/api/v1/jobs/results", { worker_id: name, results });
  }
}

console.log(JSON.stringify({ kind: "ready" }));
await Promise.all(Array.from({ length: options.workers }, (_, index) => work(`bench-${index}`)));
