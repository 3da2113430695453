// The planted bugs in the connections to Redis: replication, failover and encryption.
import type { TextPatch } from "../planted-bug.ts";

const durability = "test/conformance/redis-durability.test.ts";
const sentinel = "test/faults/redis-sentinel.test.ts";
const batches = "test/conformance/redis-batches.test.ts";
const gathering = "src/adapters/redis/gather-calls.ts";

export const plantedRedisBugs: readonly TextPatch[] = [
  {
    name: "redis-no-wait",
    what: "durability replicated sends no WAIT: a failover loses starts that were acknowledged",
    edits: [
      {
        file: "src/adapters/redis/redis-store.ts",
        find: "const replicas = isPromise(name, request) ? parts.replicas : {};",
        replace: "const replicas: typeof parts.replicas = {};",
      },
    ],
    tests: [durability],
  },
  {
    name: "redis-batch-not-waited-for",
    what: "calls that share a script call are answered before a replica has what they did: a failover loses acknowledged starts and results",
    edits: [
      {
        file: gathering,
        find: "const run = { partition, script: scripts[name], operands, withinMs, ...replicas };",
        replace: "const run = { partition, script: scripts[name], operands, withinMs };",
      },
    ],
    tests: [durability],
  },
  {
    name: "redis-batch-fails-together",
    what: "one call that fails makes all that share its script call fail, although those before it had their effect",
    edits: [
      {
        file: "src/adapters/redis/lua/parts/perform-each.lua",
        find: "isDone, answer = pcall(perform, arguments)",
        replace: "answer = perform(arguments)",
      },
    ],
    tests: [batches],
  },
  {
    name: "redis-batch-answers-shifted",
    what: "after a call that came too late, the others of its script call are told one another's answers",
    edits: [
      {
        file: "src/adapters/redis/lua/parts/perform-each.lua",
        find: "answers[item] = isDone and answer or",
        replace: 'answers[#answers + (answer[1] == "too_late" and 0 or 1)] = isDone and answer or',
      },
    ],
    tests: [batches],
  },
  {
    name: "redis-batch-mixes-partitions",
    what: "calls of tenants of two partitions share a script call: one tenant's run is written among another partition's keys",
    edits: [
      {
        file: gathering,
        find: "const open = this.#open[partition];",
        replace: "const open = this.#open[0];",
      },
      { file: gathering, find: "this.#open[partition] = batch;", replace: "this.#open[0] = batch;" },
      {
        file: gathering,
        find: "#close({ partition }: Batch<Name>): void {\n    this.#open[partition] = undefined;",
        replace: "#close(_batch: Batch<Name>): void {\n    this.#open[0] = undefined;",
      },
    ],
    tests: [batches],
  },
  {
    name: "redis-batch-counts-once",
    what: "the starts of one script call all see the number of active runs from before it: together they go past the tenant's limit",
    edits: [
      {
        file: "src/adapters/redis/lua/parts/insert-run.lua",
        find: "  known.active = known.active + 1\n",
        replace: "",
      },
    ],
    tests: [batches],
  },
  {
    name: "redis-batch-one-not-after",
    what: "calls that share a script call share the first one's notAfterMs: a late one has its effect after its caller gave up on it",
    edits: [
      {
        file: "src/adapters/redis/lua/parts/perform-each.lua",
        find: "if nowMs <= tonumber(arguments[1]) then",
        replace: "if nowMs <= tonumber(ARGV[settingsEnd + 2]) then",
      },
    ],
    tests: [batches],
  },
  {
    name: "redis-replay-not-waited-for",
    what: "with the lock strategy, a repeated start is told of its run before a replica has it",
    edits: [
      { file: "src/adapters/redis/durability.ts", find: 'reserve: "always",', replace: 'reserve: "never",' },
    ],
    tests: [durability],
  },
  {
    name: "redis-wait-without-replicas",
    what: "a WAIT that no replica answered counts as acknowledged",
    edits: [
      {
        file: "src/adapters/redis/replica-waits.ts",
        find: "if (Number(replicas) >= 1) return undefined;",
        replace: "if (Number(replicas) >= 0) return undefined;",
      },
    ],
    tests: ["test/unit/redis-replica-waits.test.ts", durability],
  },
  {
    name: "redis-wait-on-another-connection",
    what: "WAIT is sent after a reconnect, where it speaks of other changes than those it should cover",
    edits: [
      {
        file: "src/adapters/redis/replica-waits.ts",
        find: "if (batch.socketEpoch !== this.#client.socketEpoch) {",
        replace: "if (batch.socketEpoch > this.#client.socketEpoch) {",
      },
    ],
    tests: ["test/unit/redis-replica-waits.test.ts"],
  },
  {
    name: "redis-send-again",
    what: "a command whose connection was lost is sent again, although it may have been executed",
    edits: [
      {
        file: "src/adapters/redis/scripts.ts",
        find: "  if (isSuspicious(delivery)) topology.suspect();\n",
        replace:
          '  if (delivery.kind === "lost") delivery = await connection.send(command, run.withinMs, options);\n' +
          "  if (isSuspicious(delivery)) topology.suspect();\n",
      },
    ],
    tests: [sentinel],
  },
  {
    name: "redis-stale-master",
    what: "a master that answers READONLY is kept: nothing is written until somebody restarts the process",
    edits: [
      {
        file: "src/adapters/redis/scripts.ts",
        find: "(READONLY|MASTERDOWN",
        replace: "(MASTERDOWN",
      },
    ],
    tests: [sentinel],
  },
  {
    name: "redis-master-unverified",
    what: "the server that Sentinels name is used without asking whether it is a master",
    edits: [
      {
        file: "src/adapters/redis/sentinel-topology.ts",
        find: 'return role === "master"\n',
        replace: 'return role !== ""\n',
      },
    ],
    tests: [sentinel],
  },
  {
    name: "redis-tls-unverified",
    what: "certificates are not verified: anybody on the way can pose as the server",
    edits: [
      {
        file: "src/adapters/redis/connection.ts",
        find: "{ tls: true, ...tls }",
        replace: "{ tls: true, ...tls, rejectUnauthorized: false }",
      },
    ],
    tests: ["test/conformance/redis-tls.test.ts"],
  },
];
