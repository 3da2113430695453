// Load on a cluster and what must be true afterwards: tenants, clients that submit keys twice, workers, and the audit of every run.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { type ChildProgram, startChildProgram } from "./child-program.ts";
import type { Cluster } from "./cluster.ts";
import { type ClusterClient, createClusterClient } from "./cluster-client.ts";
import type { CrewOptions, Effect } from "./cluster-worker.ts";
import { readEnding } from "./run-ending.ts";

const topic = "work";
const steps = ["fetch", "think", "store"];

/** Spelt in two parts: in a plain text the linter takes the product's templates for a mistake. */
const template = (expression: string) => `$${`{${expression}}`}`;

const workflow = {
  id: "three-steps",
  steps: {
    fetch: { topic },
    think: { topic, depends_on: ["fetch"], input: { before: template("steps.fetch.output.effect") } },
    store: { topic, depends_on: ["think"], input: { before: template("steps.think.output.effect") } },
  },
};

export type Tenant = { readonly id: string; readonly admin: string; readonly worker: string };

/** Each with the workflow of three steps and a limit of runs at once. */
export async function makeTenants(
  { gateways, keys }: Cluster,
  options: { readonly count: number; readonly runsAtOnce: number },
): Promise<readonly Tenant[]> {
  const platform = createClusterClient(urlsOf(gateways), keys.platform);
  const limit = { max_concurrent_runs: options.runsAtOnce };
  const make = async (number: number): Promise<Tenant> => {
    const id = `tenant-${number}`;
    expect((await platform.post("/tenants", { id, ...limit })).status).toBe(201);
    const key = async (role: string) => {
      const made = await platform.post<{ key: string }>("/keys", { tenant: id, role, name: role });
      expect(made.status).toBe(201);
      return made.body.key;
    };
    const tenant = { id, admin: await key("admin"), worker: await key("worker") };
    const saved = await createClusterClient(urlsOf(gateways), tenant.admin).post("/workflows", workflow);
    expect(saved.status).toBe(201);
    return tenant;
  };
  return Promise.all(Array.from({ length: options.count }, (_, number) => make(number + 1)));
}

export function urlsOf(processes: ReadonlyArray<{ readonly url: string }>): readonly string[] {
  return processes.map(({ url }) => url);
}

export type Crew = {
  readonly workers: readonly ChildProgram[];
  effects(): readonly Effect[];
  stop(): Promise<void>;
};

