// The compiled product for one chaos run: what is killed and started again is what people install, and starts in a third of the time.
import { execFileSync } from "node:child_process";
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";

export type BuiltProduct = {
  /** The program `interlock`. */
  readonly command: string;
  remove(): void;
};

/** What the test run has compiled already; or in a folder of this process inside the checkout, where the files find their packages. */
export function buildProduct(): BuiltProduct {
  const compiled = process.env.COMPILED_PRODUCT;
  if (compiled !== undefined) return { command: join(compiled, "cli/interlock.js"), remove: () => {} };
  const root = join(import.meta.dirname, "..");
  const folder = join(import.meta.dirname, "build", String(process.pid));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  process.once("exit", remove);
  const output = join(folder, "dist");
  execFileSync(process.execPath, [join(root, "scripts/build.mjs"), output, "--no-types"], { stdio: "pipe" });
  cpSync(join(root, "package.json"), join(folder, "package.json"));
  return { command: join(output, "cli/interlock.js"), remove };
}
