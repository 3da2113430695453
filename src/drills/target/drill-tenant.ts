// The tenant that a drill works in, made for it and removed after it with everything that is in it.

import { type Client, createClient } from "../../sdk/client.ts";
import { InterlockApiError } from "../../sdk/client-errors.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { DrillTenant, TenantFields } from "./target.ts";

/** Each answer counts: a client that tries again by itself would hide what a drill looks at. */
const asOnce = { attemptsMax: 1 };

export async function createDrillTenant(
  platform: Client,
  urls: readonly [string, ...string[]],
  settings: TenantFields,
): Promise<DrillTenant> {
  const id = `drill-${runtime.token().slice(0, 12)}`;
  await platform.tenants.create({ id, ...settings });
  const key = async (role: "admin" | "worker") =>
    (await platform.keys.create({ name: `drill ${role}`, role, tenant: id })).key;
  const adminKey = await key("admin");
  const workerKey = await key("worker");
  const clientAt = (url: string, which: "admin" | "worker" = "admin") =>
    createClient({ url, apiKey: which === "admin" ? adminKey : workerKey, retry: asOnce });
  return { id, adminKey, workerKey, client: clientAt(urls[0]), clientAt };
}

/** Runs that are active are cancelled; then runs, workflows and letters are deleted, and the tenant goes with its keys. */
export async function removeDrillTenant(
  platform: Client,
  { id, client, adminKey }: DrillTenant,
): Promise<void> {
  const patient = createClient({ url: client.url, apiKey: adminKey });
  const deadlineMs = runtime.now().monotonicMs + goneWithinMs;
  for (let left = await removeRuns(patient); left > 0; left = await removeRuns(patient)) {
    if (runtime.now().monotonicMs > deadlineMs) throw new Error(`${left} runs of ${id} do not end`);
    await runtime.sleep(100);
  }
  for await (const { id: workflow } of patient.workflows.list()) {
    await unlessGone(patient.workflows.remove(workflow));
  }
  while ((await patient.deadLetters.purge()).more);
  await platform.tenants.remove(id);
}

/** A burst may have left thousands of runs. */
const goneWithinMs = 60_000;

/** Removing one that has not ended cancels it: it is gone when it is asked for again. */
async function removeRuns(client: Client): Promise<number> {
  let left = 0;
  for await (const { id } of client.runs.list({ limit: 100 })) {
    await unlessGone(client.runs.remove(id));
    left += 1;
  }
  return left;
}

async function unlessGone(removal: Promise<unknown>): Promise<void> {
  try {
    await removal;
  } catch (error) {
    if (!(error instanceof InterlockApiError && (error.status === 404 || error.status === 409))) throw error;
  }
}
