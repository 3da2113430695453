// The workflow of a steady load: two steps, one after the other, for the drill's own workers.

export const workflowId = "drill-load";
export const topic = "drill-work";
export const lastStep = "finish";

export const loadWorkflow = {
  id: workflowId,
  name: "Steady load of a drill",
  steps: {
    prepare: { type: "worker", topic },
    [lastStep]: { type: "worker", topic, depends_on: ["prepare"] },
  },
} as const;
