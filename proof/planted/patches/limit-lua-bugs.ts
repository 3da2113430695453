// Text patches of rates and budgets on Redis: the same rules, in the scripts.
import type { TextPatch } from "../planted-bug.ts";

const parts = "src/adapters/redis/lua/parts/";

export const plantedLimitLuaBugs: readonly TextPatch[] = [
  bug(
    "refund-beyond-what-is-left-lua",
    "a rate gets back what a claim did not use although that has drained",
    "rates",
    "math.max(0, undrained), level)",
    "level)",
  ),
  bug(
    "turn-outlives-its-time-lua",
    "the turn of a claim that never comes again keeps younger ones waiting",
    "rates",
    "if first and tonumber(untilMs) > nowMs and rate.at <= nowMs then",
    "if first then",
  ),
  bug(
    "level-ahead-not-renewed-lua",
    "a rate whose level lies ahead of a clock that was set back refuses starts for as long as the step",
    "rates",
    "  if rate.at > nowMs then rates.put(rate, terms, rate.level) end\n",
    "",
  ),
  bug(
    "reserved-not-counted-lua",
    "a claim compares its estimate with what is spent, and not with what others have reserved",
    "budgets",
    "  local taken = ledger.spent + ledger.reserved\n",
    "  local taken = ledger.spent\n",
  ),
  bug(
    "week-begins-on-thursday-lua",
    "a week begins on the day of the week on which the epoch began",
    "budgets",
    `per == "week" and mondayMs or 0`,
    "0",
  ),
  bug(
    "spent-budget-passes-what-costs-nothing-lua",
    "a job that is estimated to need nothing passes a budget that is used up",
    "budgets",
    "  return taken < amount and taken + estimate <= amount\n",
    "  return taken + estimate <= amount\n",
  ),
  bug(
    "line-not-woken-lua",
    "nobody looks at the jobs that wait for a budget when a result leaves more of it",
    "budgets",
    "  if ledger.spent + ledger.reserved < before then\n",
    "  if false then\n",
  ),
  bug(
    "line-never-forgotten-lua",
    "a line whose last job was called off is visited at the end of its period, and stands among the lines until then",
    "budgets",
    "  if held[id] == 0 then\n",
    "  if false then\n",
  ),
  bug(
    "percent-skipped-lua",
    "a result that spends half of a budget and all of it tells of the last percent alone",
    "budgets",
    "local crossings = { 50, 80, 100 }",
    "local crossings = { 50, 100 }",
  ),
  bug(
    "handed-back-counts-its-estimate-lua",
    "a job that is handed back untouched counts as if it had been done",
    "meters",
    `how == "handed_back" and 0 or charge.estimate[unit] or 0`,
    "charge.estimate[unit] or 0",
  ),
  bug(
    "lost-claim-counts-nothing-lua",
    "a claim that is lost counts what heartbeats told, and not what was expected",
    "meters",
    `how == "gone" and math.max(expected, told or 0) or told or expected`,
    `how == "gone" and (told or 0) or told or expected`,
  ),
  bug(
    "late-report-adds-lua",
    "the late report of a lost claim is added to what was counted when it was lost",
    "meters",
    "- (settled and settled[unit] or 0)",
    "",
  ),
  bug(
    "heard-is-not-reserved-lua",
    "what a heartbeat tells of beyond the estimate is not reserved",
    "meters",
    "    if reserved > each.reserved then budgets.change(known, ledger, 0, reserved - each.reserved) end\n",
    "",
  ),
  bug(
    "born-charge-forgotten-lua",
    "a claim that budgets alone pay for leaves no charge: what it reserved stays reserved",
    "meters",
    "  if #charge.rates == 0 and #charge.ledgers == 0 then return nil, worker end\n",
    "  if #charge.rates == 0 then return nil, worker end\n",
  ),
];

function bug(name: string, what: string, part: string, find: string, replace: string): TextPatch {
  const tests = [
    "test/conformance/store.test.ts",
    "test/conformance/edges.test.ts",
    "test/conformance/redis-limits.test.ts",
  ];
  return { name, what, edits: [{ file: `${parts}${part}.lua`, find, replace }], tests };
}
