// The planted bugs in the queues of locks and in the breaking of locks.
import type { TextPatch } from "../planted-bug.ts";

const conformance = "test/conformance/store.test.ts";

export const plantedLockBugs: readonly TextPatch[] = [
  {
    name: "one-token-for-all-tries",
    what: "a contender keeps its token from try to try: its lease counts from the first one, long before the grant",
    edits: [
      {
        file: "src/control/locks/acquire-lease.ts",
        find: "const attempt = unresolved ?? { token: random.token() as LockToken, since: instantOf(ports.clock) };",
        replace:
          "const attempt = unresolved ?? { token: `try-${startedMs}` as LockToken, since: instantOf(ports.clock) };",
      },
    ],
    tests: ["test/unit/lease-waiting.test.ts"],
  },
  {
    name: "overtake-queue",
    what: "the first to ask takes a lock that has expired: those who queue for it are overtaken",
    edits: [
      {
        file: "src/adapters/operations/locks.ts",
        find: "if (holder === undefined && (head === undefined || head.token === token)) {",
        replace: "if (holder === undefined) {",
      },
    ],
    tests: [conformance],
  },
  {
    name: "overtake-queue-lua",
    what: "the same in the Redis script",
    edits: [
      {
        file: "src/adapters/redis/lua/acquire-lock.lua",
        find: "if not lock and (not head or head == token) then",
        replace: "if not lock then",
      },
    ],
    tests: [conformance],
  },
  {
    name: "grant-silent-ticket",
    what: "a lock is handed on to a waiter that was not heard of for too long: nobody uses it for a whole ttl",
    edits: [
      {
        file: "src/adapters/operations/tickets.ts",
        find: "live: tickets.filter(({ expiresAtMs }) => now <= expiresAtMs),",
        replace: "live: tickets,",
      },
    ],
    tests: [conformance],
  },
  {
    name: "grant-silent-ticket-lua",
    what: "the same in the Redis script",
    edits: [
      {
        file: "src/adapters/redis/lua/parts/lock-queue.lua",
        find: `silent = redis.call("ZRANGE", endsKey, "-inf", "(" .. now, "BYSCORE")`,
        replace: `silent = redis.call("ZRANGE", endsKey, "-inf", "(0", "BYSCORE")`,
      },
    ],
    tests: [conformance],
  },
  {
    name: "break-without-fence",
    what: "an operator who saw an old holder takes the lock from the new one",
    edits: [
      {
        file: "src/adapters/operations/locks.ts",
        find: `  if (last.fence !== fence) return { kind: "superseded", fence: last.fence };
`,
        replace: "",
      },
    ],
    tests: [conformance],
  },
  {
    name: "break-without-fence-lua",
    what: "the same in the Redis script",
    edits: [
      {
        file: "src/adapters/redis/lua/break-lock.lua",
        find: `if fence ~= ARGV[2] then return { "superseded", now, "fence", tonumber(fence) } end
`,
        replace: "",
      },
    ],
    tests: [conformance],
  },
  {
    name: "broken-holder-continues",
    what: "a holder that goes on after its lock expired takes a broken lock again with its next write",
    edits: [
      {
        file: "src/adapters/operations/locks.ts",
        find: `  return guard.policy === "continue" && !hasGivenUp(last) ? "retake" : "stale";`,
        replace: `  return guard.policy === "continue" && !last.released ? "retake" : "stale";`,
      },
    ],
    tests: [conformance],
  },
  {
    name: "given-token-queues-again",
    what: "a late duplicate of an ask takes a place for somebody who gave the lock back: it is handed on to nobody",
    edits: [
      {
        file: "src/adapters/redis/lua/acquire-lock.lua",
        find: `if remembers and (isEnded("given " .. token) or`,
        replace: "if remembers and (",
      },
    ],
    tests: [conformance],
  },
];
