// What npm pack makes, installed into an empty folder, works there: the server, the example of init, the SDK with its types, embedded.
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
import { delimiter, dirname, join, relative } from "node:path";
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
};

const fileOf = (path: string) => readFileSync(join(root, path), "utf8");

/** No package may ask for another Node, and no override of the checkout is there to help, as in a user's folder. */
function writeFolder(tarball: string): void {
  const dependencies = { interlock: `file:${tarball}` };
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
  write(".npmrc", "engine-strict=true\n");
  write("package.json", JSON.stringify({ name: "empty", private: true, type: "module", dependencies }));
  // `npm run test:full` takes what the registry has today.
  if (process.env.PACKAGE_TEST_REGISTRY !== "today")
    write("package-lock.json", JSON.stringify(lockOf(tarball, dependencies)));
}

/**
 * The versions of the checkout, which the registry gives with a published package. npm takes them out of its cache, and replaces
 * those that do not fit what a package asks for: what is tested is this package, not the registry of the day.
 */
function lockOf(tarball: string, wanted: object): object {
  const manifest = JSON.parse(fileOf("package.json")) as Manifest;
  const { version, dependencies, optionalDependencies } = manifest;
  const lock = JSON.parse(fileOf("npm-shrinkwrap.json")) as Lock;
  const needed = Object.entries(lock.packages).filter(([path, row]) => path !== "" && row.dev !== true);
  const bin = { interlock: "dist/cli/interlock.js" };
  const packages = {
    "": { name: "empty", dependencies: wanted },
    "node_modules/interlock": {
      version,
      resolved: `file:${tarball}`,
      dependencies,
      optionalDependencies,
      bin,
    },
    ...Object.fromEntries(needed),
  };
  return { name: "empty", lockfileVersion: 3, requires: true, packages };
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
  const install = ["install", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"];
  await run("npm", install, { ...options, cwd: folder });
}, 300_000);
afterAll(async () => {
  if (serving !== undefined) process.kill(serving, "SIGKILL");
  await Promise.all(programs.map((program) => program.kill()));
  rmSync(folder, { recursive: true, force: true });
});

const installed = (path: string) => join(folder, "node_modules/interlock", path);

test("holds the program, its scripts, the pages that it names and the versions it was tested with, and nothing else", () => {
  const files = readdirSync(installed("."), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(installed("."), join(entry.parentPath, entry.name)));
  for (const file of ["dist/cli/interlock.js", "dist/sdk/index.d.ts", "dist/adapters/redis/lua/commit.lua"])
    expect(files).toContain(file);
  const known =
    /^(dist\/.*\.(js|d\.ts|lua)|docs\/(guide|reference|runbooks)\/.*\.(md|svg)|docs\/guide\/capacity-input\.json|npm-shrinkwrap\.json|package\.json|README\.md|LICENSE)$/;
  expect(files.filter((file) => !known.test(file))).toEqual([]);
  expect(files.filter((file) => /\.test\.|\/(simulation|exhaustive|history|planted)\//.test(file))).toEqual(
    [],
  );
  const pages = files
    .filter((file) => file.endsWith(".js"))
    .flatMap((file) => readFileSync(installed(file), "utf8").match(/\bdocs\/[\w/-]+\.md\b/g) ?? []);
  expect(pages).toContain("docs/guide/nats.md");
  expect(pages.filter((page) => !files.includes(page))).toEqual([]);
});

test("its three entries load, and a workflow runs to its end inside a program", async () => {
  writeFileSync(
    join(folder, "embedded.js"),
    `import { createControlPlane, parseTenantId } from "interlock";
     import { createClient } from "interlock/sdk";
     import { storeConformance } from "interlock/testing";
     const plane = await createControlPlane({ overrides: { "store.dataDirectory": "embedded-data" } });
     const tenant = parseTenantId("acme");
     const caller = { tenant, actor: "a" };
     await plane.api.saveWorkflow({ caller, definition: { id: "w", steps: { only: { topic: "t" } } } });
     const done = new Promise((resolve) => {
       plane.startWorker({ tenant, name: "n", topics: ["t"], concurrency: 1, handler: (job) => (resolve(), job.input) });
     });
     const { kind } = await plane.api.startWorkflow({ caller, workflow: "w", input: {} });
     await done;
     await plane.close();
     console.log(kind, typeof createClient, typeof storeConformance);`,
  );
  expect(await output(start(process.execPath, ["embedded.js"]))).toBe("admitted function object\n");
  const { version } = JSON.parse(fileOf("package.json")) as Manifest;
  expect(await output(interlock("--version"))).toBe(`${version}\n`);
});

test("npx interlock serve, the example of init, and the SDK work there", async () => {
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

test("the SDK is typed: what fits compiles, and what does not is refused", async () => {
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
