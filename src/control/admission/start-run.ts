// Decides whether a run may start: by one atomic operation, or by the pipeline under the tenant's admission lock.
import type { Config } from "../../config.ts";
import type { AssignedPolicies } from "../../domain/policy.ts";
import { digestOf, type Fingerprint } from "../../domain/reservation.ts";
import { makeRunId, orderedUnique, type RunId, type RunRecord } from "../../domain/run.ts";
import type { AdmissionStrategy, TenantId, TenantSettings, WaitPolicy } from "../../domain/tenant.ts";
import { retryAfterSeconds } from "../../domain/wait.ts";
import { InterlockError } from "../../errors.ts";
import type { NewRun } from "../../ports/admission-operations.ts";
import type { Ports } from "../../ports/ports.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import type { StartNotes } from "../canaries/samples.ts";
import { admitAtomically } from "./admit-atomically.ts";
import { type AskedRun, askLimits, type Decision, type Gate } from "./gate.ts";
import type { StartAnswer } from "./start-answer.ts";
import { startUnderLock } from "./start-under-lock.ts";

/** A run whose first commit is already decided. */
export type StartRequest = Omit<NewRun, "runId" | "key"> & {
  readonly tenant: TenantId;
  /** Made here when absent. */
  readonly runId?: RunId;
  readonly key?: { readonly text: string; readonly fingerprint: Fingerprint };
  /** The id of the key that asks, if one does. */
  readonly credential?: string;
  /** Of the request that asks: its admission becomes a child of it. */
  readonly traceparent?: string;
  /** Decided for this run by rollouts and settings; absent: as the tenant's settings and the process's say. */
  readonly assigned?: AssignedPolicies;
  /** Where a canary's samples go. */
  readonly notes?: StartNotes;
};

export async function startRun(
  gate: Gate,
  request: StartRequest,
  signal?: AbortSignal,
): Promise<StartAnswer> {
  checkRecords(gate.config, request.change.records);
  const { clock, metrics, random, tracer } = gate.ports;
  const startedMs = clock.monotonicMs();
  const span = tracer.startSpan("admission", "internal", request.traceparent);
  const run = newRun(gate.ports, request);
  const { tenant, credential, assigned, notes } = request;
  const asked = { tenant, run, ...(credential === undefined ? {} : { credential }) };
  const { strategy, decision } = await decide(gate, asked, { assigned, notes }, signal);
  const outcome = decision.kind;
  const labels = { tenant, endpoint: "start_run", strategy, outcome };
  const waitMs = clock.monotonicMs() - startedMs;
  metrics.observe("admission_wait_seconds", labels, waitMs / 1000);
  metrics.count("admission_decisions_total", { strategy, outcome });
  if (outcome === "admitted") metrics.count("run_starts_total", {});
  if (run.key !== undefined) countReservation(gate.ports, outcome);
  span?.note({ tenant, strategy, outcome, ...("runId" in decision ? { run: decision.runId } : {}) });
  const isUnavailable = outcome === "gate_unavailable" || outcome === "outcome_unknown";
  if (outcome !== "cancelled") notes?.decided({ waitMs, isUnavailable });
  span?.end(isUnavailable ? "failed" : undefined);
  return withRetryAfter(decision, () =>
    retryAfterSeconds(gate.config["admission.retryAfterSeconds"], 1, random.fraction()),
  );
}

/** Every refusal that time can change gets a delay of its own, so that refused callers do not return together. */
function withRetryAfter(decision: Decision, draw: () => number): StartAnswer {
  switch (decision.kind) {
    case "in_flight":
    case "limit_reached":
    case "run_quota_reached":
    case "key_quota_reached":
    case "gate_unavailable":
    case "outcome_unknown":
      return { ...decision, retryAfterSeconds: draw() };
    case "admitted":
    case "replayed":
    case "key_reused":
    case "tenant_stopped":
    case "workflow_changed":
    case "credential_revoked":
    case "cancelled":
      return decision;
  }
}

type Given = {
  readonly assigned: AssignedPolicies | undefined;
  readonly notes: StartNotes | undefined;
};

type Decided = { readonly strategy: AdmissionStrategy; readonly decision: Decision };

