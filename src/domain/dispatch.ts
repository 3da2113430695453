// The dispatch check as values: what it is asked about a job of high risk, what it may say, and how its answer is read.
import type { JsonValue } from "./fingerprint.ts";
import type { JobId } from "./job.ts";
import type { RiskClass } from "./lock.ts";
import type { RunId } from "./run.ts";
import type { TenantId } from "./tenant.ts";

/** `allow`: workers may claim the job. `deny`: its step fails for good. `hold`: it waits, and the check is asked again. */
const dispatchVerdicts = ["allow", "deny", "hold"] as const;
export type DispatchVerdict = (typeof dispatchVerdicts)[number];

/** A job as the check sees it. */
export type DispatchJob = {
  readonly jobId: JobId;
  readonly runId: RunId;
  readonly tenant: TenantId;
  readonly workflow: string;
  readonly step: string;
  readonly attempt: number;
  readonly topic: string;
  readonly risk: RiskClass;
  readonly input: JsonValue;
  /** Who asked for the run; for a run that a step has started, who asked for the root of its tree. */
  readonly requestedBy: string;
};

export type DispatchAnswer = {
  readonly verdict: DispatchVerdict;
  /** For people: shown in the timeline, by /why and as the error of a denied step. */
  readonly reason?: string;
  /** With `hold`: when to ask again; absent means `dispatch.holdMs`. */
  readonly retryAfterMs?: number;
};

/** A verdict as it is kept with its job. */
export type CheckedVerdict = {
  readonly entryId: string;
  readonly verdict: DispatchVerdict;
  readonly reason: string;
  readonly saidAtMs: number;
  readonly askAgainMs?: number;
};

/** What the reason of a job begins with that is held because the check gave no answer. */
export const troublePrefix = "the dispatch check failed: ";

/** More than a person reads; it is kept with the job, in the timeline and in the error. */
const reasonCharactersMax = 500;

/** A check that wants to be asked later than in a day is asked in a day. */
const retryAfterMaxMs = 86_400_000;

/** Reads what a check has answered; undefined when it is no answer, which is trouble and never a verdict. */
export function readDispatchAnswer(value: unknown): DispatchAnswer | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { verdict, reason, retryAfterMs } = value as Record<string, unknown>;
  const known = dispatchVerdicts.find((each) => each === verdict);
  if (known === undefined) return undefined;
  if (reason !== undefined && reason !== null && typeof reason !== "string") return undefined;
  if (retryAfterMs !== undefined && retryAfterMs !== null && !isDelay(retryAfterMs)) return undefined;
  return {
    verdict: known,
    ...(typeof reason === "string" ? { reason: shortened(reason) } : {}),
    ...(isDelay(retryAfterMs) ? { retryAfterMs: Math.min(retryAfterMaxMs, Math.ceil(retryAfterMs)) } : {}),
  };
}

/** Whole characters, and on one line. */
export function shortened(reason: string): string {
  const line = reason.toWellFormed().replaceAll(/\s+/g, " ").trim();
  return line.length <= reasonCharactersMax ? line : Array.from(line).slice(0, reasonCharactersMax).join("");
}

function isDelay(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}

/** Whether a job still waits for a verdict that settles it. */
export function isUndecided({ checked }: { readonly checked?: CheckedVerdict }): boolean {
  return checked === undefined || checked.verdict === "hold";
}

/** When the check may be asked again, at the earliest: it is named again by the sweep whatever it has said. */
export function askAgainInMs(checked: CheckedVerdict | undefined, nowMs: number): number {
  if (checked?.askAgainMs === undefined) return 0;
  return Math.max(0, checked.saidAtMs + checked.askAgainMs - nowMs);
}
