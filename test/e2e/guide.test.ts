// The shell commands of the guide and the README's example do what they say: each page is one script against a fresh server.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import * as sdk from "../../src/sdk/index.ts";
import { type Program, plainEnvironment, servedBy, startProgram } from "../support/program.ts";
import { diskFolder } from "../support/stores.ts";

const root = dirname(dirname(import.meta.dirname));
const pages = readdirSync(join(root, "docs/guide"))
  .filter((page) => page.endsWith(".md"))
  .map((page) => ({ page, script: scriptOf(readFileSync(join(root, "docs/guide", page), "utf8")) }))
  .filter(({ script }) => script !== "");

type Expected = {
  /** The refusals that a page shows on purpose, in their order. */
  readonly refusals?: readonly string[];
  readonly says?: readonly RegExp[];
  /** Notes for people on standard error: none, unless the page uses the command line. */
  readonly notes?: RegExp;
};

const expected: Readonly<Record<string, Expected>> = {
  "approvals.md": { refusals: ["approval_already_decided"], says: [/"reason":"known customer"/] },
  "audit.md": { says: [/"type":"document_saved"[\s\S]*"status":"intact"/] },
  "events.md": { says: [/^event: run_completed$[\s\S]*^event: end$/m] },
  "explanations.md": {
    says: [
      /"because":"no_worker_for_topic".*"similar_topics":\["translate"\]/,
      /bank is down[\s\S]*"status":"retrying","already":false[\s\S]*"already":true/,
      /\{"purged":0,"more":false\}/,
    ],
  },
  "limits-and-idempotency.md": {
    refusals: ["idempotency_key_reused", "max_concurrent_runs_reached"],
    says: [/^idempotent-replayed: true/m],
  },
  "locks.md": {
    refusals: ["lock_unavailable", "lock_not_owned"],
    says: [/"owner":"agent 8".*"waited_ms":.*"released":true/s],
  },
  "pools.md": {},
  "queues.md": {
    says: [
      /HTTP\/1\.1 202 [\s\S]*"status":"queued","gate":"by-key\.answer-ticket\.\S+","position":1[\s\S]*^idempotent-replayed: true/m,
      /"waiting_for":\[\{"kind":"queued"/,
    ],
  },
  "start-here.md": {
    says: [
      /greet done[\s\S]*count done[\s\S]*run succeeded/,
      /no worker/i,
      /^approved: (run_\w+):ask@1$[\s\S]*order A-17: 250 refunded[\s\S]*^\1$\nrefused\n[\s\S]*^run +\1$/m,
      /"run_id":"run_\w+","status":"succeeded"/,
    ],
    notes: /idempotency_key_reused/,
  },
  "tracing.md": { says: [/"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"/] },
  "tuning-busy-runs.md": {
    says: [
      /policies +results\.retry\.jitterFraction=0\.5[\s\S]*busy_retries_per_result/,
      /state +kept[\s\S]*because +fewer collisions, same p95/,
    ],
    notes: /Every process follows within 5 s/,
  },
  "writing-workers.md": { says: [/"kind":"accepted"/] },
  "writing-workflows.md": {
    refusals: ["workflow_invalid"],
    says: [
      /"letter":"Dear Ada, welcome","letters":3/,
      /steps\.a\.condition.*steps\.c\.depends_on/,
      /"valid":true,"steps":5,"hash":"\w+","warnings".*demo-refund.*"line":\d+/,
      /"valid":false.*steps\.again\.input\.until.*"line":5/,
    ],
  },
};

function scriptOf(text: string): string {
  return [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, commands]) => commands).join("\n");
}

let folder: string;
let server: Program;
let stopScript: (() => void) | undefined;
beforeEach(() => {
  folder = diskFolder();
  symlinkSync(join(root, "examples"), join(folder, "examples"));
  installInto(folder);
  server = startProgram("serve.ts", { cwd: folder, settings: { GATEWAY_PORT: "0" } });
});
afterEach(async () => {
  stopScript?.();
  stopScript = undefined;
  await server.kill();
  rmSync(folder, { recursive: true, force: true });
});

