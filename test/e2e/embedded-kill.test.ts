// The embedded server under load through HTTP alone, killed in the middle and started again: every run ends exactly once.
import { readFileSync, rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, onTestFailed, test } from "vitest";
import { createHttpClient, type HttpClient } from "../support/http-client.ts";
import { type Program, servedBy, startProgram } from "../support/program.ts";
import { readEnding } from "../support/run-ending.ts";
import { diskFolder } from "../support/stores.ts";

const runs = 1_000;
const killAfter = runs / 2;
const limit = 200;
const steps = ["fetch", "think", "store"];

/** Spelt in two parts: in a plain text the linter takes the product's templates for a mistake. */
const template = (expression: string) => `$${`{${expression}}`}`;

const workflow = {
  id: "three-steps",
  steps: {
    fetch: { topic: "work" },
    think: { topic: "work", depends_on: ["fetch"], input: { before: template("steps.fetch.output.effect") } },
    store: { topic: "work", depends_on: ["think"], input: { before: template("steps.think.output.effect") } },
  },
};

let directory: string;
let server: Program;
beforeEach(() => {
  directory = diskFolder();
});
afterEach(async () => {
  await server.kill();
  rmSync(directory, { recursive: true, force: true });
});

/** Short leases, so that what was claimed at the kill comes back soon. */
function serve(port: string): Program {
  return startProgram("serve.ts", {
    settings: {
      DATA_DIRECTORY: directory,
      GATEWAY_PORT: port,
      JOBS_LEASE_MS: "1500",
      LOCK_RUN_HANDOFF_TTL_MS: "1000",
    },
  });
}

test("1,000 runs of three steps, each submitted twice, survive a SIGKILL of the server: all end exactly once", async () => {
  onTestFailed(() => console.log(server.output().slice(-5_000)));
  server = serve("0");
  let { url } = await servedBy(server);
  const keys = JSON.parse(readFileSync(`${directory}/keys.json`, "utf8")) as Record<string, string>;
  const clientOf = (role: string) => createHttpClient(() => url, keys[role] as string);
  const platform = clientOf("platform");
  const admin = clientOf("admin");
  expect((await platform.patch("/tenants/default", { max_concurrent_runs: limit })).status).toBe(200);
  expect((await admin.post("/workflows", workflow)).status).toBe(201);

  const clients = createClients(admin);
  const workers = createWorkers(clientOf("worker"));
  const killed = (async () => {
    await expect
      .poll(() => clients.runOfKey.size, { timeout: 30_000, interval: 5 })
      .toBeGreaterThan(killAfter);
    server.process.kill("SIGKILL");
    expect(await server.ended).toBe("SIGKILL");
    server = serve(new URL(url).port);
    ({ url } = await servedBy(server));
  })();
  await Promise.all([clients.finished, killed]);
  const activeRuns = async () =>
    (await platform.get<{ active_runs: number }>("/tenants/default")).body.active_runs;
  await expect.poll(activeRuns, { timeout: 30_000, interval: 100 }).toBe(0);
  await workers.stop();

  expect(clients.unanswered + workers.unanswered(), "the kill was felt").toBeGreaterThan(0);
  expect(clients.conflicts, "both submissions of a key were answered with one run").toEqual([]);
  await expectOneRunPerKey(admin, clients.runOfKey);
  const ids = [...clients.runOfKey.values()];
  await inParallel(ids, 50, (runId) => expectEndedOnce(admin, runId, workers.effects));
});

type Clients = {
  readonly runOfKey: ReadonlyMap<string, string>;
  readonly conflicts: string[];
  unanswered: number;
  readonly finished: Promise<void>;
};

/** Each key twice, half of them at the same moment; what is not answered with a run is sent again with the same key. */
function createClients(admin: HttpClient): Clients {
  const runOfKey = new Map<string, string>();
  const state = { runOfKey, conflicts: [] as string[], unanswered: 0 };
  async function submit(key: string, order: number): Promise<void> {
    for (;;) {
      const reply = await admin.post<{ run_id: string }>(
        `/workflows/${workflow.id}/runs`,
        { order },
        {
          "idempotency-key": key,
        },
      );
      if (reply.status === 200) {
        const known = runOfKey.get(key) ?? reply.body.run_id;
        if (known !== reply.body.run_id) state.conflicts.push(`${key}: ${known} and ${reply.body.run_id}`);
        runOfKey.set(key, known);
        return;
      }
      if (![0, 429, 503].includes(reply.status)) throw new Error(`${key}: ${JSON.stringify(reply)}`);
      if (reply.status === 0) state.unanswered += 1;
      await sleep(20 + Math.random() * 60);
    }
  }
  const finished = inParallel(
    Array.from({ length: runs }, (_, order) => order),
    40,
    async (order) => {
      const key = `order-${order}`;
      const first = submit(key, order);
      if (order % 2 === 0) await first;
      await Promise.all([first, submit(key, order)]);
    },
  );
  return Object.assign(state, { finished });
}

type Job = {
  readonly attempt: number;
  readonly job_id: string;
  readonly run_id: string;
  readonly step_id: string;
  readonly claim_token: string;
};
type Answer = { readonly job_id: string; readonly kind: "accepted" | "duplicate" | "refused" | "retry" };

