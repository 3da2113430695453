// How the nouns of the domain look in replies.

import type { z } from "zod";
import type { event } from "../api/event-routes.ts";
import type * as schemas from "../api/schemas.ts";
import type * as tenantSchemas from "../api/tenant-schemas.ts";
import type { TimelineRow } from "../control/events/tail.ts";
import type { ClaimedJob } from "../control/jobs/offers.ts";
import type { RunDetails } from "../control/runs/read-run.ts";
import type { WorkflowInfo } from "../control/workflows/workflows.ts";
import { type ApiKeyRecord, personOf } from "../domain/api-key.ts";
import type { Approval } from "../domain/approval.ts";
import type { EventRow } from "../domain/audit.ts";
import { inputRecordKey } from "../domain/engine/keys.ts";
import { formatTime } from "../domain/engine/rfc3339.ts";
import { describeHeader, describeRun, describer } from "../domain/engine/views.ts";
import type { JsonValue } from "../domain/fingerprint.ts";
import { type Job, parseJobId, workKeyOf } from "../domain/job.ts";
import { type RunHeader, type RunStatus, runStatuses } from "../domain/run.ts";
import {
  type Quotas,
  quotaNames,
  quotaOf,
  type TenantId,
  type TenantRecord,
  type Usage,
} from "../domain/tenant.ts";
import { eventText } from "./event-stream.ts";
import { present } from "./present.ts";
import { settingsView } from "./tenant-settings.ts";

type View<Schema extends z.ZodType> = z.output<Schema>;

export function workflowView(workflow: WorkflowInfo): View<typeof schemas.workflow> {
  const { id, revision, savedAtMs, definition } = workflow;
  return { id, revision, saved_at: formatTime(savedAtMs), definition };
}

export function runSummaryView(header: RunHeader): View<typeof schemas.runSummary> {
  return describeHeader(header);
}

/** Without its definition, which a newer version may not be able to read, a run is shown without its steps. */
export function runView({ header, records, definition, position }: RunDetails): View<typeof schemas.run> {
  if (definition !== undefined) {
    const view = describeRun(definition, header, records) as View<typeof schemas.run>;
    if (position === undefined || view.queue === undefined) return view;
    return { ...view, queue: { ...view.queue, position } };
  }
  const input = records.find(({ key }) => key === inputRecordKey);
  return {
    ...runSummaryView(header),
    ...(input === undefined ? {} : { input: jsonOf(input.body) }),
    open_steps: 0,
    steps: {},
  };
}

/** The items of a `for_each`; those that have not begun are pending. */
export function itemViews({ header, records, definition }: RunDetails, ids: readonly string[]) {
  if (definition === undefined) return [];
  const describe = describer(definition, header.runId, records);
  return ids.flatMap((id) => describe(id) ?? []) as Array<View<typeof schemas.step>>;
}

/** A row of the timeline holds the events of one commit. */
export function timelineViews(row: {
  readonly version: number;
  readonly atMs: number;
  readonly body: string;
}) {
  const events = jsonOf(row.body);
  const at = formatTime(row.atMs);
  const list = Array.isArray(events) ? (events as readonly JsonValue[]) : [events];
  return list.map((event) => ({
    type: "unknown",
    ...(event as { readonly type?: string }),
    version: row.version,
    at,
  }));
}

/** In a loop attempts count per iteration, which the number in a job's id does not. */
function attemptView({ attempt, turn }: Job) {
  if (turn === undefined) return { attempt };
  return { attempt: attempt - turn.attemptsBefore, iteration: Number(turn.path.split(".").at(-1)) };
}

