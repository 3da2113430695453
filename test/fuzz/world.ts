// The server that is fuzzed: a real gateway on a real socket over SQLite on disk or Redis, two tenants, and one of everything to ask about.
import { defaultStoreSettings } from "../../src/ports/store.ts";
import {
  acme,
  type GatewayWorld,
  globex,
  makeKey,
  makeLetter,
  makeThings,
  openGatewayWorld,
} from "../support/gateway-world.ts";
import { type StoreName, startStoreHost } from "../support/stores.ts";
import type { Client } from "./generate.ts";
import { createKnowledge, type Grant, type Knowledge } from "./knowledge.ts";

export type FuzzWorld = Client & {
  readonly gateway: GatewayWorld;
  /** Makes again what requests have used up: a run, a job that waits, a claim, an approval, a dead letter, a lock. */
  replenish(): Promise<void>;
  close(): Promise<void>;
};

export async function openFuzzWorld(storeName: StoreName = "sqlite"): Promise<FuzzWorld> {
  const host = await startStoreHost(storeName);
  const store = await host.open(defaultStoreSettings);
  const gateway = await openGatewayWorld(
    { "gateway.failedAuthenticationsPerMinute": 100_000, "gateway.eventLoopDelayMs": 10_000 },
    store,
  );
  const things = await makeThings(gateway);
  const revoked = await makeKey(gateway.plane, acme, "admin");
  await gateway.plane.api.revokeKey({ by: "setup", tenant: acme, keyId: revoked.key.keyId });
  const knowledge = createKnowledge();
  for (const [kind, value] of [
    ["workflow", "simple"],
    ["workflow", "guarded"],
    ["workflow", "list"],
    ["run", things.runId],
    ["run", things.listRunId],
    ["step", "one"],
    ["job", things.jobId],
    ["approval", things.approvalId],
    ["hash", things.approvalHash],
    ["letter", things.letterId],
    ["tenant", "acme"],
    ["tenant", "initech"],
    ["apiKey", things.keyId],
    ["idempotencyKey", "bound-key"],
    ["idempotencyKey", "k-1"],
    ["pool", "batch"],
    ["gate", "tenant"],
    ["topic", "work"],
    ["topic", "slow"],
    ["resource", "invoice/7"],
    ["worker", "w-fuzz"],
  ] as const) {
    knowledge.learn(kind, value);
  }
  return {
    gateway,
    knowledge,
    keys: {
      ofRole: (role) =>
        role === "platform" || role === "metrics"
          ? gateway[role].text
          : gateway.acme[role as keyof typeof gateway.acme].text,
      others: [gateway.globex.admin.text, revoked.text, `${gateway.acme.admin.text.slice(0, -1)}x`],
    },
    replenish: () => replenish(gateway, knowledge),
    async close() {
      await gateway.close();
      await host.close();
    },
  };
}

let rounds = 0;

async function replenish({ ask, acme: keys, plane }: GatewayWorld, knowledge: Knowledge): Promise<void> {
  rounds += 1;
  for (const tenant of [acme, globex]) {
    await plane.api.changeTenant({
      actor: "setup",
      tenant,
      changes: { stopped: undefined, maxConcurrentRuns: undefined },
    });
  }
  await cancelSome({ ask, keys });
  for (const [id, steps, header = {}] of [
    ["simple", { one: { topic: "work" } }],
    ["guarded", { ok: { type: "approval" }, one: { topic: "work", depends_on: ["ok"] } }],
    ["list", { one: { topic: "list", for_each: "[1, 2, 3]" } }],
    // The second of its runs waits.
    ["single", { one: { topic: "work" } }, { concurrency: [{ max: 1, at_limit: "queue" }] }],
  ] as const) {
    await ask("POST", "/api/v1/workflows", { key: keys.admin, body: { id, steps, ...header } });
    for (let count = 0; count < 2; count += 1) {
      const headers = { "idempotency-key": `k-${id}-${rounds}-${count}` };
      const started = await ask("POST", `/api/v1/workflows/${id}/runs`, {
        key: keys.operator,
        body: {},
        headers,
      });
      if (started.status === 200 || started.status === 202) {
        const runId = String(started.json.run_id);
        knowledge.learn("run", runId);
        if (id === "simple" || id === "list") knowledge.learn(`${id}Run`, runId);
      }
      knowledge.learn("idempotencyKey", headers["idempotency-key"]);
    }
  }
  await ask("PUT", "/api/v1/pools/batch", { key: keys.admin, body: { topics: ["slow", "work"] } });
  await ask("PUT", "/api/v1/topics/slow", { key: keys.admin, body: { max_running: 5 } });
  const letterId = await makeLetter(ask, keys, `p-letter-${rounds}`);
  knowledge.learn("letter", letterId);
  const lock = await ask("POST", "/api/v1/locks/acquire", {
    key: keys.worker,
    body: { resource: `invoice/${rounds}`, ttl_ms: 600_000 },
  });
  knowledge.learn("resource", `invoice/${rounds}`);
  knowledge.grants.push(lock.json as unknown as Grant);
  const spare = await makeKey(plane, acme, "viewer");
  knowledge.learn("apiKey", spare.key.keyId);
  const approvals = await ask("GET", "/api/v1/approvals?state=pending&limit=3", { key: keys.viewer });
  for (const { job_id, hash } of approvals.json.items as Array<{ job_id: string; hash: string }>) {
    knowledge.learn("approval", job_id);
    knowledge.learn("hash", hash);
  }
}

/** Runs that nobody ends would fill lists that every request then has to read. */
async function cancelSome({ ask, keys }: { ask: GatewayWorld["ask"]; keys: GatewayWorld["acme"] }) {
  const listed = await ask("GET", "/api/v1/workflow-runs?limit=500", { key: keys.viewer });
  const runs = listed.json.items as Array<{ run_id: string; status: string }>;
  for (const { run_id } of runs.slice(40)) {
    await ask("DELETE", `/api/v1/workflow-runs/${run_id}`, { key: keys.admin });
  }
}
