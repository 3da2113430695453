// interlock dlq: work that was given up, and what becomes of it.
import { Option } from "commander";
import { type LetterState, letterStates } from "../../domain/dead-letter.ts";
import { formatTime } from "../../domain/engine/rfc3339.ts";
import { type DeadLetterReason, deadLetterReasons } from "../../domain/run.ts";
import type { Cli, Context } from "../context.ts";
import { type ListOptions, readList, showList, withListOptions } from "../output.ts";
import { UsageError } from "../run-program.ts";
import { age, toneOf, visible } from "../text.ts";
import { durationMs } from "../values.ts";

type Filter = { readonly state?: LetterState; readonly reason?: DeadLetterReason };

const reasonOption = () =>
  new Option("--reason <reason>", "given up for this reason").choices(deadLetterReasons);
const stateOption = () => new Option("--state <state>", "in this state").choices(letterStates);

export function addDeadLetterCommands({ program, does }: Cli): void {
  const dlq = program.command("dlq").description("dead letters: work that was given up");
  withListOptions(dlq.command("list", { isDefault: true }).description("list dead letters"))
    .addOption(stateOption())
    .addOption(reasonOption())
    .addHelpText("after", "\nExample:\n  interlock dlq --state open")
    .action(does(listLetters));
  dlq
    .command("show")
    .description("show a dead letter with its error and input")
    .argument("<letter>")
    .action(does(showLetter));
  dlq
    .command("retry")
    .description(
      "retry the step with the next attempt, or with the result that the letter has kept; repeating is safe",
    )
    .argument("<letter>")
    .action(does(retryLetter));
  dlq
    .command("delete")
    .description("remove a dead letter; its run stays as it is")
    .argument("<letter>")
    .action(does(deleteLetter));
  dlq
    .command("purge")
    .description("remove many dead letters")
    .option("--older-than <time>", "written longer ago than this, such as 7d", durationMs)
    .addOption(stateOption())
    .addOption(reasonOption())
    .option("--all", "of any age, state and reason")
    .addHelpText("after", "\nExample:\n  interlock dlq purge --older-than 7d --state retried")
    .action(does(purgeLetters));
}

async function listLetters(context: Context, options: ListOptions & Filter): Promise<void> {
  const { terminal } = context;
  const client = context.client();
  const filter = filterOf(options);
  const list = await readList(options, (page) =>
    client.call("listDeadLetters", { query: { ...page, ...filter } }),
  );
  showList(context, list, {
    none: "No dead letters.",
    columns: [
      "letter",
      "reason",
      "state",
      "workflow",
      "topic",
      { title: "failures", align: "right" },
      "given up",
    ],
    row: (letter) => [
      letter.id,
      letter.reason,
      { text: letter.state, tone: toneOf(letter.state) },
      letter.workflow_id,
      letter.topic,
      letter.failures,
      age(letter.at, terminal.nowMs()),
    ],
  });
}

function filterOf({ state, reason }: Filter): Filter {
  return { ...(state === undefined ? {} : { state }), ...(reason === undefined ? {} : { reason }) };
}

async function showLetter(context: Context, id: string): Promise<void> {
  const { output, terminal } = context;
  const letter = await context.client().call("inspectDeadLetter", { params: { id } });
  output.answer(letter, () => [
    ...output.facts([
      ["letter", letter.id],
      ["reason", letter.reason],
      ["state", { text: letter.state, tone: toneOf(letter.state) }],
      ["given up", age(letter.at, terminal.nowMs())],
      ["run", letter.run_id],
      ["run's status", letter.run_status],
      ["step", letter.step_id],
      ["attempt", letter.attempt],
      ["topic", letter.topic],
      ["failures", letter.failures],
      ["lost claims", letter.lost_claims],
      ["error", letter.error === undefined ? letter.because : visible(letter.error.message)],
      ["error code", letter.error?.code],
      ["input", letter.input === undefined ? undefined : visible(JSON.stringify(letter.input))],
      ["content", letter.content === undefined ? undefined : visible(JSON.stringify(letter.content))],
      ["retryable", letter.retryable ? "yes" : `no: ${letter.not_retryable_because ?? ""}`],
    ]),
  ]);
  if (letter.retryable) output.note(`Try it again: ${terminal.calledAs} dlq retry '${letter.id}'`);
}

async function retryLetter(context: Context, id: string): Promise<void> {
  const retried = await context.client().call("retryDeadLetter", { params: { id } });
  context.output.answer(retried, () => [
    retried.already
      ? `It was retried before; nothing was changed. Run ${retried.run_id}, step ${retried.step_id}.`
      : `Retrying step ${retried.step_id} of run ${retried.run_id}.`,
  ]);
}

async function deleteLetter(context: Context, id: string): Promise<void> {
  await context.client().call("removeDeadLetter", { params: { id } });
  context.output.answer({ id, deleted: true }, () => [`Deleted ${id}. Its run stays as it is.`]);
}

type PurgeOptions = Filter & { readonly olderThan?: number; readonly all?: boolean };

async function purgeLetters(context: Context, options: PurgeOptions): Promise<void> {
  const filter = filterOf(options);
  const { olderThan } = options;
  if (options.all !== true && olderThan === undefined && Object.keys(filter).length === 0)
    throw new UsageError("dlq purge: say which with --older-than, --state or --reason, or --all");
  const before = olderThan === undefined ? {} : { before: formatTime(context.terminal.nowMs() - olderThan) };
  const client = context.client();
  let purged = 0;
  for (let more = true; more; ) {
    const answer = await client.call("purgeDeadLetters", { body: { ...filter, ...before } });
    purged += answer.purged;
    more = answer.more;
  }
  context.output.answer({ purged }, () => [`Removed ${purged} dead letter${purged === 1 ? "" : "s"}.`]);
}