/** The claim token is left out: anyone who knows it may report. */
export function jobView(job: Job): View<typeof schemas.job> {
  const { claim, progress } = job;
  return {
    job_id: job.jobId,
    run_id: job.runId,
    step_id: job.step,
    ...attemptView(job),
    topic: job.topic,
    state: job.state,
    created_at: formatTime(job.createdAtMs),
    ...optionalTime("deadline_at", job.deadlineAtMs),
    ...(claim === undefined
      ? {}
      : {
          worker_id: claim.worker,
          claimed_at: formatTime(claim.claimedAtMs),
          claim_expires_at: formatTime(claim.expiresAtMs),
        }),
    ...(progress === undefined ? {} : { progress: jsonOf(progress) }),
  };
}

export function claimedJobView(claimed: ClaimedJob): View<typeof schemas.claimedJob> {
  const { job, token, fence, expiresInMs, input } = claimed;
  const traceparent = claimed.traceparent ?? job.traceparent;
  return {
    job_id: job.jobId,
    run_id: job.runId,
    step_id: job.step,
    ...attemptView(job),
    idempotency_key: workKeyOf(job),
    topic: job.topic,
    claim_token: token,
    fence: Number(fence),
    lease_ms: expiresInMs,
    ...optionalTime("deadline_at", job.deadlineAtMs),
    ...(traceparent === undefined ? {} : { traceparent }),
    input: jsonOf(input),
  };
}

export function approvalView(approval: Approval): View<typeof schemas.approval> {
  return {
    job_id: approval.approvalId,
    run_id: approval.runId,
    step_id: approval.step,
    state: approval.state,
    hash: approval.hash,
    requested_by: approval.requester,
    separate_duties: approval.separateDuties,
    requested_at: formatTime(approval.requestedAtMs),
    ...optionalTime("expires_at", approval.expiresAtMs),
    ...optionalTime("decided_at", approval.decidedAtMs),
    ...(approval.decidedBy === undefined ? {} : { decided_by: approval.decidedBy }),
    ...(approval.decider === undefined
      ? {}
      : { decided_by_name: approval.decider.owner, decided_by_role: approval.decider.role }),
    ...(approval.reason === undefined ? {} : { reason: approval.reason }),
  };
}

export function tenantView(
  id: TenantId,
  { record: { settings, version }, active = 0, queued = 0, used }: TenantFacts,
  defaults: Quotas & { readonly idempotency_keys: number },
): View<typeof tenantSchemas.tenant> {
  const quotas = quotaNames.map((name) => {
    const limit = quotaOf(settings, defaults, name);
    return [name, name === "streams" || used === undefined ? { limit } : { limit, used: used[name] }];
  });
  return {
    ...{ id, version, active_runs: active, queued_runs: queued, ...settingsView(settings) },
    idempotency_keys: { limit: defaults.idempotency_keys, used: used?.idempotency_keys ?? 0 },
    quotas: Object.fromEntries(quotas) as View<typeof tenantSchemas.quotas>,
  };
}

/** The counts are absent when the store did not say. */
type TenantFacts = {
  readonly record: TenantRecord;
  readonly active?: number;
  readonly queued?: number;
  readonly used?: Usage;
};

/** The hash of the secret stays inside. */
export function apiKeyView(key: ApiKeyRecord): View<typeof tenantSchemas.apiKey> {
  return {
    id: key.keyId,
    tenant: key.tenant,
    role: key.role,
    name: key.name,
    owner: personOf(key).owner,
    ...(key.lineage === undefined ? {} : { made_through: [...key.lineage] }),
    created_at: formatTime(key.createdAtMs),
    created_by: key.createdBy,
    ...optionalTime("expires_at", key.expiresAtMs),
    ...present("max_priority", key.maxPriority),
  };
}

const jsonOf = (text: string): JsonValue => JSON.parse(text) as JsonValue;

function optionalTime<Name extends string>(name: Name, ms: number | undefined) {
  return present(name, ms === undefined ? undefined : formatTime(ms));
}

type EventView = z.output<typeof event>;

/** The store keeps a row's particulars as one text; here they get names. */
export function eventView(row: EventRow): EventView {
  const { sequence, atMs, type, subject, actor, detail } = row;
  return { sequence, at: formatTime(atMs), type, subject, actor, detail, ...particulars(row) };
}

