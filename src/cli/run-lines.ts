// A run for people: its steps as a table, its timeline as sentences, and its changes as they happen until it ends.
import { parseTime } from "../domain/engine/rfc3339.ts";
import type { Client } from "../sdk/client.ts";
import type { Success } from "../sdk/contract.ts";
import type { Context } from "./context.ts";
import type { Cell, Output } from "./output.ts";
import { shellWord } from "./terminal.ts";
import { age, between, duration, shortened, type Tone, toneOf, visible } from "./text.ts";

export type Run = Success<"getRun">;
type TimelineEvent = Success<"readTimeline">["items"][number];
type Step = Run["steps"][string];

export function runLines({ output, terminal }: Context, run: Run): string[] {
  const { error } = run;
  return [
    ...output.facts([
      ["run", run.run_id],
      ["workflow", run.workflow_id],
      ["status", statusCell(run)],
      ["started", `${age(run.created_at, terminal.nowMs())} by ${run.created_by}`],
      ["took", between(run.created_at, run.completed_at)],
      ["waits", queueText(run)],
      ["ended because", run.end_reason],
      [
        "parent",
        run.parent_run_id === undefined ? undefined : `${run.parent_run_id}, step ${run.parent_step_id}`,
      ],
      [
        "error",
        error === undefined
          ? undefined
          : {
              text: visible(`${error.step_id ?? ""} ${error.message ?? error.code ?? error.status}`.trim()),
              tone: "bad",
            },
      ],
      ["input", run.input === undefined ? undefined : shortened(JSON.stringify(run.input), 200)],
    ]),
    "",
    ...stepTable(output, run),
  ];
}

function queueText({ queue }: Run): string | undefined {
  if (queue === undefined) return undefined;
  if (queue.rate !== undefined) return `for the rate ${queue.rate}, until ${queue.starts_at}`;
  const place = queue.position === undefined ? "" : `at position ${queue.position} `;
  const until = queue.deadline_at === undefined ? "to come back" : `until ${queue.deadline_at} at most`;
  return `${place}at the gate ${queue.gate}, ${until}`;
}

function statusCell(run: Run): Cell {
  const text =
    run.cancel_requested && run.completed_at === undefined ? `${run.status}, cancelling` : run.status;
  return { text, tone: toneOf(run.status) };
}

export function stepTable(output: Output, run: Run): string[] {
  return output.table(
    ["step", "status", { title: "tries", align: "right" }, { title: "took", align: "right" }, "output"],
    inOrder(run).map((step) => [
      step.step_id,
      { text: step.status, tone: toneOf(step.status) },
      step.attempts === 0 ? "" : step.attempts,
      between(step.started_at, step.completed_at),
      { text: resultOf(step), tone: step.error === undefined ? "plain" : "bad" },
    ]),
  );
}

/** As they began; those that have not, after them. */
function inOrder({ steps }: Run): readonly Step[] {
  const beganMs = ({ started_at }: Step) => parseTime(started_at ?? "") ?? Number.POSITIVE_INFINITY;
  return Object.values(steps).sort((left, right) => {
    const [leftMs, rightMs] = [beganMs(left), beganMs(right)];
    return leftMs === rightMs ? 0 : leftMs - rightMs;
  });
}

function resultOf(step: Step): string {
  if (step.error !== undefined) return shortened(step.error.message, 120);
  if (step.output_omitted === true) return "(large: not shown)";
  if (step.output !== undefined) return shortened(JSON.stringify(step.output), 120);
  if (step.skipped_because !== undefined) return `skipped: ${step.skipped_because}`;
  const { children } = step;
  if (children !== undefined) return `${children.total - children.open} of ${children.total} done`;
  if (step.waiting_for !== undefined) return `waits for ${step.waiting_for}`;
  return "";
}

const marks: Readonly<Record<Tone, string>> = {
  good: "✓",
  bad: "✗",
  busy: "•",
  quiet: "·",
  strong: "•",
  plain: "•",
};

