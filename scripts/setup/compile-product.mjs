// Compiles the product for programs that tests start: a server needs 1 s of CPU time to start compiled, and 3.5 s from source.
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Gives the folder of the compiled files. It lies outside the checkout, with what its programs look for beside it, and is removed
 * when this process ends. Types are not checked: a stage of its own does that.
 */
export function compileProduct(root) {
  const parent = realpathSync(mkdtempSync(join(tmpdir(), "interlock-compiled-")));
  process.once("exit", () => rmSync(parent, { recursive: true, force: true }));
  const folder = join(parent, "dist");
  execFileSync(process.execPath, [join(root, "scripts/build.mjs"), folder, "--no-types"], { stdio: "pipe" });
  cpSync(join(root, "package.json"), join(parent, "package.json"));
  cpSync(join(root, "examples/workflows"), join(parent, "examples/workflows"), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(parent, "node_modules"));
  return folder;
}
