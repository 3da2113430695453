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

/** Shared by the workflows that name it. */
export const sharedGate = { name: "crm", max: 2 };
const shared = { name: sharedGate.name, at_limit: "queue" };
const byCustomer = (at_limit: string) => ({ key: `$${"{input.customer}"}`, max: 1, at_limit });
const twoSteps = { prepare: work, finish: { ...work, depends_on: ["prepare"] } };
/** Some end by it while servers are away: what waits stays within what the end of the run can work off. */
const queue = { deadline_sec: 30 };

/** Their runs wait: one of a customer at a time, two of the shared gate, or only the newest. */
export const queuedWorkflows = {
  keyed: { id: "keyed", concurrency: [byCustomer("queue"), shared], queue, steps: twoSteps },
  shared: { id: "shared", concurrency: [shared], queue, steps: { only: work } },
  newest: { id: "newest", concurrency: [byCustomer("cancel_in_progress")], queue, steps: twoSteps },
  latest: { id: "latest", concurrency: [byCustomer("replace_queued")], queue, steps: twoSteps },
};

/** The gates of a run, as a history names them; undefined where it has none. */
export function gatesOf(workflow: string, customer: string): string | undefined {
  const own = Object.values(queuedWorkflows).find(({ id }) => id === workflow);
  return own?.concurrency
    .map((gate) =>
      "name" in gate ? `${gate.name}=${sharedGate.max}` : `${workflow}:${customer}=${gate.max}`,
    )
    .join(" ");
}
