// Known mistakes about places of running jobs, put in on purpose.

import type { Swap } from "../planted-bug.ts";
import {
  bornClaimedPastTheLimit,
  claimPastTheLimit,
  lostClaimKeepsItsPlace,
} from "./broken-place-operations.ts";

export const swappedPlace: Readonly<Record<string, Swap>> = {
  claim_past_the_limit: {
    what: "a claim does not look whether its topic or pool is full",
    caughtBy: ["places"],
    table: claimPastTheLimit,
  },
  born_claimed_past_the_limit: {
    what: "a job is born claimed although its topic or pool is full",
    caughtBy: ["places"],
    seedsMax: 500,
    table: bornClaimedPastTheLimit,
  },
  lost_claim_keeps_its_place: {
    what: "the place of a claim that ran out is never free again",
    caughtBy: ["places"],
    table: lostClaimKeepsItsPlace,
  },
};
