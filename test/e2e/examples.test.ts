// Every example runs as a program, ends well, says what its file promises and leaves no process behind; every example workflow is valid.
import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { compileDefinition } from "../../src/domain/workflow/compile.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";
import { readYaml } from "../../src/domain/workflow/yaml-text.ts";
import { createHttpClient } from "../support/http-client.ts";
import { type Program, servedBy, startProgram, watchChild } from "../support/program.ts";
import { diskFolder } from "../support/stores.ts";

const root = dirname(dirname(import.meta.dirname));
const workflows = readdirSync(join(root, "examples/workflows"));

/** What those say that end by themselves, by the file that is run: `…` is any text, a line of `⋮` any lines. */
const expected: Record<string, string> = {
  "01-hello-run.ts": `
succeeded: Hello, Ada! (11 letters)
`,
  "02-approval.ts": `
20 for order A-1: succeeded
250 for order A-2: waiting
why: Step approve has been waiting for an approval since …
somebody is asked about {…"amount":250,"order":"A-2"…}
the decision: approved
a second one: 409 approval_already_decided
250 for order A-2: succeeded
`,
  "03-idempotent-start.sh": `
1. The first start with the key order-42:
HTTP/1.1 200 OK
{"run_id":"…","status":"waiting"}

2. The same start again, as after a lost answer:
HTTP/1.1 200 OK
idempotent-replayed: true
{"run_id":"…","status":"waiting"}
It is the same run.

3. Another order with the same key:
HTTP/1.1 422 Unprocessable Entity
{…"code":"idempotency_key_reused"…}
`,
  "04-fan-out.ts": `
250 done
500 done
750 done
1000 done
succeeded: {"measured":1000}
1000 items in … s, … a second
`,
  "05-agent-loop.ts": `
… books 9:00, having waited … ms for its turn
… books 10:00, having waited … ms for its turn
… books 11:00, having waited … ms for its turn
… books 12:00, having waited … ms for its turn
… books 13:00, having waited … ms for its turn
… books 14:00, having waited … ms for its turn
succeeded, succeeded: 6 meetings, 6 hours

cleo is refused: 409 lock_unavailable, ada has it
ada comes late: 412 fence_superseded
17:00 belongs to bob
`,
  "06-fenced-side-effect/main.ts": `
worker-1 | waits for jobs
worker-1 | attempt 1: about to pay
⋮
worker-2 | attempt 2: about to pay
payment service | paid {"amount":250,"order":"A-7"}
worker-2 | attempt 2: the payment service answers 200
⋮
worker-1 | attempt 1: the payment service answers 412
payments: 1, attempts: 2
`,
  "07-scale-out/main.ts": `
redis-server is process …, nats-server …
gateway-1 is process …
⋮
after … runs: gateway-1, engine-1, scheduler-1, worker-1 killed
300 starts, 300 runs, 300 succeeded
… jobs of the killed worker were given to the other one
the longest run took … s
everything is stopped
`,
  "08-embedded.ts": `
workflow saved
research (attempt 1) {"subject":"leases"}
write (attempt 1) {"facts":["a fact"]}
publish (attempt 1) {"text":"a text"}
one run for both starts: true
`,
  "11-answer-tickets/main.ts": `
ada-1 is pending
bob-1 is pending
ada-2 is queued at position 1 of the gate by-key
cyd-1 is queued at position 1 of the gate named
dan-1 is queued at position 1 of the gate named
eve-1 is queued …
why dan waits: The run waits at position 1 at the gate named.model, which has 2 of 2 places taken: when is not known.
drafting ada-1
drafting bob-1
drafting dan-1
drafting cyd-1
⋮
gates at which runs wait: 0
spent 0.09 of 25 usd of the day
`,
};

