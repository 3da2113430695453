// interlock init: an example to begin with, a workflow and a worker, and the next three commands.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Cli, Context } from "../context.ts";
import { workerText, workflowText } from "../init-files.ts";
import { UsageError } from "../run-program.ts";
import { shellWord } from "../typed-folder.ts";

export function addInitCommand({ program, does }: Cli): void {
  program
    .command("init")
    .description("write an example workflow and a worker, and say how to run them")
    .argument("[folder]", "target folder, created if missing", ".")
    .addHelpText("after", "\nExample:\n  interlock init hello")
    .action(does(init));
}

async function init(context: Context, folder: string): Promise<void> {
  const { output, terminal } = context;
  const target = resolve(terminal.typedFolder, folder);
  const files = new Map([
    ["workflow.yaml", workflowText],
    ["worker.js", workerText],
  ]);
  const inTheWay = [...files.keys()].filter((name) => existsSync(join(target, name)));
  if (inTheWay.length > 0)
    throw new UsageError(
      `init overwrites nothing, and ${inTheWay.join(" and ")} ${inTheWay.length === 1 ? "is" : "are"} there already: name another folder`,
    );
  if (!existsSync(join(target, "package.json"))) files.set("package.json", packageText(target));
  mkdirSync(target, { recursive: true });
  // `wx`: what has appeared meanwhile is not overwritten either.
  for (const [name, text] of files) writeFileSync(join(target, name), text, { flag: "wx" });
  const next = nextCommands(context, target);
  output.answer({ folder: target, files: [...files.keys()], next }, () => [
    ...[...files.keys()].map((name) => `wrote ${join(folder, name)}`),
    "",
    "Next, each in a terminal of its own:",
    ...next.map((command) => `   ${command}`),
  ]);
}

/** The root of this package: the checkout, or where it is installed. */
const packageRoot = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));

/** `type: module`, since the worker imports. */
function packageText(target: string): string {
  const name =
    basename(target)
      .toLowerCase()
      .replaceAll(/[^a-z0-9-]+/g, "-")
      .replaceAll(/^-+|-+$/g, "") || "workflows";
  return `${JSON.stringify({ name, private: true, type: "module" }, null, 2)}\n`;
}

/** Three, and before them what is still missing. */
function nextCommands({ terminal }: Context, target: string): string[] {
  const folder = relative(terminal.typedFolder, target);
  const enter = folder === "" ? [] : [`cd ${shellWord(folder)}`];
  const install = isInstalled(target) ? [] : [`npm install ${shellWord(packageRoot)}`];
  return [
    ...enter,
    ...install,
    "npx --no-install interlock serve",
    "node worker.js",
    `npx --no-install interlock workflows save workflow.yaml && npx --no-install interlock run hello --input '{"name": "Ada"}'`,
  ];
}

/** As Node looks for it: in this folder's node_modules, and in those above. */
function isInstalled(folder: string): boolean {
  if (existsSync(join(folder, "node_modules", "interlock", "package.json"))) return true;
  const parent = dirname(folder);
  return parent !== folder && isInstalled(parent);
}
