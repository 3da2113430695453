// A job held by a worker of the SDK on a runtime whose clocks move on demand, for tests of a worker's parts.
import { type ClaimedJob, HeldJob } from "../../src/sdk/worker/job.ts";
import { testRuntime } from "./sdk-runtime.ts";

export const claim: ClaimedJob = {
  ...{ job_id: "run_1:pay@2", run_id: "run_1", step_id: "pay", attempt: 2, topic: "pay" },
  ...{ claim_token: "secret", fence: 7, lease_ms: 10_000, input: { amount: 3 } },
};
export const ids = { job_id: "run_1:pay@2", claim_token: "secret" };

export function hold(more: object = {}, around = testRuntime()) {
  const told: string[] = [];
  const held = new HeldJob(
    around,
    { ...claim, ...more },
    { since: around.now(), onStop: (reason) => told.push(reason), wantBeat: () => told.push("beat") },
  );
  return { around, held, told };
}
