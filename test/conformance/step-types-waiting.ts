// The rows of steps that wait: approval and delay.
import { type Row, soon, work } from "./step-types-table.ts";

export const approvalRow: Row = {
  success: {
    shows: "it waits for a person, and its output says who decided what",
    steps: { it: { type: "approval", input: { amount: 7 } }, after: work({ depends_on: ["it"] }) },
    script: (scene, runId) => scene.decide(runId, "it", "approved"),
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      outputs: { it: { decision: "approved", decided_by: "ben", reason: "as agreed" } },
      attempts: { it: 1 },
      timeline: ["step_waiting it", "step_approved it", "step_completed after"],
    },
  },
  failure: {
    shows: "a rejection ends it denied, and the run with it",
    steps: { it: { type: "approval" }, after: work({ depends_on: ["it"] }) },
    script: (scene, runId) => scene.decide(runId, "it", "rejected"),
    ends: {
      status: "denied",
      steps: { it: "denied", after: "skipped" },
      errors: { it: "approval_rejected" },
      timeline: ["step_rejected it", "step_skipped after"],
    },
  },
  retry: {
    cannot: "a person has decided",
    shows: "a rejected approval is not asked for again, whatever its retry policy says",
    steps: { it: { type: "approval", retry: soon } },
    script: (scene, runId) => scene.decide(runId, "it", "rejected"),
    ends: {
      status: "denied",
      steps: { it: "denied" },
      attempts: { it: 1 },
      never: ["step_retry_scheduled it"],
    },
  },
  timeout: {
    shows: "when nobody decides in time it expires, and a decision after that is refused",
    steps: { it: { type: "approval", timeout_sec: 0.15 }, after: work({ depends_on: ["it"] }) },
    ends: {
      status: "timed_out",
      steps: { it: "timed_out", after: "skipped" },
      errors: { it: "approval_expired" },
      timeline: ["step_waiting it", "step_timed_out it"],
      more: async (scene, { run_id }) => {
        const caller = { tenant: scene.tenant, actor: "ben" };
        const approvalId = `${run_id}:it@1`;
        const late = await scene.api.decideApproval({ caller, approvalId, decision: "approved" });
        if (late.kind !== "approval_expired" && late.kind !== "run_ended") throw new Error(late.kind);
      },
    },
  },
  cancel: {
    shows: "a cancelled run takes its approval back",
    steps: { it: { type: "approval" }, after: work({ depends_on: ["it"] }) },
    script: async (scene, runId) => {
      await scene.reaches(runId, "it", "approval");
      await scene.cancel(runId);
    },
    ends: {
      status: "cancelled",
      steps: { it: "cancelled", after: "cancelled" },
      timeline: ["run_cancelled", "step_cancelled it"],
    },
  },
  restart: {
    shows: "it waits on in the next process, which hears the decision",
    steps: { it: { type: "approval" }, after: work({ depends_on: ["it"] }) },
    middle: (scene, runId) => scene.reaches(runId, "it", "approval"),
    script: (scene, runId) => scene.decide(runId, "it", "approved"),
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      attempts: { it: 1, after: 1 },
    },
  },
};

export const delayRow: Row = {
  success: {
    shows: "it waits for its time",
    steps: { it: { type: "delay", delay_sec: 0.1 }, after: work({ depends_on: ["it"] }) },
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      timeline: ["step_delay_started it", "step_delay_completed it", "step_completed after"],
      more: async (_, { steps }) => {
        const { started_at = "", completed_at = "" } = steps.it ?? {};
        const waitedMs = Date.parse(completed_at) - Date.parse(started_at);
        // Both times are the process's notion of the store's clock. It lags by as long as an answer took: 22 ms were seen at load 15.
        if (waitedMs < 50) throw new Error(`waited only ${waitedMs} ms`);
      },
    },
  },
  failure: {
    shows: "a time that is none fails the step",
    steps: { it: { type: "delay", delay_until: "${input.at}" }, after: work({ depends_on: ["it"] }) },
    input: { at: "tomorrow" },
    ends: {
      status: "failed",
      steps: { it: "failed", after: "skipped" },
      errors: { it: "expression_failed" },
    },
  },
  retry: {
    cannot: "time passes, or was written wrongly",
    shows: "a time that is none is not tried again",
    steps: { it: { type: "delay", delay_until: "${input.at}", retry: soon } },
    input: { at: "tomorrow" },
    ends: {
      status: "failed",
      steps: { it: "failed" },
      never: ["step_retry_scheduled it"],
      atOnce: ["it"],
    },
  },
  timeout: {
    cannot: "its timeout is the delay itself",
    shows: "timeout_sec alone says how long it waits, and it succeeds then",
    steps: { it: { type: "delay", timeout_sec: 0.1 }, after: work({ depends_on: ["it"] }) },
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      never: ["step_timed_out it"],
    },
  },
  cancel: {
    shows: "a cancelled run does not wait for its end",
    steps: { it: { type: "delay", delay_sec: 3_600 }, after: work({ depends_on: ["it"] }) },
    script: async (scene, runId) => {
      await scene.reaches(runId, "it", "delay");
      await scene.cancel(runId);
    },
    ends: {
      status: "cancelled",
      steps: { it: "cancelled", after: "cancelled" },
      never: ["step_delay_completed it"],
    },
  },
  restart: {
    shows: "it survives its process and ends once",
    steps: { it: { type: "delay", delay_sec: 3.5 }, after: work({ depends_on: ["it"] }) },
    middle: (scene, runId) => scene.reaches(runId, "it", "delay"),
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      attempts: { it: 1, after: 1 },
      timeline: ["step_delay_started it", "step_delay_completed it"],
    },
  },
};
