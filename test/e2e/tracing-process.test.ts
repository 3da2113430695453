// A server with a tracing SDK that was loaded before it: nothing of the product is changed or configured for it.
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Program, startProgram } from "../support/program.ts";

const tracing = pathToFileURL(join(dirname(import.meta.dirname), "fixtures", "tracing.mjs")).href;

let folder: string;
let program: Program | undefined;

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "interlock-traced-")));
});
afterEach(async () => {
  await program?.kill();
  rmSync(folder, { recursive: true, force: true });
});

test("its spans are exported, the last of them when it stops", async () => {
  program = startProgram("start.ts", { cwd: folder, settings: { GATEWAY_PORT: "0" }, imports: [tracing] });
  await program.shows(/Ctrl-C stops the server/, 30_000);
  program.process.kill("SIGTERM");
  expect(await program.ended, program.output()).toBe(0);
  const spans = [...program.output().matchAll(/^SPAN (.*)$/gm)].map(
    ([, text = ""]) => JSON.parse(text) as { name: string; traceId: string; spanId: string; parent?: string },
  );
  // Its two runs were started without a trace, by a program that embeds the control plane: each begins one.
  const traces = spans
    .filter(({ parent }) => parent === undefined)
    .map(({ traceId }) => spans.filter((span) => span.traceId === traceId).map(({ name }) => name));
  const jobs = ["demo.research", "demo.write", "demo.publish"].flatMap((topic) => [`job ${topic}`, "result"]);
  expect(traces.map((names) => names.toSorted())).toEqual([
    ["admission", ...jobs, "start"].toSorted(),
    ["admission", "start"],
  ]);
});
