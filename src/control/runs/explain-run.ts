// Gathers what is known of a run and explains why it does not move. Only the run itself must be readable; the rest is told as missing.

import { errorOf, readLetter } from "../../domain/dead-letter.ts";
import { runRecordKey, stepRecordKey } from "../../domain/engine/keys.ts";
import {
  openCount,
  type RunProgress,
  readError,
  readRunProgress,
  readStepRecord,
} from "../../domain/engine/records.ts";
import { type GateId, tenantGate } from "../../domain/gates.ts";
import { defaultPool, hasLimits } from "../../domain/job.ts";
import { isTerminal, type RunHeader, type RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { explainQueuedRun, type GateFacts } from "../../domain/why/explain-queued.ts";
import { explainEndedRun, explainLiveRun } from "../../domain/why/explain-run.ts";
import type {
  EndedRunFacts,
  Explanation,
  LetterFacts,
  LockFacts,
  Part,
  PlaceFacts,
  SlotFacts,
  SlotHolder,
  WorkerFacts,
} from "../../domain/why/explanation.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";
import { gatherSteps } from "./gather-steps.ts";

type WhyAnswer =
  | { readonly kind: "explained"; readonly explanation: Explanation }
  | { readonly kind: "run_not_found" }
  | Trouble;

/** A run as it was read first. */
export type SeenRun = {
  readonly tenant: TenantId;
  readonly header: RunHeader;
  readonly run: RunProgress | undefined;
  readonly nowMs: number;
};

/** Why a run does not move, or how it ended. */
export async function explainRun(
  engine: Engine,
  { tenant, runId }: { readonly tenant: TenantId; readonly runId: RunId },
): Promise<WhyAnswer> {
  const answer = await ask(engine, "loadRun", { tenant, runId, records: [runRecordKey] });
  if (answer.kind === "not_found") return { kind: "run_not_found" };
  if (answer.kind !== "run") return { kind: answer.kind, cause: answer.cause };
  const { header, records, storeTimeMs: nowMs } = answer;
  const body = records[0]?.body;
  const seen = { tenant, header, run: body === undefined ? undefined : readRunProgress(body), nowMs };
  // Queued before it has begun, or to come back to places that it had given back.
  if (header.status === "queued" || header.gates?.waits !== undefined)
    return { kind: "explained", explanation: await explainQueued(engine, seen) };
  const explanation = isTerminal(header.status)
    ? await explainEnded(engine, seen)
    : await explainLive(engine, seen);
  return { kind: "explained", explanation };
}

/** Looked at for the position, and for how often runs end. */
const queueLookedAtMax = 100;

async function explainQueued(engine: Engine, { tenant, header, run, nowMs }: SeenRun): Promise<Explanation> {
  const gate = header.gates?.gates[header.gates.held]?.gate ?? tenantGate;
  const limits = { deadlineMs: engine.config["store.callTimeoutMs"] };
  const { store } = engine.ports;
  const [slots, inspected, listed] = await Promise.all([
    readSlots(engine, tenant),
    store.inspectGate({ tenant, gate, limit: queueLookedAtMax }, limits),
    store.listRuns({ tenant, limit: queueLookedAtMax }, limits),
  ]);
  const { state, holders, queue } =
    inspected.kind === "gate" ? inspected : { state: undefined, holders: [], queue: [] };
  const known: Part<GateFacts> =
    state === undefined ? { kind: "unanswered" } : { kind: "known", value: { ...state, holders, queue } };
  const runs = listed.kind === "listed" ? listed.runs : [];
  const ends = runs.flatMap((run) =>
    passed(run, gate) && run.endedAtMs !== undefined ? [run.endedAtMs] : [],
  );
  const openSteps = run === undefined ? 0 : openCount(run);
  return explainQueuedRun({ header, nowMs, slots, gate: known, ends, openSteps });
}

/** A run without a plan has a place in the tenant's gate alone; one that never began freed none. */
function passed({ gates, parent, endReason }: RunHeader, gate: GateId): boolean {
  if (parent !== undefined || endReason !== undefined) return false;
  return gates === undefined ? gate === tenantGate : gates.gates.some((one) => one.gate === gate);
}

async function explainLive(engine: Engine, seen: SeenRun): Promise<Explanation> {
  const [lock, slots, gathered] = await Promise.all([
    readLock(engine, seen),
    readSlots(engine, seen.tenant),
    gatherSteps(engine, seen),
  ]);
  const { header, run, nowMs } = seen;
  const { steps, unanswered } = gathered;
  const workers = workersOf(engine, seen.tenant, new Set(steps.flatMap(topicOf)));
  const { instance } = engine.ports;
  const places = await readPlaces(engine, seen.tenant, steps.flatMap(topicOf), workers);
  const facts = { header, nowMs, lock, slots, steps, workers, instance, unanswered, ...places };
  return explainLiveRun(run === undefined ? facts : { ...facts, run });
}

type StepWithJob = Awaited<ReturnType<typeof gatherSteps>>["steps"][number];

function topicOf({ job }: StepWithJob): readonly string[] {
  return job?.kind === "known" ? [job.value.topic] : [];
}

/** Every worker of the tenant, with its free places where it asks for jobs of these topics now. */
function workersOf(
  { offers, sharedWorkers }: Engine,
  tenant: TenantId,
  topics: ReadonlySet<string>,
): readonly WorkerFacts[] {
  const waiting = new Set([...topics].flatMap((topic) => offers.waiting(tenant, topic)));
  const free = new Map<string, number>();
  for (const offer of waiting) free.set(offer.worker, (free.get(offer.worker) ?? 0) + offer.free());
  return sharedWorkers.list(tenant).map((worker) => {
    const places = free.get(worker.worker);
    return places === undefined ? worker : { ...worker, free: places };
  });
}

async function readLock({ ports, config }: Engine, { tenant, header }: SeenRun): Promise<Part<LockFacts>> {
  const lock = { namespace: "run", name: header.runId } as const;
  const deadlineMs = config["store.callTimeoutMs"];
  const answer = await ports.store.inspectLock({ tenant, lock }, { deadlineMs });
  if (answer.kind === "held" || answer.kind === "free") return { kind: "known", value: answer };
  return { kind: "unanswered" };
}

async function readSlots({ ports, config }: Engine, tenant: TenantId): Promise<Part<SlotFacts>> {
  const deadlineMs = config["store.callTimeoutMs"];
  const answer = await ports.store.countActive({ tenant }, { deadlineMs });
  return answer.kind === "counted" ? { kind: "known", value: answer } : { kind: "unanswered" };
}

/** Nothing when the tenant has no limits on running jobs. */
async function readPlaces(
  { ports, config, limits }: Engine,
  tenant: TenantId,
  topics: readonly string[],
  workers: readonly WorkerFacts[],
): Promise<{ places?: PlaceFacts }> {
  const deadlineMs = config["store.callTimeoutMs"];
  if (topics.length === 0) return {};
  const known = await ports.store.getTenant({ tenant }, { deadlineMs });
  if (known.kind !== "tenant" || !hasLimits(known.record.settings)) return {};
  const { settings } = known.record;
  const pools = workers.map(({ pool = defaultPool }) => pool);
  const asked = { tenant, topics: [...new Set(topics)], pools: [...new Set(pools)] };
  const counted = await ports.store.countJobs(asked, { deadlineMs });
  if (counted.kind !== "counted") return {};
  const rated = asked.topics.flatMap((topic) => {
    const waitMs = limits.rateWaitMs(tenant, topic);
    return waitMs === undefined ? [] : [[topic, waitMs] as const];
  });
  return {
    places: {
      limits: settings,
      rated: new Map(rated),
      topics: new Map(counted.topics.map(({ topic, running }) => [topic, running])),
      pools: new Map(counted.pools.map(({ pool, running }) => [pool, running])),
    },
  };
}

async function explainEnded(engine: Engine, seen: SeenRun): Promise<Explanation> {
  const { tenant, header, run, nowMs } = seen;
  const didFail = header.status !== "succeeded" && header.status !== "cancelled";
  const [failed, letter, slots] = await Promise.all([
    readFailedStep(engine, seen),
    didFail ? readLetterOf(engine, seen) : ({ kind: "absent" } as const),
    readSlots(engine, tenant),
  ]);
  const isFull =
    slots.kind === "known" && slots.value.active >= (slots.value.limit ?? Number.POSITIVE_INFINITY);
  const named =
    letter.kind === "known" && isFull ? holdersPart(await engine.slotHolders.of(tenant)) : undefined;
  const { failedStep, unanswered } = failed;
  return explainEndedRun({
    ...{ header, nowMs, slots, letter, unanswered },
    ...(run === undefined ? {} : { run }),
    ...(failedStep === undefined ? {} : { failedStep }),
    ...(named === undefined ? {} : { holders: named }),
  });
}

function holdersPart(named: readonly SlotHolder[] | undefined): Part<readonly SlotHolder[]> {
  return named === undefined ? { kind: "unanswered" } : { kind: "known", value: named };
}

type FailedStep = {
  readonly failedStep?: NonNullable<EndedRunFacts["failedStep"]>;
  readonly unanswered: readonly string[];
};

/** The step that decided the end, and what its worker said. */
async function readFailedStep(engine: Engine, { tenant, header, run }: SeenRun): Promise<FailedStep> {
  const stepId = run?.failure?.step;
  if (stepId === undefined) return { unanswered: [] };
  const { runId } = header;
  const body = await readRecord(engine, { tenant, runId }, stepRecordKey(stepId));
  if (body.kind !== "known") return { unanswered: [`step ${stepId}`] };
  const record = readStepRecord(body.value);
  const found =
    record.errorKey === undefined ? undefined : await readRecord(engine, { tenant, runId }, record.errorKey);
  const error = found?.kind === "known" ? errorOf(readError(found.value)) : undefined;
  return {
    failedStep: { stepId, record, ...(error === undefined ? {} : { error }) },
    unanswered: found?.kind === "unanswered" ? [`the error of step ${stepId}`] : [],
  };
}

async function readRecord(
  { ports, config }: Engine,
  { tenant, runId }: { readonly tenant: TenantId; readonly runId: RunId },
  key: string,
): Promise<Part<string>> {
  const deadlineMs = config["store.callTimeoutMs"];
  const answer = await ports.store.loadRun({ tenant, runId, records: [key] }, { deadlineMs });
  if (answer.kind !== "run") return { kind: answer.kind === "not_found" ? "absent" : "unanswered" };
  const body = answer.records[0]?.body;
  return body === undefined ? { kind: "absent" } : { kind: "known", value: body };
}

/** Letters of one run; more than one step may have left some. */
const lettersMax = 10;

/** An open letter of the run if there is one, else any: their ids begin with that of the run. */
async function readLetterOf(
  { ports, config }: Engine,
  { tenant, header }: SeenRun,
): Promise<Part<LetterFacts>> {
  const deadlineMs = config["store.callTimeoutMs"];
  const prefix = `${header.runId}:`;
  const answer = await ports.store.listDocuments(
    { tenant, collection: "deadLetter", after: prefix, limit: lettersMax },
    { deadlineMs },
  );
  if (answer.kind !== "listed") return { kind: "unanswered" };
  const letters = answer.documents.filter(({ id }) => id.startsWith(prefix)).map(readLetter);
  const letter = letters.find(({ state }) => state === "open") ?? letters.at(-1);
  return letter === undefined ? { kind: "absent" } : { kind: "known", value: letter };
}
