// Two gateways and two engines are restarted one after the other under load: nothing is lost, and no request that was read is broken.
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFailed, test } from "vitest";
import { type Cluster, type Ending, type ServerProcess, startCluster } from "../support/cluster.ts";
import { createClusterClient } from "../support/cluster-client.ts";
import { urlsOf } from "../support/cluster-load.ts";
import { openEvents } from "../support/event-client.ts";
import { createKeepAliveClient, type Outcome } from "../support/keep-alive-client.ts";

const drainMs = 4_000;
/** What a process may take beyond its gateway's limit. */
const graceMs = 5_000;

/** A run whose owner ends without handing it on would stand still for this long. */
const runLockTtlMs = 60_000;

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({
    gateways: 2,
    engines: 2,
    schedulers: 1,
    settings: {
      GATEWAY_DRAIN_MS: String(drainMs),
      JOBS_LEASE_MS: "3000",
      LOCK_RUN_HANDOFF_TTL_MS: String(runLockTtlMs),
    },
  });
});
afterAll(() => cluster?.stop());

const workflow = {
  id: "two-steps",
  steps: { fetch: { topic: "work" }, store: { topic: "work", depends_on: ["fetch"] } },
};

describe("a rolling restart", () => {
  test("of two gateways and two engines loses nothing and breaks no request that was read", async () => {
    onTestFailed(() => console.log(cluster.report().slice(-20_000)));
    const admin = createClusterClient(urlsOf(cluster.gateways), cluster.keys.admin);
    expect((await admin.post("/workflows", workflow)).status).toBe(201);
    const load = putOnLoad();
    const watching = watchEvents();
    await load.untilRunsStarted(100);
    const endings: Array<Ending & { readonly name: string }> = [];
    for (const process of [...cluster.gateways, ...cluster.engines]) {
      const ending = await process.terminate();
      endings.push({ name: process.name, ...ending });
      await process.startAgain();
      await load.untilRunsStarted(load.runOfKey.size + 50);
    }
    await load.stop();
    for (const { name, exit, tookMs } of endings) {
      expect(exit, name).toBe(0);
      expect(tookMs, name).toBeLessThan(drainMs + graceMs);
    }
    expect(load.broken()).toEqual([]);
    const { draining, notConnected, notRead, answered } = load.counts();
    expect(draining + notConnected, "the restarts were felt").toBeGreaterThan(0);
    const runs = await listRuns(admin);
    expect(runs.map(({ run_id }) => run_id).sort()).toEqual([...load.runOfKey.values()].sort());
    expect(new Set(runs.map(({ status }) => status))).toEqual(new Set(["succeeded"]));
    const seen = await watching.untilRunsEnded(runs.length);
    console.log(
      `${runs.length} runs, ${answered} answers, of which ${draining} said that the server stops; ${notConnected} connections ` +
        `were refused and ${notRead} reset unread; ${load.grants()} locks held one after the other; ${seen.resumes} resumes of the event stream; stops took ` +
        `${endings.map(({ tookMs }) => `${(tookMs / 1_000).toFixed(1)} s`).join(", ")}`,
    );
  });
});

/** Hundreds of commits long, after a pause, so that another process than the one that began it may go on. */
const longRun = {
  id: "long-run",
  steps: {
    pause: { type: "delay", delay_sec: 1 },
    ...Object.fromEntries(
      Array.from({ length: 8 }, (_, index) => [
        [
          `count-${index}`,
          {
            type: "loop",
            depends_on: [index === 0 ? "pause" : `count-${index - 1}`],
            input: { body: `tick-${index}`, max_iterations: 10_000 },
          },
        ],
        [`tick-${index}`, { type: "transform", input: {} }],
      ]).flat(),
    ),
  },
};

describe("an engine", () => {
  test("that is stopped while it owns a run finishes it or hands it on: the run goes on before its lock could have ended", async () => {
    onTestFailed(() => console.log(cluster.report().slice(-20_000)));
    const [gateway, doomed] = cluster.gateways as [ServerProcess, ServerProcess];
    const admin = createClusterClient([gateway.url], cluster.keys.admin);
    expect((await admin.post("/workflows", longRun)).status).toBe(201);
    const there = createClusterClient([doomed.url], cluster.keys.admin);
    const started = await there.post<{ run_id: string }>(`/workflows/${longRun.id}/runs`, {});
    // Its alarm dies with it: the sweep of the engines finds the run.
    await doomed.kill();
    const runId = started.body.run_id;
    const statusNow = async () =>
      (await admin.get<{ status: string }>(`/workflow-runs/${runId}`)).body.status;
    const owner = await engineThatOwns(runId);
    const stopping = owner.terminate();
    expect(["running", "waiting"], "it is stopped in the middle").toContain(await statusNow());
    const { exit, tookMs } = await stopping;
    expect(exit).toBe(0);
    expect(tookMs).toBeLessThan(drainMs + graceMs);
    await expect.poll(statusNow, { timeout: runLockTtlMs / 2, interval: 20 }).toBe("succeeded");
    console.log(`the stop of the engine took ${tookMs.toFixed(0)} ms`);
    await Promise.all([owner.startAgain(), doomed.startAgain()]);
  });
});

