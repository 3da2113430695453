// Planted bugs in policies, rollouts and canaries.
import type { TextPatch } from "../planted-bug.ts";

export const plantedPolicyBugs: readonly TextPatch[] = [
  {
    name: "idle-policy-looks-used",
    what: "a policy that no run looks at is taken for one that acts, because another tenant's runs do",
    edits: [
      {
        file: "src/domain/policy.ts",
        find: `own[needs.name] === undefined ? shared[needs.name] : undefined,`,
        replace: `own[name] === undefined ? undefined : shared[needs.name],`,
      },
    ],
    tests: ["test/unit/policy.test.ts"],
  },
  {
    name: "rollout-redrawn",
    what: "who is in a rollout depends on its percentage: raising it takes runs out again",
    edits: [
      {
        file: "src/domain/policy.ts",
        find: 'hash("sha256", `${id} ${runId}`)',
        replace: 'hash("sha256", `${id} ${percent} ${runId}`)',
      },
    ],
    tests: ["test/unit/policy.test.ts"],
  },
  {
    name: "platform-rollout-first",
    what: "the platform's rollout wins over what a tenant has set for itself",
    edits: [
      {
        file: "src/domain/policy.ts",
        find: `    ["tenant", policiesSet(tenant)],
    ["platform_rollout", (ofPlatform ? platform.rollout?.policies : undefined) ?? {}],
`,
        replace: `    ["platform_rollout", (ofPlatform ? platform.rollout?.policies : undefined) ?? {}],
    ["tenant", policiesSet(tenant)],
`,
      },
    ],
    tests: ["test/unit/policy.test.ts"],
  },
  {
    name: "high-risk-continues",
    what: "the renewal policy continue also lets work of high risk go on without its lock",
    edits: [
      {
        file: "src/domain/lock.ts",
        find: `if (risk === "high" || choice === "by_risk")`,
        replace: `if (choice === "by_risk")`,
      },
    ],
    tests: ["test/unit/policy.test.ts", "test/unit/flow-policies.test.ts"],
  },
  {
    name: "number-policy-ignored",
    what: "a number that a tenant or the platform has set for all runs is stored and shown, and no run follows it",
    edits: [
      {
        file: "src/domain/policy.ts",
        find: `  return { ...Object.fromEntries(choices), ...settings.policyNumbers };`,
        replace: `  return Object.fromEntries(choices);`,
      },
    ],
    tests: ["test/unit/policy.test.ts", "test/unit/flow-policy-numbers.test.ts"],
  },
  {
    name: "lock-wait-policy-ignored",
    what: "a lock is waited for as the process's settings say, whatever the run's policies do",
    edits: [
      {
        file: "src/control/locks/lease-terms.ts",
        find: "  return { ...terms, waitMs: policies[`locks.${lock}.waitMs`], poll };",
        replace: "  return { ...terms, poll };",
      },
    ],
    tests: ["test/unit/flow-policy-numbers.test.ts"],
  },
  {
    name: "number-policy-unbounded",
    what: "a policy takes any number, also one that no process would start with",
    edits: [
      {
        file: "src/domain/policy.ts",
        find: `row.kind === "number" ? isWithinBounds(row, value) :`,
        replace: `row.kind === "number" ? typeof value === "number" :`,
      },
    ],
    tests: ["test/unit/policy.test.ts", "test/unit/flow-policy-numbers.test.ts"],
  },
  {
    name: "clashing-numbers-accepted",
    what: "numbers are checked one by one when they are set, and not whether they fit each other",
    edits: [
      {
        file: "src/control/policies/policies.ts",
        find: `.find((problem) => !known.includes(problem));`,
        replace: `.find((problem) => known.includes(problem));`,
      },
    ],
    tests: ["test/unit/flow-policy-numbers.test.ts"],
  },
  {
    name: "assigned-strategy-ignored",
    what: "a start is decided by the process's strategy, whatever the tenant's settings and rollouts assign to the run",
    edits: [
      {
        file: "src/control/admission/start-run.ts",
        find: `isAtomic(run, settings) ? "atomic" : assigned.policies["admission.strategy"];`,
        replace: `isAtomic(run, settings) ? "atomic" : gate.config["admission.strategy"];`,
      },
    ],
    tests: ["test/unit/flow-policies.test.ts", "test/unit/start-run-strategies.test.ts"],
  },
  {
    name: "busy-result-measured-anew",
    what: "a result that is reported again after a busy run is measured from its last report",
    edits: [
      {
        file: "src/control/jobs/report-result.ts",
        find: "busyResults.find(entryId)",
        replace: "busyResults.find(path)",
      },
    ],
    tests: ["test/unit/policy.test.ts", "test/unit/flow-policies.test.ts"],
  },
  {
    name: "redelivered-result-measured-anew",
    what: "a result of the bus that another process gets the second time is measured as if it had just arrived",
    edits: [
      {
        file: "src/control/jobs/hear-results.ts",
        find: `{ path: "bus", deliveries, ageMs }`,
        replace: `{ path: "bus", deliveries: deliveries === 0 ? 0 : 1, ageMs: 0 * ageMs }`,
      },
    ],
    tests: ["test/unit/flow-result-deliveries.test.ts"],
  },
  {
    name: "worker-not-believed-about-deliveries",
    what: "reports that go to one process after another are never counted to the end: the result is reported for ever",
    edits: [
      {
        file: "src/control/jobs/report-result.ts",
        find: `deliveries: delivery, ageMs: waitedMs }`,
        replace: `deliveries: Math.min(1, delivery), ageMs: waitedMs }`,
      },
    ],
    tests: ["test/unit/flow-result-deliveries.test.ts"],
  },
  {
    name: "exhausted-result-without-letter",
    what: "a result is refused for good although its dead letter could not be written",
    edits: [
      {
        file: "src/control/jobs/report-result.ts",
        find: `return letter.kind === "written" ? { kind: because } : letter;`,
        replace: `return letter.kind === "unavailable" ? { kind: because } : { kind: because };`,
      },
    ],
    tests: ["test/unit/flow-result-deliveries.test.ts"],
  },
  {
    name: "gateway-polls-not-counted",
    what: "tries of a busy run inside one request are in no metric",
    edits: [
      {
        file: "src/control/jobs/report-result.ts",
        find: "    countBusyRetry(engine.ports, { path, policy: pollPolicy, delayMs: pauseMs });\n",
        replace: "",
      },
    ],
    tests: ["test/unit/flow-retry-results.test.ts"],
  },
  {
    name: "canary-row-not-in-a-row",
    what: "a guard that held in between still counts as broken in a row",
    edits: [
      {
        file: "src/domain/canary.ts",
        find: `brokenInARow: findings.length - 1 - lastGood,`,
        replace: `brokenInARow: lastGood < 0 ? findings.length : findings.filter(({ verdict }) => verdict === "broken").length,`,
      },
    ],
    tests: ["test/unit/canary.test.ts"],
  },
  {
    name: "canary-kept-on-one-measure",
    what: "a canary is kept although one of the two measures got worse",
    edits: [
      {
        file: "src/domain/canary.ts",
        find: `compared.find(({ finding }) => finding === "worse")`,
        replace: `compared.every(({ finding }) => finding === "worse") ? compared[0] : undefined`,
      },
    ],
    tests: ["test/unit/canary.test.ts"],
  },
  {
    name: "canary-kept-on-nothing",
    what: "a measure that is zero on both sides counts as one that got better",
    edits: [
      {
        file: "src/domain/canary.ts",
        find: "const isBetter = other > 0 && own <=",
        replace: "const isBetter = own <=",
      },
    ],
    tests: ["test/unit/canary.test.ts"],
  },
  {
    name: "canary-checkpoint-added-up",
    what: "a process adds a checkpoint to what it has heard itself: samples count twice",
    edits: [
      {
        file: "src/control/canaries/collected-samples.ts",
        find: "return amountOf(based) > amountOf(heard) ? based : heard;",
        replace: "return amountOf(based) > 0 ? mergedArms(base.arms, heard) : heard;",
      },
    ],
    tests: ["test/unit/flow-canary-samples.test.ts"],
  },
  {
    name: "canary-blamed-for-the-one-before",
    what: "a result that came before the canary began counts for it, with all its tries under other policies",
    edits: [
      {
        file: "src/control/canaries/samples.ts",
        find: "const isOlder = storeTime.nowMs() - ageMs < startedAtMs;",
        replace: "const isOlder = ageMs < 0 && startedAtMs < 0;",
      },
    ],
    tests: ["test/unit/flow-canary-samples.test.ts"],
  },
  {
    name: "canary-half-done",
    what: "a canary whose process died after the decision is not finished by others",
    edits: [
      {
        file: "src/control/canaries/watch-canaries.ts",
        find: `isForgotten || state === "rolling_back" || state === "keeping"`,
        replace: `isForgotten`,
      },
    ],
    tests: ["test/unit/flow-canary.test.ts"],
  },
  {
    name: "canary-samples-untold",
    what: "a process keeps its samples to itself: canaries are judged by each process's own",
    edits: [
      {
        file: "src/control/canaries/watch-canaries.ts",
        find: `    if (news.samples !== undefined) collected.add(news.samples);
`,
        replace: "",
      },
    ],
    tests: ["test/faults/policies.test.ts"],
  },
];
