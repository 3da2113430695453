// Follows a run to its end: every change as a line when it happens, Ctrl-C leaves the run going.
import { parseTime } from "../domain/engine/rfc3339.ts";
import type { Client } from "../sdk/client.ts";
import type { Context } from "./context.ts";
import { eventLine, type Run, type TimelineEvent } from "./run-lines.ts";
import { shellWord } from "./terminal.ts";

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
export function lineTeller({ output, terminal }: Context, runId: string): WatchOptions["onEvent"] {
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
