// The Node versions that the product supports: whether this one will do, and the programs of the others for tests on each.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { exclusively } from "./exclusive.mjs";
import { runCommand } from "./run-command.mjs";
import { SetupError, say } from "./setup-error.mjs";

/** The oldest that package.json allows, and the newest of each line after it; with what the packages' bytes must be. */
const PACKAGES = {
  "20.19.0": {
    "linux-x64": "HzVYgEgabV/n3nP2F9mcxS0Nxgg99jynX9CMovakLmSYTuTdQRbbtw0yadY8+qKcqXfiDAtb2hmtR7nDPzclGA==",
    "linux-arm64": "kT7jX7frbsrMrXMsBaFt3Th1SWs5VjxTzd0U8vxcmdCFkaqeu5hFK0+QoYfIo5drmr3DmwJfLtO2gnD/7hNE/Q==",
  },
  "22.23.3": {
    "linux-x64": "qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==",
    "linux-arm64": "l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==",
  },
  "24.21.0": {
    "linux-x64": "3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==",
    "linux-arm64": "FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==",
  },
  "26.10.0": {
    "linux-x64": "OmAztarr1gK4PD+sNyoku4N5Q40d8eqMuLjNa/zRvxF33aCsVKVIQLs4V5HYPWSWWlMiTdkmbZE/6Phigma0hw==",
    "linux-arm64": "idArV/cmqW9M9ODyGlbOIiyxFourDh1mJB0SdKCdMbSZjjef9CLEN3o1/eE4yf+B0+5BD+F74MpTTHiB3XXTBQ==",
  },
};

export const NODE_VERSIONS = Object.keys(PACKAGES);
export const NEWEST_NODE = NODE_VERSIONS.at(-1);

/** The folder that holds this version's `node`; fetched into .servers when it is not there. */
export async function ensureNode(root, version) {
  const folder = join(root, ".servers", `node-${version}`);
  const isThere = () => existsSync(join(folder, "node"));
  if (isThere()) return folder;
  return exclusively(join(root, ".setup", "lock"), async (shareLockWith) => {
    if (!isThere()) await fetchNode({ root, version, folder, onStart: shareLockWith });
    return folder;
  });
}

async function fetchNode({ root, version, folder, onStart }) {
  const machine = `${process.platform}-${process.arch}`;
  const wanted = PACKAGES[version][machine];
  if (wanted === undefined) {
    throw new SetupError(
      `Tests on Node ${version} need its program, which is known for linux-x64 and linux-arm64 only, not for ${machine}.`,
    );
  }
  say(`Fetching Node ${version} into .servers (first run, about 10 s) ...`);
  const scratch = join(root, ".setup", `node-${version}`);
  rmSync(scratch, { recursive: true, force: true });
  mkdirSync(scratch, { recursive: true });
  const name = `node-${machine}@${version}`;
  await mustRun("npm", ["pack", "--silent", "--pack-destination", scratch, name], onStart);
  const archive = join(scratch, readdirSync(scratch)[0] ?? "");
  const found = createHash("sha512").update(readFileSync(archive)).digest("base64");
  if (found !== wanted) throw new SetupError(`The package ${name} is not the one that was tested: ${found}.`);
  await mustRun("tar", ["-xzf", archive, "-C", scratch, "package/bin/node"], onStart);
  mkdirSync(join(root, ".servers"), { recursive: true });
  rmSync(folder, { recursive: true, force: true });
  renameSync(join(scratch, "package", "bin"), folder);
  rmSync(scratch, { recursive: true, force: true });
}

async function mustRun(command, args, onStart) {
  const { exitCode, output } = await runCommand(command, args, { capture: true, onStart });
  if (exitCode !== 0)
    throw new SetupError(`${[command, ...args].join(" ")} failed with exit code ${exitCode}:\n${output}`);
}

export function requireNodeVersion(root, version = process.versions.node) {
  const range = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).engines?.node ?? "";
  const match = /^(?:>=|\^)\s*(\d+(?:\.\d+){0,2})\b/.exec(range);
  if (match === null) {
    throw new SetupError(
      `package.json: engines.node is "${range}"; write the oldest version first, such as "^20.19 || >=22".`,
    );
  }
  const minimum = match[1];
  if (!isAtLeast(version, minimum)) {
    throw new SetupError(
      `Interlock needs Node >= ${minimum}, but this is Node ${version}. ` +
        `Install a newer one (https://nodejs.org, or: nvm install --lts) and run the command again.`,
    );
  }
}

function isAtLeast(version, minimum) {
  const have = version.split(".").map((part) => Number.parseInt(part, 10));
  const need = minimum.split(".").map(Number);
  const index = need.findIndex((part, position) => have[position] !== part);
  return index === -1 || have[index] > need[index];
}
