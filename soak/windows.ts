// The product to soak: compiled as for tests, with a day, and what else is kept for minutes, made as short as asked for.
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Planted } from "./options.ts";

type Edit = { readonly file: string; readonly find: string; readonly put: string };

/**
 * Settings count whole days, which a soak of minutes never reaches; audit records go by whole days only. So the constants
 * themselves are shortened in the compiled files, each exactly once: the code that trims is the product's own.
 */
function windowsOf(seconds: number): readonly Edit[] {
  const ms = Math.round(seconds * 1_000);
  const constant = (file: string, name: string, before: string, after: number) => ({
    file,
    find: `const ${name} = ${before};`,
    put: `const ${name} = ${after};`,
  });
  return [
    constant("control-plane.js", "dayMs", "86_400_000", ms),
    constant("control/audit/drop-expired.js", "dayMs", "86_400_000", ms),
    constant("control/audit/sealer.js", "roundEveryMs", "3_600_000", Math.round(ms / 2)),
    constant("domain/lock.js", "grantMemoryMs", "600_000", ms),
    constant("domain/lock.js", "endingMemoryMs", "60_000", Math.min(ms, 60_000)),
    constant("control/jobs/busy-results.js", "keepMs", "10 * 60_000", ms),
    // The same two for Redis.
    {
      file: "adapters/redis/lua/sweep.lua",
      find: "local visitAfterMs = 600001",
      put: `local visitAfterMs = ${ms + 1}`,
    },
    {
      file: "adapters/redis/lua/parts/lock-queue.lua",
      find: "local endingMs, endingsMax = 60000,",
      put: `local endingMs, endingsMax = ${Math.min(ms, 60_000)},`,
    },
    // What is revoked stays listed for once to twice as long.
    constant("domain/api-key.js", "revokedKeepMs", "180_000", Math.round(ms / 2)),
  ];
}

/** Mistakes that a soak must notice. */
const planted: { readonly [Bug in Planted]: readonly Edit[] } = {
  // Every body of a request stays in memory.
  leak: [
    {
      file: "gateway/read-request.js",
      find: 'return text.kind === "refused" ? text : take(schemas, readJson(text.value, readingLimits), key);',
      put: "(globalThis.leaked ??= []).push(text.value); return take(schemas, readJson(text.value, readingLimits), key);",
    },
  ],
  // Retention finds nothing to do.
  "no-trimming": [
    {
      file: "control-plane.js",
      find: 'config["retention.runDays"] * dayMs',
      put: 'config["retention.runDays"] * 86_400_000',
    },
  ],
};

/** The program `interlock`. */
export function buildSoakedProduct(windowSeconds: number, bug: "nothing" | Planted): string {
  const folder = compile();
  for (const edit of [...windowsOf(windowSeconds), ...(bug === "nothing" ? [] : planted[bug])]) {
    const path = join(folder, edit.file);
    writeFileSync(path, withEdit(readFileSync(path, "utf8"), edit));
  }
  return join(folder, "cli/interlock.js");
}

/** A constant that was renamed or appears twice must not leave a window long without a word. */
export function withEdit(text: string, { file, find, put }: Edit): string {
  const count = text.split(find).length - 1;
  if (count !== 1) throw new Error(`${file} has ${JSON.stringify(find)} ${count} times, not once`);
  return text.replace(find, () => put);
}

/** A copy of its own, since its constants change: of what the test run has compiled already, if it has. */
function compile(): string {
  const root = dirname(import.meta.dirname);
  const parent = realpathSync(mkdtempSync(join(tmpdir(), "interlock-soaked-")));
  process.once("exit", () => rmSync(parent, { recursive: true, force: true }));
  const folder = join(parent, "dist");
  const compiled = process.env.COMPILED_PRODUCT;
  if (compiled === undefined)
    execFileSync(process.execPath, [join(root, "scripts/build.mjs"), folder, "--no-types"], {
      stdio: "pipe",
    });
  else cpSync(compiled, folder, { recursive: true });
  cpSync(join(root, "package.json"), join(parent, "package.json"));
  symlinkSync(join(root, "node_modules"), join(parent, "node_modules"));
  return folder;
}
