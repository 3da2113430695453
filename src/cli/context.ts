// What every command gets: its output, its client, the ending it may ask for; and which server it talks to, with which key.

import { readFileSync, statSync } from "node:fs";
import { isAbsolute, join, relative, resolve } from "node:path";
import type { Command } from "commander";
import type { Config } from "../config.ts";
import { keyPaths, readKeys, readOwnerNote } from "../embedded/data-folder.ts";
import { type ConfigSources, loadConfig, readConfigFile } from "../load-config.ts";
import { type Client, createClient } from "../sdk/client.ts";
import { createOutput, type Output } from "./output.ts";
import type { Ending } from "./report-failure.ts";
import { UsageError } from "./run-program.ts";
import type { Terminal } from "./terminal.ts";

export type Context = {
  readonly terminal: Terminal;
  readonly output: Output;
  readonly options: GlobalOptions;
  /** A client with the key for this scope. */
  client(scope?: Scope): Client;
  found(scope?: Scope): FoundServer;
  /** Another ending than `ok`. */
  end(ending: Ending): void;
};

/** Of one call of the program. */
export type Session = {
  readonly terminal: Terminal;
  ending: Ending;
  /** The server that was asked last, for the words of a failure. */
  server?: FoundServer;
  format: "json" | "text";
};

export type Cli = {
  readonly program: Command;
  /** Gives a command's work its context: `.action(does(async (context, id: string, options) => ...))`. */
  does<Received extends unknown[]>(
    work: (context: Context, ...received: Received) => Promise<void>,
  ): (...received: unknown[]) => Promise<void>;
};

/** A person waits: a server that restarts or is overloaded is asked again, but not for long. One that is not there costs 1 s. */
const patience = { budgetMs: 8_000, attemptsMax: 4 };

export function createCli(program: Command, session: Session): Cli {
  return {
    program,
    does<Received extends unknown[]>(work: (context: Context, ...received: Received) => Promise<void>) {
      return async (...received: unknown[]) => {
        const command = received.at(-1) as Command;
        const context = createContext(session, command.optsWithGlobals<GlobalOptions>());
        // Arguments, then options, as the command declares them.
        await work(context, ...(received.slice(0, -1) as Received));
      };
    },
  };
}

function createContext(session: Session, options: GlobalOptions): Context {
  const { terminal } = session;
  session.format = options.json === true ? "json" : "text";
  const found = (scope: Scope = "tenant") => {
    const before = session.server;
    session.server = findServer(terminal, options, scope);
    const { keyWarning } = session.server;
    const isNew = keyWarning !== before?.keyWarning;
    if (keyWarning !== undefined && isNew && session.format === "text") {
      terminal.stderr.write(`Note: ${keyWarning}\n`);
    }
    return session.server;
  };
  return {
    terminal,
    options,
    output: createOutput(terminal, session.format),
    found,
    client(scope) {
      const { url, apiKey, isGuess } = found(scope);
      if (apiKey === undefined) throw isGuess ? new NoServerError() : new NoKeyError();
      return createClient({ url, apiKey, retry: patience });
    },
    end(ending) {
      session.ending = ending;
    },
  };
}

/** Options that every command takes. */
type GlobalOptions = KeyOptions & {
  readonly url?: string;
  readonly json?: boolean;
  readonly data?: string;
  readonly config?: string;
};

/** Whose business it is: a tenant's, or the whole installation's. */
type Scope = "tenant" | "platform";

type FoundServer = {
  readonly url: string;
  /** As in: `http://... (from INTERLOCK_URL)`. */
  readonly urlFrom: string;
  /** Nobody runs a server on the data folder here. */
  readonly isGuess: boolean;
  readonly apiKey: string | undefined;
  readonly keyFrom: string;
  readonly keyWarning: string | undefined;
  readonly directory: string;
};

/** No server was named, and none has the data folder open. */
export class NoServerError extends Error {}

/** A server is known, and no key for it. */
export class NoKeyError extends Error {}

type ConfigOptions = Pick<GlobalOptions, "data" | "config">;

/** The sources of the configuration, as every command that needs one reads them. */
export function configSources(terminal: Terminal, { data, config }: ConfigOptions): ConfigSources {
  return {
    env: terminal.env,
    ...(config === undefined ? {} : { file: readConfigFile(resolve(terminal.typedFolder, config)) }),
    ...(data === undefined
      ? {}
      : { overrides: { "store.dataDirectory": resolve(terminal.typedFolder, data) } }),
  };
}

export function findServer(terminal: Terminal, options: GlobalOptions, scope: Scope): FoundServer {
  const { config } = loadConfig(configSources(terminal, options));
  const directory = resolve(terminal.folder, config["store.dataDirectory"]);
  const local = localUrl(directory, terminal, config);
  const named = namedUrl(terminal, options);
  const { url, urlFrom } = named ?? local;
  // A key of the data folder is for the server that has the folder open: it is sent to no other, and not on a guess.
  const isLocal = !local.isGuess && sameServer(url, local.url);
  const key = namedKey(terminal, options) ?? (isLocal ? keyInFolder(terminal, directory, scope) : undefined);
  return {
    url,
    urlFrom,
    isGuess: named === undefined && local.isGuess,
    apiKey: key?.apiKey,
    keyFrom: key?.keyFrom ?? "nowhere",
    keyWarning: key?.warning,
    directory,
  };
}

