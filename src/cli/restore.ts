// npm run restore -- <file> [--replace]: puts a backup in place of the embedded data of a stopped server.
import { parseArgs } from "node:util";
import { processEnvironment } from "../load-config.ts";
import { restoreFrom } from "./commands/config.ts";
import { runProgram, UsageError } from "./run-program.ts";
import { fromTyped } from "./terminal.ts";

const usage = "usage: npm run restore -- <file> [--replace]";

await runProgram(usage, async () => {
  const options = { replace: { type: "boolean", default: false } } as const;
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const [source, ...more] = positionals;
  if (source === undefined || more.length > 0) throw new UsageError("restore: name one backup");
  const existing = values.replace ? "replace" : "refuse";
  const { lines } = await restoreFrom({ env: processEnvironment() }, { source: fromTyped(source), existing });
  for (const line of lines) console.log(line);
});
