// interlock workflows: definitions, from a file to the server and back.
import { extname } from "node:path";
import type { JsonValue } from "../../domain/fingerprint.ts";
import { InterlockApiError } from "../../sdk/client-errors.ts";
import type { Cli, Context } from "../context.ts";
import { type ListOptions, readList, showList, withListOptions } from "../output.ts";
import { problemLines } from "../report-failure.ts";
import { age, shortened, toneOf, visible } from "../text.ts";
import { typedFile, typedJson } from "../values.ts";

export function addWorkflowCommands({ program, does }: Cli): void {
  const workflows = program.command("workflows").description("list, save, check and try out workflows");
  withListOptions(workflows.command("list", { isDefault: true }).description("list the workflows")).action(
    does(listWorkflows),
  );
  workflows
    .command("show")
    .description("print a workflow's definition, as YAML")
    .argument("<workflow>")
    .action(does(showWorkflow));
  workflows
    .command("save")
    .alias("apply")
    .description("create a workflow, or replace the one with the same id")
    .argument("<file>", "YAML or JSON; - is standard input")
    .addHelpText("after", "\nExample:\n  interlock workflows save workflow.yaml")
    .action(does(saveWorkflow));
  workflows
    .command("validate")
    .description("check a definition without saving it: all problems, with line and column")
    .argument("<file>", "YAML or JSON; - is standard input")
    .action(does(validateWorkflow));
  workflows
    .command("delete")
    .description("remove a workflow; started runs continue")
    .argument("<workflow>")
    .action(does(deleteWorkflow));
  workflows
    .command("dry-run")
    .description("dry-run a workflow without starting a run")
    .argument("<workflow>")
    .option("-i, --input <json>", "the run's input: JSON, @file, or - for standard input")
    .option("--outputs <json>", "what workers would answer, by step: JSON, @file or -")
    .addHelpText("after", `\nExample:\n  interlock workflows dry-run hello --input '{"name": "Ada"}'`)
    .action(does(dryRun));
}

async function listWorkflows(context: Context, options: ListOptions): Promise<void> {
  const client = context.client();
  const list = await readList(options, (query) => client.call("listWorkflows", { query }));
  const { terminal } = context;
  showList(context, list, {
    none: `No workflows yet: ${terminal.calledAs} workflows save <file>`,
    columns: ["workflow", { title: "revision", align: "right" }, "steps", "saved"],
    row: ({ id, revision, saved_at, definition }) => [
      id,
      revision,
      stepNames(definition).join(" "),
      age(saved_at, terminal.nowMs()),
    ],
  });
}

function stepNames(definition: JsonValue): string[] {
  const { steps } = definition as { readonly steps?: unknown };
  return typeof steps === "object" && steps !== null ? Object.keys(steps) : [];
}

async function showWorkflow(context: Context, id: string): Promise<void> {
  const workflow = await context.client().call("getWorkflow", { params: { id } });
  // Loaded here alone: the package takes 30 ms of every command's start.
  const { stringify } = await import("yaml");
  context.output.answer(workflow, () => [
    `# revision ${workflow.revision}, saved ${workflow.saved_at}`,
    stringify(workflow.definition).trimEnd(),
  ]);
}

/** JSON is YAML too, but a file that says it is JSON is to be read as strictly as JSON is. */
const mediaTypeOf = (file: string) =>
  extname(file).toLowerCase() === ".json" ? "application/json" : "application/yaml";

async function saveWorkflow(context: Context, file: string): Promise<void> {
  const text = await typedFile(context.terminal, file);
  try {
    const saved = await context.client().call("saveWorkflow", { body: text, mediaType: mediaTypeOf(file) });
    context.output.answer(saved, () => [`Saved ${saved.id}, revision ${saved.revision}.`]);
    context.output.note(`Start a run of it: ${context.terminal.calledAs} run ${saved.id}`);
  } catch (error) {
    if (
      !(error instanceof InterlockApiError) ||
      context.output.isJson ||
      error.problem.problems === undefined
    )
      throw error;
    context.output.note(`${error.problem.title}:`, ...problemLines(error.problem.problems, file));
    context.end("failed");
  }
}

async function validateWorkflow(context: Context, file: string): Promise<void> {
  const text = await typedFile(context.terminal, file);
  const checked = await context
    .client()
    .call("validateWorkflow", { body: text, mediaType: mediaTypeOf(file) });
  const { valid, steps, problems = [], warnings = [] } = checked;
  context.output.answer(checked, () => [
    valid ? `${file} is valid: ${steps} steps.` : `${file} is not valid:`,
    ...problemLines(problems, file),
    ...(warnings.length === 0 ? [] : ["Warnings:", ...problemLines(warnings, file)]),
  ]);
  if (!valid) context.end("failed");
}

async function deleteWorkflow(context: Context, id: string): Promise<void> {
  await context.client().call("removeWorkflow", { params: { id } });
  context.output.answer({ id, deleted: true }, () => [`Deleted ${id}. Runs that were started go on.`]);
}

type DryRunOptions = { readonly input?: string; readonly outputs?: string };

async function dryRun(context: Context, id: string, { input, outputs }: DryRunOptions): Promise<void> {
  const { terminal, output } = context;
  const body = {
    ...(input === undefined ? {} : { input: await typedJson(terminal, "--input", input) }),
    ...(outputs === undefined
      ? {}
      : { outputs: (await typedJson(terminal, "--outputs", outputs)) as Record<string, JsonValue> }),
  };
  const played = await context.client().call("dryRunWorkflow", { params: { id }, body });
  output.answer(played, () => [
    ...output.table(
      ["step", "type", "status", "topic", "input", "why"],
      played.steps.map((step) => [
        step.step_id,
        step.type,
        { text: step.status, tone: toneOf(step.status) },
        step.topic,
        step.input === undefined ? "" : shortened(JSON.stringify(step.input), 60),
        step.error?.message ?? step.skipped_because,
      ]),
    ),
    ...(played.gates === undefined
      ? []
      : [`It would pass ${played.gates.map(({ gate, at_limit }) => `${gate} (${at_limit})`).join(", ")}.`]),
    `The run would be ${visible(played.status)}${played.truncated ? goesOn(played.truncated_because) : ""}. Nothing was started.`,
  ]);
}

function goesOn(because: string | undefined): string {
  const why = because === "work" ? ", where its expressions cost too much to be played through" : "";
  return `; it goes on beyond what is shown${why}`;
}
