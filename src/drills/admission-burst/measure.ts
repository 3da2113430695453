// The two things that are measured: a burst without retries, and a crowd of clients that try again while slots free up.

import type { Answer, OperationName, RequestOf } from "../../ports/store.ts";
import { createClient } from "../../sdk/client.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { Stage } from "../drill.ts";
import type { DrillTenant, Inside, Target } from "../target/target.ts";
import type { CrowdSeen, Crowds } from "./crowd.ts";
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

type GateSeen = {
  /** When each try for the admission lock was sent, from the first on; absent when the gate is in another process. */
  readonly arrivalsMs?: readonly number[];
  /** When each that found the lock busy is due to come back, in order: arrivals without what a busy machine adds to them. */
  readonly dueMs?: readonly number[];
  /** The most active runs that the store has reported with an admission; absent likewise. */
  readonly activeMost?: number;
  /** Tries that found the lock busy and waited. Of a deployment, everybody's. */
  readonly busyRetries: number;
};

type GateWatch = { seen(): Promise<GateSeen> };

async function watchGate(target: Target, tenant: DrillTenant): Promise<GateWatch> {
  const busyBefore = await busyRetriesOf(target);
  const inside = target.inside === undefined ? undefined : watchInside(target.inside, tenant.id);
  return {
    async seen() {
      const busyRetries = (await busyRetriesOf(target)) - busyBefore;
      return inside === undefined ? { busyRetries } : { busyRetries, ...inside.seen() };
    },
  };
}

/** A gateway that a burst has just been through may shed this request as well: it is asked again. */
async function busyRetriesOf(target: Target): Promise<number> {
  for (let tries = 1; ; tries += 1) {
    try {
      return (await target.readMetrics()).sum("lock_busy_retries_total", { path: "admission" });
    } catch (error) {
      if (tries === metricsTriesMax) throw error;
      await runtime.sleep(500);
    }
  }
}

const metricsTriesMax = 10;

function watchInside(inside: Inside, tenant: string) {
  const arrivalsMs: number[] = [];
  const dueMs: number[] = [];
  let activeMost = 0;
  const nowMs = () => runtime.now().monotonicMs;
  const leaveMetrics = inside.watchMetrics({
    observe(name, _labels, value) {
      if (name === "lock_busy_retry_delay_seconds") dueMs.push(nowMs() + value * 1_000);
    },
  });
  const leaveStore = inside.watchStore({
    sent(name, request) {
      if (isArrival(name, request, tenant)) arrivalsMs.push(nowMs());
    },
    answered(name, request, answer) {
      activeMost = Math.max(activeMost, activeAfter(name, request, answer, tenant));
    },
  });
  return {
    seen() {
      leaveStore();
      leaveMetrics();
      const firstMs = arrivalsMs[0] ?? 0;
      const sinceFirst = (timesMs: readonly number[]) =>
        timesMs.map((timeMs) => timeMs - firstMs).sort((left, right) => left - right);
      return { arrivalsMs: sinceFirst(arrivalsMs), dueMs: sinceFirst(dueMs), activeMost };
    },
  };
}

function isArrival<Name extends OperationName>(
  name: Name,
  request: RequestOf<Name>,
  tenant: string,
): boolean {
  if (name !== "acquireLock") return false;
  const { lock, tenant: asking } = request as RequestOf<"acquireLock">;
  return lock.namespace === "admission" && asking === tenant;
}

/** The active runs that an admission of this tenant tells, its own among them; 0 for everything else. */
function activeAfter<Name extends OperationName>(
  name: Name,
  request: RequestOf<Name>,
  answer: Answer<Name>,
  tenant: string,
): number {
  if (name !== "admit" && name !== "createRun") return 0;
  if ((request as RequestOf<"admit">).tenant !== tenant) return 0;
  const admission = answer as Answer<"admit"> | Answer<"createRun">;
  return admission.kind === "admitted" ? admission.active : 0;
}
