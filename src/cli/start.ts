// npm start: runs the embedded demonstration in a data folder of its own, and says where the data lies.
import { mkdirSync, mkdtempSync } from "node:fs";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";
import { createControlPlane } from "../control-plane.ts";
import { InterlockError } from "../errors.ts";
import { loadConfig, processEnvironment } from "../load-config.ts";
import { demonstrate } from "./demonstration.ts";

const usage = "usage: npm start -- [--once]";

try {
  // There is no server yet to leave running, so that with and without --once the demonstration ends by itself.
  parseArgs({ options: { once: { type: "boolean", default: false } } });
  await main();
} catch (error) {
  process.exitCode = 1;
  const parsing =
    error instanceof TypeError && "code" in error && String(error.code).startsWith("ERR_PARSE_ARGS");
  console.error(parsing ? `${error.message}\n${usage}` : explain(error));
}

async function main(): Promise<void> {
  const env = processEnvironment();
  const base = loadConfig({ env }).config["store.dataDirectory"];
  mkdirSync(base, { recursive: true, mode: 0o700 });
  // A folder of its own for every run: two at once do not meet, and an earlier one can still be looked at.
  const dataDirectory = mkdtempSync(join(base, "demo-"));
  const plane = await createControlPlane({
    env,
    // What a real operator reads in the log is told in the story's own words here.
    ports: { log: { info: () => {}, warn: () => {}, error: (message) => console.error(message) } },
    overrides: { "store.kind": "sqlite", "store.dataDirectory": dataDirectory },
  });
  const file = relative(process.cwd(), join(dataDirectory, "interlock.db"));
  console.log(`Interlock, embedded: one process, no services. All state is in ${file}\n`);
  try {
    await demonstrate(plane, (line) => console.log(line));
  } finally {
    await plane.close();
  }
  console.log(
    `Every answer above was given after its commit was on disk. Look inside: sqlite3 ${file} 'select * from run'`,
  );
  console.log(
    "Next: ARCHITECTURE.md says how it works, docs/guide/embedding.md how to use it, npm test proves it.",
  );
}

function explain(error: unknown): string {
  if (error instanceof InterlockError) return `${error.message} (${error.code})`;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
