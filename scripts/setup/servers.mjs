// Finds the servers and the promtool that tests need, and fetches what is missing.
import { spawnSync } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { fetchDebianServers } from "./debian-servers.mjs";
import { exclusively } from "./exclusive.mjs";
import { SetupError, say } from "./setup-error.mjs";

const REDIS_MAJOR_MINIMUM = 7;
const VERSION_TIMEOUT_MS = 20_000;

/** `formula` is what Homebrew calls it. Promtool is no server: it judges the alert rules. */
const SERVERS = [
  { name: "redis-server", variable: "INTERLOCK_REDIS_SERVER", formula: "redis" },
  { name: "nats-server", variable: "INTERLOCK_NATS_SERVER", formula: "nats-server" },
  { name: "promtool", variable: "INTERLOCK_PROMTOOL", formula: "prometheus" },
];

/** Returns the environment variables that hold the absolute path of each program. */
export async function ensureServers(root) {
  warnOfUnusableVariables();
  const found = findServers(root);
  if (found !== null) return found;
  return exclusively(join(root, ".setup", "lock"), async (shareLockWith) => {
    // Another process may have fetched them while this one waited.
    const foundNow = findServers(root);
    if (foundNow !== null) return foundNow;
    await fetchServers(root, shareLockWith);
    return findServers(root);
  });
}

/** A program named by its variable comes first, then one on the PATH, then one fetched before. */
function findServers(root) {
  const found = {};
  for (const server of SERVERS) {
    const path = findProvided(server) ?? findFetched(root, server);
    if (path === null) return null;
    found[server.variable] = path;
  }
  return found;
}

function findFetched(root, { name }) {
  const path = join(root, ".servers", "bin", name);
  return problemOf(name, path) === null ? path : null;
}

function findProvided({ name, variable }) {
  const named = process.env[variable] ? [resolve(process.env[variable])] : [];
  return [...named, ...candidatesOnPath(name)].find((path) => problemOf(name, path) === null) ?? null;
}

function candidatesOnPath(name) {
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return folders.map((folder) => resolve(folder, name));
}

function warnOfUnusableVariables() {
  for (const { name, variable } of SERVERS) {
    const value = process.env[variable];
    const problem = value ? problemOf(name, resolve(value)) : null;
    if (problem !== null) say(`Ignoring ${variable}: ${problem}. Correct or unset it.`);
  }
}

/** Why the program at a path cannot serve, or null when it can: the proof is that it states its version. */
function problemOf(name, path) {
  if (!isExecutable(path)) return `${path} is not an executable file`;
  const result = spawnSync(path, ["--version"], { encoding: "utf8", timeout: VERSION_TIMEOUT_MS });
  const output = `${result.stdout ?? ""}${result.stderr ?? ""}`.trim();
  if (result.status !== 0) return `${path} --version failed: ${result.error?.message ?? output}`;
  if (name !== "redis-server") return null;
  const major = Number(/v=(\d+)\./.exec(output)?.[1] ?? 0);
  return major >= REDIS_MAJOR_MINIMUM ? null : `${path} is older than ${REDIS_MAJOR_MINIMUM} (${output})`;
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

async function fetchServers(root, shareLockWith) {
  const isFetched = (server) => findFetched(root, server) !== null;
  const missing = SERVERS.filter((server) => findProvided(server) === null && !isFetched(server));
  const hasDebianTools = ["apt-get", "dpkg"].every((tool) => candidatesOnPath(tool).some(isExecutable));
  if (!hasDebianTools) throw mustInstall(missing, "This system has no apt-get to fetch them with.");
  const names = missing.map(({ name }) => name);
  say(`Fetching ${listed(names)} into .servers (first run, about 20 s) ...`);
  try {
    await fetchDebianServers({
      names,
      keepsOthers: SERVERS.some(isFetched),
      servers: join(root, ".servers"),
      scratch: join(root, ".setup", "fetch"),
      problemOf,
      onStart: shareLockWith,
    });
  } catch (error) {
    if (error instanceof SetupError) throw error;
    throw mustInstall(missing, `Fetching Debian's packages failed: ${error.message}\n`);
  }
}

function mustInstall(missing, reason) {
  const wanted = missing.map(({ name }) =>
    name === "redis-server" ? `${name} >= ${REDIS_MAJOR_MINIMUM}` : name,
  );
  const formulas = missing.map(({ formula }) => formula);
  return new SetupError(
    `${listed(missing.map(({ name }) => name))} not found. ${reason}\n` +
      `To go on, install ${listed(wanted)}, for example: brew install ${formulas.join(" ")}`,
  );
}

/** As in a sentence: a; a and b; a, b and c. */
function listed(words) {
  return [words.slice(0, -1).join(", "), ...words.slice(-1)].filter((part) => part !== "").join(" and ");
}
