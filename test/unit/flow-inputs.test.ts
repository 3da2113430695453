// What a worker gets as its input, however it came by its job.
import { describe, expect, test } from "vitest";
import { createControlPlane } from "../../src/control-plane.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";

const tenant = "acme" as TenantId;
const caller = { tenant, actor: "ann" };
const definition = {
  id: "chain",
  steps: {
    first: { topic: "work", input: { seen: "${input.order}" } },
    second: { topic: "work", depends_on: ["first"] },
    third: { topic: "work", depends_on: ["second"], retry: { max_retries: 1, initial_backoff_sec: 0.01 } },
  },
};

async function inputsOf(cachedRunsMax: number): Promise<Record<string, JsonValue>> {
  const plane = await createControlPlane({
    env: {},
    overrides: { "store.kind": "memory", "engine.cachedRunsMax": cachedRunsMax },
  });
  const inputs: Record<string, JsonValue> = {};
  try {
    await plane.api.saveWorkflow({ caller, definition });
    plane.startWorker({
      tenant,
      name: "worker",
      topics: ["work"],
      concurrency: 2,
      handler({ step, attempt, input }) {
        inputs[`${step}@${attempt}`] = input;
        if (step === "third" && attempt === 1) throw new Error("not yet");
        return {};
      },
    });
    const started = await plane.api.startWorkflow({ caller, workflow: "chain", input: { order: 7 } });
    const runId = (started as { readonly runId: RunId }).runId;
    await expect
      .poll(
        async () => {
          const found = await plane.api.getRun({ tenant, runId });
          return found.kind === "run" ? found.run.header.status : found.kind;
        },
        { timeout: 5_000 },
      )
      .toBe("succeeded");
    return inputs;
  } finally {
    await plane.close();
  }
}

const expected = {
  "first@1": { seen: 7 },
  "second@1": { order: 7 },
  "third@1": { order: 7 },
  "third@2": { order: 7 },
};

describe("the input of a job", () => {
  test("is its own or the run's when the job is born claimed", async () => {
    expect(await inputsOf(100)).toEqual(expected);
  });

  test("is the same when nothing is remembered of the run", async () => {
    expect(await inputsOf(0)).toEqual(expected);
  });
});
