// Planted bugs in how an engine finds what is due: the look at all partitions of a server, and the sweeps that follow from it.
import type { TextPatch } from "../planted-bug.ts";

const sweeper = "src/control/sweeper.ts";
const findDue = "src/adapters/redis/lua/find-due.lua";

function bug(name: string, what: string, file: string, find: string, replace: string): TextPatch {
  const tests = [file === sweeper ? "test/unit/flow-sweep.test.ts" : "test/conformance/store.test.ts"];
  return { name, what, edits: [{ file, find, replace }], tests };
}

export const plantedSweepBugs: readonly TextPatch[] = [
  bug(
    "looked-at-once",
    "a partition in which nothing was due is never looked at again: what another process sets there and leaves behind waits for ever",
    sweeper,
    "      else busy.delete(partition);\n",
    "",
  ),
  bug(
    "look-skips-the-first",
    "the look leaves out the partition that it begins with: nothing that is due there is found",
    findDue,
    "for index = 2, #ARGV do",
    "for index = 3, #ARGV do",
  ),
  bug(
    "look-skips-what-moved",
    "a partition that the asked server does not hold counts as quiet: after a slot has moved nothing that is due there is found",
    findDue,
    "if first.err or #first > 0",
    "if #first > 0",
  ),
  bug(
    "sweep-ends-with-its-error",
    "a sweep that failed once never comes again",
    sweeper,
    '    engine.ports.log.error("a sweep failed", { partition, cause: causeOf(error) });\n    return undefined;\n',
    '    engine.ports.log.error("a sweep failed", { partition, cause: causeOf(error) });\n    return 3_600_000;\n',
  ),
  bug(
    "forestalled-sweep-forgotten",
    "a partition that a process swept just before it died waits for a second look: what is due is up to a second late",
    sweeper,
    "if (againInMs === undefined || isStopped)",
    "if (againInMs === undefined || againInMs > 0)",
  ),
  bug(
    "one-look-for-all-servers",
    "all servers of a Cluster are asked in one call: one that does not answer makes the partitions of the others late",
    sweeper,
    "if (ports.storeShards === undefined) return [partitions];",
    "if (ports.storeShards === undefined || partitions.length > 0) return [partitions];",
  ),
  bug(
    "idle-sweeps",
    "every partition is swept at every look, whether something is due in it or not: an idle process is never idle",
    sweeper,
    "if (due.has(partition)) begin",
    "if (due.size >= 0) begin",
  ),
];
