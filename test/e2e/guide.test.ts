// The shell commands of the guide's pages do what the pages say: each page is run as one script against a fresh server.
import { execFile } from "node:child_process";
import { readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Program, servedBy, startProgram } from "../support/program.ts";
import { diskFolder } from "../support/stores.ts";

const root = dirname(dirname(import.meta.dirname));
const pages = readdirSync(join(root, "docs/guide"))
  .filter((page) => page.endsWith(".md"))
  .map((page) => ({ page, script: scriptOf(readFileSync(join(root, "docs/guide", page), "utf8")) }))
  .filter(({ script }) => script !== "");

/** The refusals that a page shows on purpose, in their order. */
const refusals: Readonly<Record<string, readonly string[]>> = {
  "approvals.md": ["approval_already_decided"],
  "events.md": [],
  "explanations.md": [],
  "getting-started.md": [],
  "limits-and-idempotency.md": ["idempotency_key_reused", "max_concurrent_runs_reached"],
  "locks.md": ["lock_unavailable", "lock_not_owned"],
  "pools.md": [],
  "workers.md": [],
  "workflows.md": ["workflow_invalid"],
};

function scriptOf(text: string): string {
  return [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, commands]) => commands).join("\n");
}

let folder: string;
let server: Program;
beforeEach(() => {
  folder = diskFolder();
  symlinkSync(join(root, "examples"), join(folder, "examples"));
  server = startProgram("serve.ts", { cwd: folder, settings: { GATEWAY_PORT: "0" } });
});
afterEach(async () => {
  await server.kill();
  rmSync(folder, { recursive: true, force: true });
});

test("every page with commands is known", () => {
  expect(pages.map(({ page }) => page)).toEqual(Object.keys(refusals));
});

test.each(pages)(
  "$page",
  async ({ page, script }) => {
    const { url } = await servedBy(server);
    const commands = `set -eu\n${script.replaceAll("http://127.0.0.1:7300", url)}`;
    const { stdout, stderr } = await promisify(execFile)("bash", ["-c", commands], { cwd: folder });
    const codes = [...stdout.matchAll(/"type":"urn:interlock:error:(\w+)"/g)].map(([, code]) => code);
    expect(codes, stdout).toEqual(refusals[page]);
    expect(stderr).toBe("");
    if (page === "workflows.md") {
      expect(stdout).toContain('"letter":"Dear Ada, welcome","letters":3');
      expect(stdout).toMatch(/steps\.a\.condition.*steps\.c\.depends_on/);
      expect(stdout).toMatch(/"valid":true,"steps":5,"hash":"\w+","warnings".*demo-refund.*"line":\d+/);
      expect(stdout).toMatch(/"valid":false.*steps\.again\.input\.until.*"line":5/);
    }
    if (page === "locks.md") expect(stdout).toMatch(/"owner":"agent 8".*"waited_ms":.*"released":true/s);
    if (page === "events.md") expect(stdout).toMatch(/^event: run_completed$[\s\S]*^event: end$/m);
    if (page === "explanations.md") {
      expect(stdout).toMatch(/"because":"no_worker_for_topic".*"similar_topics":\["translate"\]/);
      expect(stdout).toMatch(/bank is down[\s\S]*"status":"retrying","already":false[\s\S]*"already":true/);
      expect(stdout).toContain('{"purged":0,"more":false}');
    }
    if (page === "workers.md") expect(stdout).toContain('"kind":"accepted"');
    if (page === "limits-and-idempotency.md") expect(stdout).toMatch(/^idempotent-replayed: true/m);
    if (page === "approvals.md") expect(stdout).toContain('"reason":"known customer"');
  },
  40_000,
);
