// A worker of the chaos run, as a process of its own: works for every tenant, and records claims, effects and reports.
import { setTimeout as sleep } from "node:timers/promises";
import {
  type Body,
  type CallOperation,
  type Client,
  createClient,
  InterlockApiError,
  InterlockConnectionError,
  type Job,
  JobFailed,
  type Success,
  type Worker,
  worker,
} from "../src/sdk/index.ts";
import { createSeededRandom } from "../src/testing/seeded-random.ts";
import { type Completion, createAsker, failureOf } from "./asking.ts";
import { openRecorder } from "./recorder.ts";

export type WorkerProgramOptions = {
  readonly name: string;
  /** Which life of this worker it is, from 1 on. */
  readonly start: number;
  readonly seed: number;
  readonly urls: readonly string[];
  /** It speaks NATS there instead of HTTP. */
  readonly bus?: string;
  readonly tenants: ReadonlyArray<{ readonly id: string; readonly worker: string }>;
  readonly topic: string;
  readonly file: string;
};

const options = JSON.parse(process.argv[2] ?? "{}") as WorkerProgramOptions;
const { start, seed, urls, bus, tenants, topic, file } = options;
/** Another worker in each life: what was given to the one is not the other's. */
const name = `${options.name}.${start}`;
const recorder = openRecorder(file);
const random = createSeededRandom(seed).stream(name);
const asker = createAsker(recorder, `${name}-`);

/** Of the claims at hand; a result carries it. */
const nonces = new Map<string, string>();
let effects = 0;

async function perform(job: Job): Promise<object> {
  effects += 1;
  const nonce = `${name}.${effects}`;
  nonces.set(job.id, nonce);
  const note = (phase: "begin" | "end") =>
    recorder.now({ type: "effect", worker: name, jobId: job.id, nonce, phase });
  note("begin");
  await sleep(random.integer(2, 40));
  note("end");
  if (random.chance(0.05)) throw new JobFailed(nonce, { retryable: true, code: "chance" });
  return { nonce };
}

/** Stays with a gateway while that answers. */
function betweenGateways(first: number): typeof fetch {
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
      return response;
    } catch (error) {
      leave(asked);
      throw error;
    }
  };
}

type Claims = Success<"pollJobs">;
type Verdicts = Success<"reportResults">;
type Report = Body<"reportResults">["results"][number];

/** Records what the SDK's worker asks for. */
function recording(client: Client, tenant: string): Client {
  const call = (operation: CallOperation, given: unknown) => {
    const send = () => client.call(operation as never, given as never) as Promise<unknown>;
    if (operation === "pollJobs") return recordClaim(tenant, send as () => Promise<Claims>);
    if (operation !== "reportResults") return send();
    const { results } = (given as { readonly body: Body<"reportResults"> }).body;
    return recordReports(tenant, results, send as () => Promise<Verdicts>);
  };
  return { ...client, call: call as Client["call"] };
}

async function recordClaim(tenant: string, send: () => Promise<Claims>): Promise<Claims> {
  const completion = asker.begin(name, { operation: "claim", tenant, worker: name });
  const claims = await send().catch((error: unknown) => tellFailure(error, [completion]));
  const jobs = claims.jobs.map(({ job_id, run_id, step_id, attempt }) => {
    return { jobId: job_id, runId: run_id, step: step_id, attempt };
  });
  completion.ok({ kind: "claimed", jobs });
  return claims;
}

async function recordReports(
  tenant: string,
  reports: readonly Report[],
  send: () => Promise<Verdicts>,
): Promise<Verdicts> {
  const completions = reports.map(({ job_id: jobId, status }) => {
    const nonce = nonces.get(jobId) ?? `${jobId} not begun`;
    return asker.begin(name, { operation: "report", tenant, jobId, nonce, status });
  });
  const verdicts = await send().catch((error: unknown) => tellFailure(error, completions));
  for (const [index, completion] of completions.entries()) {
    const { kind, because = kind } = verdicts.results[index] ?? { kind: "retry", because: "no verdict" };
    if (kind === "accepted" || kind === "duplicate") completion.ok({ kind: "report", outcome: kind });
    else if (kind === "refused" || because === "run_busy" || because === "store_unavailable")
      completion.fail(because);
    else completion.unknown(because);
  }
  return verdicts;
}

function tellFailure(error: unknown, completions: readonly Completion[]): never {
  // What a stop has interrupted may have been done.
  const isOurs = error instanceof InterlockApiError || error instanceof InterlockConnectionError;
  const failure = isOurs ? failureOf(error) : ({ kind: "unknown", code: "stopped" } as const);
  for (const completion of completions) completion[failure.kind](failure.code);
  throw error;
}

const concurrency = 6;

type Tenant = WorkerProgramOptions["tenants"][number];

function workerOverHttp({ id, worker: apiKey }: Tenant, index: number): Worker {
  const fetchThere = betweenGateways(index + Number(options.name.slice(-1)));
  return worker({
    client: recording(createClient({ url: urls[0], apiKey, fetch: fetchThere, timeoutMs: 3_000 }), id),
    name,
    topics: { [topic]: perform },
    concurrency,
    pollWaitMs: 1_500,
    // Expected here: what they cost is for the checker to judge.
    onTrouble: () => {},
  });
}

/**
 * Its polls are not seen from here: a claim is what becomes of a free place, asked for when the place became free, and a report
 * begins when the work has ended.
 */
function workerOverBus({ id: tenant, worker: apiKey }: Tenant, servers: string): Worker {
  const ask = () => asker.begin(name, { operation: "claim", tenant, worker: name });
  const places = Array.from({ length: concurrency }, ask);
  const reports = new Map<string, Completion>();
  const settle = (jobId: string, end: (report: Completion) => void) => {
    const report = reports.get(jobId);
    reports.delete(jobId);
    if (report !== undefined) end(report);
  };
  const work = async (job: Job): Promise<object> => {
    const { id: jobId, runId, step, attempt } = job;
    places.shift()?.ok({ kind: "claimed", jobs: [{ jobId, runId, step, attempt }] });
    let status: Report["status"] = "failed";
    try {
      const output = await perform(job);
      status = "succeeded";
      return output;
    } finally {
      const nonce = nonces.get(jobId) ?? "";
      reports.set(jobId, asker.begin(name, { operation: "report", tenant, jobId, nonce, status }));
      places.push(ask());
    }
  };
  return worker({
    bus: servers,
    apiKey,
    name,
    topics: { [topic]: work },
    concurrency,
    pollWaitMs: 1_500,
    onReported: (jobId) => settle(jobId, (report) => report.ok({ kind: "report", outcome: "accepted" })),
    onTrouble: (trouble) => {
      if (trouble.kind === "result_refused") settle(trouble.jobId, (report) => report.fail(trouble.because));
    },
  });
}

const workers = tenants.map((tenant, index) =>
  bus === undefined ? workerOverHttp(tenant, index) : workerOverBus(tenant, bus),
);
process.once("SIGTERM", () => {
  void Promise.all(workers.map((each) => each.stop({ graceMs: 300 }))).then(() => process.exit());
});
console.log(JSON.stringify({ ready: true }));
await Promise.all(workers.map(({ finished }) => finished));
