// Which server a command talks to, with which key, and where it knows both from.
import { isAbsolute, join, relative, resolve } from "node:path";
import type { Config } from "../config.ts";
import { readConfigFile } from "../config-file.ts";
import { keyPaths, readKeys } from "../embedded/keys-file.ts";
import { readOwnerNote } from "../embedded/owner-note.ts";
import { type ConfigSources, loadConfig } from "../load-config.ts";
import { type KeyOptions, type NamedKey, namedKey, othersMayRead } from "./named-key.ts";
import { UsageError } from "./run-program.ts";
import type { Terminal } from "./terminal.ts";

/** Options that every command takes. */
export type GlobalOptions = KeyOptions & {
  readonly url?: string;
  readonly json?: boolean;
  readonly data?: string;
  readonly config?: string;
};

/** Whose business it is: a tenant's, or the whole installation's. */
export type Scope = "tenant" | "platform";

export type FoundServer = {
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

export type ConfigOptions = Pick<GlobalOptions, "data" | "config">;

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
