// interlock queue: the gates at which runs wait, who is next there, and giving a run another place or taking it out.
import { headLevel } from "../../domain/gates.ts";
import type { Success } from "../../sdk/contract.ts";
import type { Cli, Context } from "../context.ts";
import { type ListOptions, readList, showList, withListOptions } from "../output.ts";
import { UsageError } from "../run-program.ts";
import { age } from "../text.ts";
import { wholeNumber } from "../values.ts";

export function addQueueCommands({ program, does }: Cli): void {
  const queue = program.command("queue").description("runs that wait for a place at a gate");
  withListOptions(
    queue.command("list", { isDefault: true }).description("list the gates at which runs wait"),
  ).action(does(listQueues));
  queue
    .command("show")
    .description("show a gate: who holds its places and who waits, the next first")
    .argument("<gate>", "as `interlock queue list` names it, or tenant")
    .option("--limit <count>", "how many of each", wholeNumber)
    .addHelpText("after", "\nExamples:\n  interlock queue show tenant\n  interlock queue show named.crm")
    .action(does(showGate));
  queue
    .command("move")
    .description("give a queued run another place")
    .argument("<run>")
    .option("--head", "before all others")
    .option("--priority <priority>", "behind those of this priority, 0 to 9", wholeNumber)
    .addHelpText("after", "\nExample:\n  interlock queue move run_... --head")
    .action(does(moveQueued));
  queue
    .command("drop")
    .description("take a run out of its queue; it ends as cancelled")
    .argument("<run>")
    .option("--reason <text>", "why; it is kept with the run")
    .action(does(dropQueued));
}

async function listQueues(context: Context, options: ListOptions): Promise<void> {
  const client = context.client();
  const list = await readList(options, (query) => client.call("listQueues", { query }));
  showList(context, list, {
    none: "No run waits at a gate.",
    columns: ["gate", "active", { title: "waiting", align: "right" }],
    row: (gate) => [gate.gate, activeOf(gate), gate.waiting],
  });
}

function activeOf({ active, limit }: { readonly active: number; readonly limit?: number }): string {
  return limit === undefined ? String(active) : `${active} of ${limit}`;
}

async function showGate(context: Context, id: string, { limit }: { readonly limit?: number }): Promise<void> {
  const query = limit === undefined ? {} : { limit };
  const gate = await context.client().call("getGate", { params: { id }, query });
  context.output.answer(gate, () => gateLines(context, gate));
}

function gateLines({ output, terminal }: Context, gate: Success<"getGate">): string[] {
  const since = (time: string | undefined) => age(time, terminal.nowMs());
  return [
    ...output.facts([
      ["gate", gate.gate],
      ["active", activeOf(gate)],
      ["waiting", gate.waiting],
    ]),
    "",
    ...output.table(
      ["holds a place", "workflow", "status", "since"],
      gate.holders.map((run) => [run.run_id, run.workflow_id, run.status, since(run.since)]),
    ),
    "",
    ...output.table(
      ["waits", "workflow", { title: "priority", align: "right" }, "since", "until"],
      gate.queue.map((run) => [
        run.run_id,
        run.workflow_id,
        run.queue?.level === headLevel ? "head" : (run.queue?.level ?? ""),
        since(run.queue?.since),
        since(run.queue?.deadline_at),
      ]),
    ),
  ];
}

type MoveOptions = { readonly head?: boolean; readonly priority?: number };

async function moveQueued(context: Context, id: string, { head, priority }: MoveOptions): Promise<void> {
  if ((head === true) === (priority !== undefined))
    throw new UsageError("queue move: give --head or --priority, one of them");
  const to = priority ?? "head";
  await context.client().call("moveQueued", { params: { id }, body: { to } });
  const where = to === "head" ? "before all others" : `behind those of priority ${to}`;
  context.output.answer({ run_id: id, to }, () => [`Moved ${id} ${where}.`]);
}

async function dropQueued(
  context: Context,
  id: string,
  { reason }: { readonly reason?: string },
): Promise<void> {
  const client = context.client();
  const run = await client.call("getRun", { params: { id } });
  if (run.status !== "queued")
    throw new UsageError(
      `queue drop: ${id} is ${run.status}; interlock runs cancel ends a run that has begun`,
    );
  await client.call("cancelRun", { params: { id }, body: reason === undefined ? {} : { reason } });
  context.output.answer({ run_id: id, dropped: true }, () => [`Dropped ${id} from its queue.`]);
}
