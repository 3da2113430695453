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
        find: `  const strategy = assigned.policies["admission.strategy"];`,
        replace: `  const strategy = gate.config["admission.strategy"];`,
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
        find: "const earlier = busyResults.find(entry.entryId);",
        replace: "const earlier = busyResults.find(entry.kind);",
      },
    ],
    tests: ["test/unit/policy.test.ts", "test/unit/flow-policies.test.ts"],
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
        find: `other === undefined || own > other);`,
        replace: `other === undefined);`,
      },
    ],
    tests: ["test/unit/canary.test.ts"],
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
