// Runs, approvals and changes as they lie in Redis: names of fields, arguments of scripts, and how they are read back.

import type { Approval, ApprovalId, ApprovalRequest, ApprovalState, Decider } from "../../domain/approval.ts";
import type { Amounts, RunBudget } from "../../domain/budgets.ts";
import type { AtLimit, GateId, GatePlan, GatesPlan } from "../../domain/gates.ts";
import { drainEntriesMax, drainsMax, type InboxEntry } from "../../domain/inbox.ts";
import type { JobSpec } from "../../domain/job.ts";
import type { Rate, RateId, StartRate } from "../../domain/rates.ts";
import {
  type ChildRun,
  isTerminal,
  type ParentStep,
  type RunChange,
  type RunHeader,
  type RunId,
  type RunRecord,
  type RunStatus,
} from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { StoreSettings } from "../../ports/store.ts";
import { jobTail, workerWord } from "./job-format.ts";
import { encode, plain, unencoded } from "./keys.ts";
import {
  credentialWord,
  duration,
  grantMemory,
  jsonWord,
  optionalWord,
  textOfWord,
  wholeMs,
} from "./script-call.ts";

/** In the order in which scripts are asked for them. */
export const headerFields = [
  "workflow",
  "definition",
  "status",
  "version",
  "actor",
  "admittedAt",
  "updatedAt",
  "endedAt",
  "cancel",
  "reservation",
  "parent",
  "gates",
  "place",
] as const;

export const recordPrefix = "record:";

export function recordField(key: string): string {
  return recordPrefix + key;
}

/** Values in the order of `headerFields`, as HMGET gives them. */
export function parseHeader(
  { tenant, runId }: { readonly tenant: TenantId; readonly runId: RunId },
  values: Values,
): RunHeader {
  const [workflow, definition, status, version, actor, admittedAt, updatedAt, ...rest] = values;
  const [endedAt, cancel, reservation, parent, gates, place] = rest;
  return {
    runId,
    tenant,
    workflow: workflow ?? "",
    definition: definition ?? "",
    status: status as RunStatus,
    version: Number(version),
    actor: actor ?? "",
    admittedAtMs: Number(admittedAt),
    updatedAtMs: Number(updatedAt),
    ...(endedAt == null ? {} : { endedAtMs: Number(endedAt) }),
    ...(cancel == null ? {} : { cancelRequested: cancel }),
    ...(reservation == null ? {} : { reservation }),
    ...(parent == null ? {} : { parent: parseParent(parent) }),
    ...(gates == null ? {} : parseGates(gates, place ?? "")),
  };
}

/** Rows of a run's id and its values. */
export function parseHeaders(tenant: TenantId, rows: unknown): RunHeader[] {
  const read = rows as ReadonlyArray<readonly [RunId, Values]>;
  return read.map(([runId, values]) => parseHeader({ tenant, runId }, values));
}

/** As HMGET gives them. */
export type Values = readonly (string | null)[];

/** `<run> <step's word> <attempt> <root> <depth>` */
function parseParent(text: string): ParentStep {
  const [runId = "", step = "", attempt, root = "", depth] = text.split(" ");
  return {
    runId: runId as RunId,
    step: textOfWord(step),
    attempt: Number(attempt),
    root: root as RunId,
    depth: Number(depth),
  };
}

/** As lua/parts/gates.lua describes the two fields: `<held>`, ` rate <startsAt> <rate>`, ` <level> <arrival> <since>`, ` because <reason>`. */
function parseGates(text: string, place: string): Pick<RunHeader, "gates" | "endReason"> {
  const [priority, fairnessKey = "", weight, agingMs, askedAtMs, deadlineAtMs, , ...plans] = text.split(" ");
  const gates: GatePlan[] = [];
  for (let at = 0; at < plans.length; at += 2) {
    gates.push({ gate: plans[at] as GateId, atLimit: plans[at + 1] as AtLimit });
  }
  const [, held, startsAt, rate, level, arrival, sinceMs, reason] =
    /^(\d+)(?: rate (\d+) (\S+))?(?: (\d+) (\d+) (\d+))?(?: because ([\s\S]*))?$/.exec(place) ?? [];
  const waits = { level: Number(level), arrival: Number(arrival), sinceMs: Number(sinceMs) };
  return {
    gates: {
      gates,
      priority: Number(priority),
      fairnessKey,
      weight: Number(weight),
      agingMs: Number(agingMs),
      askedAtMs: Number(askedAtMs),
      deadlineAtMs: Number(deadlineAtMs),
      held: Number(held),
      ...(level === undefined ? {} : { waits }),
      ...(startsAt === undefined ? {} : { startsAtMs: Number(startsAt), rate: rate as RateId }),
    },
    ...(reason === undefined ? {} : { endReason: reason }),
  };
}

