// Known mistakes about places of running jobs, put in on purpose.

import { type Operations, operations } from "../../../src/adapters/operations/perform.ts";
import type { Context } from "../../../src/adapters/operations/records.ts";
import type { TenantSettings } from "../../../src/domain/tenant.ts";
import type { Swap } from "../planted-bug.ts";
import { mapping, over } from "./broken-records.ts";

const claimPastTheLimit: Operations = {
  ...operations,
  claimJobs: (context, request) => operations.claimJobs(withoutMaxima(context), request),
};

const bornClaimedPastTheLimit: Operations = {
  ...operations,
  admit: (context, request) => operations.admit(withoutMaxima(context), request),
  commit: (context, request) => operations.commit(withoutMaxima(context), request),
  deliver: (context, request) => operations.deliver(withoutMaxima(context), request),
};

const lostClaimKeepsItsPlace: Operations = {
  ...operations,
  sweep: (context, request) => {
    const { records } = context;
    const kept = over(context, {
      erase: (kind, scope, member) => {
        if (kind !== "running") records.erase(kind, scope, member);
      },
    });
    return operations.sweep(kept, request);
  },
};

/** Limits that nothing reaches, where they are read; what is written back has them as they are. */
function withoutMaxima(context: Context): Context {
  const hidden = new Map<string, TenantSettings>();
  return mapping(
    context,
    "tenant",
    (value, member) => {
      if (value === undefined) return undefined;
      hidden.set(member, value.settings);
      return { ...value, settings: raised(value.settings) };
    },
    (value) => ({ ...value, settings: hidden.get("record") ?? value.settings }),
  );
}

function raised(settings: TenantSettings): TenantSettings {
  const high = { maxRunning: 1_000_000 };
  const { topics, pools } = settings;
  return {
    ...settings,
    ...(topics === undefined ? {} : { topics: raisedAll(topics, high) }),
    ...(pools === undefined ? {} : { pools: raisedAll(pools, high) }),
  };
}

function raisedAll<Limits extends object>(named: Readonly<Record<string, Limits>>, high: object) {
  return Object.fromEntries(Object.entries(named).map(([name, limits]) => [name, { ...limits, ...high }]));
}

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
