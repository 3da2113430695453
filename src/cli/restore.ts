// npm run restore -- <file> [--replace]: puts a backup in place of the embedded data of a stopped server.
import { parseArgs } from "node:util";
import { embeddedData } from "../control-plane.ts";
import { keyPaths } from "../embedded/keys-file.ts";
import { readFileIfThere } from "../embedded/private-file.ts";
import { whoHasIt } from "../embedded/start-server.ts";
import { loadConfig, processEnvironment } from "../load-config.ts";
import { runProgram, UsageError } from "./run-program.ts";
import { asTyped, fromTyped } from "./typed-folder.ts";

const usage = "usage: npm run restore -- <file> [--replace]";

await runProgram(usage, async () => {
  const options = { replace: { type: "boolean", default: false } } as const;
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const [source, ...more] = positionals;
  if (source === undefined || more.length > 0) throw new UsageError("restore: name one backup");
  const directory = loadConfig({ env: processEnvironment() }).config["store.dataDirectory"];
  const existing = values.replace ? "replace" : "refuse";
  const restored = await whoHasIt(directory, () =>
    embeddedData.restore(fromTyped(source), directory, { existing }),
  );
  console.log(
    `${asTyped(restored.file)}: ${restored.bytes} bytes, schema version ${restored.schemaVersion}, checked.`,
  );
  if (restored.before !== undefined)
    console.log(`The data from before is kept in ${asTyped(restored.before)}.`);
  if (readFileIfThere(keyPaths(directory).keysFile) === undefined) {
    console.log(
      "There is no keys.json here: the keys from before still work; npm start -- --new-keys makes new ones.",
    );
  }
});
