// The workflows of a chaos run.

export const workTopic = "work";

/** Many more than random failures take: a step that fails for good would be a finding. */
const retry = { max_retries: 8, initial_backoff_sec: 0.1, max_backoff_sec: 0.5 };
const work = { topic: workTopic, retry };

/** Attempts of a step: retries, workers that fell silent, and jobs that were handed back by workers that were stopped. */
export const attemptsMax = 1 + retry.max_retries + 4 + 20;

export const idleWorkflow = { id: "idle", steps: { wait: { topic: "nobody" } } };

export const workflows = {
  /** Three steps, the second of which is two at once. */
  plain: {
    id: "plain",
    steps: {
      prepare: work,
      both: { type: "parallel", depends_on: ["prepare"], input: { steps: ["left", "right"] } },
      left: work,
      right: work,
      finish: { ...work, depends_on: ["both"] },
    },
  },
  approved: {
    id: "approved",
    steps: {
      prepare: work,
      consent: { type: "approval", depends_on: ["prepare"] },
      finish: { ...work, depends_on: ["consent"] },
    },
  },
  risky: {
    id: "risky",
    risk: "high",
    steps: { prepare: work, finish: { ...work, depends_on: ["prepare"] } },
  },
};

export const allWorkflows = Object.values(workflows);
