// The terms of each kind of lock: every number comes from the setting of that lock, and what is not a setting is as it must be.
import { expect, test } from "vitest";
import type { Config } from "../../src/config.ts";
import { lockTerms, runLockTerms, waitingBy } from "../../src/control/locks/lease-terms.ts";
import { renewalRuleBy } from "../../src/domain/lock.ts";
import type { Policies } from "../../src/domain/tenant.ts";

/** Every setting gives its own name, where it is not a number that something is made of. */
const numbers: Readonly<Record<string, number>> = {
  ...{ "locks.admission.ttlMs": 8_000, "locks.run.handoffTtlMs": 80_000, "locks.approval.ttlMs": 15_999 },
};
const config = new Proxy({} as Config, { get: (_, name: string) => numbers[name] ?? name });
const never = { policy: "fence", failuresMax: 1 };
const around = (lock: string) => ({
  ...{ kind: "around", baseMs: `locks.${lock}.pollMs`, jitterFraction: "locks.pollJitterFraction" },
});

const run = (rule: object) => ({
  ...{ ttlMs: "locks.run.ttlMs", waitMs: 0, wait: "jitter", poll: around("run"), rule },
  ...{ callTimeoutMs: "locks.run.callTimeoutMs", releaseTimeoutMs: "locks.run.releaseTimeoutMs" },
  renewEveryMs: "locks.run.renewEveryMs",
});
const byRisk = (choice: "by_risk" | "fence" | "continue") => ({
  low: run(renewalRuleBy(choice, "low")),
  standard: run(renewalRuleBy(choice, "standard")),
  high: run(renewalRuleBy(choice, "high")),
});
const admission = (wait: string) => ({
  ...{ ttlMs: 8_000, waitMs: "locks.admission.waitMs", wait, callTimeoutMs: 1_000, rule: never },
  poll: { kind: "exponential", baseMs: "locks.admission.pollMs", maxMs: "locks.admission.pollMaxMs" },
  releaseTimeoutMs: "locks.admission.releaseTimeoutMs",
});
const approval = {
  ...{
    ttlMs: 15_999,
    waitMs: "locks.approval.waitMs",
    wait: "jitter",
    poll: around("approval"),
    rule: never,
  },
  ...{ callTimeoutMs: 15_999 / 8, releaseTimeoutMs: "locks.approval.releaseTimeoutMs" },
};

test("each number comes from the setting of its lock", () => {
  expect(lockTerms(config)).toEqual({
    handoff: {
      ...{ ttlMs: 80_000, waitMs: 0, wait: "jitter", poll: around("run"), rule: never },
      ...{ callTimeoutMs: 2_000, releaseTimeoutMs: "locks.run.releaseTimeoutMs" },
    },
    job: {
      ...{ ttlMs: "locks.job.ttlMs", waitMs: "locks.job.waitMs", wait: "jitter", poll: around("job") },
      ...{ callTimeoutMs: "locks.job.callTimeoutMs", releaseTimeoutMs: "locks.job.releaseTimeoutMs" },
      rule: { policy: "fence", failuresMax: "locks.job.failuresMax" },
      renewEveryMs: "locks.job.renewEveryMs",
    },
    approval,
    admission: { fixed: admission("fixed"), jitter: admission("jitter") },
    run: { by_risk: byRisk("by_risk"), fence: byRisk("fence"), continue: byRisk("continue") },
  });
});

test("a request that meets a busy run waits, an engine does not", () => {
  expect(runLockTerms(config, "low", "wait", "fence").waitMs).toBe("locks.run.waitMs");
  expect(runLockTerms(config, "low", "try_once", "fence").waitMs).toBe(0);
});

test("the waits that a run's policies name take the place of the process's own", () => {
  const policies = {
    ...{ "locks.admission.pollMs": 11, "locks.admission.pollMaxMs": 12, "locks.admission.waitMs": 13 },
    ...{ "locks.approval.pollMs": 21, "locks.approval.waitMs": 23 },
  } as Policies;
  const terms = lockTerms(config);
  expect(waitingBy(policies, "admission", terms.admission.fixed)).toEqual({
    ...{ ...admission("fixed"), waitMs: 13, poll: { kind: "exponential", baseMs: 11, maxMs: 12 } },
  });
  expect(waitingBy(policies, "approval", terms.approval)).toEqual({
    ...{ ...approval, waitMs: 23, poll: { ...around("approval"), baseMs: 21 } },
  });
});
