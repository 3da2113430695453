// Fetches Debian's redis-server, nats-server, promtool and PostgreSQL into a folder, without root and without installing them.
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { runCommand } from "./run-command.mjs";
import { SetupError } from "./setup-error.mjs";

/** Debian's redis-tools holds the server's binary; its package redis-server adds only a service to it. */
const PACKAGE_OF = {
  "redis-server": "redis-tools",
  "nats-server": "nats-server",
  promtool: "prometheus",
  postgres: "postgresql",
  initdb: "postgresql",
};

/**
 * One program of a package that needs nothing but the C library: its dependencies are for the rest of the package and are not
 * fetched (12 for prometheus, the libraries of its pages), and the rest of it is not kept (50 MB beside promtool's 48).
 */
const SINGLE_PROGRAMS = { promtool: "usr/bin/promtool" };

/**
 * Leaves `<servers>/bin/<name>` for each name; with `keepsOthers` beside what is there, else instead of it. Everything is made
 * in `scratch` and moved at the end, so an interrupted fetch leaves nothing half-done; `problemOf(name, path)` judges each
 * program before the move. `onStart` is given the pid of each child.
 */
export async function fetchDebianServers({ names, keepsOthers, servers, scratch, problemOf, onStart }) {
  rmSync(scratch, { recursive: true, force: true });
  const fetched = join(scratch, "servers");
  const root = join(fetched, "root");
  const bin = join(fetched, "bin");
  if (keepsOthers) cpSync(servers, fetched, { recursive: true, verbatimSymlinks: true });
  for (const folder of [root, bin]) mkdirSync(folder, { recursive: true });
  try {
    const options = await updatePackageLists(scratch, onStart);
    const whole = names.filter((name) => SINGLE_PROGRAMS[name] === undefined);
    if (whole.length > 0) {
      for (const archive of await downloadWithDependencies(whole, { options, scratch, onStart }))
        await unpack(archive, root, onStart);
    }
    for (const name of names.filter((each) => SINGLE_PROGRAMS[each] !== undefined)) {
      const archive = await downloadAlone(name, { options, scratch, onStart });
      const unpacked = join(scratch, "unpacked");
      await unpack(archive, unpacked, onStart);
      const program = SINGLE_PROGRAMS[name];
      mkdirSync(dirname(join(root, program)), { recursive: true });
      renameSync(join(unpacked, program), join(root, program));
    }
    // The binary decides by its own name what it is, so the wrapper has to call it as redis-server.
    const redisServer = join(root, "usr/bin/redis-server");
    if (names.includes("redis-server") && !existsSync(redisServer)) {
      symlinkSync("redis-check-rdb", redisServer);
    }
    for (const name of names) writeWrapper(name, root, bin);
    const problems = names
      .map((name) => problemOf(name, join(bin, name)))
      .filter((problem) => problem !== null);
    if (problems.length > 0) throw new Error(problems.join("; "));
    // The old ones may be in use: they are out of the way for as long as two renames take.
    const replaced = join(scratch, "replaced");
    if (existsSync(servers)) renameSync(servers, replaced);
    renameSync(fetched, servers);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** Gives the options for further calls of apt-get and what the update said, for the message of one that fails. */
async function updatePackageLists(scratch, onStart) {
  const words = ["-qq", "-c", writeAptConfiguration(scratch)];
  // A foreign source that cannot be reached makes the update fail, yet need not matter for our packages.
  const { output } = await runTool("apt-get", [...words, "update"], { onStart });
  return { words, said: output };
}

/** The packages and those of their dependencies that this system lacks; returns the archives' paths. */
async function downloadWithDependencies(names, { options, scratch, onStart }) {
  const named = new Set(names.map((name) => PACKAGE_OF[name]));
  if (named.delete("postgresql")) named.add(await versionOfPostgres({ options, scratch, onStart }));
  const packages = [...named];
  // Only downloads; --reinstall because a package that the system has already would be passed over.
  const install = ["install", "--download-only", "--reinstall", "--no-install-recommends", "--yes"];
  await download([...install, ...packages], { options, cwd: scratch, onStart });
  return archivesIn(join(scratch, "cache/archives"));
}

/** The package `postgresql` is empty: it depends on the one version of the server that this release of Debian has. */
async function versionOfPostgres({ options, scratch, onStart }) {
  const words = [...options.words.filter((word) => word !== "-qq"), "depends", "postgresql"];
  const { exitCode, output } = await runTool("apt-cache", words, { cwd: scratch, onStart });
  const [version] = /\bpostgresql-\d+\b/.exec(output) ?? [];
  if (version === undefined) throw failure("apt-cache", exitCode, `${options.said}${output}`);
  return version;
}

/** Returns the archive's path. */
async function downloadAlone(name, { options, scratch, onStart }) {
  const cwd = join(scratch, "alone");
  mkdirSync(cwd, { recursive: true });
  await download(["download", PACKAGE_OF[name]], { options, cwd, onStart });
  const [archive] = archivesIn(cwd);
  if (archive === undefined) throw new Error(`apt-get downloaded no archive of ${PACKAGE_OF[name]}`);
  return archive;
}

async function download(words, { options, cwd, onStart }) {
  const { exitCode, output } = await runTool("apt-get", [...options.words, ...words], { cwd, onStart });
  if (exitCode !== 0) throw failure("apt-get", exitCode, `${options.said}${output}`);
}

function archivesIn(folder) {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".deb"))
    .map((name) => join(folder, name));
}

