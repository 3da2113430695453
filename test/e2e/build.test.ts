// The compiled package works by itself, runs a workflow to its end, and holds nothing that is there to prove it.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = dirname(dirname(import.meta.dirname));
mkdirSync(join(root, ".setup"), { recursive: true });
/** Inside the checkout, so that the compiled files find the installed packages. */
const folder = mkdtempSync(join(root, ".setup", "build-"));

const dist = join(folder, "dist");

beforeAll(() => {
  execFileSync(process.execPath, [join(root, "scripts/build.mjs"), dist], { stdio: "pipe" });
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("npm run build gives a package that runs a workflow", { timeout: 60_000 }, () => {
  expect(existsSync(join(dist, "testing/index.js"))).toBe(true);
  const program = join(folder, "program.mjs");
  writeFileSync(
    program,
    `import { createControlPlane, parseTenantId } from ${JSON.stringify(join(dist, "index.js"))};
     const plane = await createControlPlane({ overrides: { "store.dataDirectory": ${JSON.stringify(join(folder, "data"))} } });
     const tenant = parseTenantId("acme");
     const caller = { tenant, actor: "a" };
     await plane.api.saveWorkflow(caller, { id: "w", steps: { only: { topic: "t" } } });
     const done = new Promise((resolve) => {
       plane.startWorker({ tenant, name: "n", topics: ["t"], concurrency: 1, handler: (job) => (resolve(), job.input) });
     });
     console.log((await plane.api.startWorkflow({ caller, workflow: "w", input: {} })).kind);
     await done;
     await plane.close();`,
  );
  expect(execFileSync(process.execPath, [program], { encoding: "utf8" })).toBe("admitted\n");
});

test("npm run build compiles the files of src and nothing else", () => {
  const namesIn = (path: string) =>
    readdirSync(path, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const sources = new Set(namesIn(join(root, "src")).map((name) => name.replace(/\.ts$/, ".d.ts")));
  const built = namesIn(dist);
  expect(built).toContain("testing/index.d.ts");
  expect(built.filter((name) => !sources.has(name))).toEqual([]);
});
