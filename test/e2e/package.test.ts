// What npm pack makes, installed into an empty folder, works there: the server, the example of init, the SDK with its types.
import { execFile, spawn } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Program, servedBy, watchChild } from "../support/program.ts";

const root = dirname(dirname(import.meta.dirname));
const run = promisify(execFile);

let folder: string;
const programs: Program[] = [];
/** The server itself: npx stands between, and killed it would leave its child behind. */
let serving: number | undefined;

/** Without what npm and the test runner have put into it: nothing of the checkout may be found by chance. */
function plainEnvironment(): NodeJS.ProcessEnv {
  const added =
    /^(npm_(?!config_(cache|registry|userconfig)$)|INTERLOCK_|VITEST|INIT_CWD$|NODE_ENV$|NODE_OPTIONS$|NODE_PATH$)/;
  const path = (process.env.PATH ?? "").split(delimiter).filter((part) => !part.includes("node_modules"));
  const kept = Object.entries(process.env).filter(([name]) => !added.test(name));
  return { ...Object.fromEntries(kept), PATH: path.join(delimiter) };
}

function start(command: string, args: readonly string[]): Program {
  const child = spawn(command, args, {
    cwd: folder,
    env: plainEnvironment(),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const program = watchChild(child, [command, ...args].join(" "));
  programs.push(program);
  return program;
}

const interlock = (...args: string[]) => start(join(folder, "node_modules/.bin/interlock"), args);

async function output(program: Program): Promise<string> {
  expect(await program.ended, program.output()).toBe(0);
  return program.output();
}

type Lock = { readonly packages: Readonly<Record<string, { readonly dev?: true }>> };
type Manifest = {
  readonly version: string;
  readonly dependencies: object;
  readonly optionalDependencies: object;
  readonly overrides: object;
};

/**
 * The versions of the checkout's own lock file, so that npm takes them out of its cache and asks nobody: what is tested is the
 * package, not the registry of the day.
 */
function writeFolder(tarball: string): void {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as Lock;
  const needed = Object.entries(lock.packages).filter(([path, row]) => path !== "" && row.dev !== true);
  const dependencies = { interlock: `file:${tarball}` };
  const { version, optionalDependencies } = manifest;
  const own = {
    version,
    resolved: `file:${tarball}`,
    dependencies: manifest.dependencies,
    optionalDependencies,
  };
  const bin = { interlock: "dist/cli/interlock.js" };
  const packages = {
    "": { name: "empty", dependencies },
    "node_modules/interlock": { ...own, bin },
    ...Object.fromEntries(needed),
  };
  const write = (name: string, value: object) =>
    writeFileSync(join(folder, name), JSON.stringify(value, null, 2));
  const { overrides } = manifest;
  write("package.json", { name: "empty", private: true, type: "module", dependencies, overrides });
  write("package-lock.json", { name: "empty", lockfileVersion: 3, requires: true, packages });
}

beforeAll(async () => {
  // Outside the checkout, whose own node_modules would be found from inside it.
  folder = realpathSync(mkdtempSync(join(tmpdir(), "interlock-package-")));
  const packed = join(folder, "packed");
  mkdirSync(packed);
  const options = { cwd: root, env: plainEnvironment(), maxBuffer: 16_777_216 };
  await run("npm", ["pack", "--pack-destination", packed], options);
  const [tarball] = readdirSync(packed);
  writeFolder(join("packed", tarball as string));
  await run("npm", ["ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"], {
    ...options,
    cwd: folder,
  });
}, 120_000);
afterAll(async () => {
  if (serving !== undefined) process.kill(serving, "SIGKILL");
  await Promise.all(programs.map((program) => program.kill()));
  rmSync(folder, { recursive: true, force: true });
});

test("holds the program and its scripts, and neither tests nor sources", () => {
  const files = readdirSync(join(folder, "node_modules/interlock"), { recursive: true }).map(String);
  for (const file of ["dist/cli/interlock.js", "dist/sdk/index.d.ts", "dist/adapters/redis/lua/commit.lua"])
    expect(files).toContain(file);
  expect(
    files.filter((file) => /^(src|test|bench|scripts|\.interlock|\.servers)\b|\.test\./.test(file)),
  ).toEqual([]);
});

test("npx interlock serve, the example of init, and the SDK work there", { timeout: 60_000 }, async () => {
  expect(await output(interlock("init"))).toMatch(/npx --no-install interlock serve\n +node worker\.js\n/);
  const server = start("npx", ["--no-install", "interlock", "serve", "--port", "0"]);
  serving = (await servedBy(server)).pid;
  const worker = start(process.execPath, ["worker.js"]);
  await worker.shows(/waits for jobs/);
  expect(await output(interlock("workflows", "save", "workflow.yaml"))).toContain("Saved hello, revision 1.");
  const shown = await output(interlock("run", "hello", "--input", '{"name": "Ada"}', "--timeout", "20s"));
  expect(shown).toMatch(/count +succeeded .*\{"letters":11\}/);
  worker.process.kill("SIGTERM");
  expect(await worker.ended, worker.output()).toBe(0);
  process.kill(serving, "SIGTERM");
  expect(await server.ended, server.output()).toBe(0);
  serving = undefined;
});

test("the SDK is typed: what fits compiles, and what does not is refused", { timeout: 60_000 }, async () => {
  const program = `import { createClient, worker } from "interlock/sdk";
    const client = createClient({ url: "http://127.0.0.1:7300", apiKey: "k" });
    export async function statusOf(id: string): Promise<string> {
      const run = await client.call("getRun", { params: { id } });
      return run.status;
    }
    export const running = worker({ client, topics: { greet: async (job) => ({ text: job.idempotencyKey }) } });`;
  writeFileSync(join(folder, "good.ts"), program);
  writeFileSync(
    join(folder, "bad.ts"),
    program.replace("run.status", "run.version").replace("params: { id }", "params: { idd: id }"),
  );
  const compiler = join(root, "node_modules/typescript/bin/tsc");
  const options = [
    "--noEmit",
    "--strict",
    "--module",
    "nodenext",
    "--target",
    "es2023",
    "--lib",
    "es2024,dom",
  ];
  const { stdout } = await run(process.execPath, [compiler, ...options, "good.ts", "bad.ts"], {
    cwd: folder,
  }).catch((error: { stdout: string }) => error);
  expect(stdout).toMatch(/^bad\.ts.*'idd' does not exist/m);
  expect(stdout).toMatch(/^bad\.ts.*'number' is not assignable to type 'string'/m);
  expect(stdout.split("\n").filter((line) => /^\S+\.ts/.test(line) && !line.startsWith("bad.ts"))).toEqual(
    [],
  );
});
