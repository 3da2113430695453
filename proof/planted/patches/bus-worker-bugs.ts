// The planted bugs in workers over NATS.
import type { TextPatch } from "../planted-bug.ts";

const folder = "src/sdk/worker";

/** One edit, caught by one test file. */
function bug(name: string, what: string, edit: TextPatch["edits"][number]): TextPatch {
  return { name, what, edits: [edit], tests: ["test/conformance/nats-bus-worker.test.ts"] };
}

export const plantedBusWorkerBugs: readonly TextPatch[] = [
  bug("bus-worker-believes-anybody", "a worker takes answers that its control plane has not signed", {
    file: `${folder}/bus-messages.ts`,
    find: `if (!isSame(signatureOf(key, signed), field(header.signature))) return`,
    replace: `if (!isSame(signatureOf(key, signed), signatureOf(key, signed))) return`,
  }),
  bug("bus-worker-believes-for-ever", "a worker takes an old answer that somebody sends again", {
    file: `${folder}/bus-messages.ts`,
    find: "return expires < nowMs ?",
    replace: "return expires < nowMs - Number.MAX_SAFE_INTEGER ?",
  }),
  bug("bus-worker-same-id", "a result is sent again under its first id: JetStream drops it as known", {
    file: `${folder}/bus-results.ts`,
    find: `        messageId = runtime.token();
        failures`,
    replace: "        failures",
  }),
  bug("bus-worker-impatient", "a result that waits for its busy run counts as refused", {
    file: `${folder}/bus-results.ts`,
    find: `return kind === "refused" || kind === "duplicate" ?`,
    replace: `return kind !== "accepted" ?`,
  }),
  bug("bus-worker-stream-alone", "a result stays with its worker for ever when its stream takes nothing", {
    file: `${folder}/bus-results.ts`,
    find: "if (failures >= triesOfStream.failures ||",
    replace: "if (failures < 0 ||",
  }),
  bug("bus-worker-too-large", "a result that is larger than a message may be is never reported", {
    file: `${folder}/bus-results.ts`,
    find: `!link.fits(message)) return { kind: "too_large" };`,
    replace: `!link.fits(message) && body === "") return { kind: "too_large" };`,
  }),
  bug(
    "bus-worker-hangs-up",
    "a worker that stops leaves its poll open: jobs that it gets wait for their lease",
    {
      file: `${folder}/bus-caller.ts`,
      find: "while (!isOver.signal.aborted && elapsedMs(since, runtime.now()) < leaveWithinMs) {",
      replace: "for (const _ of [since, leaveWithinMs, elapsedMs].slice(0, 1)) {",
    },
  ),
  bug("bus-worker-last-part", "of a poll's jobs that come in several messages only the last are done", {
    file: `${folder}/bus-caller.ts`,
    find: "jobs: [...jobs, ...part.jobs] }",
    replace: "jobs: [...jobs, ...part.jobs].slice(jobs.length) }",
  }),
  bug(
    "bus-worker-stays-connected",
    "a worker that has stopped keeps its connection, and the process goes on",
    {
      file: `${folder}/worker.ts`,
      find: "    await this.#close();\n",
      replace: "    if (graceMs < 0) await this.#close();\n",
    },
  ),
  bug(
    "bus-worker-claim-lost-by-result",
    "a result that was taken counts as a lost claim when a heartbeat is answered before it",
    {
      file: `${folder}/job.ts`,
      find: "if (this.isDone) this.#hasClaim = false;",
      replace: "if (this.#isClosed) this.#hasClaim = false;",
    },
  ),
];
