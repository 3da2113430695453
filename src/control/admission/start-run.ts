// Admits a run whose first commit is decided: one call of the store, by the strategy that the run's policies name.
import type { Config } from "../../config.ts";
import type { AssignedPolicies } from "../../domain/policy.ts";
import { digestOf, type Fingerprint } from "../../domain/reservation.ts";
import { makeRunId, orderedUnique, type RunId, type RunRecord } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { SlotHolder } from "../../domain/why/explanation.ts";
import type { Problem } from "../../domain/workflow/compiled.ts";
import { InterlockError } from "../../errors.ts";
import { admissionOutcomes, metrics as metricRows } from "../../metrics.ts";
import type { NewRun } from "../../ports/admission-operations.ts";
import type { Ports } from "../../ports/ports.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { ask } from "../ask-until-known.ts";
import type { StartNotes } from "../canaries/samples.ts";
import type { Engine } from "../engine/engine.ts";
import { assignPolicies } from "../policies/assign-policies.ts";
import { startUnderLock } from "./start-under-lock.ts";
import { settingsOf } from "./tenant-cache.ts";

/** What admission needs of the engine. */
export type Gate = Pick<Engine, "ports" | "config" | "terms" | "tenants" | "platform">;

/** Every answer to a start: as the store gave it, or why the store was not asked or did not answer. */
export type StartAnswer =
  | StoreDecision
  | { readonly kind: "concurrency_gate_unavailable"; readonly cause: string }
  /** The run with this id may exist; repeating with the same key finds out. */
  | { readonly kind: "outcome_unknown"; readonly runId: RunId }
  /** The caller went away before anything was decided; nothing was left behind. */
  | { readonly kind: "request_cancelled" }
  | { readonly kind: "workflow_not_found" }
  | { readonly kind: "input_invalid"; readonly problems: readonly Problem[] };

type StoreDecision =
  | Exclude<OutcomeOf<"admit">, Admitted | LimitReached>
  | (Admitted & { readonly storeTimeMs: number })
  /** `runs`: who holds the slots, oldest first; absent when the store did not say in time. */
  | (LimitReached & { readonly runs?: readonly SlotHolder[] });
type Admitted = Extract<OutcomeOf<"admit">, { kind: "admitted" }>;
type LimitReached = Extract<OutcomeOf<"admit">, { kind: "max_concurrent_runs_reached" }>;

/** What the gate decides; the rest is refused before it is asked. */
export type Decision = Exclude<StartAnswer, { kind: "workflow_not_found" | "input_invalid" }>;

/** A run whose first commit is already decided. */
export type StartRequest = Omit<NewRun, "runId" | "key"> & {
  readonly tenant: TenantId;
  readonly key?: { readonly text: string; readonly fingerprint: Fingerprint };
  /** The id of the key that asks, if one does. */
  readonly credential?: string;
  /** Of the request that asks: its admission becomes a child of it. */
  readonly traceparent?: string;
};

/** For runs that are made without the engine: they follow the tenant's policies like any other. */
export async function startRun(gate: Gate, request: StartRequest, signal?: AbortSignal): Promise<Decision> {
  const { tenant, key, credential, traceparent, ...run } = request;
  checkRecords(gate.config, run.change.records);
  // Whoever has gone before is answered without a call.
  const settings = signal?.aborted ? {} : await settingsOf(gate, tenant);
  if (settings === undefined) return gateUnavailable(gate, "the tenant's settings cannot be read");
  const runId = newRunId(gate.ports, tenant);
  const assigned = await assignPolicies(gate, settings, runId);
  const asked = {
    tenant,
    run: { ...run, runId, ...(key === undefined ? {} : { key: boundKey(key) }) },
    ...(credential === undefined ? {} : { credential }),
  };
  return admitRun(gate, { asked, assigned, notes: undefined, traceparent }, signal);
}

export function newRunId({ clock, random }: Ports, tenant: TenantId): RunId {
  return makeRunId(tenant, orderedUnique(clock.wallMs(), random.token()));
}

/** The digest that names the key in the store, and what the request wanted. */
export function boundKey({ text, fingerprint }: NonNullable<StartRequest["key"]>) {
  return { digest: digestOf("start_run", text), fingerprint };
}

export type Admission = {
  readonly asked: RequestOf<"admit">;
  readonly assigned: AssignedPolicies;
  /** Where a canary's samples go. */
  readonly notes: StartNotes | undefined;
  readonly traceparent: string | undefined;
};

export async function admitRun(gate: Gate, admission: Admission, signal?: AbortSignal): Promise<Decision> {
  const { asked, assigned, notes, traceparent } = admission;
  const { clock, tracer } = gate.ports;
  const startedMs = clock.monotonicMs();
  const span = tracer.startSpan("admission", "internal", traceparent);
  const strategy = assigned.policies["admission.strategy"];
  const decision = signal?.aborted
    ? ({ kind: "request_cancelled" } as const)
    : strategy === "lock"
      ? await startUnderLock(gate, admission, signal)
      : await admitAtomically(gate, asked);
  const outcome = admissionOutcomes[decision.kind];
  const waitMs = clock.monotonicMs() - startedMs;
  measure(gate.ports, asked, decision, { strategy, outcome, waitMs });
  span?.note({
    tenant: asked.tenant,
    strategy,
    outcome,
    ...("runId" in decision ? { run: decision.runId } : {}),
  });
  const isUnavailable =
    decision.kind === "concurrency_gate_unavailable" || decision.kind === "outcome_unknown";
  if (decision.kind !== "request_cancelled") notes?.decided({ waitMs, isUnavailable });
  span?.end(isUnavailable ? "failed" : undefined);
  return decision;
}

/** The whole decision is one store operation: no lock, no retries, nothing to clean up. */
async function admitAtomically(gate: Gate, asked: RequestOf<"admit">): Promise<Decision> {
  const answer = await ask(gate, "admit", asked, gate.terms.admission);
  if (answer.kind === "unavailable") return { kind: "concurrency_gate_unavailable", cause: answer.cause };
  return answer.kind === "unknown" ? { kind: "outcome_unknown", runId: asked.run.runId } : answer;
}

/** Refused before admission was asked, for want of something else that a start needs. */
export function gateUnavailable({ config, ports }: Gate, cause: string): Decision {
  const kind = "concurrency_gate_unavailable";
  const labels = { strategy: config["admission.strategy"], outcome: admissionOutcomes[kind] };
  ports.metrics.count("admission_decisions_total", labels);
  return { kind, cause };
}

type Measured = { readonly strategy: string; readonly outcome: string; readonly waitMs: number };

function measure(
  { metrics }: Ports,
  { tenant, run }: RequestOf<"admit">,
  decision: Decision,
  { strategy, outcome, waitMs }: Measured,
): void {
  const labels = { tenant, endpoint: "start_run", strategy, outcome };
  metrics.observe("admission_wait_seconds", labels, waitMs / 1000);
  metrics.count("admission_decisions_total", { strategy, outcome });
  if ("active" in decision) metrics.set("active_runs", { tenant }, decision.active);
  if (decision.kind === "admitted") metrics.count("run_starts_total", {});
  const found = decision.kind === "admitted" ? "new" : outcome;
  if (run.key !== undefined && keyOutcomes.has(found)) {
    metrics.count("idempotency_reservations_total", { outcome: found });
  }
}

const keyOutcomes: ReadonlySet<string> = new Set(metricRows.idempotency_reservations_total.values.outcome);

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
