// Known mistakes about runs, jobs and approvals, put in on purpose: each shows that the checks would notice it in the product.

import { busyDay } from "../../simulation/narrow-swarm.ts";
import type { Swap } from "../planted-bug.ts";
import { timersByTheWallClock } from "./broken-clocks.ts";
import {
  attentionNotSet,
  bornClaimedForRevokedKey,
  bornClaimedWhileCancelled,
  cancelAfterTheEnd,
  claimedTwice,
  claimForRevokedKey,
  claimNeverExpires,
  claimOfCancelledRun,
  claimOfStoppedTenant,
  claimTakenInTime,
  consumesTooMuch,
  decidedTwice,
  decisionWithoutEntry,
  drainsNotCounted,
  endLeavesApprovals,
  endLeavesJobs,
  expiryIgnored,
  hashIgnored,
  jobNotListed,
  lookFindsNothing,
  parkedWithoutSlot,
  poisonWithoutLetter,
  proposalOfAnyVersion,
  resultForgotten,
  resultOfAnyClaim,
  resultTakenTwice,
  selfApproval,
  sweepForgets,
  sweepSkipsTimers,
  timelineRowLost,
} from "./broken-run-operations.ts";
import { jobsByHintsAlone, unknownAsDelivered } from "./broken-stores.ts";

export const swappedRun: Readonly<Record<string, Swap>> = {
  claim_of_cancelled_run: {
    what: "a job of a run that is being cancelled can still be claimed",
    caughtBy: ["INV-21"],
    table: claimOfCancelledRun,
  },
  claim_of_stopped_tenant: {
    what: "jobs are claimed although the kill switch is on",
    caughtBy: ["INV-21"],
    seedsMax: 500,
    table: claimOfStoppedTenant,
  },
  claim_for_revoked_key: {
    what: "a worker whose key was revoked still gets jobs",
    caughtBy: ["revocation"],
    table: claimForRevokedKey,
  },
  born_claimed_while_cancelled: {
    what: "a job is born claimed in a run that is being cancelled",
    caughtBy: ["INV-21"],
    seedsMax: 500,
    table: bornClaimedWhileCancelled,
  },
  born_claimed_for_revoked_key: {
    what: "a job is born claimed for a worker whose key was revoked while it polled",
    caughtBy: ["revocation"],
    seedsMax: 500,
    swarm: busyDay,
    table: bornClaimedForRevokedKey,
  },
  job_claimed_twice: {
    what: "a job that a worker holds is given to another",
    caughtBy: ["INV-21"],
    table: claimedTwice,
  },
  result_of_any_claim: {
    what: "a result is accepted with any claim token",
    caughtBy: ["INV-4", "INV-22"],
    table: resultOfAnyClaim,
  },
  result_taken_twice: {
    what: "a job that was reported is reported again",
    caughtBy: ["INV-22"],
    table: resultTakenTwice,
  },
  result_forgotten: {
    what: "a result is recognised as a duplicate only for a while",
    caughtBy: ["INV-22", "INV-24"],
    table: resultForgotten,
  },
  job_not_listed: {
    what: "a job is enqueued, but not in the list that workers claim from",
    caughtBy: ["INV-20"],
    table: jobNotListed,
  },
  claim_never_expires: {
    what: "a claim does not run out",
    caughtBy: ["INV-20"],
    table: claimNeverExpires,
  },
  claim_taken_in_time: {
    what: "a heartbeat does not keep its claim",
    caughtBy: ["INV-21"],
    table: claimTakenInTime,
  },
  sweep_forgets: {
    what: "the sweep takes what is due, and brings it to nobody",
    caughtBy: ["INV-2", "INV-3", "INV-4", "INV-20", "INV-23", "INV-26"],
    table: sweepForgets,
  },
  look_finds_nothing: {
    what: "no partition is found in which something is due: what a dead process has set waits for ever",
    caughtBy: ["INV-2", "INV-3", "INV-4", "INV-20", "INV-23", "INV-26"],
    table: lookFindsNothing,
  },
  sweep_skips_timers: {
    what: "only the process that set a timer can fire it",
    caughtBy: ["INV-3", "INV-26"],
    table: sweepSkipsTimers,
  },
  attention_not_set: {
    what: "an entry waits where no sweep will find it",
    caughtBy: ["INV-23"],
    table: attentionNotSet,
  },
  proposal_of_any_version: {
    what: "a commit computed in advance is applied to a run that has moved on",
    caughtBy: ["INV-3", "INV-17", "INV-20", "INV-22", "INV-26"],
    table: proposalOfAnyVersion,
  },
  commit_consumes_too_much: {
    what: "a commit takes an entry away that it did not apply",
    caughtBy: ["INV-3", "INV-20", "INV-26"],
    table: consumesTooMuch,
  },
  poison_without_letter: {
    what: "an entry is set aside without a dead letter",
    caughtBy: ["INV-23"],
    table: poisonWithoutLetter,
  },
  drains_not_counted: {
    what: "an entry that nobody can apply is tried for ever",
    caughtBy: ["INV-23"],
    table: drainsNotCounted,
  },
  decided_twice: {
    what: "an approval that was decided is decided again",
    caughtBy: ["INV-25"],
    table: decidedTwice,
  },
  decision_without_entry: {
    what: "a decision is recorded, and the run never hears of it",
    caughtBy: ["INV-26"],
    table: decisionWithoutEntry,
  },
  hash_ignored: {
    what: "a decision counts whatever was shown",
    caughtBy: ["INV-27"],
    table: hashIgnored,
  },
  expiry_ignored: {
    what: "an approval is decided after it has expired",
    caughtBy: ["INV-27"],
    table: expiryIgnored,
  },
  self_approval_allowed: {
    what: "the person who started a run may approve it although duties are separated",
    caughtBy: ["INV-27"],
    table: selfApproval,
  },
  cancel_after_end: {
    what: "a run that has ended is cancelled",
    caughtBy: ["INV-17"],
    table: cancelAfterTheEnd,
  },
  timeline_row_lost: {
    what: "a commit leaves no row in the timeline",
    caughtBy: ["INV-17"],
    table: timelineRowLost,
  },
  parked_without_slot: {
    what: "a run that waits for an approval gives its slot away",
    caughtBy: ["INV-28"],
    table: parkedWithoutSlot,
  },
  end_leaves_jobs: {
    what: "a run ends, and its jobs can still be claimed",
    caughtBy: ["INV-20"],
    table: endLeavesJobs,
  },
  end_leaves_approvals: {
    what: "a run ends, and its approvals wait for ever",
    caughtBy: ["INV-26"],
    table: endLeavesApprovals,
  },
  unknown_as_delivered: {
    what: "a report without an answer is acknowledged",
    caughtBy: ["INV-18", "INV-25"],
    wrapStore: unknownAsDelivered,
  },
  jobs_by_hints_alone: {
    what: "a job that the bus forgot is offered to nobody",
    caughtBy: ["INV-20"],
    wrapStore: jobsByHintsAlone,
  },
  timers_by_wall_clock: {
    what: "due times are counted by the wall clock",
    caughtBy: ["INV-3", "INV-26"],
    wrapPorts: timersByTheWallClock,
  },
};
