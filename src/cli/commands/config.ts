// interlock config, backup, restore: the effective settings and their origins; the data of an embedded server as one file.

import { resolve } from "node:path";
import { type SettingName, settings } from "../../config.ts";
import { keyPaths, readFileIfThere } from "../../embedded/data-folder.ts";
import { InterlockError } from "../../errors.ts";
import { type ConfigSources, loadConfig, type Origin } from "../../load-config.ts";
import type { Setting } from "../../settings/kinds.ts";
import { type Cli, type Context, configSources } from "../context.ts";
import { UsageError } from "../run-program.ts";
import { asTyped } from "../terminal.ts";

export function addConfigCommands({ program, does }: Cli): void {
  const config = program.command("config").description("settings: effective values and where they come from");
  config
    .command("show", { isDefault: true })
    .description("print every setting that a server started here would have")
    .argument("[names...]", "only these, or those that begin so, such as gateway")
    .option("--changed", "only those that are not the default")
    .addHelpText("after", "\nExamples:\n  interlock config --changed\n  interlock config gateway store.kind")
    .action(does(showConfig));
  config
    .command("check")
    .description("check a configuration file together with the environment: all problems at once")
    .argument("[file]", "default: --config or INTERLOCK_CONFIG")
    .action(does(checkConfig));
}

type Row = {
  readonly name: string;
  readonly value: string | number;
  readonly origin: Origin;
  readonly environment: string;
};

async function showConfig(
  context: Context,
  names: readonly string[],
  { changed }: { readonly changed?: boolean },
): Promise<void> {
  const { output } = context;
  const loaded = loadConfig(configSources(context.terminal, context.options));
  const rows = Object.entries<Setting>(settings).map(
    ([name, row]): Row => ({
      name,
      value: withoutSecret(row, loaded.config[name as SettingName]),
      origin: loaded.origins[name as SettingName],
      environment: `INTERLOCK_${row.env}`,
    }),
  );
  const isNamed = ({ name }: Row) =>
    names.length === 0 || names.some((named) => name === named || name.startsWith(`${named}.`));
  const named = rows.filter(isNamed);
  if (named.length === 0) throw new UsageError(`there is no setting ${names.join(", ")}`);
  const shown = named.filter(({ origin }) => changed !== true || origin !== "default");
  output.answer(
    { settings: shown.map(({ name, value, origin, environment }) => ({ name, value, origin, environment })) },
    () =>
      shown.length === 0
        ? ["Every setting is the default."]
        : output.table(
            ["setting", "value", "from", "environment"],
            shown.map(({ name, value, origin, environment }) => [
              name,
              value,
              { text: origin, tone: origin === "default" ? "quiet" : "strong" },
              { text: environment, tone: "quiet" },
            ]),
          ),
  );
}

/** Passwords stand in settings of their own, or in addresses. */
function withoutSecret(row: Setting, value: string | number): string | number {
  if (typeof value === "number" || value === "") return value;
  if (row.kind === "text" && row.secret === true) return "(hidden)";
  return value.replaceAll(/(?<=:\/\/)[^/\s@,]+(?=@)/g, (login) => {
    const colon = login.indexOf(":");
    return colon === -1 ? "(hidden)" : `${login.slice(0, colon)}:(hidden)`;
  });
}

async function checkConfig(context: Context, file: string | undefined): Promise<void> {
  const { terminal, output, options } = context;
  const path = file ?? options.config ?? terminal.env.INTERLOCK_CONFIG;
  const problems = problemsOf(() =>
    loadConfig({
      ...configSources(terminal, { ...options, ...(path === undefined ? {} : { config: path }) }),
    }),
  );
  const subject = path ?? "the environment";
  output.answer({ file: path ?? null, valid: problems.length === 0, problems }, () =>
    problems.length === 0
      ? [`${subject}: ok`]
      : [`${subject}:`, ...problems.map((problem) => `  ${problem}`)],
  );
  if (problems.length > 0) context.end("failed");
}

function problemsOf(load: () => unknown): readonly string[] {
  try {
    load();
    return [];
  } catch (error) {
    if (!(error instanceof InterlockError) || error.code !== "config_invalid") throw error;
    return error.detail.split("; ");
  }
}

export function addDataCommands({ program, does }: Cli): void {
  program
    .command("backup")
    .description("copy the data of an embedded server into one file, while it runs or after it has stopped")
    .argument("<file>", "it must not exist")
    .action(does(backup));
  program
    .command("restore")
    .description("put a backup in place of the data of a stopped embedded server")
    .argument("<file>")
    .option("--replace", "there is data already: keep it beside, and replace it")
    .action(does(restore));
}

async function backup(context: Context, file: string): Promise<void> {
  const { output, terminal, options } = context;
  const { copy, lines } = await backUp(configSources(terminal, options), resolve(terminal.typedFolder, file));
  output.answer(copy, () => lines);
}

async function restore(
  context: Context,
  file: string,
  { replace }: { readonly replace?: boolean },
): Promise<void> {
  const { output, terminal, options } = context;
  const { restored, lines } = await restoreFrom(configSources(terminal, options), {
    source: resolve(terminal.typedFolder, file),
    existing: replace === true ? "replace" : "refuse",
  });
  output.answer(restored, () => lines);
}

/** The store's adapter is loaded when it is needed: most commands only talk to a server. */
const programs = async () => ({
  ...(await import("../../control-plane.ts")),
  ...(await import("../../embedded/start-server.ts")),
});

export async function backUp(sources: ConfigSources, target: string) {
  const { embeddedData, whoHasIt } = await programs();
  const directory = loadConfig(sources).config["store.dataDirectory"];
  const copy = await whoHasIt(directory, () => embeddedData.backUp(directory, target));
  const lines = [
    `${asTyped(copy.file)}: ${copy.bytes} bytes, schema version ${copy.schemaVersion}, checked.`,
    "It holds the inputs and outputs of all runs, and no API keys: those are in keys.json.",
  ];
  return { copy, lines };
}

export async function restoreFrom(
  sources: ConfigSources,
  { source, existing }: { readonly source: string; readonly existing: "replace" | "refuse" },
) {
  const { embeddedData, whoHasIt } = await programs();
  const directory = loadConfig(sources).config["store.dataDirectory"];
  const restored = await whoHasIt(directory, () => embeddedData.restore(source, directory, { existing }));
  const lines = [
    `${asTyped(restored.file)}: ${restored.bytes} bytes, schema version ${restored.schemaVersion}, checked.`,
    ...(restored.before === undefined
      ? []
      : [`The data from before is kept in ${asTyped(restored.before)}.`]),
    ...(readFileIfThere(keyPaths(directory).keysFile) === undefined
      ? [
          "There is no keys.json here: the keys from before still work; npm start -- --new-keys makes new ones.",
        ]
      : []),
  ];
  return { restored, lines };
}
