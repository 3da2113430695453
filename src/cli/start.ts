// npm start: the embedded server with an example. It runs a workflow to its end, leaves another waiting, and stays up.
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Caller } from "../control/caller.ts";
import type { InProcessJob } from "../control/jobs/in-process-worker.ts";
import { type ControlPlane, embeddedData } from "../control-plane.ts";
import { fingerprintOf, type JsonValue } from "../domain/fingerprint.ts";
import { isTerminal, type RunId, type RunStatus } from "../domain/run.ts";
import { keyPaths } from "../embedded/data-folder.ts";
import { defaultTenant, type Server, startServer, whoHasIt } from "../embedded/start-server.ts";
import { InterlockError } from "../errors.ts";
import { loadConfig, processEnvironment } from "../load-config.ts";
import { nodeNotes, runProgram, stopInTime, stopSignal } from "./run-program.ts";
import { asTyped, shellWord } from "./terminal.ts";

const tenant = defaultTenant;
const caller: Caller = { tenant, actor: "demonstration" };

/** In the language of a worker: a job's input in, its output out. */
const work: Readonly<Record<string, (input: never) => JsonValue>> = {
  "demo.research": ({ subject }: { readonly subject: string }) => ({
    facts: [`${subject}: two workers must not do the same job`, `${subject}: a retry must not do it twice`],
  }),
  "demo.write": ({ facts }: { readonly facts: readonly string[] }) => ({ text: facts.join("; ") }),
  "demo.publish": ({ text }: { readonly text: string }) => ({ published: text.length }),
  "demo.pay": ({ order, amount }: { readonly order: string; readonly amount: number }) => ({
    receipt: `${amount} paid back for ${order}`,
  }),
};

export function startDemonstrationWorker(plane: ControlPlane): void {
  plane.startWorker({
    tenant,
    name: "demonstration",
    topics: Object.keys(work),
    concurrency: 4,
    handler: ({ topic, input }: InProcessJob) => work[topic]?.(input as never) ?? null,
  });
}

export type ShownRun = {
  readonly runId: RunId;
  readonly status: RunStatus;
  /** `found`: an earlier start of the program made it, and its key still answers with it. */
  readonly origin: "started" | "found";
};

export async function runReport(plane: ControlPlane): Promise<ShownRun> {
  const workflow = await saveExample(plane, "report");
  const started = await start(plane, workflow, { subject: "leases" }, 1);
  return { ...started, status: await settled(plane, started.runId) };
}

/** One run waits, however often the program was started: the keys are numbered, and the first open run is taken. */
export async function runRefund(plane: ControlPlane): Promise<ShownRun> {
  const workflow = await saveExample(plane, "refund");
  for (let number = 1; ; number += 1) {
    const started = await start(plane, workflow, { order: `A-${1000 + number}`, amount: 250 }, number);
    const status = await settled(plane, started.runId);
    if (started.origin === "started" || !isTerminal(status)) return { ...started, status };
  }
}

/** Gives the workflow's id. The same definition again would only make another revision of it. */
async function saveExample(plane: ControlPlane, name: "report" | "refund"): Promise<string> {
  const file = new URL(`../../examples/workflows/${name}.json`, import.meta.url);
  const definition = JSON.parse(readFileSync(file, "utf8")) as JsonValue;
  const { id } = definition as { readonly id: string };
  const known = await plane.api.getWorkflow({ tenant, id });
  if (known.kind === "workflow" && JSON.stringify(known.workflow.definition) === JSON.stringify(definition))
    return id;
  const saved = await plane.api.saveWorkflow({ caller, definition });
  if (saved.kind !== "saved") throw unexpected(`saving ${id}`, saved);
  return id;
}

/** As over HTTP: the key and the request's fingerprint, so that a repeat finds the first run. */
async function start(
  plane: ControlPlane,
  workflow: string,
  input: JsonValue,
  number: number,
): Promise<Omit<ShownRun, "status">> {
  const path = `/api/v1/workflows/${workflow}/runs`;
  const fingerprint = fingerprintOf({ method: "POST", path, query: {}, body: input });
  const key = { text: `${workflow}-${number}`, fingerprint };
  const answer = await plane.api.startWorkflow({ caller, workflow, input, key });
  if (answer.kind === "admitted") return { runId: answer.runId, origin: "started" };
  if (answer.kind === "replayed") return { runId: answer.runId, origin: "found" };
  throw unexpected(`starting ${workflow}`, answer);
}