function saying(text: string): RegExp {
  const escaped = text.trimStart().replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${escaped.replaceAll("⋮\n", "(?:.*\n)*").replaceAll("…", ".*")}$`);
}

/** In a group of its own, which ends with the test: an example that fails may have left something. */
function startExample(file: string, args: readonly string[] = []): Program {
  const path = join("examples", file);
  const [program, ...first] = path.endsWith(".sh") ? ["sh"] : [process.execPath, "--import", "tsx"];
  const child = spawn(program as string, [...first, path, ...args], {
    cwd: root,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const example = watchChild(child, file);
  onTestFinished(async () => {
    try {
      process.kill(-(child.pid as number), "SIGKILL");
    } catch {
      // Nothing of it is left.
    }
    await example.kill();
  });
  return example;
}

test("every example is tested", () => {
  const found = readdirSync(join(root, "examples")).filter((name) => /^\d/.test(name));
  // The second by test/e2e/bus-worker.test.ts.
  const others = ["09-worker-without-sdk.ts", "10-bus-worker.py"];
  const tested = [...Object.keys(expected), ...others].map((file) => file.split("/")[0]).sort();
  expect(found).toEqual(tested);
});

test.each(Object.entries(expected))(
  "%s runs to its end",
  async (file, output) => {
    const example = startExample(file);
    const ended = await example.ended;
    // A server on Node 20 begins with what that costs.
    const said = example.output().replace(/^Note: Node 20\..*\n/gm, "");
    expect([ended, said]).toEqual([0, expect.stringMatching(saying(output))]);
    expect(processesNamedIn(example.output()).filter(isAlive)).toEqual([]);
  },
  120_000,
);

test("an example that is interrupted ends all that it has started", async () => {
  const example = startExample("07-scale-out/main.ts");
  await example.shows(/^gateway-1 is process \d+$/m);
  const started = processesNamedIn(example.output());
  expect([started.length, started.every(isAlive)]).toEqual([3, true]);
  example.process.kill("SIGINT");
  expect(await example.ended).toBe(130);
  await expect.poll(() => started.filter(isAlive)).toEqual([]);
});

function processesNamedIn(output: string): number[] {
  return [...output.matchAll(/(?:process|nats-server) (\d+)/g)].map(([, pid]) => Number(pid));
}

/** One that has ended and that nobody has asked about counts as ended: in a container that may stay so. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" && !existsSync("/proc");
  }
}

test("09-worker-without-sdk.ts does the jobs of a running server", async () => {
  const folder = diskFolder();
  const server = startProgram("serve.ts", { settings: { DATA_DIRECTORY: folder, GATEWAY_PORT: "0" } });
  const { url, keys_file } = await servedBy(server);
  startExample("09-worker-without-sdk.ts", [url, keys_file, "demo.hello"]);
  try {
    const { admin } = JSON.parse(readFileSync(keys_file, "utf8")) as { readonly admin: string };
    const client = createHttpClient(() => url, admin);
    await client.post("/workflows", { id: "hello", steps: { greet: { topic: "demo.hello" } } });
    const { body } = await client.post<{ run_id: string }>("/workflows/hello/runs", { name: "Ada" });
    const read = async () => (await client.get<object>(`/workflow-runs/${body.run_id}`)).body;
    await expect
      .poll(read)
      .toMatchObject({ status: "succeeded", steps: { greet: { output: { hello: { name: "Ada" } } } } });
  } finally {
    await server.kill();
    rmSync(folder, { recursive: true, force: true });
  }
});

function yamlValue(text: string): JsonValue {
  const reading = readYaml(text);
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  return reading.value;
}

test.each(workflows)("%s is a valid workflow", (file) => {
  const text = readFileSync(join(root, "examples/workflows", file), "utf8");
  const value = file.endsWith(".yaml") ? yamlValue(text) : (JSON.parse(text) as JsonValue);
  const reading = readDefinition(value);
  expect(reading).toMatchObject({ kind: "valid" });
  if (reading.kind === "valid") expect(compileDefinition(file, reading.definition).roots).not.toEqual([]);
});
