// interlock approvals, approve, reject: lists and shows what waits for a decision, and decides it.
import { Option } from "commander";
import type { Success } from "../../sdk/contract.ts";
import type { Cli, Context } from "../context.ts";
import { type ListOptions, readList, showList, withListOptions } from "../output.ts";
import { age, toneOf, visible } from "../text.ts";

const states = ["pending", "approved", "rejected", "expired", "cancelled"] as const;
type State = (typeof states)[number];

export function addApprovalCommands({ program, does }: Cli): void {
  const approvals = program.command("approvals").description("see what waits for a decision");
  withListOptions(
    approvals.command("list", { isDefault: true }).description("list approvals; pending ones by default"),
  )
    .addOption(new Option("--state <state>", "in which state").choices([...states, "all"]).default("pending"))
    .action(does(listApprovals));
  approvals
    .command("show")
    .description("show what is to be approved")
    .argument("<approval>")
    .action(does(showApproval));
  for (const decision of ["approve", "reject"] as const) {
    program
      .command(decision)
      .description(`${decision} a step that waits for a decision`)
      .argument("<approval>", "its id, as `interlock approvals` lists it")
      .option("--reason <text>", "why; it is kept with the decision")
      .option("--hash <hash>", "of what you were shown: refuses when it has changed since")
      .addHelpText(
        "after",
        `\nExample:\n  interlock ${decision} 'run_...:review@1' --reason 'known customer'`,
      )
      .action(
        does((context, id: string, options: DecisionOptions) => sendDecision(context, decision, id, options)),
      );
  }
}

async function listApprovals(
  context: Context,
  options: ListOptions & { readonly state: State | "all" },
): Promise<void> {
  const { terminal } = context;
  const { state } = options;
  const filter = state === "all" ? {} : { state };
  const client = context.client();
  const list = await readList(options, (page) =>
    client.call("listApprovals", { query: { ...page, ...filter } }),
  );
  showList(context, list, {
    none: state === "pending" ? "Nothing waits for a decision." : "No approvals.",
    columns: ["approval", "state", "requested by", "requested", "expires", "decided by"],
    row: (approval) => [
      approval.job_id,
      { text: approval.state, tone: toneOf(approval.state) },
      approval.requested_by,
      age(approval.requested_at, terminal.nowMs()),
      age(approval.expires_at, terminal.nowMs()),
      approval.decided_by_name ?? approval.decided_by,
    ],
  });
}

async function showApproval(context: Context, id: string): Promise<void> {
  const { output, terminal } = context;
  const shown = await context.client().call("approvalContext", { params: { job_id: id } });
  output.answer(shown, () => [
    ...output.facts([
      ["approval", shown.job_id],
      ["state", { text: shown.state, tone: toneOf(shown.state) }],
      ["requested by", shown.requested_by],
      ["requested", age(shown.requested_at, terminal.nowMs())],
      ["expires", age(shown.expires_at, terminal.nowMs())],
      ["decided by", deciderOf(shown)],
      ["reason", shown.reason === undefined ? undefined : visible(shown.reason)],
      ["hash", shown.hash],
    ]),
    visible(JSON.stringify(shown.payload, null, 2)),
  ]);
}

function deciderOf({ decided_by, decided_by_name, decided_by_role }: Success<"approvalContext">) {
  if (decided_by_name === undefined) return decided_by;
  return visible(`${decided_by_name} (${decided_by_role ?? "key"}), ${decided_by}`);
}

type DecisionOptions = { readonly reason?: string; readonly hash?: string };

async function sendDecision(
  context: Context,
  decision: "approve" | "reject",
  id: string,
  { reason, hash }: DecisionOptions,
): Promise<void> {
  const body = { ...(reason === undefined ? {} : { reason }), ...(hash === undefined ? {} : { hash }) };
  const approval = await context.client().call(decision, { params: { job_id: id }, body });
  context.output.answer(approval, () => [
    `${context.output.paint(toneOf(approval.state), approval.state)}: ${visible(approval.job_id)}`,
  ]);
  context.output.note(`The run goes on: ${context.terminal.calledAs} runs watch ${approval.run_id}`);
}
