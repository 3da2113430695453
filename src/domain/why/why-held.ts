// Why a job of high risk is not given to workers yet: what the dispatch check said of it, or that nobody has asked it.
import { troublePrefix } from "../dispatch.ts";
import { formatTime } from "../engine/rfc3339.ts";
import type { Job } from "../job.ts";
import type { HeldItem, HeldReason } from "./explanation.ts";
import type { LockFacts, Part } from "./facts.ts";

type Verdict = { readonly because: HeldReason; readonly detail: string; readonly whatToDo: string };

export function whyHeld(job: Job, lock: Part<LockFacts> | undefined): HeldItem {
  const { because, detail, whatToDo } = judge(job, lock);
  const { checked } = job;
  return {
    kind: "job_held",
    step_id: job.step,
    since: formatTime(job.createdAtMs),
    job_id: job.jobId,
    topic: job.topic,
    attempt: job.attempt,
    because,
    detail,
    ...(checked === undefined
      ? {}
      : { last_reason: checked.reason, last_said_at: formatTime(checked.saidAtMs) }),
    what_to_do: whatToDo,
  };
}

function judge({ checked, republished }: Job, lock: Part<LockFacts> | undefined): Verdict {
  const holder = lock?.kind === "known" && lock.value.kind === "held" ? lock.value : undefined;
  if (holder !== undefined) {
    return {
      because: "being_asked",
      detail: `${holder.instance} is asking the dispatch check about it.`,
      whatToDo: "Wait for its answer: it is asked for dispatch.checkTimeoutMs at most.",
    };
  }
  if (checked?.reason.startsWith(troublePrefix)) {
    return {
      because: "check_failed",
      detail: `${checked.reason}.`,
      whatToDo:
        "Mend the check: it is asked again by itself, and nothing of risk high begins until it answers.",
    };
  }
  if (checked !== undefined) {
    return {
      because: "held_by_check",
      detail:
        checked.reason === ""
          ? "The dispatch check holds it."
          : `The dispatch check holds it: ${checked.reason}.`,
      whatToDo: "Do what the check waits for: it is asked again by itself. Or cancel the run.",
    };
  }
  return republished > 0
    ? {
        because: "nobody_asks",
        detail:
          "No process has asked the dispatch check about it: none has the role scheduler and a check, or its answers are lost.",
        whatToDo:
          "Start a process with the role scheduler and dispatch.checkUrl, or set dispatch.hold to off for what comes.",
      }
    : {
        because: "not_asked_yet",
        detail: "The dispatch check has not been asked about it yet.",
        whatToDo: "Ask again in a second.",
      };
}
