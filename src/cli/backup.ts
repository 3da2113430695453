// npm run backup -- <file>: copies the embedded data into one file, also of a running server.
import { parseArgs } from "node:util";
import { processEnvironment } from "../load-config.ts";
import { backUp } from "./commands/config.ts";
import { runProgram, UsageError } from "./run-program.ts";
import { fromTyped } from "./terminal.ts";

const usage = "usage: npm run backup -- <file>";

await runProgram(usage, async () => {
  const { positionals } = parseArgs({ options: {}, allowPositionals: true });
  const [target, ...more] = positionals;
  if (target === undefined || more.length > 0) throw new UsageError("backup: name one file to write");
  const { lines } = await backUp({ env: processEnvironment() }, fromTyped(target));
  for (const line of lines) console.log(line);
});
