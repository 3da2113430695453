// A client of an older version against the present server, on data that the older server left behind.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPrometheusMetrics } from "../../src/adapters/prometheus-metrics.ts";
import { type ControlPlane, createControlPlane } from "../../src/control-plane.ts";
import { createGateway, type Gateway } from "../../src/gateway/server.ts";
import type { Client, Worker } from "../../src/sdk/index.ts";
import { silentLog } from "../support/silent-log.ts";
import { type FrozenStore, type FrozenWorld, frozenStores, loadSdk, type Sdk } from "./frozen-version.ts";

const version = "0.1.0";

let loaded: Awaited<ReturnType<typeof loadSdk>>;
beforeAll(async () => {
  loaded = await loadSdk(version);
});
afterAll(() => loaded.remove());

type Present = {
  readonly url: string;
  readonly world: FrozenWorld;
  client(role: keyof FrozenWorld["keys"]): Client;
  /** Operations that were answered with success at least once. */
  succeeded(): Promise<ReadonlySet<string>>;
  close(): Promise<void>;
};

/** The present gateway on the frozen data. */
async function openPresent({ store, world, remove }: FrozenStore, { createClient }: Sdk): Promise<Present> {
  const metrics = createPrometheusMetrics(10);
  const overrides = { "gateway.lingerMs": 0 };
  const plane: ControlPlane = await createControlPlane({
    overrides,
    ports: { store, metrics, log: silentLog },
  });
  const gateway: Gateway = createGateway({ ...plane, version: "test", metricsText: () => metrics.text() });
  const { url } = await gateway.listen({ port: 0 });
  return {
    url,
    world,
    client: (role) => createClient({ url, apiKey: world.keys[role] }),
    async succeeded() {
      const rows = (await metrics.text()).matchAll(
        /^interlock_http_requests_total\{operation="(\w+)",status="2\d\d"\}/gm,
      );
      return new Set([...rows].map(([, operation]) => operation ?? ""));
    },
    async close() {
      await gateway.close();
      await plane.close();
      await remove();
    },
  };
}

async function collect<Item>(items: AsyncIterable<Item>, most: number): Promise<Item[]> {
  const collected: Item[] = [];
  for await (const item of items) {
    collected.push(item);
    if (collected.length === most) break;
  }
  return collected;
}

