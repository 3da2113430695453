// interlock budgets: what budgets have spent, what is reserved, and what it comes to at the end of the period.
import type { Success } from "../../sdk/contract.ts";
import type { Cli, Context } from "../context.ts";
import { type ListOptions, readList, showList, withListOptions } from "../output.ts";
import { age } from "../text.ts";

export function addBudgetCommands({ program, does }: Cli): void {
  withListOptions(
    program
      .command("budgets")
      .description("list what budgets have spent in their present period")
      .option("--all", "past periods, too: of the last 35 days"),
  )
    .addHelpText("after", "\nExamples:\n  interlock budgets\n  interlock budgets --all --json")
    .action(does(listBudgets));
}

type Budget = Success<"listBudgets">["items"][number];

async function listBudgets(
  context: Context,
  { all, ...options }: ListOptions & { readonly all?: true },
): Promise<void> {
  const client = context.client();
  const periods = all === true ? ({ periods: "all" } as const) : {};
  const list = await readList(options, (page) =>
    client.call("listBudgets", { query: { ...page, ...periods } }),
  );
  const { terminal } = context;
  showList(context, list, {
    none: "No budget is set, and nothing was spent.",
    columns: ["budget", "of", "per", "since", "spent", "reserved", "held jobs", "forecast", "used up"],
    row: (budget) => [
      budget.name,
      ownerOf(budget),
      budget.per,
      budget.period_start,
      { text: spentOf(budget), tone: (budget.percent ?? 0) >= nearlySpent ? "bad" : "plain" },
      budget.reserved,
      budget.held_jobs,
      budget.forecast,
      age(budget.exhausts_at, terminal.nowMs()),
    ],
  });
}

/** Percent. */
const nearlySpent = 80;

function ownerOf({ workflow_id, key_hash }: Budget): string {
  if (workflow_id === undefined) return "the tenant";
  return key_hash === undefined ? workflow_id : `${workflow_id}, key ${key_hash.slice(0, 8)}`;
}

function spentOf({ spent, amount, unit, percent }: Budget): string {
  return amount === undefined ? `${spent} ${unit}` : `${spent} of ${amount} ${unit} (${percent}%)`;
}
