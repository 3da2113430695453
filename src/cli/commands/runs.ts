// interlock run, runs, why: starts runs under an idempotency key, shows them live or later, explains them, ends them by hand.
import { Option } from "commander";
import { formatTime, parseTime } from "../../domain/engine/rfc3339.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import { type RunStatus, runStatuses } from "../../domain/run.ts";
import type { Client } from "../../sdk/client.ts";
import { InterlockApiError, InterlockConnectionError } from "../../sdk/client-errors.ts";
import type { Cli, Context } from "../context.ts";
import { type ListOptions, readList, showList, withListOptions } from "../output.ts";
import {
  eventLine,
  hasEnded,
  leftGoing,
  lineReporter,
  type Run,
  runLines,
  stepTable,
  watchRun,
} from "../run-lines.ts";
import { UsageError } from "../run-program.ts";
import { shellWord } from "../terminal.ts";
import { age, between, toneOf, visible } from "../text.ts";
import { durationMs, typedJson, wholeNumber } from "../values.ts";

export function addRunCommand({ program, does }: Cli): void {
  program
    .command("run")
    .description("start a run and show it live; Ctrl-C leaves it running")
    .argument("<workflow>")
    .option("-i, --input <json>", "its input: JSON, @file, or - for standard input", "{}")
    .option("-k, --key <key>", "idempotency key: the same key and input again give the same run")
    .option("--priority <priority>", "0 to 9: where runs wait for a place, the highest go first", wholeNumber)
    .option("--no-wait", "do not wait for its end")
    .option("--timeout <time>", "stop waiting after this long, such as 5min; the run continues", durationMs)
    .addHelpText(
      "after",
      `\nExamples:\n  interlock run hello --input '{"name": "Ada"}'\n  interlock run refund --input @order.json --key order-17 --no-wait`,
    )
    .action(does(run));
}

type RunOptions = {
  readonly input: string;
  readonly key?: string;
  readonly priority?: number;
  readonly wait: boolean;
  readonly timeout?: number;
};

async function run(context: Context, workflow: string, options: RunOptions): Promise<void> {
  const input = await typedJson(context.terminal, "--input", options.input);
  const client = context.client();
  const { key, priority } = options;
  const { runId, replayed } = await start(context, client, { workflow, input, key, priority });
  if (!options.wait) {
    context.output.answer({ run_id: runId, replayed }, () => [runId]);
    context.output.note(`Follow it: ${context.terminal.calledAs} runs watch ${runId}`);
    return;
  }
  context.output.note(`run ${runId}${replayed ? " (this key has started it before)" : ""}`);
  await showToTheEnd(context, client, runId, options.timeout);
}

type Start = {
  readonly workflow: string;
  readonly input: JsonValue;
  readonly key: string | undefined;
  readonly priority: number | undefined;
};

/** A start whose answer was lost may have happened: only the same key finds it again, so the key is printed. */
async function start(
  { terminal, output }: Context,
  client: Client,
  { workflow, input, key = `cli-${terminal.token()}`, priority }: Start,
): Promise<{ readonly runId: string; readonly replayed: boolean }> {
  try {
    const { body, headers } = await client.callWithResponse("startRun", {
      params: { id: workflow },
      query: priority === undefined ? {} : { priority },
      body: input,
      idempotencyKey: key,
    });
    if ("dry_run" in body) throw new Error("the server answered a start with a dry run");
    if ("position" in body) output.note(`It waits at position ${body.position} at the gate ${body.gate}.`);
    return { runId: body.run_id, replayed: headers.get("idempotent-replayed") === "true" };
  } catch (error) {
    const isUnknown =
      (error instanceof InterlockConnectionError || error instanceof InterlockApiError) &&
      error.effect === "unknown";
    if (isUnknown)
      output.note(
        `It may have been started. The same command with --key ${shellWord(key)} finds it, or starts it once.`,
      );
    throw error;
  }
}

async function showToTheEnd(
  context: Context,
  client: Client,
  runId: string,
  timeoutMs?: number,
): Promise<void> {
  const { output } = context;
  const watched = await watchRun(context, client, runId, {
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    onEvent: lineReporter(context, runId),
  });
  if (watched.kind !== "ended") {
    if (output.isJson) output.answer(await client.call("getRun", { params: { id: runId } }), () => []);
    leftGoing(context, runId, watched);
    return;
  }
  output.answer(watched.run, () => [
    "",
    ...stepTable(output, watched.run),
    "",
    endLine(context, watched.run),
  ]);
  if (watched.run.status !== "succeeded") {
    output.note(`Why: ${context.terminal.calledAs} why ${runId}`);
    context.end("failed");
  }
}

