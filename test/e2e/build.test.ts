// The compiled package works by itself: it loads, opens the embedded store with its thread, and admits a run.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, expect, test } from "vitest";

const root = dirname(dirname(import.meta.dirname));
mkdirSync(join(root, ".setup"), { recursive: true });
/** Inside the checkout, so that the compiled files find the installed packages. */
const folder = mkdtempSync(join(root, ".setup", "build-"));

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("npm run build gives a package that admits a run", { timeout: 60_000 }, () => {
  const dist = join(folder, "dist");
  execFileSync(process.execPath, [join(root, "scripts/build.mjs"), dist], { stdio: "pipe" });
  expect(existsSync(join(dist, "testing/index.js"))).toBe(true);
  const program = join(folder, "program.mjs");
  writeFileSync(
    program,
    `import { createControlPlane, parseTenantId } from ${JSON.stringify(join(dist, "index.js"))};
     const plane = await createControlPlane({ overrides: { "store.dataDirectory": ${JSON.stringify(join(folder, "data"))} } });
     const request = { tenant: parseTenantId("acme"), workflow: "w", actor: "a", records: [] };
     console.log((await plane.startRun(request)).kind);
     await plane.close();`,
  );
  expect(execFileSync(process.execPath, [program], { encoding: "utf8" })).toBe("admitted\n");
});
