// interlock run: starts a run under an idempotency key and shows it live to its end.

import type { JsonValue } from "../../domain/fingerprint.ts";
import type { Client } from "../../sdk/client.ts";
import { InterlockApiError, InterlockConnectionError } from "../../sdk/client-errors.ts";
import type { Cli, Context } from "../context.ts";
import { type Run, stepTable } from "../run-lines.ts";
import { shellWord } from "../terminal.ts";
import { between, toneOf } from "../text.ts";
import { durationMs, typedJson } from "../values.ts";
import { hasEnded, leftGoing, lineTeller, watchRun } from "../watch-run.ts";

export function addRunCommand({ program, does }: Cli): void {
  program
    .command("run")
    .description("start a run and show it live; Ctrl-C leaves it running")
    .argument("<workflow>")
    .option("-i, --input <json>", "its input: JSON, @file, or - for standard input", "{}")
    .option("-k, --key <key>", "idempotency key: the same key and input again give the same run")
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
  readonly wait: boolean;
  readonly timeout?: number;
};

async function run(context: Context, workflow: string, options: RunOptions): Promise<void> {
  const input = await typedJson(context.terminal, "--input", options.input);
  const client = context.client();
  const { runId, replayed } = await start(context, client, { workflow, input, key: options.key });
  if (!options.wait) {
    context.output.answer({ run_id: runId, replayed }, () => [runId]);
    context.output.note(`Follow it: ${context.terminal.calledAs} runs watch ${runId}`);
    return;
  }
  context.output.note(`run ${runId}${replayed ? " (this key has started it before)" : ""}`);
  await showToTheEnd(context, client, runId, options.timeout);
}

type Start = { readonly workflow: string; readonly input: JsonValue; readonly key: string | undefined };

/** A start whose answer was lost may have happened: only the same key finds it again, so the key is printed. */
async function start(
  { terminal, output }: Context,
  client: Client,
  { workflow, input, key = `cli-${terminal.token()}` }: Start,
): Promise<{ readonly runId: string; readonly replayed: boolean }> {
  try {
    const { body, headers } = await client.callWithResponse("startRun", {
      params: { id: workflow },
      body: input,
      idempotencyKey: key,
    });
    if ("dry_run" in body) throw new Error("the server answered a start with a dry run");
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

export async function showToTheEnd(
  context: Context,
  client: Client,
  runId: string,
  timeoutMs?: number,
): Promise<void> {
  const { output } = context;
  const watched = await watchRun(context, client, runId, {
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    onEvent: lineTeller(context, runId),
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
