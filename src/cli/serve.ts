// The plain server: settings from the environment, one JSON line when it takes requests, and nothing else on standard output.
import { parseArgs } from "node:util";
import { keyPaths } from "../embedded/keys-file.ts";
import { type Server, startServer } from "../embedded/start-server.ts";
import { processEnvironment } from "../load-config.ts";
import { runProgram } from "./run-program.ts";
import { stopInTime, stopSignal } from "./stopping.ts";

const usage = "usage: node --import tsx src/cli/serve.ts [--new-keys]";

await runProgram(usage, async () => {
  const { values } = parseArgs({ options: { "new-keys": { type: "boolean", default: false } } });
  const stopping = stopSignal();
  const server = await startServer({
    env: processEnvironment(),
    keys: values["new-keys"] ? "renew" : "keep",
    port: { whenTaken: "refuse" },
  });
  process.stdout.write(`${JSON.stringify(readyLine(server))}\n`);
  for (const line of keyNotes(server)) console.error(line);
  await stopping;
  await stopInTime(server, (line) => console.error(line));
});

/** Keys stand in the line only where no file can hold them, and only once. */
function readyLine({ url, directory, keys }: Server): object {
  const base = { url, pid: process.pid };
  if (directory !== undefined) return { ...base, keys_file: keyPaths(directory).keysFile };
  return keys.kind === "made" ? { ...base, keys: keys.keys } : base;
}

function keyNotes({ keys, directory }: Server): string[] {
  if (directory === undefined || keys.kind === "known" || keys.kind === "made") return [];
  const { keysFile } = keyPaths(directory);
  const what =
    keys.kind === "refused"
      ? `${keysFile} holds keys that this data does not know`
      : `there is no ${keysFile}`;
  return [`Note: ${what}. Older keys still work; --new-keys makes new ones.`];
}
