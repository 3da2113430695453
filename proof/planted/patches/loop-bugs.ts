// The planted bugs around the event loop: who is refused when it is late, who is named, and for how long.
import type { TextPatch } from "../planted-bug.ts";

const eventLoop = "test/unit/event-loop.test.ts";

export const plantedLoopBugs: readonly TextPatch[] = [
  {
    name: "late-loop-sheds-everybody",
    what: "a late process refuses all tenants, not only those that made it late",
    edits: [
      {
        file: "src/gateway/event-loop.ts",
        find: "lateMs > delayMs && computing.isAboveShare(tenant)",
        replace: "lateMs > delayMs",
      },
    ],
    tests: [eventLoop, "test/e2e/gateway-protection.test.ts"],
  },
  {
    name: "block-without-a-name",
    what: "a block of the event loop is logged as other, whatever operation computed",
    edits: [
      {
        file: "src/gateway/event-loop.ts",
        find: "longest.ms >= lateNowMs / 2",
        replace: "longest.ms < 0",
      },
    ],
    tests: [eventLoop],
  },
  {
    name: "share-never-forgotten",
    what: "what a tenant computed an hour ago still counts against it",
    edits: [
      {
        file: "src/control/computing.ts",
        find: "ageMs < 2 * windowMs ? current : next",
        replace: "current",
      },
    ],
    tests: [eventLoop],
  },
];
