// Fetches Debian's redis-server and nats-server into a folder, without root and without installing them.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { runCommand } from "./run-command.mjs";
import { SetupError } from "./setup-error.mjs";

/** Debian's redis-tools holds the server's binary; its package redis-server adds only a service to it. */
const PACKAGE_OF = { "redis-server": "redis-tools", "nats-server": "nats-server" };

/**
 * Leaves `<servers>/bin/<name>` for each name. Everything is made in `scratch` and moved at the end, so an
 * interrupted fetch leaves nothing half-done; `problemOf(name, path)` judges each program before the move.
 * `onStart` is given the pid of each child.
 */
export async function fetchDebianServers({ names, servers, scratch, problemOf, onStart }) {
  rmSync(scratch, { recursive: true, force: true });
  const fetched = join(scratch, "servers");
  const root = join(fetched, "root");
  const bin = join(fetched, "bin");
  for (const folder of [root, bin]) mkdirSync(folder, { recursive: true });
  try {
    for (const archive of await downloadPackages(names, scratch, onStart)) {
      const unpacking = await runTool("dpkg", ["-x", archive, root], onStart);
      if (unpacking.exitCode !== 0) throw failure("dpkg", unpacking.exitCode, unpacking.output);
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
    rmSync(servers, { recursive: true, force: true });
    renameSync(fetched, servers);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** The packages and those of their dependencies that this system lacks; returns the archives' paths. */
async function downloadPackages(names, scratch, onStart) {
  const options = ["-qq", "-c", writeAptConfiguration(scratch)];
  // A foreign source that cannot be reached makes the update fail, yet need not matter for our packages.
  const update = await runTool("apt-get", [...options, "update"], onStart);
  const packages = names.map((name) => PACKAGE_OF[name]);
  // Only downloads; --reinstall because a package that the system has already would be passed over.
  const install = ["install", "--download-only", "--reinstall", "--no-install-recommends", "--yes"];
  const download = await runTool("apt-get", [...options, ...install, ...packages], onStart);
  if (download.exitCode !== 0) {
    throw failure("apt-get", download.exitCode, `${update.output}${download.output}`);
  }
  const archives = join(scratch, "cache/archives");
  return readdirSync(archives)
    .filter((name) => name.endsWith(".deb"))
    .map((name) => join(archives, name));
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

async function runTool(command, args, onStart) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C" };
  const result = await runCommand(command, args, { env, capture: true, onStart });
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
  const folder = ["usr/bin", "usr/sbin"].find((candidate) => existsSync(join(root, candidate, name)));
  if (folder === undefined) throw new Error(`Debian's package ${PACKAGE_OF[name]} holds no program ${name}`);
  return folder;
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
