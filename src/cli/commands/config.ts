// interlock config: every setting's effective value, and where it comes from.
import { type SettingName, settings } from "../../config.ts";
import { InterlockError } from "../../errors.ts";
import { loadConfig, type Origin } from "../../load-config.ts";
import type { Setting } from "../../settings/kinds.ts";
import { type Cli, type Context, configSources } from "../context.ts";
import { UsageError } from "../run-program.ts";

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
