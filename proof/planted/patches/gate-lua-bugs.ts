// Text patches of gates and queues on Redis: what its scripts do in turns, and what operations see of queues without asking for it.
import type { TextPatch } from "../planted-bug.ts";

const parts = "src/adapters/redis/lua/parts/";

export const plantedGateLuaBugs: readonly TextPatch[] = [
  bug(
    "places-not-handed-on-lua",
    "the end of a run frees its place and hands it to nobody",
    "write-change",
    "if moves then select(3, useGates()).handOn(known, moves) end",
    "",
  ),
  bug(
    "overtakes-a-queue-lua",
    "a start with a plan takes a free place although others wait for it",
    "gates",
    " and not gates.isWaitedAt(known, gate)\n",
    "\n",
  ),
  bug(
    "plain-start-overtakes-a-queue-lua",
    "a start without a plan takes a free slot although others wait for it",
    "judge-gates",
    "if limit and not isClosed and known.queues then",
    "if false then",
  ),
  bug(
    "virtual-time-not-moved-lua",
    "a grant does not move the level's virtual time",
    "gate-queues",
    "  if weight then virtual = math.max(virtual, tonumber(tag or 0)) end\n",
    "",
  ),
  bug(
    "queue-mark-left-lua",
    "the mark of a tenant's queues goes with the first of them that is empty: the others are handed nothing",
    "gate-queues",
    `  if not known.queues or redis.call("ZCARD", known.gateQueuesKey) > 0 or redis.call("ZCARD", known.queuedKey) > 0 then return end\n`,
    "  if not known.queues then return end\n",
  ),
  bug(
    "deadline-left-lua",
    "a run that is admitted stays in the list of those that wait",
    "grants",
    "  endWait(known, run)\n  queues.leave(known, gate, run, true)\n",
    "  queues.leave(known, gate, run, true)\n",
  ),
  bug(
    "limit-read-before-the-batch-lua",
    "starts that share a script call do not see the slots of those before them",
    "gates",
    "    known.active = known.active + 1\n",
    "    known.active = known.active + 0\n",
  ),
];

function bug(name: string, what: string, part: string, find: string, replace: string): TextPatch {
  const tests = ["test/conformance/store.test.ts", "test/conformance/redis-gates.test.ts"];
  return { name, what, edits: [{ file: `${parts}${part}.lua`, find, replace }], tests };
}