/** As lua/parts/judge-gates.lua describes it; empty for a run that takes the tenant's slot alone. */
export function gatesText(plan: GatesPlan | undefined, actor: string): string {
  if (plan === undefined) return "";
  const { gates, priority, fairnessKey, weight, queueMax, deadlineMs, agingMs } = plan;
  const numbers = [
    String(queueMax),
    wholeMs("deadlineMs", deadlineMs),
    String(priority),
    unencoded("fairness key", fairnessKey),
    String(weight),
    duration("agingMs", agingMs),
    jsonWord(actor),
  ];
  return [...numbers, ...gates.flatMap(({ gate, atLimit }) => [unencoded("gate", gate), atLimit])].join(" ");
}

/** As lua/parts/judge-rates.lua describes it; empty without any. */
export function ratesText(rates: readonly StartRate[] = []): string {
  return rates
    .map(({ rate, limit, perMs, burst, atLimit }) =>
      [unencoded("rate", rate), ...rateNumbers({ limit, perMs, burst }), atLimit].join(" "),
    )
    .join(" ");
}

export function rateNumbers({ limit, perMs, burst }: Rate): string[] {
  return [String(limit), duration("perMs", perMs), String(burst)];
}

/** As lua/parts/judge-budgets.lua describes it; empty without any. */
export function budgetsText(budgets: readonly RunBudget[] = []): string {
  return budgets.map(({ budget, atLimit }) => `${unencoded("budget", budget)} ${atLimit}`).join(" ");
}

/** Amounts by unit, each `<unit>=<amount>` behind a space. */
export function amountWords(amounts: Amounts = {}): string {
  return Object.entries(amounts)
    .map(([unit, amount]) => ` ${unencoded("unit", unit)}=${amount}`)
    .join("");
}

/** The records that a script was asked for by name, from the values that follow the header's. */
export function parseRecords(keys: readonly string[], values: Values): RunRecord[] {
  return keys.flatMap((key, index) => {
    const body = values[headerFields.length + index];
    return typeof body === "string" ? [{ key, body }] : [];
  });
}

/** `<kind> <json>` and, on a line of its own, the id: a script sets an entry aside by its kind and id and never reads the JSON. */
export function packEntry(entry: InboxEntry): string {
  return `${entry.kind} ${JSON.stringify(entry)}\n${entry.entryId}`;
}

export function parseEntry(stored: string): InboxEntry {
  const line = stored.indexOf("\n");
  const space = stored.indexOf(" ");
  const json = stored.slice(space + 1, line);
  if (stored.slice(0, space) !== "poisoned") return JSON.parse(json) as InboxEntry;
  return { kind: "poisoned", entryId: stored.slice(line + 1), was: json };
}

/** What a script writes for a new approval: its id, then names and values to the end. */
function approvalArgs(request: ApprovalRequest): string[] {
  const { approvalId, step, hash, payloadKey, requester, separateDuties, expiresAtMs } = request;
  return [
    plain("approval id", approvalId),
    step,
    hash,
    payloadKey,
    requester,
    String(separateDuties),
    expiresAtMs === undefined ? "" : wholeMs("expiresAtMs", expiresAtMs),
  ];
}

/** As HGETALL gives it. */
export function parseApproval(approvalId: ApprovalId, flat: readonly string[]): Approval {
  const fields = new Map<string, string>();
  for (let index = 0; index < flat.length; index += 2) fields.set(flat[index] ?? "", flat[index + 1] ?? "");
  const text = (name: string) => fields.get(name) ?? "";
  const optional = <Name extends string, Value>(
    name: Name,
    field: string,
    read: (value: string) => Value,
  ) => {
    const value = fields.get(field);
    return (value === undefined ? {} : { [name]: read(value) }) as { readonly [Key in Name]?: Value };
  };
  const asIs = (value: string) => value;
  return {
    approvalId,
    step: text("step"),
    hash: text("hash"),
    payloadKey: text("payloadKey"),
    requester: text("requester"),
    separateDuties: text("separateDuties") === "true",
    ...optional("expiresAtMs", "expiresAt", Number),
    runId: text("run") as RunId,
    state: text("state") as ApprovalState,
    requestedAtMs: Number(text("requestedAt")),
    ...optional("decidedAtMs", "decidedAt", Number),
    ...optional("decidedBy", "decidedBy", asIs),
    ...optional("decider", "decider", (value) => JSON.parse(value) as Decider),
    ...optional("decisionId", "decisionId", asIs),
    ...optional("reason", "reason", asIs),
  };
}