function endLine({ output }: Context, ended: Run): string {
  const took = between(ended.created_at, ended.completed_at);
  const how = hasEnded(ended) ? `${ended.status}${took === "" ? "" : ` in ${took}`}` : ended.status;
  return output.paint(toneOf(ended.status), `The run ${how}.`);
}

export function addRunsCommands({ program, does }: Cli): void {
  const runs = program.command("runs").description("list, show, watch, cancel and rerun runs");
  withListOptions(runs.command("list", { isDefault: true }).description("list runs, newest first"))
    .addOption(new Option("--status <status>", "with this status").choices(runStatuses))
    .option("--workflow <workflow>", "of this workflow")
    .addHelpText("after", "\nExample:\n  interlock runs --status waiting --workflow refund")
    .action(does(listRuns));
  runs
    .command("show")
    .description("show a run with its steps")
    .argument("<run>")
    .option("--step <step>", "print this step's output, whole")
    .action(does(showRun));
  withListOptions(
    runs.command("timeline").description("print what happened in a run").argument("<run>"),
  ).action(does(showTimeline));
  runs
    .command("watch")
    .description("follow a run to its end; Ctrl-C leaves it running")
    .argument("<run>")
    .option("--timeout <time>", "stop watching after this long, such as 5min; the run continues", durationMs)
    .action(does(watch));
  runs
    .command("cancel")
    .description("cancel a run")
    .argument("<run>")
    .option("--reason <text>", "why; it is kept in the timeline")
    .action(does(cancelRun));
  runs
    .command("delete")
    .description("delete a run and all that belongs to it; one that has not ended is cancelled first")
    .argument("<run>")
    .action(does(deleteRun));
  runs
    .command("rerun")
    .description("start a new run from one of its steps, keeping the results before it")
    .argument("<run>")
    .option("--from <step>", "the first step to do again (default: the one that failed)")
    .option("-k, --key <key>", "idempotency key")
    .option("--plan", "only say which steps would be kept and which done again")
    .option("--no-wait", "do not wait for the new run's end")
    .addHelpText("after", "\nExample:\n  interlock runs rerun run_... --from publish --plan")
    .action(does(rerun));
  program
    .command("why")
    .description("explain why a run does not move, or how it ended")
    .argument("<run>")
    .action(does(explain));
}

type RunsOptions = ListOptions & { readonly status?: RunStatus; readonly workflow?: string };

async function listRuns(context: Context, options: RunsOptions): Promise<void> {
  const { terminal } = context;
  const filter = {
    ...(options.status === undefined ? {} : { status: options.status }),
    ...(options.workflow === undefined ? {} : { workflow_id: options.workflow }),
  };
  const client = context.client();
  const list = await readList(options, (page) => client.call("listRuns", { query: { ...page, ...filter } }));
  showList(context, list, {
    none:
      Object.keys(filter).length > 0
        ? "No such runs."
        : `No runs yet. Start one: ${terminal.calledAs} run <workflow>`,
    columns: ["run", "workflow", "status", "started", { title: "took", align: "right" }, "by"],
    row: (run) => [
      run.run_id,
      run.workflow_id,
      {
        text:
          run.cancel_requested && run.completed_at === undefined ? `${run.status}, cancelling` : run.status,
        tone: toneOf(run.status),
      },
      age(run.created_at, terminal.nowMs()),
      between(run.created_at, run.completed_at),
      run.created_by,
    ],
  });
}

async function showRun(context: Context, id: string, { step }: { readonly step?: string }): Promise<void> {
  const run = await context.client().call("getRun", { params: { id } });
  if (step === undefined) {
    context.output.answer(run, () => runLines(context, run));
    return;
  }
  const found = run.steps[step];
  if (found === undefined)
    throw new UsageError(`the run has no step ${step}; it has ${Object.keys(run.steps).join(", ")}`);
  context.output.answer(found, () => [
    visible(JSON.stringify(found.output ?? null)) === JSON.stringify(found.output ?? null)
      ? JSON.stringify(found.output ?? null, null, 2)
      : visible(JSON.stringify(found.output ?? null)),
  ]);
}

