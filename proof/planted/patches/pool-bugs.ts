// The planted bugs in pools and limits on running jobs.
import type { TextPatch } from "../planted-bug.ts";

const conformance = "test/conformance/store.test.ts";
const flows = "test/unit/flow-limits.test.ts";

export const plantedPoolBugs: readonly TextPatch[] = [
  {
    name: "limit-counts-queued",
    what: "a topic's limit counts jobs that wait, too: a backlog keeps its own topic from running",
    edits: [
      {
        file: "src/adapters/operations/places.ts",
        find: `  return records.size("running", topicScope(tenant, topic));`,
        replace: `  return records.size("running", topicScope(tenant, topic)) + records.size("ready", \`\${tenant}/\${topic}\`);`,
      },
    ],
    tests: [conformance],
  },
  {
    name: "lost-claim-keeps-its-place",
    what: "the place of a worker that died is never free again: each crash lowers the limit for good",
    edits: [
      {
        file: "src/adapters/redis/lua/sweep.lua",
        find: `    redis.call("ZREM", runningKey, "t:" .. topic .. " " .. jobId, "p:" .. pool .. " " .. jobId)
`,
        replace: "",
      },
    ],
    tests: [conformance],
  },
  {
    name: "born-claimed-past-the-limit",
    what: "a job that is born claimed is not asked whether there is a place for it",
    edits: [
      {
        file: "src/adapters/operations/jobs.ts",
        find: "  if (placeRefusal(context, tenant, placeOf(job, terms)) !== undefined) return undefined;\n",
        replace: "",
      },
    ],
    tests: [conformance],
  },
  {
    name: "born-claimed-past-the-limit-lua",
    what: "the same in the Redis scripts",
    edits: [
      {
        file: "src/adapters/redis/lua/parts/plan-change.lua",
        find: "if pool and places.refusal(topic, pool) then\n",
        replace: "if pool == 0 then\n",
      },
    ],
    tests: [conformance],
  },
  {
    name: "batch-forgets-its-own-claims",
    what: "a batch of claims does not see the places that it takes itself: as many as it is long go past the limit",
    edits: [
      {
        file: "src/adapters/redis/lua/parts/places.lua",
        find: `    places.change(ofTopic, 1)
`,
        replace: "",
      },
    ],
    tests: [conformance],
  },
  {
    name: "drain-ignored",
    what: "workers of a draining pool still get jobs: a deployment kills work that has just begun",
    edits: [
      {
        file: "src/domain/job.ts",
        find: `  if (ofPool?.draining === true) return "pool_draining";
`,
        replace: "",
      },
    ],
    tests: [conformance],
  },
  {
    name: "freed-place-without-wake-up",
    what: "nobody is told of a freed place: a topic at its limit does one job per place and second",
    edits: [
      {
        file: "src/control/pools/places.ts",
        find: `    placeFreed(engine, (request as RequestOf<"deliver">).tenant, answer.freed as Place);
`,
        replace: "",
      },
    ],
    tests: [flows],
  },
  {
    name: "claims-against-a-full-limit",
    what: "jobs of a full topic are claimed again and again: every hint and every poll costs the store a claim for each",
    edits: [
      {
        file: "src/control/jobs/offers.ts",
        find: "each.free() > 0 && limits.mayTry(tenant, placeOf(each, topic))",
        replace: "each.free() > 0",
      },
      {
        file: "src/control/jobs/claim-jobs.ts",
        find: `answer.kind === "judged" && (granted < batch.length || isRated)`,
        replace: "false",
      },
    ],
    tests: [flows],
  },
  {
    name: "burst-herds-to-the-first",
    what: "a burst goes to the worker that polled first, whatever it has already",
    edits: [
      {
        file: "src/control/jobs/offers.ts",
        find: "if (best === undefined || offer.running() < best.running()) best = offer;",
        replace: "if (best === undefined) best = offer;",
      },
    ],
    tests: [flows],
  },
  {
    name: "place-kept-by-a-proposal",
    what: "a proposal whose run was committed by its owner meanwhile keeps its places: the worker waits in vain",
    edits: [
      {
        file: "src/control/engine/deliver-entry.ts",
        find: "  const withdraw = () => {\n",
        replace: "  const withdraw = () => {\n    if (!run.proposing) return;\n",
      },
    ],
    tests: ["test/unit/flow-offers.test.ts"],
  },
  {
    name: "worker-ends-with-a-thrown-call",
    what: "one store call that throws ends the loop of a worker in this process: it sends no heartbeat any more",
    edits: [
      {
        file: "src/control/jobs/in-process-worker.ts",
        find: "      failures += 1;\n",
        replace: "      failures += 1;\n      return;\n",
      },
    ],
    tests: ["test/unit/flow-worker-failures.test.ts"],
  },
  {
    name: "place-lost-with-a-thrown-call",
    what: "a store call that throws keeps the places promised in it: the worker waits in vain until it asks again",
    edits: [
      {
        file: "src/control/engine/deliver-entry.ts",
        find: "    proposed?.withdraw();\n",
        replace: "",
      },
    ],
    tests: ["test/unit/flow-offers.test.ts"],
  },
  {
    name: "poll-leaves-before-its-claim",
    what: "a poll that ends while its claim is under way is answered without the job, which then waits for its lease",
    edits: [
      {
        file: "src/control/jobs/poll-jobs.ts",
        find: "    if (!offer.isPromised()) finish();",
        replace: "    finish();",
      },
    ],
    tests: ["test/unit/flow-offers.test.ts"],
  },
  {
    name: "poll-sleeps-through-its-job",
    what: "a poll that has its job is not woken by it: the worker hears of it when the poll's time is over",
    edits: [
      {
        file: "src/control/jobs/poll-jobs.ts",
        find: "      else if (jobs.length > 0) leave();\n",
        replace: "",
      },
    ],
    tests: ["test/unit/flow-polls.test.ts"],
  },
];
