// Known mistakes about rates and budgets, put in on purpose.

import { type Operations, operations } from "../../../src/adapters/operations/perform.ts";
import {
  type Context,
  nowMs,
  type RecordKind,
  type Records,
} from "../../../src/adapters/operations/records.ts";
import { ledgerId, periodAt, readBudgetId } from "../../../src/domain/budgets.ts";
import { meteredDay } from "../../simulation/large-swarm.ts";
import type { Swarm } from "../../simulation/swarm.ts";
import type { Swap } from "../planted-bug.ts";
import { mapping, over } from "./broken-records.ts";

/** In whatever may claim a job or end a claim, or let a run start. */
function inAll(view: (context: Context) => Context): Operations {
  return {
    ...operations,
    admit: (context, request) => operations.admit(view(context), request),
    createRun: (context, request) => operations.createRun(view(context), request),
    claimJobs: (context, request) => operations.claimJobs(view(context), request),
    deliver: (context, request) => operations.deliver(view(context), request),
    commit: (context, request) => operations.commit(view(context), request),
    sweep: (context, request) => operations.sweep(view(context), request),
  };
}

function withoutPuts(context: Context, dropped: RecordKind, part = ""): Context {
  const { records } = context;
  const put: Records["put"] = (kind, scope, member, value) => {
    if (kind !== dropped || !member.includes(part)) records.put(kind, scope, member, value);
  };
  return over(context, { put });
}

const settledTwice: Operations = {
  ...operations,
  deliver: (context, request) => {
    const { records } = context;
    const erase: Records["erase"] = (kind, scope, member) => {
      if (kind !== "charge") records.erase(kind, scope, member);
    };
    return operations.deliver(over(context, { erase }), request);
  },
};

/** What is written back has what was hidden. */
function withoutReserved(context: Context): Context {
  const hidden = new Map<string, number>();
  let last = "";
  return mapping(
    context,
    "ledger",
    (value, member) => {
      last = member;
      hidden.set(member, value?.reserved ?? 0);
      return value && { ...value, reserved: 0 };
    },
    (value) => ({ ...value, reserved: value.reserved + (hidden.get(last) ?? 0) }),
  );
}

const claimedBesideReserved: Operations = {
  ...operations,
  claimJobs: (context, request) => operations.claimJobs(withoutReserved(context), request),
};

/** As if nothing of what a claim took had drained, and all that is left were its own. */
function undrained(context: Context): Context {
  return mapping(
    context,
    "charge",
    (value) =>
      value && {
        ...value,
        rates: value.rates.map((taken) => ({ ...taken, units: 1_000_000, level: Number.MAX_SAFE_INTEGER })),
      },
    (value) => value,
  );
}

const refundedWhatDrained: Operations = {
  ...operations,
  deliver: (context, request) => operations.deliver(undrained(context), request),
};

const lostUnsettled: Operations = {
  ...operations,
  sweep: (context, request) =>
    operations.sweep(
      mapping(
        context,
        "charge",
        () => undefined,
        (value) => value,
      ),
      request,
    ),
};

function inThisPeriod(context: Context): Context {
  return mapping(
    context,
    "charge",
    (value) => {
      const ledgers = value?.ledgers.map((each) => {
        const budget = each.ledger.slice(0, -17) as Parameters<typeof ledgerId>[0];
        const { per = "hour" } = readBudgetId(budget) ?? {};
        return { ...each, ledger: ledgerId(budget, periodAt(per, nowMs(context)).startMs) };
      });
      return value && ledgers && { ...value, ledgers };
    },
    (value) => value,
  );
}

const countedWhenReported: Operations = {
  ...operations,
  deliver: (context, request) => operations.deliver(inThisPeriod(context), request),
};

const parkedForgotten: Operations = {
  ...operations,
  deliver: (context, request) => operations.deliver(withoutPuts(context, "due", " budget "), request),
  commit: (context, request) => operations.commit(withoutPuts(context, "due", " budget "), request),
};

const raiseUnnoticed: Operations = {
  ...operations,
  setTenant: (context, request) => operations.setTenant(withoutPuts(context, "due", " budgets "), request),
  putDocument: (context, request) =>
    operations.putDocument(withoutPuts(context, "due", " budgets "), request),
};

/** The hour ends while claims are under way. */
function aroundTheHour(swarm: Swarm): Swarm {
  const { embedded: _clock, ...day } = meteredDay(swarm);
  const { meters } = day;
  return meters === undefined ? day : { ...day, meters: { ...meters, hourEndsMs: day.chaosMs / 2 } };
}

export const swappedLimit: Readonly<Record<string, Swap>> = {
  usage_settled_twice: {
    what: "the late report of a lost claim is counted as often as it comes",
    caughtBy: ["INV-36"],
    seedsMax: 500,
    swarm: meteredDay,
    table: settledTwice,
  },
  budget_without_what_is_reserved: {
    what: "a claim compares its estimate with what is spent, and not with what others have reserved",
    caughtBy: ["INV-36"],
    swarm: meteredDay,
    table: claimedBesideReserved,
  },
  rate_emptied_by_a_result: {
    what: "a rate gets back more than what is left of the claim that has ended: its whole level",
    caughtBy: ["INV-35"],
    seedsMax: 500,
    swarm: meteredDay,
    table: refundedWhatDrained,
  },
  level_not_taken: {
    what: "a start or a claim that passes a rate does not add to its level",
    caughtBy: ["INV-35"],
    swarm: meteredDay,
    table: inAll((context) => withoutPuts(context, "rateLevel")),
  },
  lost_claim_not_settled: {
    what: "what a lost claim has reserved stays reserved",
    caughtBy: ["INV-36"],
    swarm: meteredDay,
    table: lostUnsettled,
  },
  usage_in_the_period_of_its_report: {
    what: "what a claim has used counts in the period in which it is reported",
    caughtBy: ["INV-36"],
    swarm: aroundTheHour,
    table: countedWhenReported,
  },
  parked_job_forgotten: {
    what: "nobody looks at the jobs that wait for a budget when a result leaves more of it",
    caughtBy: ["INV-36"],
    seedsMax: 500,
    swarm: meteredDay,
    table: parkedForgotten,
  },
  raised_budget_unnoticed: {
    what: "jobs that wait for a budget are not looked at when its amount is raised",
    caughtBy: ["INV-20"],
    swarm: meteredDay,
    table: raiseUnnoticed,
  },
};
