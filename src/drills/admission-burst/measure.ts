// The two things that are measured: a burst without retries, and a crowd of clients that try again while slots free up.
import { createClient } from "../../sdk/client.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { Stage } from "../drill.ts";
import type { DrillTenant, Target } from "../target/target.ts";
import type { CrowdSeen } from "./crowd.ts";
import { type GateSeen, watchGate } from "./gate-watch.ts";
import type { Crowds } from "./open-crowds.ts";
import { type ClientPolicy, type ClientTerms, tenantFields, type Variant } from "./plan.ts";

/** What a measurement needs, whichever instance it is made on. */
export type BurstContext = {
  readonly target: Target;
  readonly crowds: Crowds;
  readonly signal: Stage["signal"];
};

export type Measured = CrowdSeen & {
  readonly variant: Variant;
  readonly clients: number;
  /** The largest number of active runs that the tenant's record told, asked again and again meanwhile. */
  readonly toldMost: number;
  /** In the list of runs, when all clients were done; a burst leaves there what it was granted. */
  readonly activeAfter: number;
  readonly gate: GateSeen;
};

/** `name` is as in `10x, 1000 clients`. */
export type Retried = Measured & {
  readonly name: string;
  readonly policy: ClientPolicy;
  readonly terms: ClientTerms;
};

const workflow = "drill-burst";

/** Its one job stays where it is: nobody asks for this topic, so a run is active until it is cancelled. */
const definition = {
  id: workflow,
  name: "Burst",
  steps: { wait: { type: "worker", topic: "drill.nobody" } },
};

/** A tenant for each variant: its settings are in force from its first start, since no gateway remembers others. */
export async function openVariant(target: Target, variant: Variant): Promise<DrillTenant> {
  const tenant = await target.createTenant(tenantFields[variant]);
  await tenant.client.workflows.save(definition);
  return tenant;
}

type Wanted = Pick<Measured, "variant" | "clients"> & Partial<Pick<Retried, "policy" | "terms">>;

export async function measure(
  { target, crowds, signal }: BurstContext,
  tenant: DrillTenant,
  { variant, clients, policy = "fixed", terms }: Wanted,
): Promise<Measured> {
  const watch = await watchGate(target, tenant);
  const record = askRecord(target, tenant);
  const seen = await crowds
    .run(
      {
        url: target.urls[0] as string,
        adminKey: tenant.adminKey,
        workflow,
        clients,
        policy,
        ...(terms === undefined ? {} : { terms }),
      },
      signal,
    )
    .finally(() => record.stop());
  const gate = await watch.seen();
  return {
    ...seen,
    toldMost: await record.most,
    variant,
    clients,
    activeAfter: await endActive(tenant),
    gate,
  };
}

const askEveryMs = 50;

function askRecord({ platform }: Target, { id }: DrillTenant) {
  const stopped = new AbortController();
  const ask = async () => {
    let most = 0;
    while (!stopped.signal.aborted) {
      most = Math.max(most, (await platform.tenants.get(id)).active_runs);
      await runtime.sleep(askEveryMs, stopped.signal);
    }
    return most;
  };
  return { most: ask(), stop: () => stopped.abort() };
}

/** How many there were: all that a client was granted, and what a start without an answer may have got. */
async function endActive({ client, adminKey }: DrillTenant): Promise<number> {
  const patient = createClient({ url: client.url, apiKey: adminKey });
  let count = 0;
  for await (const { id } of patient.runs.list({ status: "running" })) {
    count += 1;
    await patient.runs.cancel(id);
  }
  return count;
}
