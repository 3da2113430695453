// The scheduler role: receives held jobs, each in one process, and asks the dispatch check about them.

import { settings } from "../../config.ts";
import {
  askAgainInMs,
  type DispatchAnswer,
  type DispatchJob,
  isUndecided,
  readDispatchAnswer,
  shortened,
  troublePrefix,
} from "../../domain/dispatch.ts";
import { factsRecordKey } from "../../domain/engine/keys.ts";
import { readFacts } from "../../domain/engine/records.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import { type Job, type JobHint, type JobId, parseJobId } from "../../domain/job.ts";
import { isTerminal, type RunHeader } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { BusDelivery, Consumer, Verdict } from "../../ports/bus.ts";
import type { DispatchCheck } from "../../ports/ports.ts";
import { settingsOf } from "../admission/tenant-cache.ts";
import { ask } from "../ask-until-known.ts";
import { type Delivery, deliverEntry } from "../engine/deliver-entry.ts";
import type { Engine } from "../engine/engine.ts";
import { type LeaseTerms, waitingBy } from "../locks/lease-terms.ts";
import { type Lease, withLease } from "../locks/with-lease.ts";
import { assignPolicies } from "../policies/assign-policies.ts";

/** What a question takes besides the check's own time and the wait for the lock: two reads, the delivery, each with its repeats. */
const aroundCheckMs = 30_000;

/** A job may be held for days: only what settles it ends the asking. Should the bus forget it, the sweep names it again. */
const deliveriesMax = 1_000_000;

export function startScheduler(engine: Engine, check: DispatchCheck): Consumer {
  const { bus, config } = engine;
  const questions = new Set<AbortController>();
  let stopped = false;

  async function handle({ body, deliveries }: BusDelivery): Promise<Verdict> {
    const hint = readHint(body);
    if (hint === undefined) return { kind: "drop", because: "unreadable" };
    // One for each: Node warns of a leak when more than ten wait for the same signal.
    const question = new AbortController();
    questions.add(question);
    try {
      const named = { tenant: hint.tenant, jobId: hint.hint.jobId, tries: deliveries };
      const end = await dispatchJob({ engine, check }, named, question.signal);
      if (end.kind === "settled") return { kind: "done" };
      return { kind: "retry", delayMs: end.delayMs, because: end.because };
    } catch (error) {
      if (!stopped) throw error;
      return { kind: "retry", delayMs: 0, because: "stopped" };
    } finally {
      questions.delete(question);
    }
  }

  const consumer = bus.consume(
    {
      stream: "checks",
      name: "scheduler",
      ackWaitMs: config["dispatch.checkTimeoutMs"] + settings["locks.job.waitMs"].max + aroundCheckMs,
      deliveriesMax,
      pendingMax: config["dispatch.checksMax"],
    },
    { handle, giveUp: async () => {} },
  );
  return {
    async stop() {
      stopped = true;
      for (const question of questions) question.abort(new Error("the scheduler stops"));
      await consumer.stop();
    },
  };
}

function readHint(body: string): { readonly tenant: TenantId; readonly hint: JobHint } | undefined {
  try {
    return JSON.parse(body) as { readonly tenant: TenantId; readonly hint: JobHint };
  } catch {
    return undefined;
  }
}

type Dispatch = { readonly engine: Engine; readonly check: DispatchCheck };

/** The job that somebody named, and which try this is: trouble is tried again after longer and longer pauses. */
type Named = { readonly tenant: TenantId; readonly jobId: JobId; readonly tries: number };

type DispatchEnd =
  /** There is nothing to ask about any more. */
  | { readonly kind: "settled" }
  | { readonly kind: "ask_again"; readonly delayMs: number; readonly because: string };

const settled = { kind: "settled" } as const;

async function dispatchJob(dispatch: Dispatch, named: Named, signal: AbortSignal): Promise<DispatchEnd> {
  const { ports, config } = dispatch.engine;
  const terms = await jobTerms(dispatch.engine, named);
  const target = { tenant: named.tenant, lock: { namespace: "job", name: named.jobId } } as const;
  const work = (lease: Lease) => askUnderLock(dispatch, named, lease);
  const outcome = await withLease(ports, target, terms, work, signal);
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

/** By the policies of the job's run. */
async function jobTerms(engine: Engine, { tenant, jobId }: Named): Promise<LeaseTerms> {
  const parts = parseJobId(jobId);
  if (parts === undefined) return engine.terms.locks.job;
  const { policies } = await assignPolicies(engine, await settingsOf(engine, tenant), parts.runId);
  return waitingBy(policies, "job", engine.terms.locks.job);
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

/** Throws when the lease is over. That a job is held for the same reason as before is not announced. */
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

type CheckAnswer =
  | { readonly kind: "answered"; readonly answer: DispatchAnswer }
  | { readonly kind: "trouble"; readonly cause: string };

/** Throws the reason of the signal when that is aborted: then nobody may use an answer any more. */
async function askCheck(
  { ports, config }: Engine,
  check: DispatchCheck,
  job: DispatchJob,
  signal: AbortSignal,
): Promise<CheckAnswer> {
  const { clock, metrics } = ports;
  const timeoutMs = config["dispatch.checkTimeoutMs"];
  const late = new AbortController();
  const cancel = clock.timer(timeoutMs, () => late.abort(new Error(`no answer within ${timeoutMs} ms`)));
  const startedMs = clock.monotonicMs();
  const answer = await answerOf(check, job, AbortSignal.any([signal, late.signal]));
  cancel();
  metrics.observe("dispatch_check_seconds", {}, (clock.monotonicMs() - startedMs) / 1000);
  const verdict = signal.aborted
    ? "abandoned"
    : answer.kind === "answered"
      ? answer.answer.verdict
      : "failed";
  metrics.count("dispatch_checks_total", { verdict });
  signal.throwIfAborted();
  return answer;
}

/** A check that pays no heed to its signal is left behind. */
async function answerOf(check: DispatchCheck, job: DispatchJob, signal: AbortSignal): Promise<CheckAnswer> {
  let stop = () => {};
  try {
    signal.throwIfAborted();
    const aborted = new Promise<never>((_, reject) => {
      stop = () => reject(signal.reason);
      signal.addEventListener("abort", stop);
    });
    const answer = readDispatchAnswer(await Promise.race([aborted, check(job, { signal })]));
    return answer === undefined
      ? { kind: "trouble", cause: "its answer is none of allow, deny and hold" }
      : { kind: "answered", answer };
  } catch (error) {
    return { kind: "trouble", cause: shortened(error instanceof Error ? error.message : String(error)) };
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
