// The planted bugs in the connections to Redis: replication, failover and encryption.
import type { TextPatch } from "../planted-bug.ts";

const durability = "test/conformance/redis-durability.test.ts";
const sentinel = "test/faults/redis-sentinel.test.ts";

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
