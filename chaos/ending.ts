// After the last fault: waits until nothing is left to do, then reads everything that clients know of.
import { setTimeout as sleep } from "node:timers/promises";
import type { Final } from "../proof/history/record.ts";
import type { Client } from "../src/sdk/index.ts";
import { type Asker, outcomeOf } from "./asking.ts";
import { createGatewayClient } from "./gateways.ts";
import { askCancel, askStart, type KeyedStart, type Knowledge } from "./ledger-load.ts";
import { cameTrue } from "./load.ts";
import type { System } from "./system.ts";
import type { Tenant } from "./tenants.ts";

export type Ending = {
  readonly system: System;
  readonly asker: Asker;
  readonly knowledge: Knowledge;
  record(final: Final): void;
};

export type DeadLetterSeen = { readonly tenant: string; readonly id: string; readonly reason: string };

/** Lost claims, retries and held jobs take a few leases at most. */
const quietWithinMs = 60_000;
const inParallel = 16;

/** Cancels what only a cancel ends, and waits for the rest to end by itself. False when something did not. */
export async function untilQuiet({ system, asker, knowledge }: Ending): Promise<boolean> {
  const { tenants, urls } = system;
  const ledgers = tenants.all().filter(({ id }) => id.startsWith("ledger-"));
  return cameTrue(quietWithinMs, async () => {
    await eachOf(ledgers, async (tenant) => {
      const gateway = createGatewayClient(urls, tenant.admin, 0);
      for (const runId of await activeRuns(gateway.client(), knowledge, tenant)) {
        await askCancel(asker, "ending", gateway, { tenant: tenant.id, runId });
      }
    });
    const counts = [
      ...tenants.all().map(({ id }) => activeCount(system, id)),
      queuedCount(system, tenants.queued),
    ];
    return (await Promise.all(counts)).every((count) => count === 0);
  });
}

/** For the person who has to find out: what the product itself says of each run that has not ended. */
export async function explainOpen({ system, knowledge }: Ending): Promise<string> {
  const texts: string[] = [];
  for (const tenant of system.tenants.all()) {
    const client = clientOf(system, tenant);
    for (const runId of (await activeRuns(client, knowledge, tenant)).slice(0, explainedMax)) {
      const why = await outcomeOf(() => client.runs.why(runId));
      const timeline = await outcomeOf(() =>
        client.call("readTimeline", { params: { id: runId }, query: { limit: 200 } }),
      );
      texts.push(
        `--- ${runId} of ${tenant.id} has not ended ---\n${JSON.stringify({ why, timeline }, undefined, 1)}`,
      );
    }
  }
  return texts.join("\n");
}

const explainedMax = 5;

async function activeRuns(client: Client, knowledge: Knowledge, tenant: Tenant): Promise<readonly string[]> {
  const listed = await outcomeOf(() => listRuns(client, knowledge, tenant));
  return listed.kind === "ok" ? listed.value : [];
}

/** Those that are active; and notes all, also runs that no client was told of. */
async function listRuns(client: Client, { runs }: Knowledge, tenant: Tenant): Promise<readonly string[]> {
  const active: string[] = [];
  for await (const { run_id, status } of client.runs.list({ limit: 200 })) {
    if (!runs.has(run_id)) runs.set(run_id, tenant);
    if (isActive(status)) active.push(run_id);
  }
  return active;
}

function isActive(status: string): boolean {
  return ["queued", "pending", "running", "waiting"].includes(status);
}

async function activeCount(system: System, id: string): Promise<number | undefined> {
  const outcome = await outcomeOf(() => readTenant(system, id));
  return outcome.kind === "ok" ? outcome.value.active_runs : undefined;
}

async function queuedCount(system: System, tenant: Tenant): Promise<number | undefined> {
  const outcome = await outcomeOf(() => readQueued(clientOf(system, tenant)));
  return outcome.kind === "ok" ? outcome.value : undefined;
}

async function readQueued(client: Client): Promise<number> {
  return (await client.call("listQueues", { query: {} })).queued;
}

function readTenant({ urls, tenants }: System, id: string) {
  const client = createGatewayClient(urls, tenants.platform, 0).client();
  return client.call("getTenant", { params: { id } });
}

/** The keys come last: repeating the start of one that was lost makes a run. */
export async function readEverything(ending: Ending): Promise<readonly DeadLetterSeen[]> {
  const { system, knowledge, record } = ending;
  const deadLetters: DeadLetterSeen[] = [];
  for (const tenant of system.tenants.all()) {
    const client = clientOf(system, tenant);
    await insist(() => listRuns(client, knowledge, tenant));
    const { active_runs: activeRuns } = await insist(() => readTenant(system, tenant.id));
    const queued = await insist(() => readQueued(client));
    record({ of: "tenant", tenant: tenant.id, activeRuns, queued });
    const letters = await insist(() => client.call("listDeadLetters", { query: { limit: 200 } }));
    record({ of: "dead_letters", tenant: tenant.id, count: letters.items.length });
    for (const { id, reason } of letters.items) deadLetters.push({ tenant: tenant.id, id, reason });
  }
  const missing = new Set<string>();
  await eachOf([...knowledge.runs], async ([runId, tenant]) => {
    const final = await readRun(clientOf(system, tenant), tenant.id, runId);
    if (final.status === "missing") missing.add(runId);
    record(final);
  });
  await readApprovals(ending);
  await readSets(ending);
  await readKeys(ending, missing);
  return deadLetters;
}

