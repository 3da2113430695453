// interlock backup, restore: the data of a stopped embedded server as one file, and back.
import { resolve } from "node:path";
import type { Cli, Context } from "../context.ts";
import { backUp, restoreFrom } from "../copy-data.ts";
import { configSources } from "../find-server.ts";

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