/** How long the demonstration waits for its own worker; it takes milliseconds. */
const patienceMs = 15_000;

/** Waits until the run has ended or waits for somebody. A run whose records are gone has ended long ago. */
async function settled(plane: ControlPlane, runId: RunId): Promise<RunStatus> {
  const { clock } = plane.ports;
  const endMs = clock.monotonicMs() + patienceMs;
  for (;;) {
    const answer = await plane.api.getRun({ tenant, runId });
    if (answer.kind === "run_not_found") return "succeeded";
    if (answer.kind !== "run") throw unexpected(`reading ${runId}`, answer);
    const { status } = answer.run.header;
    if (isTerminal(status) || status === "waiting") return status;
    if (clock.monotonicMs() > endMs) throw unexpected(`waiting for ${runId}`, { kind: status });
    await clock.sleep(5);
  }
}

type TimelineLine = { readonly afterMs: number; readonly type: string; readonly detail: string };

export async function timelineOf(plane: ControlPlane, runId: RunId): Promise<readonly TimelineLine[]> {
  const answer = await plane.api.readTimeline({ tenant, runId, after: 0, limit: 100 });
  if (answer.kind === "run_not_found") return [];
  if (answer.kind !== "timeline") throw unexpected(`reading the timeline of ${runId}`, answer);
  const beganMs = answer.rows[0]?.atMs ?? 0;
  return answer.rows.flatMap(({ atMs, body }) =>
    (JSON.parse(body) as readonly Event[]).map((event) => ({
      afterMs: atMs - beganMs,
      type: event.type,
      detail: detailOf(event),
    })),
  );
}

type Event = {
  readonly type: string;
  readonly step?: string;
  readonly [name: string]: string | number | boolean | undefined;
};

function detailOf({ type: _, step, attempt, ...more }: Event): string {
  const rest = Object.entries(more).map(([name, value]) => `${name}=${String(value)}`);
  const name =
    step === undefined ? [] : [attempt === undefined || attempt === 1 ? step : `${step}@${attempt}`];
  return [...name, ...rest].join(" ");
}

export async function pendingApproval(plane: ControlPlane, runId: RunId): Promise<string | undefined> {
  const answer = await plane.api.listApprovals({ tenant, limit: 500, state: "pending" });
  if (answer.kind !== "listed") throw unexpected("listing approvals", answer);
  return answer.approvals.find((approval) => approval.runId === runId)?.approvalId;
}

function unexpected(
  what: string,
  answer: { readonly kind: string; readonly cause?: string },
): InterlockError {
  const cause = answer.cause === undefined ? "" : ` (${answer.cause})`;
  return new InterlockError(
    "internal",
    `the demonstration's ${what} was answered with ${answer.kind}${cause}`,
  );
}

const usage = `usage: npm start -- [--once] [--fresh] [--new-keys]
  --once      end after the demonstration
  --fresh     delete the data first
  --new-keys  make new keys, when keys.json was lost`;

const renewal =
  "To make new ones, stop the server and type: npm start -- --new-keys (older ones stay valid until they are revoked).";

await runProgram(usage, async () => {
  const { values } = parseArgs({
    options: {
      once: { type: "boolean", default: false },
      fresh: { type: "boolean", default: false },
      "new-keys": { type: "boolean", default: false },
    },
  });
  const directory = embeddedDirectory();
  if (values.fresh) await deleteData(directory);
  const stopping = stopSignal();
  const server = await startServer({
    env: processEnvironment(),
    keys: values["new-keys"] ? "renew" : "keep",
    port: {
      whenTaken: "next",
      onTaken: (port) => console.log(`Port ${port} is taken by another program; trying ${port + 1}.`),
    },
  });
  try {
    startDemonstrationWorker(server.plane);
    const demonstration = demonstrate(server, directory).catch((error: unknown) => {
      // On older data it may be refused, as by a limit; the server is useful all the same.
      if (values.once || !(error instanceof InterlockError)) throw error;
      console.log(`The demonstration ended early: ${error.detail}.`);
      return undefined;
    });
    const waiting = await Promise.race([demonstration, stopping.then(() => undefined)]);
    if (values.once) {
      if (waiting !== undefined)
        console.log(
          "It waits for a decision. The server stops, since --once was given: npm start goes on from here.",
        );
      return;
    }
    if (waiting !== undefined) for (const line of nextCommands(server, waiting)) console.log(line);
    console.log("\nCtrl-C stops the server; npm start goes on from here, npm start -- --fresh starts empty.");
    await stopping;
    console.log("Finishing what is under way ...");
  } finally {
    await stopInTime(server, (line) => console.log(line));
  }
  console.log("Stopped.");
});

