// The planted bugs around the event loop: who is refused when it is late, who is named, and inputs that cost more than their size says.
import type { PlantedBug } from "./planted-bug.ts";

const eventLoop = "test/unit/event-loop.test.ts";

export const plantedLoopBugs: readonly PlantedBug[] = [
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
    what: "a block of the event loop is told as other, whoever computed",
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
  {
    name: "zeros-cut-one-by-one",
    what: "the zeros of a long number are cut off one by one: reading it takes the square of its length",
    edits: [
      {
        file: "src/domain/strict-json.ts",
        find: "  while (end > first && digits.charCodeAt(end - 1) === zero) end -= 1;",
        replace: `  while (end > first && [...digits.slice(0, end)].at(-1) === "0") end -= 1;`,
      },
    ],
    tests: ["test/scaled/operations.test.ts"],
  },
];
