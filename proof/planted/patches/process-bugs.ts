// Planted bugs in what processes tell each other, and in how they meet servers that are away.
import type { TextPatch } from "../planted-bug.ts";

export const plantedProcessBugs: readonly TextPatch[] = [
  {
    name: "handover-unannounced",
    what: "a lock handed on to somebody in another process is not announced: it is found at the next look",
    edits: [
      {
        file: "src/control/locks/public-locks.ts",
        find: "  if (!isHere) announceHandover(bus, target, token);\n",
        replace: "  if (isHere) announceHandover(bus, target, token);\n",
      },
    ],
    tests: ["test/unit/public-lock-queue.test.ts"],
  },
  {
    name: "handover-wakes-everybody",
    what: "an announced lock makes everybody who waits for it ask, and not the new owner alone",
    edits: [
      {
        file: "src/control/locks/lock-waiters.ts",
        find: "if (isMeant(token)) for",
        replace: "if (isMeant(token) || token !== undefined) for",
      },
    ],
    tests: ["test/unit/public-lock-queue.test.ts"],
  },
  {
    name: "changes-not-announced",
    what: "other processes are not told which tenants have changed: their streams wait for a poll",
    edits: [
      {
        file: "src/control/events/wakes.ts",
        find: `if (changed.size > 0) bus.announce`,
        replace: `if (changed.size > 1_000) bus.announce`,
      },
    ],
    tests: ["test/faults/announcements.test.ts"],
  },
  {
    name: "gap-after-a-silence",
    what: "a stream keeps the gap of busy times also between the changes of a run that is alone",
    edits: [
      {
        file: "src/control/events/tail.ts",
        find: "startedMs - readsAtOnce * gapMs",
        replace: "startedMs",
      },
    ],
    tests: ["test/unit/event-feeds.test.ts"],
  },
  {
    name: "start-without-a-bus-given-up",
    what: "a process that is started while NATS is away ends instead of waiting",
    edits: [
      {
        file: "src/embedded/wait-for-servers.ts",
        find: 'code === "bus_unavailable" ||',
        replace: 'code === "bus_unsuitable" ||',
      },
    ],
    tests: ["test/e2e/start-in-outage.test.ts"],
  },
  {
    name: "other-audit-secret-starts",
    what: "a process with another audit secret starts beside the first one: each takes the other's seals for tampering",
    edits: [
      {
        file: "src/domain/process-record.ts",
        find: 'new Set(["bus.kind", "audit.secret"])',
        replace: 'new Set(["bus.kind"])',
      },
    ],
    tests: ["test/unit/process-record.test.ts"],
  },
  {
    name: "new-master-not-asked",
    what: "a master that took over without min-replicas-to-write is used as if it had it",
    edits: [
      {
        file: "src/adapters/redis/watch-servers.ts",
        find: "if (!master.isReady || suits) continue;",
        replace: "if (!master.isReady || timesReady > 0) continue;",
      },
    ],
    tests: ["test/faults/server-standing.test.ts"],
  },
  {
    name: "repeats-by-message-alone",
    what: "a log line is taken for a repeat although it is about something else",
    edits: [
      {
        file: "src/adapters/system/system-log.ts",
        find: "JSON.stringify([level, message, texts])",
        replace: "JSON.stringify([level, message, texts.slice(9)])",
      },
    ],
    tests: ["test/unit/log-repeats.test.ts"],
  },
  {
    name: "backup-without-the-log",
    what: "the backup of a running server is a copy of its file: what is still in the log is missing",
    edits: [
      {
        file: "src/adapters/sqlite/running-backup.ts",
        find: "  database.exec(`VACUUM INTO '${names.copy.replaceAll(\"'\", \"''\")}'`);",
        replace: `  writeFileSync(names.copy, readFileSync(names.made.slice(0, -".backup".length)));`,
      },
    ],
    tests: ["test/e2e/backup.test.ts"],
  },
];
