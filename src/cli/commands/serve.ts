// interlock serve: the server, with settings from file, environment and options.

import type { Config } from "../../config.ts";
import { keyPaths } from "../../embedded/data-folder.ts";
import type { Server } from "../../embedded/start-server.ts";
import { type Cli, type Context, configSources } from "../context.ts";
import { nodeNotes, stopInTime, stopSignal } from "../run-program.ts";
import { asTyped } from "../terminal.ts";
import { wholeNumber } from "../values.ts";

export function addServeCommand({ program, does }: Cli): void {
  program
    .command("serve")
    .description("start a server; prints one JSON line when it is ready, or next steps on a terminal")
    .option(
      "--roles <roles>",
      "what this process does: gateway, engine, scheduler, with commas between (setting process.roles)",
    )
    .option("--port <port>", "where it listens; 0 takes a free one (setting gateway.port)", wholeNumber)
    .option("--new-keys", "make new API keys, when keys.json was lost")
    .addHelpText(
      "after",
      "\nExamples:\n  interlock serve --port 0 --data ./data\n  interlock serve --roles engine,scheduler --config production.yaml",
    )
    .action(does(serve));
}

type ServeOptions = { readonly roles?: string; readonly port?: number; readonly newKeys?: boolean };

async function serve(context: Context, { roles, port, newKeys }: ServeOptions): Promise<void> {
  const { output, terminal, options } = context;
  const stopping = stopSignal();
  const stopped = new AbortController();
  void stopping.then(() => stopped.abort());
  const sources = configSources(terminal, options);
  const overrides: Partial<Config> = {
    ...sources.overrides,
    ...(roles === undefined ? {} : { "process.roles": roles.replaceAll(" ", "") }),
    ...(port === undefined ? {} : { "gateway.port": port }),
  };
  // Loaded here alone: the server takes half a second that no other command should.
  const { startServer } = await import("../../embedded/start-server.ts");
  const keys = newKeys === true ? "renew" : "keep";
  const starting = startServer(
    { ...sources, overrides, keys, port: { whenTaken: "refuse" } },
    stopped.signal,
  );
  const server = await starting.catch((error: unknown) => {
    if (!stopped.signal.aborted) throw error;
  });
  if (server === undefined) return;
  const isForPeople = terminal.stdout.isTty && !output.isJson;
  if (isForPeople) output.line(...welcomeLines(context, server));
  else terminal.stdout.write(`${JSON.stringify(readyLine(server))}\n`);
  for (const line of [...keyNotes(server), ...nodeNotes()]) terminal.stderr.write(`${line}\n`);
  await stopping;
  if (isForPeople) output.line("Finishing what is under way ...");
  await stopInTime(server, (line) => terminal.stderr.write(`${line}\n`));
}

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

function welcomeLines({ terminal, output }: Context, { url, config, directory, keys }: Server): string[] {
  const { calledAs } = terminal;
  const where =
    directory === undefined ? `its data in ${config["store.kind"]}` : `its data in ${asTyped(directory)}/`;
  return [
    `${output.paint("strong", `Interlock is up at ${url}`)} (${config["process.roles"].replaceAll(",", ", ")}), ${where}`,
    ...madeKeyLines(keys, directory),
    "",
    "In another terminal, in this folder:",
    `   ${calledAs} init                          # an example workflow and a worker`,
    `   ${calledAs} workflows save workflow.yaml`,
    `   ${calledAs} run hello --input '{"name": "Ada"}'`,
    "",
    "Ctrl-C stops the server.",
  ];
}

function madeKeyLines(keys: Server["keys"], directory: string | undefined): string[] {
  if (keys.kind !== "made") return [];
  if (directory !== undefined)
    return [
      `New API keys are in ${asTyped(keyPaths(directory).keysFile)}, for your eyes only; commands in this folder find them.`,
    ];
  return [
    "New API keys, shown only this once:",
    ...Object.entries(keys.keys).map(([role, key]) => `   ${role.padEnd(9)} ${key}`),
  ];
}