/** A lock's value names the process that holds it. */
async function engineThatOwns(runId: string): Promise<ServerProcess> {
  const [redis] = cluster.redis;
  let owner: ServerProcess | undefined;
  const look = async () => {
    const [key] = (await redis?.command<string[]>("KEYS", `*:wf:run:lock:*${runId}*`)) ?? [];
    const value = key === undefined ? undefined : await redis?.command<string | null>("GET", key);
    owner = cluster.engines.find(({ pid }) => value?.includes(`:${pid}:`));
    return owner?.name;
  };
  await expect.poll(look, { interval: 2 }).toBeDefined();
  return owner as ServerProcess;
}

type Load = {
  readonly runOfKey: ReadonlyMap<string, string>;
  untilRunsStarted(count: number): Promise<void>;
  /** Requests that got no whole answer although they were sent, and answers that nobody should get. */
  broken(): readonly string[];
  counts(): {
    readonly answered: number;
    readonly draining: number;
    readonly notConnected: number;
    readonly notRead: number;
  };
  grants(): number;
  stop(): Promise<void>;
};

/** Starts, polls, results and waits for a lock, each lane with one request under way on connections that are kept. */
function putOnLoad(): Load {
  const urls = urlsOf(cluster.gateways);
  const client = createKeepAliveClient();
  const counts = { answered: 0, draining: 0, notConnected: 0, notRead: 0 };
  /** Each lane stays with a gateway until that one sends it away. */
  const chosen = new Map<string, number>();
  const broken: string[] = [];
  const runOfKey = new Map<string, string>();
  const stopped = { starts: false, all: false };
  let grants = 0;
  let holders = 0;

  /** Until there is an answer other than "come back": the same request, at the next gateway. */
  async function ask<Body>(
    lane: string,
    path: string,
    body: object,
    headers: Readonly<Record<string, string>>,
  ): Promise<{ readonly status: number; readonly body: Body }> {
    for (;;) {
      const number = chosen.get(lane) ?? chosen.size % urls.length;
      chosen.set(lane, number);
      const outcome = await client.post(urls[number] as string, path, body, headers);
      const answer = judge(path, outcome);
      if (answer !== undefined) return { status: answer.status, body: JSON.parse(answer.text) as Body };
      chosen.set(lane, (number + 1) % urls.length);
      await sleep(10);
    }
  }

  function judge(path: string, outcome: Outcome) {
    if (outcome.kind === "not_connected") counts.notConnected += 1;
    else if (isUnread(outcome)) counts.notRead += 1;
    else if (outcome.kind !== "answered") broken.push(`${path}: ${JSON.stringify(outcome)}`);
    else {
      counts.answered += 1;
      if (outcome.status !== 503) return outcome;
      counts.draining += 1;
      const { headers, text } = outcome;
      const isPolite = headers.connection === "close" && Number(headers["retry-after"]) > 0;
      if (!isPolite || !text.includes('"draining"')) broken.push(`${path}: ${JSON.stringify(outcome)}`);
    }
    return undefined;
  }

  const adminKey = { "x-api-key": cluster.keys.admin };
  const workerKey = { "x-api-key": cluster.keys.worker };

  async function start(lane: number): Promise<void> {
    for (let order = 0; !stopped.starts; order += 1) {
      const key = `lane-${lane}-order-${order}`;
      const headers = { ...adminKey, "idempotency-key": key };
      const reply = await ask<{ run_id: string }>(
        `start ${lane}`,
        `/workflows/${workflow.id}/runs`,
        { order },
        headers,
      );
      expect(reply.status, JSON.stringify(reply)).toBe(200);
      runOfKey.set(key, reply.body.run_id);
      await sleep(20);
    }
  }

  type Job = { readonly job_id: string; readonly claim_token: string };
  async function work(lane: number): Promise<void> {
    const worker_id = `worker-${lane}`;
    for (let polls = 0; !stopped.all; polls += 1) {
      const poll = { worker_id, topics: ["work"], poll_id: `${lane}-${polls}`, max_jobs: 10, wait_ms: 1_000 };
      const { body } = await ask<{ jobs: readonly Job[] }>(worker_id, "/jobs/poll", poll, workerKey);
      if (body.jobs.length === 0) continue;
      const results = body.jobs.map(({ job_id, claim_token }) => ({
        job_id,
        claim_token,
        status: "succeeded",
        output: {},
      }));
      await ask(worker_id, "/jobs/results", { worker_id, results }, workerKey);
    }
  }

  async function lock(lane: number): Promise<void> {
    const resource = "printer";
    for (let turn = 0; !stopped.all; turn += 1) {
      const token = `lane-${lane}-turn-${String(turn).padStart(8, "0")}`;
      const wanted = { resource, token, wait_ms: 5_000, ttl_ms: 10_000 };
      const { status } = await ask(`lock ${lane}`, "/locks/acquire", wanted, workerKey);
      if (status !== 200) continue;
      holders += 1;
      if (holders > 1) broken.push("two hold one lock");
      grants += 1;
      await sleep(10);
      holders -= 1;
      await ask(`lock ${lane}`, "/locks/release", { resource, token }, workerKey);
    }
  }

  const lanes = (count: number, act: (lane: number) => Promise<void>) =>
    Array.from({ length: count }, (_, lane) => act(lane));
  const starting = Promise.all(lanes(6, start));
  const others = Promise.all([...lanes(6, work), ...lanes(3, lock)]);
  return {
    runOfKey,
    broken: () => broken,
    counts: () => counts,
    grants: () => grants,
    async untilRunsStarted(count) {
      const started = expect.poll(() => runOfKey.size, { timeout: 30_000, interval: 10 });
      await Promise.race([started.toBeGreaterThanOrEqual(count), starting, others]);
    },
    async stop() {
      stopped.starts = true;
      await starting;
      await noneActive();
      stopped.all = true;
      await others;
      client.close();
    },
  };
}