type Workers = {
  /** `<run>/<step>`: the effects that were sent as that step's result, and whether the server said that it took them. */
  readonly effects: ReadonlyMap<string, ReadonlyMap<string, "sent" | "taken">>;
  unanswered(): number;
  stop(): Promise<void>;
};

/** Long after the lease and the next sweep: such a job has been given to another worker. */
const slowMs = 3_500;

/**
 * Long polls of batches. A result is sent until the server has said what became of it. Every fiftieth job is kept until its
 * claim is surely lost and reported all the same, as by a worker that was paused.
 */
function createWorkers(client: HttpClient): Workers {
  const effects = new Map<string, Map<string, "sent" | "taken">>();
  const note = (job: Job, state: "sent" | "taken") => {
    const place = `${job.run_id}/${job.step_id}`;
    effects.set(place, (effects.get(place) ?? new Map()).set(effectOf(job), state));
  };
  const late: Promise<void>[] = [];
  let jobsSeen = 0;
  let isStopped = false;
  let unanswered = 0;
  async function report(worker: string, jobs: readonly Job[]): Promise<void> {
    for (const job of jobs) note(job, "sent");
    for (let rest = jobs; rest.length > 0; ) {
      const results = rest.map((job) => ({
        job_id: job.job_id,
        claim_token: job.claim_token,
        status: "succeeded",
        output: { effect: effectOf(job) },
      }));
      const body = { worker_id: worker, results };
      const reply = await client.post<{ results: readonly Answer[] }>("/jobs/results", body);
      if (reply.status !== 200) {
        unanswered += 1;
        await sleep(50);
        continue;
      }
      const kinds = new Map(reply.body.results.map(({ job_id, kind }) => [job_id, kind]));
      for (const job of rest) {
        const kind = kinds.get(job.job_id);
        if (kind === "accepted" || kind === "duplicate") note(job, "taken");
      }
      rest = rest.filter(({ job_id }) => kinds.get(job_id) === "retry");
      if (rest.length > 0) await sleep(50);
    }
  }
  async function work(worker: string): Promise<void> {
    for (let polls = 0; !isStopped; polls += 1) {
      const poll = {
        worker_id: worker,
        topics: ["work"],
        poll_id: `${worker}-${polls}`,
        max_jobs: 50,
        wait_ms: 500,
      };
      const reply = await client.post<{ jobs: readonly Job[] }>("/jobs/poll", poll);
      if (reply.status !== 200) {
        await sleep(50);
        continue;
      }
      const isSlow = ({ attempt }: Job) => attempt === 1 && ++jobsSeen % 50 === 0;
      const slow = reply.body.jobs.filter(isSlow);
      if (slow.length > 0) late.push(sleep(slowMs).then(() => report(worker, slow)));
      await report(
        worker,
        reply.body.jobs.filter((job) => !slow.includes(job)),
      );
    }
  }
  const working = Promise.all(["w1", "w2", "w3", "w4"].map(work));
  return {
    effects,
    unanswered: () => unanswered,
    async stop() {
      isStopped = true;
      await working;
      await Promise.all(late);
    },
  };
}

/** Differs with every claim: two of them for one step would be seen. */
const effectOf = ({ job_id, claim_token }: Job) => `${job_id} ${claim_token}`;

type Page<Item> = { readonly items: readonly Item[]; readonly next_cursor: string | null };

async function expectOneRunPerKey(admin: HttpClient, runOfKey: ReadonlyMap<string, string>): Promise<void> {
  const listed: Array<{ readonly run_id: string; readonly status: string }> = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const query: string = cursor === "" ? "" : `&cursor=${cursor}`;
    const { body }: { body: Page<(typeof listed)[number]> } = await admin.get<Page<(typeof listed)[number]>>(
      `/workflow-runs?limit=300${query}`,
    );
    listed.push(...body.items);
    cursor = body.next_cursor;
  }
  expect(runOfKey.size).toBe(runs);
  expect(listed.map((run) => run.run_id).sort()).toEqual([...runOfKey.values()].sort());
  expect(new Set(listed.map((run) => run.status))).toEqual(new Set(["succeeded"]));
  await inParallel([...runOfKey], 50, async ([key, runId]) => {
    const bound = await admin.get(`/idempotency-keys/${key}`);
    expect(bound.body).toEqual({ state: "bound", run_id: runId, final_status: "succeeded" });
  });
}

async function expectEndedOnce(admin: HttpClient, runId: string, effects: Workers["effects"]): Promise<void> {
  const ending = await readEnding(admin, runId);
  expect(ending.completed, runId).toEqual([...steps, "run"]);
  for (const step of steps) {
    const recorded = ending.recorded(step);
    const sent = effects.get(`${runId}/${step}`) ?? new Map<string, "sent" | "taken">();
    const others = [...sent].filter(([effect, state]) => effect !== recorded && state === "taken");
    expect({ isOurs: sent.has(recorded), others }, `${runId}/${step}`).toEqual({ isOurs: true, others: [] });
  }
}

async function inParallel<Item>(
  items: readonly Item[],
  width: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const rest = items.values();
  const lane = async () => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: width }, lane));
}
