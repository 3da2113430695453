// Charges: what a claim has taken of rates and reserved in budgets, and how its end settles that, exactly once.
import { type Amounts, type BudgetId, type Charge, mostOf, settledUsage } from "../../domain/budgets.ts";
import { type ClaimToken, type Job, notifyTopic } from "../../domain/job.ts";
import { unitOfRate, wholeUnits } from "../../domain/rates.ts";
import type { TenantId } from "../../domain/tenant.ts";
import {
  amountOf,
  budgetOf,
  changeLedger,
  estimateOf,
  judgePayers,
  type OverBudget,
  type Payer,
  payersOf,
  readLedger,
  reserve,
  unitOfLedger,
} from "./budgets.ts";
import { wakeLine } from "./parked.ts";
import { judgeTopicRates, type RateWait, settleRate, takeTopicRates, topicRates } from "./rates.ts";
import type { Context } from "./records.ts";
import { scopeOf } from "./run-records.ts";

type Passes = {
  readonly kind: "passes";
  readonly rates: ReturnType<typeof topicRates>;
  readonly payers: readonly Payer[];
};

type Verdict = Passes | OverBudget | { readonly kind: "waits"; readonly wait: RateWait };

/** Whether a claim of the job passes the rates of its topic and its budgets; nothing has happened yet. */
export function judgeMeter(context: Context, tenant: TenantId, job: Job): Verdict {
  const rates = topicRates(context, tenant, job.topic);
  const wait = judgeTopicRates(context, tenant, job, rates);
  if (wait !== undefined) return { kind: "waits", wait };
  // What the control plane itself writes to its log costs nobody anything.
  const payers = job.topic === notifyTopic ? [] : payersOf(context, tenant, job.meter?.budgets);
  return judgePayers(context, tenant, payers, job.meter) ?? { kind: "passes", rates, payers };
}

/** What a claim costs that may be granted: one that no budget can pay for takes nothing. */
export type Cost = Extract<Verdict, { kind: "passes" | "over" }>;

/** Takes what was judged. Gives the marks of the claim. */
export function takeCost(
  context: Context,
  tenant: TenantId,
  job: Job,
  { cost, token }: { readonly cost: Cost; readonly token: ClaimToken },
): { readonly charged?: true; readonly overBudget?: BudgetId } {
  if (cost.kind === "over") return { overBudget: cost.payer.budget };
  const rates = takeTopicRates(context, tenant, job, cost.rates);
  if (rates.length === 0 && cost.payers.length === 0) return {};
  const ledgers = cost.payers.map((payer) => {
    const { ledger, unit, atLimit } = payer;
    const reserved = estimateOf(job.meter, unit);
    reserve(context, tenant, payer, reserved);
    return { ledger, atLimit, reserved };
  });
  const estimate = job.meter?.estimate ?? {};
  putCharge(context, tenant, job, { token, estimate, heard: {}, rates, ledgers });
  return { charged: true };
}

/** What a heartbeat tells of, beyond what is reserved, is reserved as well. Gives the budget that cannot pay for that and stops its jobs. */
export function hearUsage(
  context: Context,
  tenant: TenantId,
  job: Job,
  usage: Amounts,
): BudgetId | undefined {
  const charge = readCharge(context, tenant, job);
  if (charge === undefined) return undefined;
  const heard = mostOf(charge.heard, usage);
  let overspent: BudgetId | undefined;
  const ledgers = charge.ledgers.map((each) => {
    const { ledger, atLimit } = each;
    const reserved = Math.max(each.reserved, heard[unitOfLedger(ledger)] ?? 0);
    const more = reserved - each.reserved;
    if (more > 0) changeLedger(context, tenant, { ledger, spent: 0, reserved: more });
    const isBeyond = reserved > estimateOf(charge, unitOfLedger(ledger));
    if (isBeyond && atLimit === "stop" && isOverspent(context, tenant, each)) overspent ??= budgetOf(ledger);
    return { ...each, reserved };
  });
  putCharge(context, tenant, job, { ...charge, heard, ledgers });
  return overspent;
}

function isOverspent(context: Context, tenant: TenantId, { ledger }: Charge["ledgers"][number]): boolean {
  const amount = amountOf(context, tenant, budgetOf(ledger));
  const { spent, reserved } = readLedger(context, tenant, ledger);
  return amount !== undefined && spent + reserved > amount;
}

export type ClaimEnd = {
  /** `gone` is every end without the worker's word: it was lost or voided, or its run is removed. */
  readonly how: Parameters<typeof settledUsage>[1];
  readonly usage?: Amounts | undefined;
};

/** The end of a claim. One without the worker's word keeps its charge, which the late report of its token corrects. */
export function settleCharge(context: Context, tenant: TenantId, job: Job, { how, usage }: ClaimEnd): void {
  const charge = readCharge(context, tenant, job);
  if (charge === undefined) return;
  const used = settledUsage(charge, how, usage);
  countUsed(context, tenant, charge, used);
  if (how === "gone") putCharge(context, tenant, job, { ...charge, settled: used });
  else forgetCharge(context, tenant, job);
}

/** A report that came after the claim was lost or voided: it is refused, and what it says is counted once. */
export function correctCharge(
  context: Context,
  tenant: TenantId,
  job: Job,
  report: ClaimEnd & { readonly token: ClaimToken },
): void {
  const charge = readCharge(context, tenant, job);
  if (charge?.settled === undefined || charge.token !== report.token) return;
  settleCharge(context, tenant, job, report);
}

/** The run is removed, and its charges with it. */
export function forgetCharge({ records }: Context, tenant: TenantId, job: Job): void {
  records.erase("charge", scopeOf(tenant, job.runId), job.jobId);
}

/** In the place of what was reserved and taken, or of what was counted when the claim was lost. */
function countUsed(context: Context, tenant: TenantId, charge: Charge, used: Amounts): void {
  const { settled } = charge;
  for (const taken of charge.rates) {
    const unit = unitOfRate(taken.rate);
    const units = settled === undefined ? taken.units : wholeUnits(settled[unit] ?? 0);
    settleRate(context, tenant, { ...taken, units }, wholeUnits(used[unit] ?? 0));
  }
  for (const { ledger, reserved } of charge.ledgers) {
    const unit = unitOfLedger(ledger);
    const before = settled?.[unit] ?? 0;
    const freed = settled === undefined ? reserved : 0;
    const change = { ledger, spent: (used[unit] ?? 0) - before, reserved: -freed };
    if (changeLedger(context, tenant, change)) wakeLine(context, tenant, budgetOf(ledger));
  }
}

/** Only a claim with the mark has one: others pay for no read. */
function readCharge({ records }: Context, tenant: TenantId, job: Job): Charge | undefined {
  if (job.claim?.charged === undefined) return undefined;
  return records.get("charge", scopeOf(tenant, job.runId), job.jobId);
}

function putCharge({ records }: Context, tenant: TenantId, job: Job, charge: Charge): void {
  records.put("charge", scopeOf(tenant, job.runId), job.jobId, charge);
}