export async function startCrew(
  { gateways }: Cluster,
  tenants: readonly Tenant[],
  workers: number,
): Promise<Crew> {
  const folder = mkdtempSync(join(tmpdir(), "interlock-effects-"));
  const effectsFile = join(folder, "effects.jsonl");
  const program = join(import.meta.dirname, "cluster-worker.ts");
  const crew = Array.from({ length: workers }, (_, index) =>
    startChildProgram(program, {
      name: `worker-${index + 1}`,
      urls: urlsOf(gateways),
      keys: tenants.map(({ worker }) => worker),
      topic,
      concurrency: 40,
      effectsFile,
    } satisfies CrewOptions),
  );
  await Promise.all(crew.map((worker) => worker.next()));
  return {
    workers: crew,
    effects: () =>
      readFileSync(effectsFile, "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as Effect),
    async stop() {
      await Promise.all(crew.map((worker) => worker.stop()));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export type Submissions = {
  /** By tenant and key. */
  readonly runOfKey: ReadonlyMap<string, string>;
  readonly conflicts: readonly string[];
  retries(): number;
  readonly finished: Promise<void>;
};

/** Every fifth key comes from two clients at once, by way of two gateways, and once more later. */
export function submitRuns(
  { gateways }: Cluster,
  tenants: readonly Tenant[],
  options: { readonly runs: number; readonly clients: number; readonly perSecond: number },
): Submissions {
  const startMs = performance.now();
  /** Not as fast as they can: what happens meanwhile must meet runs at every stage. */
  const turnOf = async (order: number) => {
    const waitMs = startMs + (order / options.perSecond) * 1_000 - performance.now();
    if (waitMs > 0) await sleep(waitMs);
  };
  const runOfKey = new Map<string, string>();
  const conflicts: string[] = [];
  const everybody: ClusterClient[] = [];
  const clientOf = (tenant: Tenant, first: number) => {
    const client = createClusterClient(urlsOf(gateways), tenant.admin, first);
    everybody.push(client);
    return client;
  };
  const submit = async (client: ClusterClient, tenant: Tenant, order: number) => {
    const key = `order-${order}`;
    const reply = await client.post<{ run_id: string }>(
      `/workflows/${workflow.id}/runs`,
      { order },
      { "idempotency-key": key },
    );
    if (reply.status !== 200) throw new Error(`${key}: ${JSON.stringify(reply)}`);
    const name = `${tenant.id}/${key}`;
    const known = runOfKey.get(name) ?? reply.body.run_id;
    if (known !== reply.body.run_id) conflicts.push(`${name}: ${known} and ${reply.body.run_id}`);
    runOfKey.set(name, known);
  };
  const orders = Array.from({ length: options.runs }, (_, order) => order).values();
  const lane = async (_: unknown, number: number) => {
    const clients = tenants.map((tenant) => ({
      tenant,
      one: clientOf(tenant, number),
      other: clientOf(tenant, number + 1),
    }));
    for (const order of orders) {
      await turnOf(order);
      const { tenant, one, other } = clients[order % clients.length] as (typeof clients)[number];
      if (order % 5 === 0) {
        await Promise.all([submit(one, tenant, order), submit(other, tenant, order)]);
        await submit(other, tenant, order);
      } else await submit(one, tenant, order);
    }
  };
  const finished = Promise.all(Array.from({ length: options.clients }, lane)).then(() => {});
  return {
    runOfKey,
    conflicts,
    retries: () => everybody.reduce((sum, client) => sum + client.retries(), 0),
    finished,
  };
}

export async function untilNoRunIsActive(cluster: Cluster, tenants: readonly Tenant[]): Promise<void> {
  const platform = createClusterClient(urlsOf(cluster.gateways), cluster.keys.platform);
  const active = async () => {
    const found = await Promise.all(
      tenants.map(({ id }) => platform.get<{ active_runs: number }>(`/tenants/${id}`)),
    );
    return found.reduce((sum, { body }) => sum + body.active_runs, 0);
  };
  await expect.poll(active, { timeout: 40_000, interval: 100 }).toBe(0);
}

export type Audit = {
  /** From its admission to its end, by the store's clock. */
  readonly longestMs: number;
  /** Steps that a worker had to do again. */
  readonly secondAttempts: number;
};

/** Every key has one run; every run succeeded, once; what each step recorded was done and taken once; nothing was given up. */
export async function auditRuns(
  cluster: Cluster,
  tenants: readonly Tenant[],
  submissions: Submissions,
  effects: readonly Effect[],
): Promise<Audit> {
  expect(submissions.conflicts, "all submissions of a key were answered with one run").toEqual([]);
  const byStep = new Map<string, Effect[]>();
  for (const effect of effects) {
    const place = `${effect.run}/${effect.step}`;
    byStep.set(place, [...(byStep.get(place) ?? []), effect]);
  }
  const audits = await Promise.all(
    tenants.map(async (tenant) => {
      const client = createClusterClient(urlsOf(cluster.gateways), tenant.admin);
      expect((await client.get<Page<unknown>>("/dlq")).body.items).toEqual([]);
      const prefix = `${tenant.id}/`;
      const keys = [...submissions.runOfKey].flatMap(([name, runId]) =>
        name.startsWith(prefix) ? [{ key: name.slice(prefix.length), runId }] : [],
      );
      const listed = await listRuns(client);
      expect(listed.map(({ run_id }) => run_id).sort()).toEqual(keys.map(({ runId }) => runId).sort());
      expect(new Set(listed.map(({ status }) => status))).toEqual(new Set(["succeeded"]));
      await inParallel(keys, 20, async ({ key, runId }) => {
        const bound = await client.get(`/idempotency-keys/${key}`);
        expect(bound.body).toEqual({ state: "bound", run_id: runId, final_status: "succeeded" });
        await auditRun(client, runId, byStep);
      });
      return Math.max(
        ...listed.map(({ created_at, completed_at }) => Date.parse(completed_at) - Date.parse(created_at)),
      );
    }),
  );
  const again = effects.filter(({ what, attempt }) => what === "did" && attempt > 1);
  return { longestMs: Math.max(...audits), secondAttempts: again.length };
}

async function auditRun(
  client: ClusterClient,
  runId: string,
  byStep: ReadonlyMap<string, readonly Effect[]>,
): Promise<void> {
  const { completed, recorded } = await readEnding(client, runId);
  expect(completed, runId).toEqual([...steps, "run"]);
  for (const step of steps) {
    expect(judge(byStep.get(`${runId}/${step}`) ?? [], recorded(step)), `${runId}/${step}`).toEqual({
      wasDone: true,
      isFenced: true,
      takenOthers: [],
    });
  }
}

/** The file has one order for all workers, as a tool that looks at fences would have seen them. */
function judge(effects: readonly Effect[], recorded: string) {
  const done = effects.filter(({ what }) => what === "did");
  let highest = 0;
  const allowed = done.filter(({ fence }) => {
    if (fence < highest) return false;
    highest = fence;
    return true;
  });
  const byAttempt = [...done].sort((left, right) => left.attempt - right.attempt);
  const fencesGrow = byAttempt.every(
    ({ fence, attempt }, index) =>
      index === 0 || fence > (byAttempt[index - 1]?.fence ?? 0) || attempt === byAttempt[index - 1]?.attempt,
  );
  return {
    wasDone: done.some(({ effect }) => effect === recorded),
    isFenced: fencesGrow && allowed.some(({ effect }) => effect === recorded),
    takenOthers: effects.filter(({ what, effect }) => what === "taken" && effect !== recorded),
  };
}

type Page<Item> = { readonly items: readonly Item[]; readonly next_cursor: string | null };
type Listed = {
  readonly run_id: string;
  readonly status: string;
  readonly created_at: string;
  readonly completed_at: string;
};

async function listRuns(client: ClusterClient): Promise<readonly Listed[]> {
  const listed: Listed[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const query: string = cursor === "" ? "" : `&cursor=${cursor}`;
    const { body }: { body: Page<Listed> } = await client.get<Page<Listed>>(
      `/workflow-runs?limit=300${query}`,
    );
    listed.push(...body.items);
    cursor = body.next_cursor;
  }
  return listed;
}

export async function inParallel<Item>(
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
