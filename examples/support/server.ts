// The server of an example: what `interlock serve --port 0` starts, in a folder of its own that is gone afterwards.
import { readFileSync } from "node:fs";
import { type Started, startScript, temporaryFolder } from "./processes.ts";

export type Keys = { readonly platform: string; readonly admin: string; readonly worker: string };
export type Server = Started & { readonly url: string; readonly keys: Keys };

export async function startServer(): Promise<Server> {
  const started = await startScript("src/cli/interlock.ts", {
    name: "server",
    args: ["serve", "--port", "0", "--data", temporaryFolder()],
    readyWhen: /^\{"url"/,
  });
  const { url, keys_file } = JSON.parse(started.ready) as {
    readonly url: string;
    readonly keys_file: string;
  };
  return { ...started, url, keys: JSON.parse(readFileSync(keys_file, "utf8")) as Keys };
}
