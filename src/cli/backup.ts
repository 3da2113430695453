// npm run backup -- <file>: copies the embedded data of a stopped server into one file.
import { parseArgs } from "node:util";
import { embeddedData } from "../control-plane.ts";
import { whoHasIt } from "../embedded/start-server.ts";
import { loadConfig, processEnvironment } from "../load-config.ts";
import { runProgram, UsageError } from "./run-program.ts";
import { asTyped, fromTyped } from "./typed-folder.ts";

const usage = "usage: npm run backup -- <file>";

await runProgram(usage, async () => {
  const { positionals } = parseArgs({ options: {}, allowPositionals: true });
  const [target, ...more] = positionals;
  if (target === undefined || more.length > 0) throw new UsageError("backup: name one file to write");
  const directory = loadConfig({ env: processEnvironment() }).config["store.dataDirectory"];
  const copy = await whoHasIt(directory, () => embeddedData.backUp(directory, fromTyped(target)));
  console.log(`${asTyped(copy.file)}: ${copy.bytes} bytes, schema version ${copy.schemaVersion}, checked.`);
  console.log("It holds the inputs and outputs of all runs, and no API keys: those are in keys.json.");
});
