// Prepares the checkout and then runs a command in it:
//   node scripts/with-setup.mjs [--servers] -- <command> [arguments ...]
// It uses only what Node brings along, since it runs before any package is installed.
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { requireNodeVersion } from "./setup/node-versions.mjs";
import { ensurePackages } from "./setup/packages.mjs";
import { runCommand } from "./setup/run-command.mjs";
import { ensureServers } from "./setup/servers.mjs";
import { SetupError, say } from "./setup/setup-error.mjs";

const USAGE = "usage: node scripts/with-setup.mjs [--servers] -- <command> [arguments ...]";

function parseArguments(words) {
  const separator = words.indexOf("--");
  const options = separator === -1 ? words : words.slice(0, separator);
  const unknown = options.find((option) => option !== "--servers");
  if (unknown !== undefined) throw new SetupError(`with-setup: unknown option ${unknown}\n${USAGE}`, 2);
  const [command, ...args] = separator === -1 ? [] : words.slice(separator + 1);
  if (command === undefined) throw new SetupError(`with-setup: no command after --\n${USAGE}`, 2);
  return { needsServers: options.includes("--servers"), command, args };
}

async function main() {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const { needsServers, command, args } = parseArguments(process.argv.slice(2));
  requireNodeVersion(root);
  await ensurePackages(root);
  const servers = needsServers ? await ensureServers(root) : {};
  const path = [join(root, "node_modules", ".bin"), process.env.PATH ?? ""].join(delimiter);
  const result = await runCommand(command, args, { env: { ...process.env, ...servers, PATH: path } });
  if (result.error) say(`with-setup: cannot run ${command}: ${result.error.message}`);
  return result.exitCode;
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
  process.exitCode = error.exitCode;
}