/** What an installed package gives a folder: the command `interlock`, and `interlock/sdk` for programs. */
function installInto(target: string): void {
  const installed = join(target, "node_modules", "interlock");
  const commands = join(target, "node_modules", ".bin");
  for (const made of [installed, commands]) mkdirSync(made, { recursive: true });
  const manifest = { name: "interlock", type: "module", exports: { "./sdk": "./sdk.js" } };
  writeFileSync(join(installed, "package.json"), JSON.stringify(manifest));
  const compiled = process.env.COMPILED_PRODUCT;
  const { entry, words } = compiled === undefined ? fromSource() : fromCompiled(compiled);
  writeFileSync(join(installed, "sdk.js"), entry);
  const script = `#!/bin/sh\nexec "${process.execPath}" ${words} "$@"\n`;
  writeFileSync(join(commands, "interlock"), script, { mode: 0o755 });
}

type Installed = { readonly entry: string; readonly words: string };

function fromCompiled(compiled: string): Installed {
  return {
    entry: `export * from ${JSON.stringify(pathToFileURL(join(compiled, "sdk/index.js")).href)};`,
    words: `"${join(compiled, "cli/interlock.js")}"`,
  };
}

function fromSource(): Installed {
  const loaded = `await tsImport(${JSON.stringify(join(root, "src/sdk/index.ts"))}, import.meta.url)`;
  return {
    entry: [
      `import { tsImport } from ${JSON.stringify(import.meta.resolve("tsx/esm/api"))};`,
      `export const { ${Object.keys(sdk).join(", ")} } = ${loaded};`,
    ].join("\n"),
    words: `--import "${import.meta.resolve("tsx")}" "${join(root, "src/cli/interlock.ts")}"`,
  };
}

/** In a group of its own, which ends with the test: a page may have left something in the background. */
async function runScript(script: string) {
  const plain = plainEnvironment();
  const env = { ...plain, PATH: [join(folder, "node_modules/.bin"), plain.PATH].join(delimiter) };
  const child = spawn("bash", ["-c", `set -eu\n${script}`], {
    cwd: folder,
    env,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  stopScript = () => {
    try {
      process.kill(-(child.pid as number), "SIGKILL");
    } catch {
      // Nothing of it is left.
    }
  };
  const ended = once(child, "exit") as Promise<[number | null]>;
  const [[exit], stdout, stderr] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  return { exit, stdout, stderr };
}

test("every page with commands is known", () => {
  expect(pages.map(({ page }) => page)).toEqual(Object.keys(expected));
});

test.each(pages)(
  "$page",
  async ({ page, script }) => {
    const { refusals = [], says = [], notes = /^$/ } = expected[page] ?? {};
    const { url } = await servedBy(server);
    const { exit, stdout, stderr } = await runScript(script.replaceAll("http://127.0.0.1:7300", url));
    expect(exit, `${stdout}\n${stderr}`).toBe(0);
    const codes = [...stdout.matchAll(/"type":"urn:interlock:error:(\w+)"/g)].map(([, code]) => code);
    expect(codes, stdout).toEqual(refusals);
    expect(stderr).toMatch(notes);
    for (const pattern of says) expect(stdout).toMatch(pattern);
  },
  60_000,
);

test("the example of README.md runs, and takes two screens at most with all that is around it", async () => {
  const readme = readFileSync(join(root, "README.md"), "utf8");
  const [, example = ""] = /^```ts\n([\s\S]*?)^```$/m.exec(readme) ?? [];
  expect([example.split("\n").length <= 25, readme.split("\n").length <= 100]).toEqual([true, true]);
  writeFileSync(join(folder, "hello.ts"), example);
  const { url } = await servedBy(server);
  const { admin } = JSON.parse(readFileSync(join(folder, ".interlock/keys.json"), "utf8")) as {
    readonly admin: string;
  };
  const environment = `INTERLOCK_URL=${url} INTERLOCK_API_KEY=${admin}`;
  const { exit, stdout, stderr } = await runScript(
    `${environment} node --import ${import.meta.resolve("tsx")} hello.ts`,
  );
  expect({ exit, stdout, stderr }).toEqual({ exit: 0, stdout: "Hello, Ada!\n", stderr: "" });
});
