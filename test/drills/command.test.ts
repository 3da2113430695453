// `interlock drill` as an operator types it: lists, reports, exit codes, and a deployment that is left as it was.
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { drillNames } from "../../src/drills/drill.ts";
import { createClient } from "../../src/sdk/client.ts";
import { typeCommand } from "../support/command-line.ts";
import { type Program, type Served, servedBy, startProgram } from "../support/program.ts";

const folder = mkdtempSync(join(tmpdir(), "interlock-drill-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("without a name it lists every drill with its question", async () => {
  const said = await typeCommand(folder, ["drill", "--json"]);
  expect(said.code).toBe(0);
  const listed = said.json<Array<{ name: string; question: string; steps: string[] }>>();
  expect(listed.map(({ name }) => name)).toEqual([...drillNames]);
  for (const { question, steps } of listed) {
    expect(question).toMatch(/\?$/);
    expect(steps.length).toBeGreaterThan(1);
  }
});

test("a name that no drill has is refused with those that there are", async () => {
  const said = await typeCommand(folder, ["drill", "stale-ownr"]);
  expect(said.code).toBe(2);
  expect(said.stderr).toContain("stale-owner");
});

test("a report is one page with plots and the raw data beside it, and names the command that made it", async () => {
  const said = await typeCommand(folder, ["drill", "stale-owner", "--quick", "--report", "report"]);
  expect(said.code, said.stdout + said.stderr).toBe(0);
  expect(said.stdout).toContain("stale-owner: expectation met");
  const html = readFileSync(join(folder, "report/stale-owner.html"), "utf8");
  expect(html).toContain("<svg");
  expect(html).toContain("interlock drill stale-owner --on embedded --quick --report report");
  const data = JSON.parse(readFileSync(join(folder, "report/stale-owner.json"), "utf8")) as {
    verdict: string;
    checks: unknown[];
  };
  expect(data.verdict).toBe("met");
  expect(data.checks.length).toBeGreaterThan(5);
});

describe("against a deployment that runs already", () => {
  let program: Program;
  let server: Served;
  let platformKey: string;

  beforeAll(async () => {
    const data = join(folder, "data");
    program = startProgram("serve.ts", { settings: { DATA_DIRECTORY: data, GATEWAY_PORT: "0" } });
    server = await servedBy(program);
    platformKey = (JSON.parse(readFileSync(server.keys_file, "utf8")) as { platform: string }).platform;
  });
  afterAll(() => program.kill());

  test("a drill works in a tenant of its own and leaves nothing behind", async () => {
    const at = ["--url", server.url, "--api-key", platformKey];
    const said = await typeCommand(folder, ["drill", "key-survives-429", "stale-owner", "--quick", ...at]);
    expect(said.code, said.stdout + said.stderr).toBe(0);
    expect(said.stdout).toContain("key-survives-429: expectation met");
    const tenants = [];
    for await (const { id } of createClient({ url: server.url, apiKey: platformKey }).tenants.list()) {
      tenants.push(id);
    }
    expect(tenants).toEqual(["default"]);
  });

  test("a key of a tenant is refused before anything is made", async () => {
    const keys = JSON.parse(readFileSync(server.keys_file, "utf8")) as { admin: string };
    const at = ["--url", server.url, "--api-key", keys.admin];
    const said = await typeCommand(folder, ["drill", "stale-owner", "--quick", ...at]);
    expect(said.code).toBe(2);
    expect(said.stderr).toContain("needs a platform key");
  });

  test("a path that only an instance of the drill's own has is refused", async () => {
    const at = ["--url", server.url, "--api-key", platformKey];
    const said = await typeCommand(folder, ["drill", "lock-busy-waves", "--quick", "--path", "bus", ...at]);
    expect(said.code).toBe(2);
    expect(said.stderr).toContain("needs an instance of its own");
  });

  test("a drill that has to break something asks for the command that does", async () => {
    const at = ["--url", server.url, "--api-key", platformKey];
    const said = await typeCommand(folder, ["drill", "store-restart", "--quick", ...at]);
    expect(said.code).toBe(2);
    expect(said.stderr).toContain("--fault");
    expect(existsSync(join(folder, "report/store-restart.html"))).toBe(false);
  });
});