function namedUrl(
  { env }: Terminal,
  { url }: GlobalOptions,
): { readonly url: string; readonly urlFrom: string } | undefined {
  if (url !== undefined) return { url: checkedUrl(url, "--url"), urlFrom: "from --url" };
  if (env.INTERLOCK_URL !== undefined && env.INTERLOCK_URL !== "")
    return { url: checkedUrl(env.INTERLOCK_URL, "INTERLOCK_URL"), urlFrom: "from INTERLOCK_URL" };
  return undefined;
}

function checkedUrl(text: string, from: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new UsageError(`${from} must be an address such as http://127.0.0.1:7300`);
  return text.replace(/\/+$/, "");
}

type LocalUrl = { readonly url: string; readonly urlFrom: string; readonly isGuess: boolean };

function localUrl(directory: string, terminal: Terminal, config: Config): LocalUrl {
  const note = readable(() => readOwnerNote(directory));
  const folder = shown(terminal, directory);
  if (note !== undefined)
    return { url: note.url, urlFrom: `from ${join(folder, "server.json")}`, isGuess: false };
  const scheme = config["gateway.tls.certificateFile"] === "" ? "http" : "https";
  return {
    url: `${scheme}://127.0.0.1:${config["gateway.port"]}`,
    urlFrom: `the default: no server has ${folder} open`,
    isGuess: true,
  };
}

function sameServer(left: string, right: string): boolean {
  const origin = (url: string) => new URL(url).origin.replace("//localhost", "//127.0.0.1");
  return origin(left) === origin(right);
}

function keyInFolder(terminal: Terminal, directory: string, scope: Scope): NamedKey | undefined {
  const keys = readable(() => readKeys(directory));
  if (keys === undefined) return undefined;
  const role = scope === "platform" ? "platform" : "admin";
  return {
    apiKey: keys[role],
    keyFrom: `the ${role} key in ${shown(terminal, keyPaths(directory).keysFile)}`,
    warning: othersMayRead(keyPaths(directory).keysFile),
  };
}

/** The files are for the eyes of the server's user only. */
function readable<Value>(read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EACCES")) throw error;
    throw new UsageError(
      `${error.message}\nRun this as the user of the server, or name the server and a key: --url and --key-file.`,
    );
  }
}

/** The shorter way to name it. */
function shown({ typedFolder }: Terminal, path: string): string {
  const fromHere = relative(typedFolder, path) || ".";
  return isAbsolute(fromHere) || fromHere.length > path.length ? path : fromHere;
}

type NamedKey = {
  readonly apiKey: string;
  readonly keyFrom: string;
  /** How the key may be seen by others, and what to do about it. */
  readonly warning?: string | undefined;
};

type KeyOptions = { readonly apiKey?: string; readonly keyFile?: string };

function namedKey(terminal: Terminal, { apiKey, keyFile }: KeyOptions): NamedKey | undefined {
  const { INTERLOCK_API_KEY: fromEnvironment = "", INTERLOCK_API_KEY_FILE: namedFile = "" } = terminal.env;
  if (apiKey !== undefined && keyFile !== undefined) {
    throw new UsageError("--api-key and --key-file name two keys: give --key-file alone");
  }
  if (apiKey !== undefined) return { apiKey: checked(apiKey, "--api-key"), keyFrom: "--api-key", warning };
  if (keyFile !== undefined) return keyInFile(resolve(terminal.typedFolder, keyFile), "--key-file");
  if (fromEnvironment !== "") {
    return { apiKey: checked(fromEnvironment, "INTERLOCK_API_KEY"), keyFrom: "INTERLOCK_API_KEY" };
  }
  if (namedFile === "") return undefined;
  return keyInFile(resolve(terminal.folder, namedFile), "INTERLOCK_API_KEY_FILE");
}

const warning =
  "Everybody on this machine can see a key on the command line. Put it in a file and give --key-file, or set INTERLOCK_API_KEY_FILE.";

function keyInFile(path: string, from: string): NamedKey {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
    throw new UsageError(`${from}: cannot read ${path} (${code})`);
  }
  return {
    apiKey: checked(text, `${path} (${from})`),
    keyFrom: `${path} (${from})`,
    warning: othersMayRead(path),
  };
}

/** What is no key is never repeated: it may be one with a stray character, and a client's own refusal would show it. */
function checked(text: string, from: string): string {
  const key = text.trim();
  if (/^[\x21-\x7e]{1,200}$/.test(key)) return key;
  throw new UsageError(`${from} must hold one API key and nothing else (not shown)`);
}

/** Windows has no such rights: there the mode says nothing. */
function othersMayRead(path: string): string | undefined {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0;
  if (process.platform === "win32" || (mode & 0o077) === 0) return undefined;
  return `Others may read the key in ${path}. Keep them out: chmod 600 ${path}`;
}
