// Another commit of this repository in a folder of its own, with its packages, so that its programs can be run beside today's.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { installPeers } from "./runs-peer.ts";

export type EarlierTree =
  | { readonly kind: "ready"; readonly folder: string; readonly commit: string }
  | { readonly kind: "absent"; readonly reason: string };

const root = dirname(import.meta.dirname);

/** It stays for the next run: a commit does not change. */
export async function openEarlierTree(commit: string): Promise<EarlierTree> {
  const full = resolveCommit(commit);
  if (full === undefined) {
    const reason = `this clone does not have commit ${commit} (a shallow one has few: git fetch --unshallow)`;
    return { kind: "absent", reason };
  }
  const parent = join(root, ".interlock-bench");
  const folder = join(parent, `commit-${full}`);
  if (!existsSync(folder)) unpack(full, parent, folder);
  try {
    for (const part of ["", "bench/peers"]) await usePackages(folder, part);
  } catch (error) {
    return { kind: "absent", reason: `its packages: ${(error as Error).message}` };
  }
  return { kind: "ready", folder, commit: full.slice(0, 7) };
}

function resolveCommit(commit: string): string | undefined {
  const words = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${commit}^{commit}`];
  try {
    return execFileSync("git", words, { cwd: root, encoding: "utf8", stdio: "pipe" }).trim();
  } catch {
    return undefined;
  }
}

/** Moved into its place whole: one that was interrupted is not taken for the commit. */
function unpack(commit: string, parent: string, folder: string): void {
  mkdirSync(parent, { recursive: true });
  const scratch = mkdtempSync(join(parent, "unpacking-"));
  try {
    const archive = join(scratch, "commit.tar");
    execFileSync("git", ["archive", "--output", archive, commit], { cwd: root });
    execFileSync("tar", ["-xf", archive, "-C", scratch]);
    rmSync(archive);
    if (existsSync(join(root, ".servers"))) symlinkSync(join(root, ".servers"), join(scratch, ".servers"));
    renameSync(scratch, folder);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** Ours, when it locks the same ones. */
async function usePackages(folder: string, part: string): Promise<void> {
  const [own, theirs] = [join(root, part), join(folder, part)];
  const lockOf = (place: string) => readFileSync(join(place, "npm-shrinkwrap.json"), "utf8");
  if (lockOf(own) !== lockOf(theirs)) return installPeers(theirs);
  await installPeers(own);
  if (!existsSync(join(theirs, "node_modules"))) {
    symlinkSync(join(own, "node_modules"), join(theirs, "node_modules"));
  }
}