/** What the operations that write changes need of the settings, in the order of lua/parts/call-settings.lua. */
export function settingsArgs(settings: StoreSettings): readonly string[] {
  return [
    String(settings.eventsPerTenantMax),
    String(settings.auditRecordsPerTenantMax),
    String(settings.attentionMs),
    String(settings.timelineRowsMax),
    String(settings.runRetentionMs),
    keyRetention(settings),
    String(settings.proveEveryMs),
    String(Math.min(settings.republishAfterMs, settings.republishAfterMaxMs)),
    String(settings.deadLetterRetentionMs),
    String(settings.runsPerRootMax),
    String(settings.keysPerTenantMax),
    String(settings.quotas.active_runs),
    `${drainsMax} ${settings.setAsideAfterMs}`,
    String(drainEntriesMax),
    grantMemory,
    String(settings.queuedPerTenantMax),
  ];
}

/** Most changes write records and jobs only: the rest is left out then. */
export function pushChange(args: string[], commitId: string, change: RunChange): void {
  const { records, status, timeline, news, jobs } = change;
  const extent = extentOf(change);
  const goes = isTerminal(status) ? "ends" : "goes";
  args.push(
    status,
    news === undefined ? goes : `${goes} ${news}`,
    jsonWord(commitId),
    timeline,
    String(records.length),
    extent,
  );
  for (const { key, body } of records) args.push(recordField(key), body);
  if (extent === "jobs") {
    args.push(String(jobs.length));
    for (const job of jobs) pushJob(args, job);
  } else if (extent !== "") pushMore(args, change);
  if (extent === "tree") pushTree(args, change);
}

function extentOf(change: RunChange): "tree" | "more" | "jobs" | "" {
  if (change.children.length > 0 || change.cancelChildren.length > 0) return "tree";
  const more =
    change.voidJobs.length > 0 ||
    change.releaseJobs.length > 0 ||
    change.clearTimers.length > 0 ||
    change.timers.length > 0 ||
    change.approvals.length > 0 ||
    change.closeApprovals.length > 0 ||
    change.deadLetters.length > 0;
  if (more) return "more";
  return change.jobs.length > 0 ? "jobs" : "";
}

/** A key in Redis lives for a millisecond at least. */
function keyRetention({ keyRetentionMs }: StoreSettings): string {
  return keyRetentionMs === undefined ? "" : String(Math.max(1, Math.floor(keyRetentionMs)));
}

function pushMore(args: string[], change: RunChange): void {
  const { jobs, voidJobs, clearTimers, timers, approvals, closeApprovals, deadLetters, releaseJobs } = change;
  const groups = [jobs, voidJobs, clearTimers, timers, approvals, closeApprovals, deadLetters, releaseJobs];
  for (const group of groups) args.push(String(group.length));
  for (const job of jobs) pushJob(args, job);
  args.push(...voidJobs, ...releaseJobs.map(({ jobId }) => jobId), ...clearTimers);
  for (const { timerId, dueAtMs } of timers) {
    args.push(plain("timer id", timerId), wholeMs("dueAtMs", dueAtMs));
  }
  for (const request of approvals) args.push(...approvalArgs(request));
  for (const { approvalId, state } of closeApprovals) args.push(approvalId, state);
  for (const { id, reason, body } of deadLetters) args.push(id, reason, body);
}

/** As lua/parts/judge-tree.lua describes it: scripts find it from the end. */
function pushTree(args: string[], { children, cancelChildren }: RunChange): void {
  const before = args.length;
  args.push(String(children.length), String(cancelChildren.length));
  for (const child of children) args.push(...childArgs(child));
  for (const runId of cancelChildren) args.push(unencoded("run id", runId));
  args.push(String(args.length - before));
}

function childArgs({ runId, workflow, definition, step, attempt, records }: ChildRun): string[] {
  return [
    unencoded("run id", runId),
    workflow,
    definition,
    jsonWord(step),
    String(attempt),
    packEntry({ kind: "started", entryId: runId }),
    String(records.length),
    ...records.flatMap(({ key, body }) => [recordField(key), body]),
  ];
}

function pushJob(args: string[], spec: JobSpec): void {
  const { jobId, topic } = spec;
  const claim = spec.held === true ? undefined : spec.claim;
  args.push(
    plain("job id", jobId),
    encode(topic),
    jobTail(spec),
    spec.held === true ? "held" : optionalWord(claim?.token),
    claim === undefined ? "-" : workerWord(claim),
    claim === undefined ? "0" : wholeMs("leaseMs", claim.leaseMs),
    credentialWord(claim?.credential),
  );
}

/** Left out of an outcome when there is none. */
export function parseWoken(woken: unknown): { readonly woken?: readonly RunId[] } {
  const runIds = (woken ?? []) as readonly RunId[];
  return runIds.length === 0 ? {} : { woken: runIds };
}

/** Limits of gates, each `<name>=<max>` between two spaces; empty without any. */
export function limitWords(limits: ReadonlyArray<readonly [name: string, max: number]>): string {
  if (limits.length === 0) return "";
  return ` ${limits.map(([name, max]) => `${unencoded("gate", name)}=${max}`).join(" ")} `;
}