async function unpack(archive, folder, onStart) {
  const { exitCode, output } = await runTool("dpkg", ["-x", archive, folder], { onStart });
  if (exitCode !== 0) throw failure("dpkg", exitCode, output);
}

/** Given with -c, these settings come after the system's own, whose sources and proxies stay in force. */
function writeAptConfiguration(scratch) {
  for (const folder of ["state/lists/partial", "cache/archives/partial", "log"]) {
    mkdirSync(join(scratch, folder), { recursive: true });
  }
  const path = join(scratch, "apt.conf");
  const lines = [
    // Hooks of the system clean and refresh folders under /var.
    "#clear APT::Update;",
    "#clear DPkg::Post-Invoke;",
    `Dir::State "${scratch}/state";`,
    `Dir::State::lists "${scratch}/state/lists";`,
    `Dir::Cache "${scratch}/cache";`,
    `Dir::Cache::archives "${scratch}/cache/archives";`,
    `Dir::Log "${scratch}/log";`,
    'Debug::NoLocking "true";',
    // When root, apt would download as a user who may not be let into this checkout.
    'APT::Sandbox::User "root";',
    'Acquire::Languages "none";',
    'Acquire::Retries "2";',
    'Acquire::http::Timeout "30";',
    'Acquire::https::Timeout "30";',
  ];
  writeFileSync(path, `${lines.join("\n")}\n`);
  return path;
}

async function runTool(command, args, { cwd, onStart }) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C" };
  const result = await runCommand(command, args, { env, cwd, capture: true, onStart });
  if (result.stopCode !== null) throw new SetupError("Stopped while fetching the servers.", result.stopCode);
  return result;
}

function failure(command, exitCode, output) {
  return new Error(`${command} ended with ${exitCode}:\n${output.trim()}`);
}

/** The wrapper finds the folder from its own place, so that the checkout may be moved. */
function writeWrapper(name, root, bin) {
  const folders = libraryFolders(root).map((folder) => `$root/${folder}`);
  const libraryPath = `${folders.join(":")}\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}`;
  const lines = [
    "#!/bin/sh",
    `# Runs the fetched ${name} with the libraries fetched for it.`,
    'root="$' + '{0%/*}/../root"',
    `LD_LIBRARY_PATH="${libraryPath}"`,
    "export LD_LIBRARY_PATH",
    `exec "$root/${programFolder(name, root)}/${name}" "$@"`,
  ];
  const path = join(bin, name);
  writeFileSync(path, `${lines.join("\n")}\n`);
  chmodSync(path, 0o755);
}

function programFolder(name, root) {
  const folder = programFolders(root).find((candidate) => existsSync(join(root, candidate, name)));
  if (folder === undefined) throw new Error(`Debian's package ${PACKAGE_OF[name]} holds no program ${name}`);
  return folder;
}

/** PostgreSQL's programs are in a folder of their version. */
function programFolders(root) {
  const versions = join(root, "usr/lib/postgresql");
  const ofPostgres = existsSync(versions) ? readdirSync(versions) : [];
  return ["usr/bin", "usr/sbin", ...ofPostgres.map((version) => `usr/lib/postgresql/${version}/bin`)];
}

/** Folders below lib and usr/lib that hold shared libraries, relative to the root. */
function libraryFolders(root) {
  const found = [];
  for (const base of ["lib", "usr/lib"]) {
    if (!existsSync(join(root, base))) continue;
    const subfolders = readdirSync(join(root, base), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => `${base}/${entry.name}`);
    for (const folder of [base, ...subfolders]) {
      if (readdirSync(join(root, folder)).some((name) => /\.so(\.|$)/.test(name))) found.push(folder);
    }
  }
  return found;
}
