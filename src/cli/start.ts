// npm start: the embedded server with an example. It runs a workflow to its end, leaves another waiting, and stays up.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { embeddedData } from "../control-plane.ts";
import { keyPaths } from "../embedded/data-folder.ts";
import { type Server, startServer, whoHasIt } from "../embedded/start-server.ts";
import { InterlockError } from "../errors.ts";
import { loadConfig, processEnvironment } from "../load-config.ts";
import {
  pendingApproval,
  runRefund,
  runReport,
  type ShownRun,
  startDemonstrationWorker,
  timelineOf,
} from "./demonstration.ts";
import { runProgram, stopInTime, stopSignal } from "./run-program.ts";
import { asTyped, shellWord } from "./terminal.ts";

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
  for (const line of aboutKeys(server, directory)) console.log(line);
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
