// How a run ended, as anybody may read it: which steps and the run itself were completed, and what each step recorded.

/** Any client that reads JSON by its path under /api/v1. */
type Reader = { get<Body>(path: string): Promise<{ readonly body: Body }> };

export type RunEnding = {
  /** The steps in the order of their completion, and `run`; twice what was completed twice. */
  readonly completed: readonly string[];
  /** What the step's output says of its effect. */
  recorded(step: string): string;
};

export async function readEnding(client: Reader, runId: string): Promise<RunEnding> {
  const timeline = await client.get<{
    readonly items: ReadonlyArray<{ readonly type: string; readonly step?: string }>;
  }>(`/workflow-runs/${runId}/timeline?limit=200`);
  const run = await client.get<{
    readonly steps: Readonly<Record<string, { readonly output: { readonly effect: string } }>>;
  }>(`/workflow-runs/${runId}`);
  return {
    completed: timeline.body.items.flatMap(({ type, step }) =>
      type === "run_completed" || type === "step_completed" ? [step ?? "run"] : [],
    ),
    recorded: (step) => run.body.steps[step]?.output.effect ?? "nothing",
  };
}
