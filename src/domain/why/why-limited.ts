// Why a start waits for its rate, and a job for the rate of its topic or for a budget.
import { amountShown } from "../amounts.ts";
import { periodAt, readBudgetId } from "../budgets.ts";
import { formatTime } from "../engine/rfc3339.ts";
import { type Job, topicRatesOf } from "../job.ts";
import type { TopicRate } from "../rates.ts";
import type { RunHeader } from "../run.ts";
import type { LedgerFacts, ParkedItem, Part, PlaceFacts, RateItem } from "./explanation.ts";

/** Undefined when it does not wait for a rate. */
export function rateItem({ gates }: RunHeader): RateItem | undefined {
  const { startsAtMs, rate } = gates ?? {};
  if (gates === undefined || startsAtMs === undefined || rate === undefined) return undefined;
  const starts_at = formatTime(startsAtMs);
  return {
    kind: "start_rate",
    since: formatTime(gates.askedAtMs),
    rate,
    starts_at,
    deadline_at: formatTime(gates.deadlineAtMs),
    detail: `As many runs start as the rate ${rate} allows: this one goes on to its gates at ${starts_at}.`,
    what_to_do: rate.startsWith("start.tenant")
      ? "Nothing: it goes on by itself. The rate is start_rate in the tenant's settings; a higher one counts for later starts."
      : "Nothing: it goes on by itself. A higher rate in the workflow counts for later starts.",
  };
}

export function rateSentence({ rate, starts_at }: RateItem): string {
  return `The run waits for the rate ${rate} and goes on to its gates at ${starts_at}.`;
}

export function whyParked(job: Job, ledger: Part<LedgerFacts> | undefined, nowMs: number): ParkedItem {
  const budget = job.parkedFor ?? "";
  const { unit = "", per = "day" } = readBudgetId(budget) ?? {};
  const { spent, reserved, amount } = ledger?.kind === "known" ? ledger.value : { spent: 0, reserved: 0 };
  const estimate = job.meter?.estimate[unit] ?? 0;
  const resets_at = formatTime(periodAt(per, nowMs).endMs);
  return {
    kind: "job_parked",
    step_id: job.step,
    since: formatTime(job.createdAtMs),
    job_id: job.jobId,
    topic: job.topic,
    attempt: job.attempt,
    budget,
    unit,
    spent: amountShown(spent),
    reserved: amountShown(reserved),
    estimate: amountShown(estimate),
    ...(amount === undefined ? {} : { amount: amountShown(amount) }),
    resets_at,
    detail:
      amount === undefined
        ? `The budget ${budget} holds it; what it has spent is not known here.`
        : `Of the ${amountShown(amount)} ${unit} of the budget ${budget}, ${amountShown(spent)} are spent and ${amountShown(reserved)} reserved by jobs under way; this job needs ${amountShown(estimate)}.`,
    what_to_do: `Nothing: it goes on at ${resets_at}, or as soon as jobs under way use less than they reserved. Or raise the amount: ${whereSet(budget)}.`,
  };
}

function whereSet(budget: string): string {
  return budget.startsWith("tenant.")
    ? "budgets in the tenant's settings"
    : "budgets in the definition of the root run's workflow";
}

type RateVerdict = {
  readonly because: "topic_rate";
  readonly detail: string;
  readonly whatToDo: string;
};

/** Known to the process whose claim was refused. */
export function whyRated({ limits, rated }: PlaceFacts, { topic, meter }: Job): RateVerdict | undefined {
  const waitMs = rated.get(topic);
  const rates = topicRatesOf(limits, topic);
  if (waitMs === undefined || rates.length === 0) return undefined;
  const units = rates.flatMap(({ unit }) =>
    unit === undefined ? [] : [`${amountShown(meter?.estimate[unit] ?? 0)} ${unit}`],
  );
  const needs = units.length === 0 ? "" : `; this job is estimated to need ${units.join(", ")}`;
  return {
    because: "topic_rate",
    detail: `Topic ${topic} is limited to ${rates.map(rateShown).join(" and ")}${needs}. The next claim passes in ${Math.ceil(waitMs)} ms.`,
    whatToDo:
      "Nothing: it is claimed as soon as the rate lets it pass. Or raise topic_rates in the tenant's settings.",
  };
}

function rateShown({ limit, perMs, unit = "jobs" }: TopicRate): string {
  return `${limit} ${unit} in ${perMs / 1_000} s`;
}