function clientOf({ urls }: System, tenant: Tenant): Client {
  return createGatewayClient(urls, tenant.admin, 0).client();
}

async function readRun(
  client: Client,
  tenant: string,
  runId: string,
): Promise<Extract<Final, { of: "run" }>> {
  const read = await insist(
    () => client.runs.get(runId).then((run) => ({ kind: "run", run }) as const),
    ["run_not_found"],
  );
  if (read === "run_not_found")
    return { of: "run", tenant, runId, status: "missing", completed: [], nonces: {} };
  const { status, steps } = read.run;
  const nonces = Object.entries(steps).flatMap(([step, { output }]) => {
    const nonce = (output as { readonly nonce?: unknown } | null | undefined)?.nonce;
    return typeof nonce === "string" ? [[step, nonce] as const] : [];
  });
  const completed: string[] = [];
  // A run that was only started and cancelled has nothing to tell.
  if (status !== "cancelled" || nonces.length > 0) {
    const rows = await insist(() =>
      client.call("readTimeline", { params: { id: runId }, query: { limit: 200 } }),
    );
    for (const { type, step } of rows.items) if (type === "step_completed") completed.push(String(step));
  }
  return { of: "run", tenant, runId, status, completed, nonces: Object.fromEntries(nonces) };
}

async function readApprovals({ system, record }: Ending): Promise<void> {
  for (const tenant of system.tenants.work) {
    const client = clientOf(system, tenant);
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const query = { limit: 200, ...(cursor === undefined ? {} : { cursor }) };
      const page = await insist(() => client.call("listApprovals", { query }));
      for (const { job_id, state } of page.items) {
        record({ of: "approval", tenant: tenant.id, approvalId: job_id, state });
      }
      cursor = page.next_cursor;
    }
  }
}

async function readSets({ system, record }: Ending): Promise<void> {
  const response = await fetch(`${system.outsideUrl}/sets`);
  const sets = (await response.json()) as ReadonlyArray<{ set: string; elements: readonly string[] }>;
  for (const { set, elements } of sets) record({ of: "set", set, elements });
}

/** Repeating the start must give the run again; where it is gone, or was never told of, the key is only looked up. */
async function readKeys(ending: Ending, missing: ReadonlySet<string>): Promise<void> {
  const { system, asker, knowledge, record } = ending;
  await eachOf([...knowledge.keys], async ([name, start]) => {
    const { tenant, key } = start;
    const known = knowledge.runOfKey.get(name);
    const repeated =
      known === undefined || missing.has(known) ? undefined : await repeatStart(system, asker, start);
    const runId = repeated ?? (await lookUp(clientOf(system, tenant), key));
    record({ of: "key", tenant: tenant.id, key, runId });
  });
}

/** Undefined when it is refused: the key may have been bound to another request with it. */
async function repeatStart(system: System, asker: Asker, start: KeyedStart): Promise<string | undefined> {
  const gateway = createGatewayClient(system.urls, start.tenant.admin, 0);
  for (let tries = 0; tries < triesMax; tries += 1) {
    const outcome = await askStart(asker, "ending", gateway, start);
    if (outcome.kind === "ok") return outcome.value.run_id;
    if (outcome.kind === "fail" && outcome.problem?.retryable === false) return undefined;
    await sleep(100);
  }
  return undefined;
}

async function lookUp(client: Client, key: string): Promise<string> {
  const found = await insist(() => client.lookUpKey(key), ["idempotency_key_unbound"]);
  return found === "idempotency_key_unbound" ? "" : found.run_id;
}

const triesMax = 50;

/** Nothing is broken any more: what is not answered soon is. Some codes are answers too. */
async function insist<Value, Code extends string = never>(
  send: () => Promise<Value>,
  answers: readonly Code[] = [],
): Promise<Value | Code> {
  for (let tries = 1; ; tries += 1) {
    const outcome = await outcomeOf(send);
    if (outcome.kind === "ok") return outcome.value;
    const answer = answers.find((code) => code === outcome.code);
    if (answer !== undefined) return answer;
    if (tries >= triesMax) throw new Error(`a final read is still answered with ${outcome.code}`);
    await sleep(100);
  }
}

async function eachOf<Item>(items: readonly Item[], act: (item: Item) => Promise<void>): Promise<void> {
  const rest = items.values();
  const lane = async () => {
    for (const item of rest) await act(item);
  };
  await Promise.all(Array.from({ length: inParallel }, lane));
}
