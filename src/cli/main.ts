// The command `interlock`: puts its commands together, runs one of them, and says by a number how it ended.
import { Command, CommanderError, Option } from "commander";
import { similarTopics } from "../domain/excerpt.ts";
import { product } from "../load-config.ts";
import { addApprovalCommands } from "./commands/approvals.ts";
import { addBudgetCommands } from "./commands/budgets.ts";
import { addCanaryCommands } from "./commands/canaries.ts";
import { addConfigCommands, addDataCommands } from "./commands/config.ts";
import { addDeadLetterCommands } from "./commands/dead-letters.ts";
import { addDoctorCommand } from "./commands/doctor.ts";
import { addDrillCommand } from "./commands/drill.ts";
import { addAuditCommands, addEventCommands } from "./commands/events.ts";
import { addInitCommand } from "./commands/init.ts";
import { addLockCommands } from "./commands/locks.ts";
import { addPolicyCommands } from "./commands/policies.ts";
import { addPoolCommands, addTopicCommands, addWorkerCommands } from "./commands/pools.ts";
import { addQueueCommands } from "./commands/queues.ts";
import { addRunCommand, addRunsCommands } from "./commands/runs.ts";
import { addServeCommand } from "./commands/serve.ts";
import { addKeyCommands, addTenantCommands } from "./commands/tenants.ts";
import { addWorkflowCommands } from "./commands/workflows.ts";
import { type Cli, createCli, type Session } from "./context.ts";
import { endingOf, exitCodes, reportFailure } from "./report-failure.ts";
import { UsageError } from "./run-program.ts";
import type { Terminal } from "./terminal.ts";

/** Gives the exit code. `words` are those after the program's name. */
export async function main(words: readonly string[], terminal: Terminal): Promise<number> {
  const session: Session = {
    terminal,
    ending: "ok",
    format: words.includes("--json") ? "json" : "text",
  };
  const program = createProgram(session);
  try {
    await program.parseAsync(words, { from: "user" });
    return exitCodes[session.ending].code;
  } catch (error) {
    if (error instanceof CommanderError) return afterCommander(session, program, error, words);
    reportFailure(session, error);
    return exitCodes[endingOf(error)].code;
  }
}

/** 0 is help or the version that was asked for; `commander.help` is help because no command was named. */
function afterCommander(
  session: Session,
  program: Command,
  error: CommanderError,
  words: readonly string[],
): number {
  if (error.exitCode === 0) return 0;
  const unknown = error.code === "commander.excessArguments" ? unknownCommand(program, words) : undefined;
  if (error.code !== "commander.help") reportFailure(session, unknown ?? error);
  return exitCodes.usage.code;
}

/** A group has a command by default, which takes a misspelt name for one argument too many. */
function unknownCommand(program: Command, words: readonly string[]): UsageError | undefined {
  const [name, word] = words.filter((each) => !each.startsWith("-"));
  const group = program.commands.find((command) => command.name() === name);
  if (group === undefined || group.commands.length === 0 || word === undefined) return undefined;
  const names = group.commands.map((command) => command.name());
  const [nearest] = similarTopics(word, names);
  const meant = nearest === undefined ? "" : ` Did you mean ${nearest}?`;
  return new UsageError(`${name} has no command ${word}.${meant} It has ${names.join(", ")}.`);
}

/** The whole tree of commands: the program, and what the reference page is made from. */
export function createProgram(session: Session): Command {
  const { stdout, stderr, calledAs } = session.terminal;
  const program = new Command("interlock")
    .description("Starts, watches and manages workflow runs on an Interlock server.")
    .version(product().version, "-V, --version", "print the version")
    .option(
      "--url <url>",
      "the server (default: INTERLOCK_URL, or the one that has the data folder here open)",
    )
    .option(
      "--key-file <file>",
      "a file with the key (default: INTERLOCK_API_KEY, INTERLOCK_API_KEY_FILE, or the data folder's keys.json)",
    )
    // Shown in the list of processes: kept for older scripts, with a note.
    .addOption(new Option("--api-key <key>").hideHelp())
    .option("--json", "print JSON: one document, or one a line for streams")
    .option("--data <folder>", "the data folder of an embedded server (setting store.dataDirectory)")
    .option("--config <file>", "a configuration file, YAML or JSON (default: INTERLOCK_CONFIG)")
    .helpOption("-h, --help", "print help")
    .helpCommand("help [command]", "print help about a command")
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      // Printed by `reportFailure`, which knows whether JSON is wanted.
      outputError: () => {},
      getOutHelpWidth: () => Math.min(stdout.columns, 100),
      getErrHelpWidth: () => Math.min(stderr.columns, 100),
    })
    .addHelpText(
      "after",
      [
        "\nExit codes:",
        ...Object.values(exitCodes).map(({ code, meaning }) => `  ${String(code).padEnd(4)} ${meaning}`),
        `\nBegin with: ${calledAs} init`,
      ].join("\n"),
    )
    .exitOverride();
  const cli = createCli(program, session);
  for (const add of commandGroups) add(cli);
  overrideExits(program);
  return program;
}

/** Commander ends the process by itself unless every command overrides that; the same holds for where it writes. */
function overrideExits(command: Command): void {
  for (const child of command.commands) {
    child.copyInheritedSettings(command).exitOverride();
    overrideExits(child);
  }
}

const commandGroups: ReadonlyArray<(cli: Cli) => void> = [
  addInitCommand,
  addServeCommand,
  addWorkflowCommands,
  addRunCommand,
  addRunsCommands,
  addApprovalCommands,
  addDeadLetterCommands,
  addLockCommands,
  addQueueCommands,
  addBudgetCommands,
  addWorkerCommands,
  addPoolCommands,
  addTopicCommands,
  addEventCommands,
  addAuditCommands,
  addTenantCommands,
  addKeyCommands,
  addPolicyCommands,
  addCanaryCommands,
  addConfigCommands,
  addDoctorCommand,
  addDrillCommand,
  addDataCommands,
];
