// What is measured: a burst without retries, a crowd that tries again while slots free up, and the grid of --sweep.
import type { Answer, OperationName, RequestOf } from "../../ports/store.ts";
import { createClient } from "../../sdk/client.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { Stage } from "../drill.ts";
import { openTarget } from "../target/open-target.ts";
import type { DrillTenant, Inside, Target } from "../target/target.ts";
import {
  type ClientPolicy,
  type ClientTerms,
  type CrowdSeen,
  type Crowds,
  type Plan,
  tenantFields,
  type Variant,
} from "./crowd.ts";

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
    observe(name, labels: Readonly<Record<string, string>>, value) {
      const isDelay = name === "lock_busy_retry_delay_seconds" && labels.lock === "admission";
      if (isDelay) dueMs.push(nowMs() + value * 1_000);
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

export type Cell = {
  /** Absent: as the deployment has it. */
  readonly waitMs?: number;
  readonly budgetMs: number;
  readonly measured: Measured;
};

/** The variant whose wait budget matters, as it is by default. */
const variant = "lock-jitter";

export async function sweep(stage: Stage, crowds: BurstContext["crowds"], plan: Plan): Promise<Cell[]> {
  const { kind } = stage.target;
  const { waitsMs, budgetsMs } = plan.sweep ?? { waitsMs: [], budgetsMs: [] };
  if (kind === "deployment") return rowOf(stage, stage.target, { crowds, plan, budgetsMs });
  const cells: Cell[] = [];
  for (const waitMs of waitsMs) {
    // How long to wait is a setting of the process: an instance for each.
    const settings = () => ({ "locks.admission.waitMs": waitMs });
    const target = await openTarget({ kind }, { kind: "inside", settings }, stage.size);
    try {
      cells.push(...(await rowOf(stage, target, { crowds, plan, budgetsMs, waitMs })));
    } finally {
      await target.close();
    }
  }
  return cells;
}

type Row = {
  readonly crowds: BurstContext["crowds"];
  readonly plan: Plan;
  readonly budgetsMs: readonly number[];
  readonly waitMs?: number;
};

async function rowOf(
  { signal, progress }: Stage,
  target: Target,
  { crowds, plan, budgetsMs, waitMs }: Row,
): Promise<Cell[]> {
  const tenant = await openVariant(target, variant);
  const cells: Cell[] = [];
  for (const budgetMs of budgetsMs) {
    progress(`sweep: wait budget ${waitMs ?? "as deployed"}, client budget ${budgetMs} ms`);
    const terms = { ...plan.clients, budgetMs };
    const wanted = { variant, policy: "jitter", clients: plan.requests, terms } as const;
    const measured = await measure({ target, crowds, signal }, tenant, wanted);
    cells.push({ ...(waitMs === undefined ? {} : { waitMs }), budgetMs, measured });
  }
  return cells;
}

export type Comb = {
  /** About a third when they are spread at random, towards 1 when all come together; not a number when there are too few. */
  readonly share: number;
  /** From one wave to the next, as it fits best: the poll interval and what a try takes. */
  readonly beatMs: number;
  /** How many stretches of time were looked at. */
  readonly windows: number;
};

/** A beat may be up to this much slower than the poll: a try takes time, and so does a wave of many. */
const slowestBeat = 3;
const beatStepMs = 0.25;
/** A window is no longer than it must be: a beat that drifts by a millisecond or two is still one beat within so few. */
const beatsMin = 5;
/** With fewer the fullest fifth is random: of 60 arrivals at random times about 20 are in it, of 20 half. */
const arrivalsMin = 60;
const phases = 20;
const fullestPhases = phases / 5;

/**
 * `timesMs` are in order. The median over windows, each with the beat that fits it best: a comb stays one although garbage
 * collection shifts it.
 */
export function combOf(timesMs: readonly number[], pollMs: number): Comb {
  const fits = windowsOf(timesMs, beatsMin * pollMs).map((window) => bestFit(window, pollMs));
  return {
    share: median(fits.map(({ share }) => share)),
    beatMs: median(fits.map(({ beatMs }) => beatMs)),
    windows: fits.length,
  };
}

/** What is left at the end is no window. */
function windowsOf(timesMs: readonly number[], lengthMinMs: number): number[][] {
  const windows: number[][] = [];
  let window: number[] = [];
  for (const timeMs of timesMs) {
    const isFull = window.length >= arrivalsMin && timeMs - (window[0] ?? timeMs) >= lengthMinMs;
    if (isFull) {
      windows.push(window);
      window = [];
    }
    window.push(timeMs);
  }
  return windows;
}

function bestFit(window: readonly number[], pollMs: number): Omit<Comb, "windows"> {
  let best = { share: 0, beatMs: pollMs };
  for (let beatMs = pollMs; beatMs <= slowestBeat * pollMs; beatMs += beatStepMs) {
    const share = fullestFifth(window, beatMs);
    if (share > best.share) best = { share, beatMs };
  }
  return best;
}

function fullestFifth(window: readonly number[], beatMs: number): number {
  const counts = phaseCounts(window, beatMs);
  let most = 0;
  for (let first = 0; first < phases; first += 1) {
    let count = 0;
    for (let offset = 0; offset < fullestPhases; offset += 1) count += counts[(first + offset) % phases] ?? 0;
    most = Math.max(most, count);
  }
  return most / window.length;
}

function phaseCounts(timesMs: readonly number[], beatMs: number): number[] {
  const counts = new Array<number>(phases).fill(0);
  for (const timeMs of timesMs) {
    const phase = Math.floor(((timeMs % beatMs) / beatMs) * phases) % phases;
    counts[phase] = (counts[phase] ?? 0) + 1;
  }
  return counts;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