async function decide(
  gate: Gate,
  asked: AskedRun,
  { assigned, notes }: Given,
  signal: AbortSignal | undefined,
): Promise<Decided> {
  const { tenant } = asked;
  if (signal?.aborted)
    return { strategy: gate.config["admission.strategy"], decision: { kind: "cancelled" } };
  const choice = assigned === undefined ? chooseStrategy(gate, tenant) : choiceByPolicies(assigned);
  const chosen = choice instanceof Promise ? await choice : choice;
  if (chosen.kind === "gate_unavailable") return { strategy: "lock", decision: chosen };
  if (chosen.kind === "atomic") {
    const decision = await admitAtomically(gate, chosen.isDecided ? { ...asked, decided: true } : asked);
    if (decision.kind !== "use_lock_strategy") return { strategy: "atomic", decision };
    const { wait = assigned?.policies["admission.wait"] ?? gate.config["admission.wait"] } = decision;
    gate.tenants.learnStrategy(tenant, { admissionStrategy: "lock", admissionWait: wait });
    return { strategy: "lock", decision: await startUnderLock(gate, asked, { wait, notes }, signal) };
  }
  const { wait } = chosen;
  return { strategy: "lock", decision: await startUnderLock(gate, asked, { wait, notes }, signal) };
}

type Choice =
  /** `isDecided`: by a rollout for this run, whatever the tenant's record says of the others. */
  | { readonly kind: "atomic"; readonly isDecided: boolean }
  | { readonly kind: "lock"; readonly wait: WaitPolicy }
  | { readonly kind: "gate_unavailable"; readonly cause: string };

/** Only a process set to `lock` must ask first: `admit` itself refuses for a tenant that is set to `lock`. */
function chooseStrategy(gate: Gate, tenant: TenantId): Choice | Promise<Choice> {
  const { config, tenants } = gate;
  const known = tenants.recallStrategy(tenant);
  if (known !== undefined) return choiceBy(config, known);
  return config["admission.strategy"] === "atomic" ? atomic : lookUpStrategy(gate, tenant);
}

const atomic = { kind: "atomic", isDecided: false } as const;

function choiceByPolicies({ policies, sources }: AssignedPolicies): Choice {
  if (policies["admission.strategy"] === "lock") return { kind: "lock", wait: policies["admission.wait"] };
  return { kind: "atomic", isDecided: sources["admission.strategy"] === "tenant_rollout" };
}

async function lookUpStrategy({ config, ports, tenants }: Gate, tenant: TenantId): Promise<Choice> {
  const answer = await askUntilKnown(ports, "getTenant", askLimits(config), (deadlineMs) =>
    ports.store.getTenant({ tenant }, { deadlineMs }),
  );
  if (answer.kind !== "tenant") return { kind: "gate_unavailable", cause: answer.cause };
  tenants.learn(tenant, answer.record.settings);
  return choiceBy(config, answer.record.settings);
}

function choiceBy(config: Config, settings: TenantSettings): Choice {
  const strategy = settings.admissionStrategy ?? config["admission.strategy"];
  return strategy === "atomic"
    ? atomic
    : { kind: "lock", wait: settings.admissionWait ?? config["admission.wait"] };
}

function newRun(ports: Ports, request: StartRequest): NewRun {
  const { tenant, key, workflow, revision, definition, actor, change, start } = request;
  const runId = request.runId ?? makeRunId(tenant, orderedUnique(ports.clock.wallMs(), ports.random.token()));
  const pinned = revision === undefined ? {} : { revision };
  const run = { runId, workflow, ...pinned, definition, actor, change, start };
  if (key === undefined) return run;
  return { ...run, key: { digest: digestOf("start_run", key.text), fingerprint: key.fingerprint } };
}

/** Bounds what one admission writes, so that it never holds the store for long. */
function checkRecords(config: Config, records: readonly RunRecord[]): void {
  const recordsMax = config["admission.recordsMax"];
  if (records.length > recordsMax) {
    throw new InterlockError(
      "invalid_request",
      `${records.length} initial records, ${recordsMax} are allowed`,
    );
  }
  const bytes = records.reduce(
    (sum, { key, body }) => sum + Buffer.byteLength(key) + Buffer.byteLength(body),
    0,
  );
  const bytesMax = config["admission.recordBytesMax"];
  if (bytes > bytesMax) {
    throw new InterlockError("invalid_request", `initial records of ${bytes} bytes, ${bytesMax} are allowed`);
  }
}

function countReservation(ports: Ports, outcome: Decision["kind"]): void {
  const counted: Partial<Record<Decision["kind"], string>> = {
    admitted: "new",
    replayed: "replayed",
    key_reused: "key_reused",
    in_flight: "in_flight",
  };
  const label = counted[outcome];
  if (label !== undefined) ports.metrics.count("idempotency_reservations_total", { outcome: label });
}