describe.each(Object.keys(frozenStores) as Array<keyof typeof frozenStores>)(
  `the SDK of ${version} on data of ${version} in %s`,
  (name) => {
    let present: Present;
    let world: FrozenWorld;
    let admin: Client;
    let platform: Client;
    let worker: Worker;

    beforeAll(async () => {
      present = await openPresent(await frozenStores[name](version), loaded.sdk);
      ({ world } = present);
      admin = present.client("admin");
      platform = present.client("platform");
      worker = loaded.sdk.worker({
        client: present.client("worker"),
        topics: {
          work: () => ({ done: true }),
          list: ({ input }) => ({ doubled: Number((input as { number: number }).number) * 2 }),
          described: ({ input }) => input as { to: string },
          fragile: () => ({ mended: true }),
        },
        onTrouble: () => {},
      });
    });
    afterAll(async () => {
      await worker.stop({ graceMs: 0 });
      await present.close();
    });

    const succeed = async (runId: string) => {
      const run = await admin.runs.wait(runId, { timeoutMs: 20_000 });
      expect(run.status).toBe("succeeded");
      return run;
    };

    test("keys of every role are known, and foreign things are not found", async () => {
      for (const role of ["platform", "admin", "operator", "viewer", "worker"] as const)
        expect((await present.client(role).status()).role).toBe(role);
      const foreign = present.client("foreign").runs.get(world.endedRunId);
      await expect(foreign).rejects.toMatchObject({ status: 404 });
    });

    test("runs that were begun go on to their end", async () => {
      await succeed(world.runId);
      await succeed(world.listRunId);
      await succeed(world.describedRunId);
      expect((await admin.runs.get(world.asleepRunId)).status).not.toBe("failed");
    });

    test("what waited for an approval is approved and finished", async () => {
      const [approval] = await collect(admin.approvals.list(), 1);
      expect(approval?.job_id).toBe(world.approvalId);
      const { hash } = await admin.approvals.context(world.approvalId);
      expect(hash).toBe(world.approvalHash);
      await present.client("operator").approvals.approve(world.approvalId, { hash });
      await succeed(world.approvalId.split(":")[0] ?? "");
      const second = await admin.runs.start("guarded", {});
      const asked = await collect(admin.approvals.list({ state: "pending" }), 1);
      expect(asked[0]?.job_id.startsWith(second.run_id)).toBe(true);
      await admin.approvals.reject(asked[0]?.job_id ?? "");
      expect((await admin.runs.wait(second.run_id)).status).toBe("denied");
    });

    test("a bound idempotency key still replays its run", async () => {
      const again = await present
        .client("operator")
        .runs.start("simple", { customer: "c-1" }, { idempotencyKey: "bound-key" });
      expect(again.run_id).toBe(world.runId);
      expect((await admin.lookUpKey("bound-key")).run_id).toBe(world.runId);
    });

    test("a workflow whose schema the present rules refuse is still checked and run as before", async () => {
      const refused = admin.runs.start("described", { email: "nobody" });
      await expect(refused).rejects.toMatchObject({ status: 400, code: "input_invalid" });
      const lacking = admin.runs.start("described", { email: "ada@example.com", card: "1" });
      await expect(lacking).rejects.toMatchObject({ status: 400, code: "input_invalid" });
      const { run_id } = await admin.runs.start("described", { email: "ada@example.com" });
      await succeed(run_id);
    });

    test("the audit trail that was sealed verifies", async () => {
      // The trail of 0.1.0 was the event feed: the one that is sealed now begins with the update.
      await admin.workflows.save({ id: "audited", steps: { one: { topic: "work" } } });
      expect(await admin.audit.verify()).toMatchObject({ status: "intact", kept_from: 1 });
      expect((await collect(admin.audit.list(), 3)).length).toBe(3);
    });

    test("workflows are saved, validated, tried out and removed", async () => {
      const definition = { id: "new", steps: { one: { topic: "work" } } };
      expect(await admin.workflows.validate(definition)).toMatchObject({ valid: true, steps: 1 });
      expect(await admin.workflows.save(definition)).toMatchObject({ id: "new", revision: 1 });
      expect((await admin.workflows.get("new")).id).toBe("new");
      expect((await collect(admin.workflows.list(), 100)).map(({ id }) => id)).toContain("described");
      expect((await admin.runs.dryRun("new", {})).steps).toHaveLength(1);
      const { run_id } = await admin.runs.start("new", {});
      await succeed(run_id);
      await admin.call("listRunsOfWorkflow", { params: { id: "new" }, query: {} });
      const other = await admin.runs.start("asleep", {});
      const params = { id: "asleep", run_id: other.run_id };
      await admin.call("cancelRunOfWorkflow", { params, body: {} });
      await admin.workflows.remove("new");
    });

    test("runs are listed, explained, followed, rerun, cancelled and removed", async () => {
      expect((await collect(admin.runs.list(), 100)).length).toBeGreaterThan(3);
      expect((await admin.runs.why(world.asleepRunId)).run_id).toBe(world.asleepRunId);
      expect((await collect(admin.runs.timeline(world.endedRunId), 100)).length).toBeGreaterThan(0);
      expect(await collect(admin.runs.items(world.listRunId, "each"), 10)).toHaveLength(3);
      const events = await collect(admin.events.follow({ run: world.endedRunId }), 1);
      expect(events).toHaveLength(1);
      expect(await collect(admin.events.follow({ from: "start" }), 2)).toHaveLength(2);
      expect((await admin.events.page({ limit: 5 })).items).toHaveLength(5);
      await admin.runs.planRerun(world.runId, { fromStep: "one" });
      const rerun = await admin.runs.rerun(world.runId, { fromStep: "one" });
      await succeed(rerun.run_id);
      const asleep = await admin.runs.start("asleep", {});
      await admin.runs.cancel(asleep.run_id);
      expect((await admin.runs.wait(asleep.run_id)).status).toBe("cancelled");
      await admin.runs.remove(asleep.run_id);
    });

    test("dead letters are read, retried and purged", async () => {
      expect((await collect(admin.deadLetters.list(), 10)).map(({ id }) => id)).toContain(world.letterId);
      await admin.call("listDeadLetterPage", { query: {} });
      expect((await admin.deadLetters.get(world.letterId)).id).toBe(world.letterId);
      await admin.deadLetters.retry(world.letterId);
      await succeed(world.letterId.split(":")[0] ?? "");
      await admin.deadLetters.remove(world.letterId);
      await admin.deadLetters.purge({});
    });

    test("locks are taken, renewed, shown, released and broken", async () => {
      const agent = present.client("worker");
      const lock = await agent.locks.acquire({ resource: "invoice/8", owner: "agent 8", ttl_ms: 60_000 });
      const held = { resource: "invoice/8", token: lock.token };
      await agent.locks.renew({ ...held, ttl_ms: 60_000 });
      expect((await admin.locks.get("invoice/8")).owner).toBe("agent 8");
      await collect(admin.locks.list(), 1);
      await agent.locks.release(held);
      await loaded.sdk.withLock(agent, "invoice/9", async ({ fence }) => expect(fence).toBeGreaterThan(0));
      const broken = await agent.locks.acquire({ resource: "invoice/10", owner: "x", ttl_ms: 60_000 });
      expect(broken.fence).toBeGreaterThan(lock.fence);
      const all = await collect(platform.locks.all(), 100);
      expect(all.map(({ fence }) => fence)).toContain(broken.fence);
      const { fence } = broken;
      const named = { tenant: "acme", namespace: "public", name: "invoice/10" } as const;
      await platform.locks.break({ ...named, fence, reason: "its holder is gone" });
    });

    test("a job is polled for, shown, kept and reported call by call", async () => {
      const agent = present.client("worker");
      await admin.workflows.save({ id: "by-hand", steps: { one: { topic: "by-hand" } } });
      const { run_id } = await admin.runs.start("by-hand", {});
      const worker_id = "by-hand";
      const asked = { worker_id, topics: ["by-hand"], poll_id: "by-hand-1", max_jobs: 1, wait_ms: 5_000 };
      const { jobs } = await agent.call("pollJobs", { body: asked });
      const { job_id, claim_token } = jobs[0] ?? { job_id: "", claim_token: "" };
      expect((await agent.jobs.get(job_id)).job_id).toBe(job_id);
      await agent.call("heartbeat", { body: { worker_id, jobs: [{ job_id, claim_token }] } });
      const result = { job_id, claim_token, status: "succeeded", output: {} } as const;
      await agent.call("reportResults", { body: { worker_id, results: [result] } });
      await succeed(run_id);
    });

    test("tenants, keys, pools, topics, policies and canaries are looked after", async () => {
      expect((await collect(platform.tenants.list(), 10)).map(({ id }) => id)).toContain("acme");
      await platform.tenants.create({ id: "initech", max_concurrent_runs: 3 });
      await platform.tenants.change("initech", { max_concurrent_runs: 4 });
      expect((await platform.tenants.get("initech")).max_concurrent_runs).toBe(4);
      const made = await platform.keys.create({ role: "admin", name: "first", tenant: "initech" });
      const own = loaded.sdk.createClient({ url: present.url, apiKey: made.key });
      expect((await own.status()).tenant).toBe("initech");
      expect((await platform.keys.list({ tenant: "initech" })).map(({ id }) => id)).toEqual([made.id]);
      await platform.keys.revoke(made.id);
      await platform.tenants.remove("initech");
      expect((await admin.pools.get("batch")).name).toBe("batch");
      await admin.pools.list();
      await admin.pools.set("fast", { max_running: 2 });
      await admin.pools.change("fast", { max_running: 3 });
      await admin.pools.addTopic("fast", "quick");
      await admin.pools.removeTopic("fast", "quick");
      await admin.pools.drain("fast");
      await admin.pools.remove("fast");
      await admin.topics.list();
      await admin.topics.limit("quick", { max_running: 1 });
      await admin.topics.removeLimit("quick");
      await platform.policies.get({ tenant: "globex" });
      await platform.policies.set({ tenant: "globex", policies: { "renewal.policy": "fence" } });
      await platform.policies.rollBack({ tenant: "globex" });
      expect((await platform.canaries.list()).map(({ id }) => id)).toContain(world.canaryId);
      await platform.canaries.get(world.canaryId);
      const policies = { "renewal.policy": "fence" } as const;
      for (const end of ["rollBack", "keep"] as const) {
        const canary = await platform.canaries.start({
          tenant: "acme",
          policies,
          percent: 5,
          for_seconds: 86_400,
        });
        await platform.canaries[end](canary.id);
      }
      await admin.jobs.workers();
      await admin.jobs.ready("nothing");
    });

    test("every operation that the SDK knows was answered with success", async () => {
      await platform.call("openApi");
      await platform.call("live");
      await platform.call("ready");
      await platform.call("metrics");
      const succeeded = await present.succeeded();
      expect(loaded.operations.filter((operation) => !succeeded.has(operation))).toEqual([]);
    });
  },
);
