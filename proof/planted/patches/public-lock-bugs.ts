// The planted bugs in the flows of public locks.
import type { TextPatch } from "../planted-bug.ts";

const acquire = "src/control/locks/acquire-public-lock.ts";
const queue = "test/unit/public-lock-queue.test.ts";
const trouble = "test/unit/public-lock-trouble.test.ts";
const tokens = "test/unit/public-lock-tokens.test.ts";
const times = "test/unit/public-lock-times.test.ts";

export const plantedPublicLockBugs: readonly TextPatch[] = [
  {
    name: "own-token-given-back",
    what: "a caller's own token is given back when it disconnects, although it may hold the lock over another connection by then",
    edits: [
      {
        file: acquire,
        find: `if (!this.#mayHold || !this.#isOurs()) return "given_back";`,
        replace: `if (!this.#mayHold) return "given_back";`,
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
        find: `this.#isOurs() && (await this.#giveBackOurs()) === "given_back";`,
        replace: `(await giveBack(this.#engine, this.#target, this.#token, this.#openUntilMs)) === "given_back";`,
      },
    ],
    tests: [times],
  },
  {
    name: "place-left-in-queue",
    what: "a caller that waited too long keeps its place: the lock goes to nobody",
    edits: [
      {
        file: acquire,
        find: `if (this.#isShared() || !this.#mayHold) return`,
        replace: `if (this.#isShared() || this.#mayHold || !this.#mayHold) return`,
      },
      {
        file: acquire,
        find: "(this.#leftMs() > 0 || this.#isShared())",
        replace: "(this.#request.waitMs > 0 || this.#isShared())",
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
        find: `    if (this.#mayHold) this.#engine.background.run("giving a lock back", () => this.#giveBackOurs());
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
    name: "wait-ends-with-a-release",
    what: "a wait gives its place back by a release, which comes late and takes the lock from a caller who asked again with the same token",
    edits: [
      {
        file: acquire,
        find: `if (this.#isShared() || !this.#mayHold) return`,
        replace: `if (this.#mayHold) await giveBack(this.#engine, this.#target, this.#token, this.#openUntilMs);
    if (this.#mayHold || !this.#mayHold) return`,
      },
      {
        file: acquire,
        find: "(this.#leftMs() > 0 || this.#isShared())",
        replace: "(this.#request.waitMs > 0 || this.#isShared())",
      },
    ],
    tests: [trouble],
  },
  {
    name: "older-copy-ends-the-place",
    what: "a copy of a request whose wait is over gives up the place of the one that goes on waiting beside it",
    edits: [
      {
        file: acquire,
        find: "this.#engine.lockWaiters.count(this.#target, this.#token) > own;",
        replace: "this.#engine.lockWaiters.count(this.#target, this.#token) < own;",
      },
    ],
    tests: [tokens],
  },
  {
    name: "copies-not-told-together",
    what: "of two requests with one token only the later hears of a grant at once",
    edits: [
      {
        file: "src/control/locks/lock-waiters.ts",
        find: "const copies = waiting.get(key) ?? new Set();",
        replace: "const copies = new Set<OneWaiter>();",
      },
    ],
    tests: [tokens],
  },
  {
    name: "expired-token-granted-again",
    what: "a late copy of an acquire gets the lock again after its grant has expired",
    edits: [
      {
        file: "src/adapters/operations/locks.ts",
        find: `if (last?.token === token) return { kind: "already_released" };`,
        replace: `if (last?.token === token && hasGivenUp(last)) return { kind: "already_released" };`,
      },
    ],
    tests: [tokens],
  },
  {
    name: "only-the-last-token-remembered",
    what: "a late copy of an acquire gets the lock again when somebody else has had it since",
    edits: [
      {
        file: "src/adapters/operations/locks.ts",
        find: "if (remembers && hasEnded(context, tenant, lock, token))",
        replace: "if (!remembers && hasEnded(context, tenant, lock, token))",
      },
    ],
    tests: [tokens],
  },
  {
    name: "only-the-last-token-remembered-lua",
    what: "in Redis a late copy of an acquire gets the lock again when somebody else has had it since",
    edits: [
      {
        file: "src/adapters/redis/lua/acquire-lock.lua",
        find: "local follows = remembers and lastToken",
        replace: "local follows = queues and lastToken",
      },
    ],
    tests: ["test/conformance/store.test.ts"],
  },
];