async function showTimeline(context: Context, id: string, options: ListOptions): Promise<void> {
  const { output } = context;
  const client = context.client();
  const list = await readList(options, (query) => client.call("readTimeline", { params: { id }, query }));
  const beganMs = parseTime(list.items[0]?.at ?? "") ?? 0;
  showList(context, list, {
    none: "Nothing has happened yet.",
    lines: (items) => items.map((event) => eventLine(output, event, beganMs)),
  });
}

async function watch(
  context: Context,
  id: string,
  { timeout }: { readonly timeout?: number },
): Promise<void> {
  const { output } = context;
  const client = context.client();
  if (!output.isJson) {
    await showToTheEnd(context, client, id, timeout);
    return;
  }
  const watched = await watchRun(context, client, id, {
    ...(timeout === undefined ? {} : { timeoutMs: timeout }),
    onEvent: (event) => output.item(event, () => []),
  });
  if (watched.kind !== "ended") leftGoing(context, id, watched);
  else if (watched.run.status !== "succeeded") context.end("failed");
}

async function cancelRun(
  context: Context,
  id: string,
  { reason }: { readonly reason?: string },
): Promise<void> {
  const body = reason === undefined ? {} : { reason };
  await context.client().call("cancelRun", { params: { id }, body });
  context.output.answer({ run_id: id, cancel_requested: true }, () => [`Cancelling ${id}.`]);
}

async function deleteRun(context: Context, id: string): Promise<void> {
  await context.client().call("deleteRun", { params: { id } });
  context.output.answer({ run_id: id, deleted: true }, () => [`Deleted ${id}.`]);
}

type RerunOptions = {
  readonly from?: string;
  readonly key?: string;
  readonly plan?: boolean;
  readonly wait: boolean;
};

async function rerun(context: Context, id: string, options: RerunOptions): Promise<void> {
  const { output, terminal } = context;
  const client = context.client();
  const from = options.from ?? (await failedStep(context, id));
  const answer = await client.call("rerunRun", {
    params: { id },
    body: { from_step: from, ...(options.plan === true ? { dry_run: true } : {}) },
    idempotencyKey: options.key ?? `cli-${terminal.token()}`,
  });
  if ("dry_run" in answer) {
    output.answer(answer, () => [
      `kept:   ${answer.kept.join(" ") || "nothing"}`,
      `again:  ${answer.again.join(" ")}`,
      "Nothing was started.",
    ]);
    return;
  }
  if (options.wait) {
    output.note(`run ${answer.run_id}, again from ${from}`);
    await showToTheEnd(context, client, answer.run_id);
    return;
  }
  output.answer(answer, () => [answer.run_id]);
  output.note(`Follow it: ${terminal.calledAs} runs watch ${answer.run_id}`);
}

/** What a person means by "again" without saying from where. */
async function failedStep(context: Context, id: string): Promise<string> {
  const run = await context.client().call("getRun", { params: { id } });
  const step = run.error?.step_id;
  if (step === undefined)
    throw new UsageError(
      `the run is ${run.status} and no step of it failed: say from where with --from; its steps are ${Object.keys(run.steps).join(", ")}`,
    );
  return step;
}

async function explain(context: Context, id: string): Promise<void> {
  const { output, terminal } = context;
  const why = await context.client().call("explainRun", { params: { id } });
  output.answer(why, () => [
    output.paint("strong", visible(why.summary)),
    ...why.waiting_for.flatMap((item) => {
      const step = "step_id" in item ? `${item.step_id}: ` : "";
      const detail = "detail" in item ? [`    ${visible(item.detail)}`] : [];
      return [
        `  ${output.paint("busy", "•")} ${visible(step)}${item.kind.replaceAll("_", " ")} for ${between(item.since, formatTime(terminal.nowMs()))}`,
        ...detail,
        `    ${output.paint("quiet", "→")} ${visible(item.what_to_do)}`,
      ];
    }),
    ...(why.not_shown > 0 ? [`  and ${why.not_shown} open steps more`] : []),
    ...endedLines(context, why.ended),
    ...why.unanswered.map((what) => `  not answered by the store: ${visible(what)}`),
  ]);
}

type Ended = { readonly dead_letter?: { readonly id: string; readonly state: string } };

function endedLines({ terminal }: Context, ended: Ended | undefined): string[] {
  const letter = ended?.dead_letter;
  if (letter === undefined) return [];
  return [
    `  dead letter ${visible(letter.id)} (${letter.state}): ${terminal.calledAs} dlq retry '${visible(letter.id)}'`,
  ];
}
