// Workers as a process of its own, made with the SDK: they write down what they did, and go over to another gateway when they must.
import { appendFileSync } from "node:fs";
import { type Job, worker } from "../../src/sdk/index.ts";

export type CrewOptions = {
  readonly name: string;
  readonly urls: readonly string[];
  /** Of one tenant each; each has a worker of its own. */
  readonly keys: readonly string[];
  readonly topic: string;
  readonly concurrency: number;
  /** Where every worker appends what it did. */
  readonly effectsFile: string;
};

/** What became of one claim: `did` is written before the result is reported, the others when the server has answered. */
export type Effect = {
  readonly what: "did" | "taken" | "refused";
  readonly run: string;
  readonly step: string;
  readonly attempt: number;
  readonly fence: number;
  /** Differs with every claim: two of them for one step would be seen. */
  readonly effect: string;
};

type Reported = { readonly results: ReadonlyArray<{ readonly job_id: string; readonly kind: string }> };

const options = JSON.parse(process.argv[2] ?? "{}") as CrewOptions;

const done = new Map<string, Omit<Effect, "what">>();

function perform(job: Job): object {
  const effect = `${job.id} ${job.fence}`;
  const { runId: run, step, attempt, fence } = job;
  done.set(job.id, { run, step, attempt, fence, effect });
  note("did", [job.id]);
  return { effect };
}

/** One write for all of them: lines of several processes do not mix. */
function note(what: Effect["what"], jobIds: readonly string[]): void {
  const lines = jobIds.map((jobId) => `${JSON.stringify({ what, ...done.get(jobId) })}\n`);
  if (lines.length > 0) appendFileSync(options.effectsFile, lines.join(""));
}

/** Stays with a gateway while that answers, and reads along what becomes of results. */
function betweenGateways(urls: readonly string[], first: number): typeof fetch {
  let current = first % urls.length;
  const leave = (asked: number) => {
    if (asked === current) current = (current + 1) % urls.length;
  };
  return async (input, init) => {
    const asked = current;
    const { pathname, search } = new URL(input instanceof Request ? input.url : input);
    try {
      const response = await fetch(`${urls[asked]}${pathname}${search}`, init);
      if (response.status === 503) leave(asked);
      if (response.status === 200 && pathname.endsWith("/jobs/results")) await readAlong(response.clone());
      return response;
    } catch (error) {
      leave(asked);
      throw error;
    }
  };
}

async function readAlong(response: Response): Promise<void> {
  const { results } = (await response.json()) as Reported;
  const having = (...kinds: readonly string[]) =>
    results.filter(({ kind }) => kinds.includes(kind)).map(({ job_id }) => job_id);
  note("taken", having("accepted", "duplicate"));
  note("refused", having("refused"));
}

const { name, urls, keys, topic, concurrency } = options;
const workers = keys.map((apiKey, index) =>
  worker({
    url: urls[0],
    apiKey,
    name: `${name}-${index}`,
    fetch: betweenGateways(urls, index + Number(name.slice(-1))),
    topics: { [topic]: perform },
    concurrency,
    pollWaitMs: 2_000,
    // Expected here: what they cost is counted by the audit.
    onTrouble: () => {},
  }),
);
console.log(JSON.stringify({ kind: "ready" }));
await Promise.all(workers.map(({ finished }) => finished));