function embeddedDirectory(): string {
  const { config } = loadConfig({ env: processEnvironment() });
  if (config["store.kind"] === "sqlite") return config["store.dataDirectory"];
  const detail = `npm start is the embedded server, and store.kind is ${config["store.kind"]}: start src/cli/serve.ts instead`;
  throw new InterlockError("config_invalid", detail);
}

/** Only what the server has made: the folder may hold other things. */
async function deleteData(directory: string): Promise<void> {
  await whoHasIt(directory, () => embeddedData.remove(directory));
  for (const name of ["keys.json", "curl-headers", "server.json"])
    rmSync(join(directory, name), { force: true });
}

type Waiting = { readonly directory: string; readonly approval: string; readonly runId: string };

async function demonstrate(server: Server, directory: string): Promise<Waiting> {
  const { plane, url } = server;
  console.log(`Interlock is up at ${url}: one process, no services, its data in ${asTyped(directory)}/\n`);
  for (const line of [...nodeNotes(), ...aboutKeys(server, directory)]) console.log(line);
  const report = await runReport(plane);
  console.log(`1. A workflow of three steps (${origin(report)}): ${report.runId}, ${report.status}\n`);
  await printTimeline(server, report);
  const refund = await runRefund(plane);
  const approval = await pendingApproval(plane, refund.runId);
  console.log(`2. A workflow that asks a person (${origin(refund)}): ${refund.runId}, ${refund.status}\n`);
  await printTimeline(server, refund);
  if (approval === undefined)
    throw new InterlockError("internal", "the second run should wait for an approval");
  return { directory, approval, runId: refund.runId };
}

function origin(run: ShownRun): string {
  return run.origin === "started"
    ? "started now"
    : "from an earlier start: its idempotency key found it again";
}

async function printTimeline({ plane }: Server, { runId }: ShownRun): Promise<void> {
  for (const { afterMs, type, detail } of await timelineOf(plane, runId)) {
    console.log(`   ${`+${afterMs} ms`.padStart(10)}  ${type.padEnd(25)} ${detail}`.trimEnd());
  }
  console.log("");
}

function aboutKeys({ keys }: Server, directory: string): string[] {
  const { keysFile, headersFile } = keyPaths(directory);
  const files = `${asTyped(keysFile)}, and for curl in ${asTyped(headersFile)}`;
  switch (keys.kind) {
    case "made":
      return [
        "New API keys, shown only this once:",
        `   platform (tenants, limits, keys)   ${keys.keys.platform}`,
        `   admin of the tenant "default"      ${keys.keys.admin}`,
        `   workers of the tenant "default"    ${keys.keys.worker}`,
        `They are in ${files}; nobody else can read these files.\n`,
      ];
    case "known":
      return [`The API keys are in ${files}.\n`];
    case "elsewhere":
      return [`There is no ${asTyped(keysFile)}. Keys made before still work. ${renewal}\n`];
    case "refused":
      return [
        `${asTyped(keysFile)} holds keys that this data does not know, or that were revoked. ${renewal}\n`,
      ];
  }
}

function nextCommands({ keys, url }: Server, { directory, approval, runId }: Waiting): string[] {
  if (keys.kind === "elsewhere" || keys.kind === "refused")
    return ["It waits for you. To go on you need a key: see above."];
  const curl = `curl -sS -w '\\n' -H @${shellWord(asTyped(keyPaths(directory).headersFile))}`;
  return [
    "It waits for you. Type these in another terminal, in this folder:",
    "",
    "   # what waits for a decision",
    `   ${curl} '${url}/api/v1/approvals?state=pending'`,
    "   # approve it",
    `   ${curl} -X POST '${url}/api/v1/approvals/${approval}/approve'`,
    "   # how the run ended",
    `   ${curl} '${url}/api/v1/workflow-runs/${runId}'`,
  ];
}
