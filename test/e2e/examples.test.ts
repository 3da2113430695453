// Every example runs and says what its file promises; every example workflow is a valid definition.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { compileDefinition } from "../../src/domain/workflow/compile.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";
import { readYaml } from "../../src/domain/workflow/yaml-text.ts";
import { createHttpClient } from "../support/http-client.ts";
import { servedBy, startProgram } from "../support/program.ts";
import { diskFolder } from "../support/stores.ts";

const root = dirname(dirname(import.meta.dirname));
const examples = readdirSync(join(root, "examples")).filter((name) => name.endsWith(".ts"));
const workflows = readdirSync(join(root, "examples/workflows"));

/** Those that end by themselves. */
const expected: Record<string, string> = {
  "01-start-a-run.ts": `workflow saved
research (attempt 1) {"subject":"leases"}
write (attempt 1) {"facts":["a fact"]}
publish (attempt 1) {"text":"a text"}
one run for both starts: true
`,
  "02-work-under-a-lease.ts": "the other one: busy\nthe work: finished\n",
  "03-ask-a-person.ts": `20 refunded
asked: { amount: 250, order: 'A-1' }
decided
250 refunded
`,
};

function yamlValue(text: string): JsonValue {
  const reading = readYaml(text);
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  return reading.value;
}

test("every example is tested", () => {
  expect(examples).toEqual([...Object.keys(expected), "04-worker-over-http.ts"]);
});

test.each(Object.entries(expected))("%s runs", (file, output) => {
  const said = execFileSync("node", ["--import", "tsx", join("examples", file)], {
    cwd: root,
    encoding: "utf8",
  });
  expect(said).toBe(output);
});

test.each(workflows)("%s is a valid workflow", (file) => {
  const text = readFileSync(join(root, "examples/workflows", file), "utf8");
  const value = file.endsWith(".yaml") ? yamlValue(text) : (JSON.parse(text) as JsonValue);
  const reading = readDefinition(value);
  expect(reading).toMatchObject({ kind: "valid" });
  if (reading.kind === "valid") expect(compileDefinition(file, reading.definition).roots).not.toEqual([]);
});

test("04-worker-over-http.ts does the jobs of a running server", async () => {
  const folder = diskFolder();
  const server = startProgram("serve.ts", { settings: { DATA_DIRECTORY: folder, GATEWAY_PORT: "0" } });
  const { url, keys_file } = await servedBy(server);
  const program = ["--import", "tsx", "examples/04-worker-over-http.ts", url, keys_file, "demo.hello"];
  const worker = spawn(process.execPath, program, { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
  try {
    const { admin } = JSON.parse(readFileSync(keys_file, "utf8")) as { readonly admin: string };
    const client = createHttpClient(() => url, admin);
    await client.post("/workflows", { id: "hello", steps: { greet: { topic: "demo.hello" } } });
    const { body } = await client.post<{ run_id: string }>("/workflows/hello/runs", { name: "Ada" });
    const read = async () => (await client.get<object>(`/workflow-runs/${body.run_id}`)).body;
    await expect
      .poll(read, { timeout: 20_000 })
      .toMatchObject({ status: "succeeded", steps: { greet: { output: { hello: { name: "Ada" } } } } });
  } finally {
    worker.kill("SIGKILL");
    await Promise.all([once(worker, "close"), server.kill()]);
    rmSync(folder, { recursive: true, force: true });
  }
}, 40_000);
