// Installs the packages of npm-shrinkwrap.json when, and only when, node_modules does not match it.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exclusively } from "./exclusive.mjs";
import { runCommand } from "./run-command.mjs";
import { SetupError, say } from "./setup-error.mjs";

/** Dev packages are named because NODE_ENV=production would leave them out; packages run no scripts, since any of hundreds could. */
const INSTALL_ARGUMENTS = ["ci", "--include=dev", "--ignore-scripts", "--no-audit", "--no-fund"];

export async function ensurePackages(root) {
  if (packagesAreCurrent(root)) return;
  await exclusively(join(root, ".setup", "lock"), async (shareLockWith) => {
    if (!packagesAreCurrent(root)) await installPackages(root, shareLockWith);
  });
}

export function packagesAreCurrent(root) {
  return readIfPresent(stampPath(root)) === wantedStamp(root);
}

/** What node_modules has to match: the locked packages, and the machine. No package is compiled, so every Node may use them. */
export function wantedStamp(root) {
  const lock = readIfPresent(join(root, "npm-shrinkwrap.json"));
  if (lock === null) {
    throw new SetupError("npm-shrinkwrap.json is missing: restore it with git checkout npm-shrinkwrap.json");
  }
  const digest = createHash("sha256").update(lock).digest("hex");
  return `${digest} ${process.platform}-${process.arch}\n`;
}

/** The stamp lives inside node_modules, so that it goes when the folder goes. */
export function stampPath(root) {
  return join(root, "node_modules", ".interlock-stamp");
}

async function installPackages(root, shareLockWith) {
  say("Installing packages (first run, about 10 s) ...");
  const stamp = wantedStamp(root);
  const stdio = ["ignore", process.stderr, process.stderr];
  const result = await runCommand("npm", INSTALL_ARGUMENTS, { cwd: root, stdio, onStart: shareLockWith });
  if (result.stopCode !== null) throw new SetupError("Stopped while installing packages.", result.stopCode);
  if (result.error !== null) {
    throw new SetupError(
      `Cannot run npm (${result.error.message}): install it, it comes with Node, and try again.`,
    );
  }
  if (result.exitCode !== 0) {
    throw new SetupError(
      `npm ci failed with exit code ${result.exitCode}; see its output above. ` +
        "Check the network connection and the package registry, then run the command again.",
    );
  }
  writeFileSync(stampPath(root), stamp);
}

function readIfPresent(path) {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (error.code === "ENOENT") return null;
    throw error;
  }
}
