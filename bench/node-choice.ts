// Which Node a benchmark runs on: the versions that the product supports are fetched once, and the whole program is run on one.
import { delimiter, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { UsageError } from "./options.ts";

const root = dirname(import.meta.dirname);
const setup = (file: string) => import(pathToFileURL(join(root, "scripts/setup", file)).href);

const { NODE_VERSIONS, ensureNode } = (await setup("node-versions.mjs")) as {
  readonly NODE_VERSIONS: readonly string[];
  ensureNode(root: string, version: string): Promise<string>;
};
const { runCommand } = (await setup("run-command.mjs")) as {
  runCommand(
    command: string,
    args: readonly string[],
    options: { readonly env: NodeJS.ProcessEnv },
  ): Promise<{ readonly exitCode: number }>;
};

/** One of each line of releases, oldest first. */
export const nodeVersions = NODE_VERSIONS;

export async function nodeProgram(version: string): Promise<string> {
  return join(await ensureNode(root, version), "node");
}

/** The program of a version, which may be given by its beginning: 22. Nothing when this is the one. */
export async function otherNode(wanted: string | undefined): Promise<string | undefined> {
  if (wanted === undefined) return undefined;
  const version = nodeVersions.find((each) => each === wanted || each.startsWith(`${wanted}.`));
  if (version === undefined) throw new UsageError(`--node takes one of: ${nodeVersions.join(", ")}`);
  return process.version === `v${version}` ? undefined : await nodeProgram(version);
}

/** Runs this program anew on another Node, with the same words; gives how it ended. */
export async function runOn(node: string): Promise<number> {
  const env = { ...process.env, PATH: [dirname(node), process.env.PATH ?? ""].join(delimiter) };
  const { exitCode } = await runCommand(node, [...process.execArgv, ...process.argv.slice(1)], { env });
  return exitCode;
}
