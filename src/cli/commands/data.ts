// interlock backup, restore: the data of a stopped embedded server as one file, and back; also for npm run backup and restore.
import { resolve } from "node:path";
import { keyPaths, readFileIfThere } from "../../embedded/data-folder.ts";
import { type ConfigSources, loadConfig } from "../../load-config.ts";
import { type Cli, type Context, configSources } from "../context.ts";
import { asTyped } from "../terminal.ts";

export function addDataCommands({ program, does }: Cli): void {
  program
    .command("backup")
    .description("copy the data of a stopped embedded server into one file")
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
