// Planted bugs at edges: a comparison that is wrong in one millisecond, or for one size, and right everywhere else.
import type { TextPatch } from "../planted-bug.ts";

const lua = "src/adapters/redis/lua";
const operations = "src/adapters/operations";

function bug(name: string, what: string, file: string, find: string, replace: string): TextPatch {
  return { name, what, edits: [{ file, find, replace }], tests: ["test/conformance/edges.test.ts"] };
}

export const plantedEdgeBugs: readonly TextPatch[] = [
  bug(
    "claim-swept-at-its-end-lua",
    "a claim that is swept in the millisecond of its end is left alone, and nothing is due for it any more: it never ends",
    `${lua}/sweep.lua`,
    "if not rest or tonumber(expiresAt) > nowMs then return end",
    "if not rest or tonumber(expiresAt) >= nowMs then return end",
  ),
  bug(
    "claim-swept-at-its-end",
    "the same in the operations of the other stores",
    `${operations}/sweep.ts`,
    "job.claim.expiresAtMs > nowMs(context)) return;",
    "job.claim.expiresAtMs >= nowMs(context)) return;",
  ),
  bug(
    "letter-swept-at-its-end-lua",
    "a dead letter that is swept in the millisecond of its end is kept for ever",
    `${lua}/sweep.lua`,
    "savedAt + letterMs > nowMs",
    "savedAt + letterMs >= nowMs",
  ),
  bug(
    "decided-at-its-end-lua",
    "an approval is still decided in the millisecond in which it has expired, while its run may be told that it did",
    `${lua}/deliver.lua`,
    "approval[4] and nowMs >= tonumber(approval[4])",
    "approval[4] and nowMs > tonumber(approval[4])",
  ),
  bug(
    "decided-at-its-end",
    "the same in the operations of the other stores",
    `${operations}/approvals.ts`,
    "nowMs(context) >= expiresAtMs",
    "nowMs(context) > expiresAtMs",
  ),
  bug(
    "timer-not-due-at-its-time-lua",
    "a timer that is delivered in the millisecond of its time is refused",
    `${lua}/deliver.lua`,
    "tonumber(dueAt) > nowMs",
    "tonumber(dueAt) >= nowMs",
  ),
  bug(
    "ticket-silent-too-early-lua",
    "a ticket is dropped in its last millisecond: who asks again in time has lost the place",
    `${lua}/parts/lock-queue.lua`,
    'silent = redis.call("ZRANGE", endsKey, "-inf", "(" .. now, "BYSCORE")',
    'silent = redis.call("ZRANGE", endsKey, "-inf", now, "BYSCORE")',
  ),
  bug(
    "republished-without-a-cap-lua",
    "the time between two publications of a job doubles without end: what nobody heard of is published again after days",
    `${lua}/sweep.lua`,
    "math.min(republishMaxMs, republishFirstMs * 2 ^ republished)",
    "settings.republishAfterMs * 2 ^ republished",
  ),
  bug(
    "set-aside-late-lua",
    "an entry that owners take in vain is set aside a millisecond late",
    `${lua}/parts/plan-take.lua`,
    "nowMs - sinceNow >= tonumber(inVainMs)",
    "nowMs - sinceNow > tonumber(inVainMs)",
  ),
  bug(
    "too-late-in-time-lua",
    "a call that arrives in the last millisecond of its time is refused",
    `${lua}/parts/clock.lua`,
    "if nowMs > tonumber(ARGV[1])",
    "if nowMs >= tonumber(ARGV[1])",
  ),
];
