// Calls a run off, and removes one that has ended.
import type { RunId } from "../../domain/run.ts";
import { isTerminal } from "../../domain/run.ts";
import { credentialIn } from "../acting.ts";
import { ask } from "../ask-until-known.ts";
import type { Caller, CancelAnswer, ControlApi } from "../control-api.ts";
import { deliverEntry } from "./deliver-entry.ts";
import type { Engine } from "./engine.ts";

export async function cancelRun(
  engine: Engine,
  caller: Caller,
  runId: RunId,
  reason: string,
): Promise<CancelAnswer> {
  const { tenant, actor, credential } = caller;
  const entry = { kind: "cancel", entryId: `cancel:${engine.ports.random.token()}`, actor, reason } as const;
  const request = { tenant, runId, entry, ...(credential === undefined ? {} : { credential }) };
  const answer = await deliverEntry(engine, request);
  if (answer.kind === "accepted" || answer.kind === "already_cancelling") return { kind: "cancelling" };
  if (answer.kind === "run_not_found") return { kind: "not_found" };
  if (answer.kind !== "run_ended") return answer;
  const header = await readHeader(engine, caller, runId);
  if (header.kind !== "run") return header;
  return isTerminal(header.header.status)
    ? { kind: "already_ended", status: header.header.status }
    : { kind: "unavailable", cause: "the run changed meanwhile" };
}

/** How long a delete waits for the end of a run that it had to cancel first. */
const endWaitMs = 3_000;

export async function deleteRun(
  engine: Engine,
  caller: Caller,
  runId: RunId,
): Promise<Awaited<ReturnType<ControlApi["deleteRun"]>>> {
  const { clock } = engine.ports;
  const endMs = clock.monotonicMs() + endWaitMs;
  for (let cancelled = false; ; ) {
    const answer = await removePart(engine, caller, runId);
    if (answer.kind === "deleted" || answer.kind === "not_found") return { kind: answer.kind };
    if (answer.kind === "unauthenticated") return { kind: "unauthenticated" };
    if (answer.kind === "unknown" || answer.kind === "unavailable") {
      return { kind: answer.kind, cause: answer.cause };
    }
    if (answer.kind === "more") continue;
    if (clock.monotonicMs() > endMs) return { kind: "not_ended" };
    if (!cancelled) {
      const cancel = await cancelRun(engine, caller, runId, "deleted");
      if (cancel.kind !== "cancelling" && cancel.kind !== "already_ended" && cancel.kind !== "not_found")
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

async function readHeader(engine: Engine, { tenant }: Caller, runId: RunId) {
  const answer = await ask(engine, "loadRun", { tenant, runId, records: [] });
  if (answer.kind === "unknown" || answer.kind === "unavailable") {
    return { kind: answer.kind, cause: answer.cause } as const;
  }
  return answer;
}
