// The dispatch check of one held job: asked under the job's lock, and what it says is brought to the run by that grant or not at all.
import {
  askAgainInMs,
  type DispatchAnswer,
  type DispatchJob,
  isUndecided,
  troublePrefix,
} from "../../domain/dispatch.ts";
import { factsRecordKey } from "../../domain/engine/keys.ts";
import { readFacts } from "../../domain/engine/records.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { Job, JobId } from "../../domain/job.ts";
import { isTerminal, type RunHeader } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { DispatchCheck } from "../../ports/ports.ts";
import { ask } from "../ask-until-known.ts";
import { type Delivery, deliverEntry } from "../engine/deliver-entry.ts";
import type { Engine } from "../engine/engine.ts";
import { type Lease, withLease } from "../locks/with-lease.ts";
import { askCheck } from "./ask-check.ts";

type Dispatch = { readonly engine: Engine; readonly check: DispatchCheck };

/** The job that somebody named, and which try this is: trouble is tried again after longer and longer pauses. */
type Named = { readonly tenant: TenantId; readonly jobId: JobId; readonly tries: number };

type DispatchEnd =
  /** There is nothing to ask about any more. */
  | { readonly kind: "settled" }
  | { readonly kind: "ask_again"; readonly delayMs: number; readonly because: string };

const settled = { kind: "settled" } as const;

export async function dispatchJob(
  dispatch: Dispatch,
  named: Named,
  signal: AbortSignal,
): Promise<DispatchEnd> {
  const { ports, config, terms } = dispatch.engine;
  const target = { tenant: named.tenant, lock: { namespace: "job", name: named.jobId } } as const;
  const work = (lease: Lease) => askUnderLock(dispatch, named, lease);
  const outcome = await withLease(ports, target, terms.locks.job, work, signal);
  switch (outcome.kind) {
    case "finished":
      return outcome.value;
    case "busy":
      // Another process asks at this moment; should it die, its lock ends and somebody asks again.
      return {
        kind: "ask_again",
        delayMs: config["dispatch.holdMs"],
        because: `asked by ${outcome.instance}`,
      };
    case "abandoned":
      return afterTrouble(dispatch.engine, named, `the job's lock was lost: ${outcome.cause}`);
    case "unavailable":
    case "unknown":
      return afterTrouble(dispatch.engine, named, outcome.cause);
    case "cancelled":
      return { kind: "ask_again", delayMs: 0, because: "stopped" };
  }
}

async function askUnderLock(dispatch: Dispatch, named: Named, lease: Lease): Promise<DispatchEnd> {
  const { engine, check } = dispatch;
  const held = await readHeldJob(engine, named);
  if (held.kind !== "held") return held;
  const { job, shown } = held;
  const said = await askCheck(engine, check, shown, lease.signal);
  if (said.kind === "trouble") {
    const reason = `${troublePrefix}${said.cause}`;
    engine.ports.log.warn("the dispatch check failed", { job: job.jobId, cause: said.cause });
    await bring(dispatch, { job, named, lease }, { verdict: "hold", reason });
    return afterTrouble(engine, named, reason);
  }
  const { verdict, retryAfterMs = engine.config["dispatch.holdMs"] } = said.answer;
  const brought = await bring(dispatch, { job, named, lease }, said.answer);
  if (brought.kind === "unavailable" || brought.kind === "unknown")
    return afterTrouble(engine, named, brought.cause);
  if (brought.kind === "stale_fence") return afterTrouble(engine, named, "the job's lock was lost");
  if (verdict !== "hold" || brought.kind !== "accepted") return settled;
  return { kind: "ask_again", delayMs: retryAfterMs, because: "held by the dispatch check" };
}

type Question = { readonly job: Job; readonly named: Named; readonly lease: Lease };

/** Throws when the lease is over. That a job is held for the same reason as before is told to nobody. */
async function bring(
  { engine }: Dispatch,
  { job, named, lease }: Question,
  { verdict, reason = "", retryAfterMs }: DispatchAnswer,
): Promise<Delivery<"dispatch">> {
  lease.check();
  if (verdict === "hold" && job.checked?.verdict === "hold" && job.checked.reason === reason)
    return { kind: "accepted" };
  const { token, fence } = lease;
  const answer = await deliverEntry(engine, {
    tenant: named.tenant,
    runId: job.runId,
    entry: {
      kind: "dispatch",
      // The grant names the question: a repeat of this very verdict is recognised, another one never taken for it.
      entryId: `dispatch:${token}`,
      jobId: job.jobId,
      verdict,
      reason,
      ...(retryAfterMs === undefined ? {} : { askAgainMs: retryAfterMs }),
      guard: { token, fence },
    },
  });
  if (answer.kind !== "accepted" && answer.kind !== "unavailable" && answer.kind !== "unknown") {
    const { metrics, log } = engine.ports;
    if (answer.kind === "stale_fence") metrics.count("stale_write_refused_total", { operation: "deliver" });
    log.info("a verdict of the dispatch check was refused", {
      job: job.jobId,
      verdict,
      because: answer.kind,
    });
  }
  return answer;
}

type HeldJob = { readonly kind: "held"; readonly job: Job; readonly shown: DispatchJob };

/** Read under the lock: what another process has decided meanwhile is seen. */
async function readHeldJob(engine: Engine, named: Named): Promise<HeldJob | DispatchEnd> {
  const { tenant, jobId } = named;
  const found = await ask(engine, "getJob", { tenant, jobId });
  if (found.kind === "not_found") return settled;
  if (found.kind !== "job") return afterTrouble(engine, named, found.cause);
  const { job, storeTimeMs } = found;
  if (job.state !== "held" || !isUndecided(job)) return settled;
  const waitMs = askAgainInMs(job.checked, storeTimeMs);
  if (waitMs > 0) return { kind: "ask_again", delayMs: waitMs, because: "the check said when to ask again" };
  const records = [job.inputKey, factsRecordKey];
  const loaded = await ask(engine, "loadRun", { tenant, runId: job.runId, records });
  if (loaded.kind === "not_found") return settled;
  if (loaded.kind !== "run") return afterTrouble(engine, named, loaded.cause);
  const { header } = loaded;
  // Its job is called off when the cancel is applied.
  if (isTerminal(header.status) || header.cancelRequested !== undefined) return settled;
  const bodies = new Map(loaded.records.map(({ key, body }) => [key, body]));
  return { kind: "held", job, shown: shownJob(job, header, bodies) };
}

function shownJob(job: Job, header: RunHeader, bodies: ReadonlyMap<string, string>): DispatchJob {
  const { jobId, runId, step, attempt, topic, inputKey } = job;
  const facts = bodies.get(factsRecordKey);
  const requester = facts === undefined ? undefined : readFacts(facts).requester;
  return {
    ...{ jobId, runId, step, attempt, topic },
    tenant: header.tenant,
    workflow: header.workflow,
    // No other jobs are held.
    risk: "high",
    input: JSON.parse(bodies.get(inputKey) ?? "null") as JsonValue,
    requestedBy: requester ?? header.actor,
  };
}

/** The first pause after trouble; it doubles up to `dispatch.holdMs`. */
const troublePauseMs = 500;

function afterTrouble({ ports, config }: Engine, { tries }: Named, because: string): DispatchEnd {
  const pauseMs = Math.min(config["dispatch.holdMs"], troublePauseMs * 2 ** Math.min(20, tries - 1));
  // Those that failed together do not come back together.
  return { kind: "ask_again", delayMs: Math.round(pauseMs * (0.7 + 0.3 * ports.random.fraction())), because };
}
