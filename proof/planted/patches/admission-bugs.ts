// Text patches of locks, admission and the stores.

import type { TextPatch } from "../planted-bug.ts";

const conformance = "test/conformance/store.test.ts";

export const plantedAdmissionBugs: readonly TextPatch[] = [
  {
    name: "release-without-token",
    what: "release does not compare the token: a stale owner frees the new owner's lock",
    edits: [
      {
        file: "src/adapters/operations/locks.ts",
        find: `  if (last?.token === token) {
    if (last.released)`,
        replace: `  if (last !== undefined) {
    if (last.released)`,
      },
    ],
    tests: [conformance],
  },
  {
    name: "release-without-token-lua",
    what: "the same in the Redis script",
    edits: [
      {
        file: "src/adapters/redis/lua/release-lock.lua",
        find: "if not lock or token ~= ARGV[2] then",
        replace: "if not lock then",
      },
    ],
    tests: [conformance],
  },
  {
    name: "renew-ignores-not-owned",
    what: "a definite not_owned of a renewal is taken for success: two owners work at once",
    edits: [
      {
        file: "src/control/locks/with-lease.ts",
        find: `    if (answer.kind === "renewed") return`,
        replace: `    if (answer.kind === "renewed" || answer.kind === "not_owned") return`,
      },
    ],
    tests: ["test/unit"],
  },
  {
    name: "unknown-as-busy",
    what: "an acquire without an answer counts as busy: the caller blocks on its own lock for a whole ttl",
    edits: [
      {
        file: "src/control/locks/acquire-lease.ts",
        find: `        unresolved = { ...attempt, openUntilMs: answer.notAfterMs };
`,
        replace: "",
      },
    ],
    tests: ["test/unit"],
  },
  {
    name: "unknown-as-refused",
    what: "an admission without an answer is told as a refusal: the client retries and the run exists twice",
    edits: [
      {
        file: "src/control/admission/start-run.ts",
        find: `  return answer.kind === "unknown" ? { kind: "outcome_unknown", runId } : answer;`,
        replace: `  return answer.kind === "unknown" ? { kind: "max_concurrent_runs_reached", limit: 0, active: 0 } : answer;`,
      },
    ],
    tests: ["test/unit"],
  },
  {
    name: "cleanup-on-unknown",
    what: "the reservation is cleaned up although the run may have been created",
    edits: [
      {
        file: "src/control/admission/start-under-lock.ts",
        find: `  if (answer.kind === "unknown") return { kind: "outcome_unknown", runId: asked.run.runId };`,
        replace: `  if (answer.kind === "unknown")
    return giveBack(pipeline, "create_failed", { kind: "outcome_unknown", runId: asked.run.runId });`,
      },
    ],
    tests: ["test/unit"],
  },
  {
    name: "count-then-create",
    what: "the atomic strategy counts in one operation and creates in another: a burst exceeds the limit",
    edits: [
      {
        file: "src/control/admission/start-run.ts",
        find: `  let answer: AdmissionAnswer;`,
        replace: `  const counted = await gate.ports.store.countActive({ tenant }, { deadlineMs: 1_000 });
  if (counted.kind === "counted" && counted.limit !== undefined && counted.active >= counted.limit) {
    return { kind: "max_concurrent_runs_reached", limit: counted.limit, active: counted.active };
  }
  let answer: AdmissionAnswer;`,
      },
      {
        file: "src/adapters/operations/runs.ts",
        find: `  return refusal ?? startNow(`,
        replace: `  return startNow(`,
      },
    ],
    tests: ["test/unit", conformance],
  },
  {
    name: "deadline-after-reply",
    what: "the lease counts from the reply instead of the send: work goes on after the lock has expired",
    edits: [
      {
        file: "src/control/locks/acquire-lease.ts",
        find: `return { kind: "acquired", fence: answer.fence, ...attempt };`,
        replace: `return { kind: "acquired", fence: answer.fence, ...attempt, since: instantOf(ports.clock) };`,
      },
    ],
    tests: ["test/unit"],
  },
  {
    name: "global-idempotency-key",
    what: "keys are not scoped by tenant: one tenant is answered with another's run",
    edits: [
      {
        file: "src/adapters/memory-store.ts",
        find: "this.#scopes(kind).get(scope)",
        replace: 'this.#scopes(kind).get(kind === "reservation" ? "all" : scope)',
      },
      {
        file: "src/adapters/memory-store.ts",
        find: "this.#scopes(kind).set(scope, found)",
        replace: 'this.#scopes(kind).set(kind === "reservation" ? "all" : scope, found)',
      },
    ],
    tests: [conformance],
  },
  {
    name: "global-idempotency-key-redis",
    what: "the same in the Redis keys",
    edits: [
      {
        file: "src/adapters/redis/keys.ts",
        find: "const reservationPrefix = `${start}wf:run:idempotency:${owner}:`;",
        replace: `const reservationPrefix = \`\${partitionPrefix(prefix, 0 as Partition)}wf:run:idempotency:\`;`,
      },
    ],
    tests: ["test/unit/redis-keys.test.ts", conformance],
  },
  {
    name: "skip-fence-comparison",
    what: "guarded writes compare the token but not the fence",
    edits: [
      {
        file: "src/adapters/operations/locks.ts",
        find: " || last.fence !== guard.fence",
        replace: "",
      },
    ],
    tests: [conformance],
  },
  {
    name: "skip-guard",
    what: "guarded writes are not compared with the current grant at all: a paused owner writes after it lost the lock",
    edits: [
      {
        file: "src/adapters/operations/locks.ts",
        find: `  const last = lastGrant(context, tenant, guard.lock);
  if (last === undefined || last.token`,
        replace: `  const last = lastGrant(context, tenant, guard.lock);
  if (last !== undefined) return "current";
  if (last === undefined || last.token`,
      },
    ],
    tests: [conformance],
  },
  {
    name: "skip-fence-comparison-lua",
    what: "the same in the Redis script that commits",
    edits: [
      {
        file: "src/adapters/redis/lua/commit.lua",
        find: `local ours = token == guardToken and grantFence == guardFence`,
        replace: `local ours = token == guardToken`,
      },
    ],
    tests: [conformance],
  },
  {
    name: "synchronous-off",
    what: "SQLite answers before the commit is on disk: a power cut loses answered runs",
    edits: [
      {
        file: "src/adapters/sqlite/open-database.ts",
        find: `["synchronous", 2]`,
        replace: `["synchronous", 0]`,
      },
    ],
    tests: ["test/conformance/sqlite-store.test.ts"],
  },
  {
    name: "create-without-limit-check",
    what: "createRun trusts the count made before it: mixing the strategies exceeds the limit",
    edits: [
      {
        file: "src/adapters/operations/runs.ts",
        find: `  if (refusal !== undefined) return refusal;
  if (guardVerdict`,
        replace: "  if (guardVerdict",
      },
    ],
    tests: [conformance],
  },
  {
    name: "create-without-limit-check-lua",
    what: "the same in the Redis script",
    edits: [
      {
        file: "src/adapters/redis/lua/create-run.lua",
        find: "--@include judge-gates\nif refused then return refused end\n",
        replace: "--@include judge-gates\n",
      },
    ],
    tests: [conformance],
  },
  {
    name: "effect-after-not-after",
    what: "a call that arrives after its caller gave up still has its effect",
    edits: [
      {
        file: "src/adapters/operations/perform.ts",
        find: `  if (storeTimeMs > call.notAfterMs) return { kind: "unavailable", cause: "too_late" };
`,
        replace: "",
      },
    ],
    tests: [conformance],
  },
  {
    name: "believe-any-refusal",
    what: "a refusal is believed although an earlier try of the same call can still arrive",
    edits: [
      {
        file: "src/control/ask-until-known.ts",
        find: "if (!open || answer.storeTimeMs > openUntilMs)",
        replace: "if (open || !open)",
      },
    ],
    tests: ["test/unit"],
  },
];
