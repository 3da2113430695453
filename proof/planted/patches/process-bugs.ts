// Planted bugs in the announcements between processes.
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
        find: "if (isMeant(token)) waiter.wake();",
        replace: "if (isMeant(token) || token !== undefined) waiter.wake();",
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
];
