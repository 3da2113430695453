// The workflows of a soak: together they leave every kind of record behind.

export const workTopic = "soak.work";
export const doomedTopic = "soak.doomed";

const work = { topic: workTopic };

export const workflows = {
  plain: { id: "plain", steps: { first: work, second: { ...work, depends_on: ["first"] } } },
  approved: {
    id: "approved",
    steps: {
      prepare: work,
      consent: { type: "approval", depends_on: ["prepare"] },
      finish: { ...work, depends_on: ["consent"] },
    },
  },
  /** Ends in a dead letter. */
  doomed: {
    id: "doomed",
    steps: { fail: { topic: doomedTopic, retry: { max_retries: 1, initial_backoff_sec: 0.1 } } },
  },
  /** More commits than rows of a timeline are kept. */
  chain: {
    id: "chain",
    steps: Object.fromEntries(
      Array.from({ length: 14 }, (_, index) => [
        `link${index + 1}`,
        index === 0 ? work : { ...work, depends_on: [`link${index}`] },
      ]),
    ),
  },
  /** A run inside a run, and a timer. */
  parent: {
    id: "parent",
    steps: {
      pause: { type: "delay", delay_sec: 0.5 },
      child: { type: "subworkflow", depends_on: ["pause"], input: { workflow_id: "plain" } },
    },
  },
} as const;

export type WorkflowName = keyof typeof workflows;
