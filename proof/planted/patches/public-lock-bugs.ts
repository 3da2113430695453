// The planted bugs in the flows of public locks.
import type { TextPatch } from "../planted-bug.ts";

const acquire = "src/control/locks/acquire-public-lock.ts";
const queue = "test/unit/public-lock-queue.test.ts";
const trouble = "test/unit/public-lock-trouble.test.ts";
const times = "test/unit/public-lock-times.test.ts";

export const plantedPublicLockBugs: readonly TextPatch[] = [
  {
    name: "own-token-given-back",
    what: "a caller's own token is given back when it disconnects, although it may hold the lock over another connection by then",
    edits: [
      {
        file: acquire,
        find: "if (this.#mayHold && isOurs &&",
        replace: "if (this.#mayHold && (isOurs || true) &&",
      },
    ],
    tests: [trouble],
  },
  {
    name: "slept-through-grant-given-back",
    what: "a process that slept through its caller's wait gives back what the caller was granted elsewhere, with the same token",
    edits: [
      {
        file: acquire,
        find: "if (this.#request.token === undefined) return (await this.#giveUp(decidedAtMs)) ?? tooLate;",
        replace: "if (this.#mayHold) return (await this.#giveUp(decidedAtMs)) ?? tooLate;",
      },
    ],
    tests: ["test/simulation/regressions.test.ts", "test/simulation/store-losses.test.ts"],
  },
  {
    name: "place-left-in-queue",
    what: "a caller that waited too long keeps its place: the lock goes to nobody",
    edits: [
      {
        file: acquire,
        find: "if (!this.#mayHold || (await this.#giveBack(decidedAtMs))",
        replace: "if (this.#mayHold || (await this.#giveBack(decidedAtMs))",
      },
    ],
    tests: [trouble],
  },
  {
    name: "disconnected-keeps-place",
    what: "a caller that went away keeps its place: the lock goes to nobody",
    edits: [
      {
        file: acquire,
        find: `      this.#engine.background.run("giving a lock back", () => this.#giveBack());
`,
        replace: "",
      },
    ],
    tests: [trouble],
  },
  {
    name: "public-lease-from-reply",
    what: "a public lock's time counts from the reply instead of the send: the holder believes in it after it has expired",
    edits: [
      {
        file: acquire,
        find: `this.#grantedBy("ask", { ...answer, since })`,
        replace: `this.#grantedBy("ask", { ...answer, since: this.#now() })`,
      },
    ],
    tests: [times],
  },
  {
    name: "handover-from-reply",
    what: "a lock that was handed over counts from the reply of the release: its new holder believes in it for too long",
    edits: [
      {
        file: "src/control/locks/public-locks.ts",
        find: "handOn(engine, target, answer.granted, { ...answer, since });",
        replace: "handOn(engine, target, answer.granted, { ...answer, since: instantOf(ports.clock) });",
      },
    ],
    tests: [times],
  },
  {
    name: "public-unknown-as-busy",
    what: "a store that does not answer counts as a busy lock: the caller gives up a lock that it has",
    edits: [
      {
        file: acquire,
        find: `if (pauseMs >= this.#troubleLeftMs()) return this.#unknown(cause);`,
        replace: `if (pauseMs >= this.#troubleLeftMs()) return { kind: "lock_unavailable", resource: "", waitedMs: this.#waitedMs() };`,
      },
    ],
    tests: [trouble],
  },
  {
    name: "handover-not-told",
    what: "a release hands the lock on but does not tell the new owner in the same process, who polls for it",
    edits: [
      {
        file: "src/control/locks/public-locks.ts",
        find: "  if (granted === undefined) return;",
        replace: "  if (granted !== undefined) return;",
      },
    ],
    tests: [queue],
  },
  {
    name: "late-try-forgotten",
    what: "what a try without an answer may still get is not given back",
    edits: [
      {
        file: "src/control/locks/public-locks.ts",
        find: "if (openUntilMs !== undefined && ",
        replace: "if (openUntilMs === undefined && ",
      },
    ],
    tests: [trouble],
  },
  {
    name: "place-given-back-after-a-pause",
    what: "a release that comes after a pause takes the lock from a caller who asked again with the same token",
    edits: [
      {
        file: "src/control/locks/public-locks.ts",
        find: "fromMs === undefined ? {}",
        replace: "fromMs !== -1 ? {}",
      },
    ],
    tests: [trouble],
  },
];