/** How an event is shown. Types that are not listed are shown by their name and fields. */
const shownAs: Readonly<Record<string, readonly [tone: Tone, words: string]>> = {
  run_admitted: ["quiet", "admitted"],
  run_created: ["quiet", "created"],
  run_started: ["quiet", "started"],
  step_dispatched: ["busy", "waits for a worker"],
  step_completed: ["good", "done"],
  step_waiting: ["busy", "waits for an approval"],
  step_approved: ["good", "approved"],
  step_denied: ["bad", "denied"],
  step_failed: ["bad", "failed"],
  step_timed_out: ["bad", "timed out"],
  step_retry_scheduled: ["busy", "will be tried again"],
  step_claim_lost: ["bad", "its worker fell silent"],
  step_handed_back: ["quiet", "handed back by its worker"],
  step_delay_started: ["busy", "waits"],
  step_delay_completed: ["quiet", "has waited"],
  step_children_started: ["busy", "has begun its items"],
  step_subworkflow_started: ["busy", "waits for another run"],
  step_skipped: ["quiet", "skipped"],
  step_condition_skipped: ["quiet", "skipped: its condition is false"],
  step_branch_not_taken: ["quiet", "not taken"],
  step_cancelled: ["quiet", "cancelled"],
  run_cancelled: ["quiet", "cancelled"],
  run_timed_out: ["bad", "timed out"],
  run_failed: ["bad", "failed"],
};

/** One line: when, what, which step, and the particulars. */
export function eventLine(output: Output, event: TimelineEvent, beganMs: number): string {
  const { type, at, version: _, step, attempt, ...more } = event;
  const [tone, words] = type === "run_completed" ? ending(more) : (shownAs[type] ?? ["plain", type]);
  const afterMs = Math.max(0, (parseTime(at) ?? beganMs) - beganMs);
  const tries = typeof attempt === "number" && attempt > 1 ? ` (try ${attempt})` : "";
  const name = typeof step === "string" ? `${visible(step)}${tries} ` : "run ";
  const rest = type === "run_completed" ? "" : particulars(more);
  return [
    output.paint("quiet", `+${duration(afterMs)}`.padStart(10)),
    output.paint(tone, marks[tone]),
    `${output.paint("strong", name)}${words}${output.paint("quiet", rest)}`,
  ].join(" ");
}

function ending(more: Readonly<Record<string, unknown>>): readonly [Tone, string] {
  const status = String(more.status);
  return [toneOf(status), status];
}

function particulars(more: Readonly<Record<string, unknown>>): string {
  const shown = Object.entries(more).filter(([name]) => !name.endsWith("_ms"));
  if (shown.length === 0) return "";
  return ` (${visible(shown.map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", "))})`;
}

type Watched = { readonly kind: "ended"; readonly run: Run } | { readonly kind: "interrupted" | "timeout" };

type WatchOptions = {
  readonly timeoutMs?: number;
  /** Called for every event: `watch --json` prints them, `run` prints lines for people. */
  onEvent(event: TimelineEvent, beganMs: number): void;
};

const endings: readonly string[] = ["succeeded", "failed", "denied", "cancelled", "timed_out"];

export const hasEnded = (run: { readonly status: string }): boolean => endings.includes(run.status);

export async function watchRun(
  { terminal }: Context,
  client: Client,
  runId: string,
  { timeoutMs, onEvent }: WatchOptions,
): Promise<Watched> {
  const leaving = new AbortController();
  let why: "interrupted" | "timeout" = "interrupted";
  const leave = (because: typeof why) => {
    why = because;
    leaving.abort();
  };
  const stopListening = terminal.onInterrupt(() => leave("interrupted"));
  const cancelTimer = timeoutMs === undefined ? () => {} : terminal.timer(timeoutMs, () => leave("timeout"));
  try {
    let beganMs: number | undefined;
    for await (const followed of client.events.follow({ run: runId, signal: leaving.signal })) {
      if (followed.kind !== "event") continue;
      beganMs ??= parseTime(followed.data.at) ?? 0;
      onEvent(followed.data, beganMs);
    }
    // A retried dead letter opens a run again: what it is now is asked, not concluded.
    return {
      kind: "ended",
      run: await client.call("getRun", { params: { id: runId }, signal: leaving.signal }),
    };
  } catch (error) {
    if (leaving.signal.aborted) return { kind: why };
    throw error;
  } finally {
    cancelTimer();
    stopListening();
  }
}

/** Shows the events as lines; names what a person has to do when the run waits for one. */
export function lineReporter({ output, terminal }: Context, runId: string): WatchOptions["onEvent"] {
  return (event, beganMs) => {
    output.line(eventLine(output, event, beganMs));
    if (event.type === "step_waiting" && typeof event.step === "string") {
      const approval = `${runId}:${event.step}@${String(event.attempt ?? 1)}`;
      output.note(`             decide: ${terminal.calledAs} approve ${shellWord(approval)}`);
    }
  };
}

export function leftGoing({ output, terminal, end }: Context, runId: string, watched: Watched): void {
  output.note(
    `The run goes on. Follow it again: ${terminal.calledAs} runs watch ${runId}`,
    `What it waits for: ${terminal.calledAs} why ${runId}`,
  );
  end(watched.kind === "timeout" ? "timeout" : "interrupted");
}
