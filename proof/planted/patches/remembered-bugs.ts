// The planted bugs in what a process remembers: a value that was not committed stays, or one that was is lost.
import type { TextPatch } from "../planted-bug.ts";

const deliver = "src/control/engine/deliver-entry.ts";
const results = ["test/unit/flow-duplicate-results.test.ts"];
const work = ["test/unit/remembered-work.test.ts"];
const settings = ["test/unit/remembered-settings.test.ts"];
const guesses = ["test/unit/remembered-guesses.test.ts"];

export const plantedRememberedBugs: readonly TextPatch[] = [
  {
    name: "refused-result-remembered",
    what: "a result is remembered before the store has taken it: the steps that follow read one that was refused",
    edits: [
      {
        file: deliver,
        find: `  const view = entry.kind === "result" ? withPayload(run, entry.payload) : run;`,
        replace: `  if (entry.kind === "result") run.records.set(entry.payload.key, entry.payload.body);
  const view = entry.kind === "result" ? withPayload(run, entry.payload) : run;`,
      },
    ],
    tests: results,
  },
  {
    name: "payload-not-remembered",
    what: "a result that was decided in advance is not remembered: every step that reads it costs a drain instead of one call",
    edits: [{ file: deliver, find: "      rememberPayload(proposed.run, entry);\n", replace: "" }],
    tests: results,
  },
  {
    name: "proposing-after-commit",
    what: "a run is remembered as proposing after its owner has committed: its later results are never decided in advance",
    edits: [
      {
        file: "src/control/engine/after-commit.ts",
        find: "  run.proposing = false;\n",
        replace: "",
      },
    ],
    tests: work,
  },
  {
    name: "settings-learnt-before-saved",
    what: "a change of settings is followed by the process that asked for it although the store refused it",
    edits: [
      {
        file: "src/control/tenants/tenants.ts",
        find: `    const answer = await ask(engine, "setTenant", request);\n    if (answer.kind === "saved") {\n      tenants.learn(tenant, settings);`,
        replace: `    tenants.learn(tenant, settings);\n    const answer = await ask(engine, "setTenant", request);\n    if (answer.kind === "saved") {`,
      },
    ],
    tests: settings,
  },
  {
    name: "own-settings-not-last-known",
    what: "while the platform's settings cannot be read, a process follows those before its own last change",
    edits: [
      {
        file: "src/control/policies/platform-settings.ts",
        find: "        known = fresh;\n",
        replace: "",
      },
    ],
    tests: guesses,
  },
  {
    name: "forgotten-hints-counted",
    what: "a job that was claimed is counted as waiting for ever: after some thousand jobs no others are remembered",
    edits: [
      {
        file: "src/control/jobs/hint-book.ts",
        find: "      total -= 1;\n      if (sizeOf(waiting) === 0)",
        replace: "      if (sizeOf(waiting) === 0)",
      },
    ],
    tests: guesses,
  },
  {
    name: "unknown-claim-uses-a-place",
    what: "a claim of which nobody knows what became uses up the place that was freed: the job waits a second more",
    edits: [
      {
        file: "src/control/pools/full-limits.ts",
        find: "      for (const full of known(tenant, place)) full.allowance += 1;\n    },\n    freed",
        replace: "      for (const full of known(tenant, place)) full.allowance += 0;\n    },\n    freed",
      },
    ],
    tests: guesses,
  },
  {
    name: "store-time-never-back",
    what: "after a failover to a server whose clock is behind, timers are set by the time of the old one",
    edits: [
      {
        file: "src/control/engine/store-time.ts",
        find: "      knownMs = storeTimeMs;",
        replace: "      knownMs = Math.max(storeTimeMs, knownMs ?? 0);",
      },
    ],
    tests: guesses,
  },
  {
    name: "source-sent-without-asking",
    what: "a script that the new holder of moving keys does not know is sent without ASKING: it goes back and forth and has no effect",
    edits: [
      {
        file: "src/adapters/redis/scripts.ts",
        find: `      command = ["EVAL", run.script.source, ...run.operands];`,
        replace: `      command = ["EVAL", run.script.source, ...run.operands];\n      options = replicas;`,
      },
    ],
    tests: ["test/unit/redis-script-sends.test.ts"],
  },
];