/**
 * The kernel takes connections before the server does; those that it still has when the server stops listening are reset. Had the
 * server read from the connection, it would have been ended, not reset.
 */
function isUnread(outcome: Outcome): boolean {
  return outcome.kind === "unanswered" && !outcome.reused && outcome.cause.includes("ECONNRESET");
}

async function noneActive(): Promise<void> {
  const platform = createClusterClient(urlsOf(cluster.gateways), cluster.keys.platform);
  const active = async () =>
    (await platform.get<{ active_runs: number }>("/tenants/default")).body.active_runs;
  await expect.poll(active, { interval: 50 }).toBe(0);
}

/** Follows the tenant's events from gateway to gateway: every number once, none missing. */
function watchEvents() {
  const urls = urlsOf(cluster.gateways);
  const ids: number[] = [];
  const ended = new Set<string>();
  let resumes = -1;
  let isOver = false;
  const following = (async () => {
    for (let tries = 0; !isOver; tries += 1) {
      const url = `${urls[tries % urls.length]}/api/v1/events/stream`;
      const lastEventId = ids.length === 0 ? "0" : String(ids.at(-1));
      const stream = await openEvents(url, { key: cluster.keys.admin, lastEventId }).catch(() => undefined);
      if (stream === undefined || stream.status !== 200) {
        await sleep(20);
        continue;
      }
      resumes += 1;
      const over = stream.over.then(() => "over" as const);
      let read = 0;
      const take = () => {
        for (const { id, type, data } of stream.events.slice(read)) {
          ids.push(Number(id));
          if (type === "run_ended") ended.add(String(data.run_id));
        }
        read = stream.events.length;
      };
      while ((await Promise.race([over, sleep(20)])) !== "over" && !isOver) take();
      take();
      stream.close();
    }
  })();
  return {
    async untilRunsEnded(runs: number) {
      await expect.poll(() => ended.size, { interval: 50 }).toBe(runs);
      isOver = true;
      await following;
      const gaps = ids.filter((id, index) => index > 0 && id !== (ids[index - 1] ?? 0) + 1);
      expect(gaps, "every event came once, in order").toEqual([]);
      return { resumes };
    },
  };
}

async function listRuns(client: ReturnType<typeof createClusterClient>) {
  type Listed = { readonly run_id: string; readonly status: string };
  type Page = { readonly items: readonly Listed[]; readonly next_cursor: string | null };
  const listed: Listed[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const query: string = cursor === "" ? "" : `&cursor=${cursor}`;
    const { body }: { body: Page } = await client.get<Page>(`/workflow-runs?limit=300${query}`);
    listed.push(...body.items);
    cursor = body.next_cursor;
  }
  return listed;
}
