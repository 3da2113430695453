// Finds the servers and the promtool that tests need, and fetches what is missing.
import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, readdirSync, statSync } from "node:fs";
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

/** A peer of the benchmarks runs on it; nothing else needs it. */
const POSTGRES = [
  { name: "postgres", variable: "INTERLOCK_POSTGRES", formula: "postgresql" },
  { name: "initdb", variable: "INTERLOCK_INITDB", formula: "postgresql" },
];

/** Returns the environment variables that hold the absolute path of each program. */
export function ensureServers(root) {
  return ensure(root, SERVERS);
}

/** The same for PostgreSQL. */
export function ensurePostgres(root) {
  return ensure(root, POSTGRES);
}

async function ensure(root, servers) {
  warnOfUnusableVariables(servers);
  const found = findServers(root, servers);
  if (found !== null) return found;
  return exclusively(join(root, ".setup", "lock"), async (shareLockWith) => {
    // Another process may have fetched them while this one waited.
    const foundNow = findServers(root, servers);
    if (foundNow !== null) return foundNow;
    await fetchServers(root, servers, shareLockWith);
    return findServers(root, servers);
  });
}

/** A program named by its variable comes first, then one on the PATH, then one fetched before. */
function findServers(root, servers) {
  const found = {};
  for (const server of servers) {
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
  return [...folders, ...(POSTGRES.some((each) => each.name === name) ? postgresFolders() : [])].map(
    (folder) => resolve(folder, name),
  );
}

/** Debian's package leaves its programs off the PATH. */
function postgresFolders() {
  const versions = "/usr/lib/postgresql";
  return existsSync(versions) ? readdirSync(versions).map((version) => join(versions, version, "bin")) : [];
}

function warnOfUnusableVariables(servers) {
  for (const { name, variable } of servers) {
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

async function fetchServers(root, servers, shareLockWith) {
  const isFetched = (server) => findFetched(root, server) !== null;
  const missing = servers.filter((server) => findProvided(server) === null && !isFetched(server));
  const hasDebianTools = ["apt-get", "dpkg"].every((tool) => candidatesOnPath(tool).some(isExecutable));
  if (!hasDebianTools) throw mustInstall(missing, "This system has no apt-get to fetch them with.");
  const names = missing.map(({ name }) => name);
  say(`Fetching ${listed(names)} into .servers (first run, about 20 s) ...`);
  try {
    await fetchDebianServers({
      names,
      keepsOthers: [...SERVERS, ...POSTGRES].some(isFetched),
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
  const formulas = [...new Set(missing.map(({ formula }) => formula))];
  return new SetupError(
    `${listed(missing.map(({ name }) => name))} not found. ${reason}\n` +
      `To go on, install ${listed(wanted)}, for example: brew install ${formulas.join(" ")}`,
  );
}

/** As in a sentence: a; a and b; a, b and c. */
function listed(words) {
  return [words.slice(0, -1).join(", "), ...words.slice(-1)].filter((part) => part !== "").join(" and ");
}
