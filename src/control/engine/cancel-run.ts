// Calls a run off, and removes one that has ended.
import { isTerminal, type RunId, type TerminalStatus } from "../../domain/run.ts";
import { ask } from "../ask-until-known.ts";
import type { Caller, WriteTrouble } from "../caller.ts";
import { credentialIn } from "../caller.ts";
import { deliverEntry } from "./deliver-entry.ts";
import type { Engine } from "./engine.ts";

export type CancelAnswer =
  | { readonly kind: "cancelling" }
  | { readonly kind: "run_ended"; readonly runStatus: TerminalStatus }
  | { readonly kind: "run_not_found" }
  | WriteTrouble;

type NamedRun = { readonly caller: Caller; readonly runId: RunId };

export async function cancelRun(
  engine: Engine,
  { caller, runId, reason }: NamedRun & { readonly reason: string },
): Promise<CancelAnswer> {
  const { tenant, actor, credential } = caller;
  const entry = { kind: "cancel", entryId: `cancel:${engine.ports.random.token()}`, actor, reason } as const;
  const request = { tenant, runId, entry, ...(credential === undefined ? {} : { credential }) };
  const answer = await deliverEntry(engine, request);
  if (answer.kind === "accepted" || answer.kind === "already_cancelling") return { kind: "cancelling" };
  if (answer.kind !== "run_ended") return answer;
  const run = await ask(engine, "loadRun", { tenant, runId, records: [] });
  if (run.kind === "not_found") return { kind: "run_not_found" };
  if (run.kind !== "run") return { kind: run.kind, cause: run.cause };
  return isTerminal(run.header.status)
    ? { kind: "run_ended", runStatus: run.header.status }
    : { kind: "unavailable", cause: "the run changed meanwhile" };
}

/** How long a delete waits for the end of a run that it had to cancel first. */
const endWaitMs = 3_000;

/** Cancels first if needed and waits a few seconds for the end; `run_not_ended` when that was not enough. */
export async function deleteRun(
  engine: Engine,
  { caller, runId }: NamedRun,
): Promise<
  | { readonly kind: "deleted" }
  | { readonly kind: "run_not_found" }
  | { readonly kind: "run_not_ended" }
  | WriteTrouble
> {
  const { clock } = engine.ports;
  const endMs = clock.monotonicMs() + endWaitMs;
  for (let cancelled = false; ; ) {
    const answer = await removePart(engine, caller, runId);
    if (answer.kind === "deleted") return { kind: "deleted" };
    if (answer.kind === "not_found") return { kind: "run_not_found" };
    if (answer.kind === "unauthenticated") return { kind: "unauthenticated" };
    if (answer.kind === "unknown" || answer.kind === "unavailable") {
      return { kind: answer.kind, cause: answer.cause };
    }
    if (answer.kind === "more") continue;
    if (clock.monotonicMs() > endMs) return { kind: "run_not_ended" };
    if (!cancelled) {
      const cancel = await cancelRun(engine, { caller, runId, reason: "deleted" });
      if (cancel.kind !== "cancelling" && cancel.kind !== "run_ended" && cancel.kind !== "run_not_found")
        return cancel;
      cancelled = true;
    }
    await clock.sleep(20);
  }
}

function removePart(engine: Engine, caller: Caller, runId: RunId) {
  const { tenant, actor } = caller;
  const request = { tenant, runId, actor, ...credentialIn(tenant, caller) };
  return ask(engine, "deleteRun", request);
}