function particulars({ type, subject, detail }: EventRow): Partial<EventView> {
  switch (type) {
    case "run_queued":
      return { run_id: subject, workflow_id: detail.split(" ")[0] ?? "" };
    case "run_moved":
      return { run_id: subject };
    case "run_admitted":
      return { run_id: subject, workflow_id: detail, version: 1 };
    case "run_changed":
    case "run_ended":
    case "run_reopened":
    case "run_deleted":
      return { run_id: subject, ...versionAndStatus(detail), ...stepsIn(detail) };
    case "cancel_requested":
    case "letter_retried":
      return { run_id: subject };
    case "approval_requested": {
      const { runId, step } = parseJobId(subject) ?? {};
      return { ...present("run_id", runId), approval_id: subject, ...present("step_id", step) };
    }
    case "approval_decided": {
      const runId = parseJobId(subject)?.runId;
      const [decision = "", hash] = detail.split(" ");
      return {
        ...(runId === undefined ? {} : { run_id: runId }),
        decision,
        ...(hash === undefined ? {} : { hash }),
      };
    }
    case "document_saved":
    case "document_removed": {
      const slash = subject.indexOf("/");
      return { collection: subject.slice(0, slash), document_id: subject.slice(slash + 1) };
    }
    case "budget_crossed": {
      const percent = Number(detail.split(" ").at(-1));
      return { budget: subject, ...(Number.isInteger(percent) ? { percent } : {}) };
    }
    case "tenant_changed":
    case "lock_broken":
    case "records_dropped":
      return {};
  }
}

/** Those that the row of a commit names. */
function stepsIn(detail: string): Pick<Partial<EventView>, "step_ids"> {
  const steps = [...detail.matchAll(/(?:^|[ ,])step (\S+):/g)].map(([, step = ""]) => step);
  return steps.length === 0 ? {} : { step_ids: [...new Set(steps)] };
}

/** `<version> <status>`, or the status alone, and then perhaps which steps changed. */
function versionAndStatus(detail: string): Pick<Partial<EventView>, "version" | "status"> {
  const [, version, status = ""] = /^(?:(\d+) )?(\w+)(?: |$)/.exec(detail) ?? [];
  return {
    ...(version === undefined ? {} : { version: Number(version) }),
    ...(isRunStatus(status) ? { status } : {}),
  };
}

const isRunStatus = (text: string): text is RunStatus => (runStatuses as readonly string[]).includes(text);

/** Rows are shown to all who watch: each is written out once. */
const texts = new WeakMap<object, string>();

export function eventRowText(row: EventRow): string {
  return remembered(row, () => {
    const view = eventView(row);
    return eventText({ id: row.sequence, type: view.type, data: view });
  });
}

/**
 * A row holds all that one commit did, as several events. Only the last has the id: a client that loses the connection before it gets the
 * whole row again instead of a part of it never.
 */
export function timelineRowText(row: TimelineRow): string {
  return remembered(row, () => {
    const views = timelineRowViews(row);
    const text = views.map((view, index) =>
      eventText({
        ...(index === views.length - 1 ? { id: row.version } : {}),
        type: view.type,
        data: view,
      }),
    );
    return text.join("");
  });
}

function timelineRowViews(row: TimelineRow): ReadonlyArray<{ readonly type: string }> {
  try {
    const views = timelineViews(row);
    if (views.length > 0) return views;
  } catch {
    // The timeline is opaque to the store, and programs that embed it may write their own: that is no reason to end a stream.
  }
  return [{ type: "unknown", version: row.version, at: formatTime(row.atMs) } as { readonly type: string }];
}

function remembered(row: object, make: () => string): string {
  const known = texts.get(row);
  if (known !== undefined) return known;
  const text = make();
  texts.set(row, text);
  return text;
}
