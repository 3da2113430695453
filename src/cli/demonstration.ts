// The demonstration of npm start: a worker, a run of three steps to its end, and a second run that waits for a person.
import { readFileSync } from "node:fs";
import type { Caller } from "../control/control-api.ts";
import type { InProcessJob } from "../control/jobs/in-process-worker.ts";
import type { ControlPlane } from "../control-plane.ts";
import { fingerprintOf, type JsonValue } from "../domain/fingerprint.ts";
import { isTerminal, type RunId, type RunStatus } from "../domain/run.ts";
import { defaultTenant } from "../embedded/first-start.ts";
import { InterlockError } from "../errors.ts";

const tenant = defaultTenant;
const caller: Caller = { tenant, actor: "demonstration" };

/** In the language of a worker: a job's input in, its output out. */
const work: Readonly<Record<string, (input: never) => JsonValue>> = {
  "demo.research": ({ subject }: { readonly subject: string }) => ({
    facts: [`${subject}: two workers must not do the same job`, `${subject}: a retry must not do it twice`],
  }),
  "demo.write": ({ facts }: { readonly facts: readonly string[] }) => ({ text: facts.join("; ") }),
  "demo.publish": ({ text }: { readonly text: string }) => ({ published: text.length }),
  "demo.pay": ({ order, amount }: { readonly order: string; readonly amount: number }) => ({
    receipt: `${amount} paid back for ${order}`,
  }),
};

export function startDemonstrationWorker(plane: ControlPlane): void {
  plane.startWorker({
    tenant,
    name: "demonstration",
    topics: Object.keys(work),
    concurrency: 4,
    handler: ({ topic, input }: InProcessJob) => work[topic]?.(input as never) ?? null,
  });
}

export type ShownRun = {
  readonly runId: RunId;
  readonly status: RunStatus;
  /** `found`: an earlier start of the program made it, and its key still answers with it. */
  readonly origin: "started" | "found";
};

export async function runReport(plane: ControlPlane): Promise<ShownRun> {
  const workflow = await saveExample(plane, "report");
  const started = await start(plane, workflow, { subject: "leases" }, 1);
  return { ...started, status: await settled(plane, started.runId) };
}

/** One run waits, however often the program was started: the keys are numbered, and the first open run is taken. */
export async function runRefund(plane: ControlPlane): Promise<ShownRun> {
  const workflow = await saveExample(plane, "refund");
  for (let number = 1; ; number += 1) {
    const started = await start(plane, workflow, { order: `A-${1000 + number}`, amount: 250 }, number);
    const status = await settled(plane, started.runId);
    if (started.origin === "started" || !isTerminal(status)) return { ...started, status };
  }
}

/** Gives the workflow's id. The same definition again would only make another revision of it. */
async function saveExample(plane: ControlPlane, name: "report" | "refund"): Promise<string> {
  const file = new URL(`../../examples/workflows/${name}.json`, import.meta.url);
  const definition = JSON.parse(readFileSync(file, "utf8")) as JsonValue;
  const { id } = definition as { readonly id: string };
  const known = await plane.api.getWorkflow(tenant, id);
  if (known.kind === "workflow" && JSON.stringify(known.workflow.definition) === JSON.stringify(definition))
    return id;
  const saved = await plane.api.saveWorkflow(caller, definition);
  if (saved.kind !== "saved") throw unexpected(`saving ${id}`, saved);
  return id;
}

/** As over HTTP: the key and the request's fingerprint, so that a repeat finds the first run. */
async function start(
  plane: ControlPlane,
  workflow: string,
  input: JsonValue,
  number: number,
): Promise<Omit<ShownRun, "status">> {
  const path = `/api/v1/workflows/${workflow}/runs`;
  const fingerprint = fingerprintOf({ method: "POST", path, query: {}, body: input });
  const key = { text: `${workflow}-${number}`, fingerprint };
  const answer = await plane.api.startWorkflow({ caller, workflow, input, key });
  if (answer.kind === "admitted") return { runId: answer.runId, origin: "started" };
  if (answer.kind === "replayed") return { runId: answer.runId, origin: "found" };
  throw unexpected(`starting ${workflow}`, answer);
}

/** How long the demonstration waits for its own worker; it takes milliseconds. */
const patienceMs = 15_000;

/** Waits until the run has ended or waits for somebody. A run whose records are gone has ended long ago. */
async function settled(plane: ControlPlane, runId: RunId): Promise<RunStatus> {
  const { clock } = plane.ports;
  const endMs = clock.monotonicMs() + patienceMs;
  for (;;) {
    const answer = await plane.api.getRun(tenant, runId);
    if (answer.kind === "not_found") return "succeeded";
    if (answer.kind !== "run") throw unexpected(`reading ${runId}`, answer);
    const { status } = answer.run.header;
    if (isTerminal(status) || status === "waiting") return status;
    if (clock.monotonicMs() > endMs) throw unexpected(`waiting for ${runId}`, { kind: status });
    await clock.sleep(5);
  }
}

type TimelineLine = { readonly afterMs: number; readonly type: string; readonly detail: string };

export async function timelineOf(plane: ControlPlane, runId: RunId): Promise<readonly TimelineLine[]> {
  const answer = await plane.api.readTimeline(tenant, runId, { after: 0, limit: 100 });
  if (answer.kind === "not_found") return [];
  if (answer.kind !== "timeline") throw unexpected(`reading the timeline of ${runId}`, answer);
  const beganMs = answer.rows[0]?.atMs ?? 0;
  return answer.rows.flatMap(({ atMs, body }) =>
    (JSON.parse(body) as readonly Event[]).map((event) => ({
      afterMs: atMs - beganMs,
      type: event.type,
      detail: detailOf(event),
    })),
  );
}

type Event = {
  readonly type: string;
  readonly step?: string;
  readonly [name: string]: string | number | boolean | undefined;
};

function detailOf({ type: _, step, attempt, ...more }: Event): string {
  const rest = Object.entries(more).map(([name, value]) => `${name}=${String(value)}`);
  const name =
    step === undefined ? [] : [attempt === undefined || attempt === 1 ? step : `${step}@${attempt}`];
  return [...name, ...rest].join(" ");
}

export async function pendingApproval(plane: ControlPlane, runId: RunId): Promise<string | undefined> {
  const answer = await plane.api.listApprovals(tenant, { limit: 500, state: "pending" });
  if (answer.kind !== "listed") throw unexpected("listing approvals", answer);
  return answer.approvals.find((approval) => approval.runId === runId)?.approvalId;
}

function unexpected(
  what: string,
  answer: { readonly kind: string; readonly cause?: string },
): InterlockError {
  const cause = answer.cause === undefined ? "" : ` (${answer.cause})`;
  return new InterlockError(
    "internal",
    `the demonstration's ${what} was answered with ${answer.kind}${cause}`,
  );
}
