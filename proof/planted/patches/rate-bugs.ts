// Text patches of rates and budgets in the memory and SQLite stores: what is counted, when, and who waits for it.
import type { TextPatch } from "../planted-bug.ts";

const operations = "src/adapters/operations/";

export const plantedRateBugs: readonly TextPatch[] = [
  bug(
    "turn-not-kept",
    "the oldest claim that a rate refused loses its turn to younger and smaller ones, again and again",
    "rates",
    `    const isFirst = first === undefined || readyMember(job) <= first.member;`,
    `    const isFirst = first === undefined || readyMember(job) !== first.member;`,
  ),
  bug(
    "rate-counts-claims-for-units",
    "a rate of tokens counts each claim as one token",
    "rates",
    `  return unit === undefined ? 1 : wholeUnits(job.meter?.estimate[unit] ?? 0);`,
    `  return unit === undefined ? 1 : Math.min(1, wholeUnits(job.meter?.estimate[unit] ?? 0));`,
  ),
  bug(
    "waits-in-vain-for-its-rate",
    "a start waits for its rate although it would not begin before its deadline",
    "rates",
    `waits - deadlineMs + 1 : waits;`,
    `0 : waits;`,
  ),
  bug(
    "parked-in-the-order-of-names",
    "of several budgets that cannot pay, the one that was set last holds the job",
    "budgets",
    `  return payers.sort((one, other) => (one.ledger < other.ledger ? -1 : 1));`,
    `  return payers;`,
  ),
  bug(
    "crossing-told-again",
    "each result after half of a budget is spent tells of that again",
    "budgets",
    `  const crossed = crossings.at(-1) ?? kept.crossed;`,
    `  const crossed = kept.crossed;`,
  ),
  bug(
    "hold-refuses-starts",
    "a budget that only holds jobs refuses starts as well",
    "budgets",
    `    if (atLimit !== "reject" || amount === undefined) continue;`,
    `    if (amount === undefined) continue;`,
  ),
  bug(
    "removed-ledger-comes-back",
    "a late report makes a ledger anew that was removed after its time",
    "budgets",
    `  const kept = context.records.get("ledger", tenant, ledger);
  if (kept === undefined) return false;`,
    `  const kept = context.records.get("ledger", tenant, ledger) ?? { ...unused, firstAtMs: 0 };`,
  ),
  bug(
    "heartbeats-lower-what-is-heard",
    "a late heartbeat takes back what an earlier one has told",
    "charges",
    `  const heard = mostOf(charge.heard, usage);`,
    `  const heard = usage;`,
  ),
  bug(
    "overspent-within-its-estimate",
    "a job that keeps to its estimate is stopped because others have overspent the budget",
    "charges",
    `    if (isBeyond && atLimit === "stop" &&`,
    `    if (atLimit === "stop" &&`,
  ),
  bug(
    "late-report-of-another-claim",
    "a report with another token corrects what a lost claim has used",
    "charges",
    `  if (charge?.settled === undefined || charge.token !== report.token) return;`,
    `  if (charge?.settled === undefined) return;`,
  ),
  bug(
    "over-budget-takes-its-rates",
    "a claim that no budget can pay for takes from the rates of its topic",
    "charges",
    `  if (cost.kind === "over") return { overBudget: cost.payer.budget };
  const rates`,
    `  if (cost.kind === "over") {
    takeTopicRates(context, tenant, job, topicRates(context, tenant, job.topic));
    return { overBudget: cost.payer.budget };
  }
  const rates`,
  ),
  bug(
    "parked-line-not-visited-again",
    "a visit that lets a hundred jobs go leaves the others until the end of the period",
    "parked",
    `  const dueAtMs = hints.length === letGoMax ? nowMs(context) : endMs;`,
    `  const dueAtMs = endMs;`,
  ),
  bug(
    "line-lets-all-go",
    "a visit lets all parked jobs go as if each were the only one: all but the first are parked again",
    "parked",
    `    if (!waitsInVain) goes += estimate;
`,
    ``,
  ),
  bug(
    "parked-job-behind-its-budget",
    "a job waits on for a budget that could never pay for it",
    "parked",
    `    const waitsInVain = amount === undefined || stops || estimate > amount;`,
    `    const waitsInVain = amount === undefined || stops;`,
  ),
];

function bug(name: string, what: string, file: string, find: string, replace: string): TextPatch {
  const tests = ["test/conformance/store.test.ts", "test/conformance/edges.test.ts"];
  return { name, what, edits: [{ file: `${operations}${file}.ts`, find, replace }], tests };
}
