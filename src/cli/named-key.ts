// The key that a command was given: from a file, from the environment, or, for older scripts, on the command line.
import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { UsageError } from "./run-program.ts";
import type { Terminal } from "./terminal.ts";

export type NamedKey = {
  readonly apiKey: string;
  readonly keyFrom: string;
  /** How the key may be seen by others, and what to do about it. */
  readonly warning?: string | undefined;
};

export type KeyOptions = { readonly apiKey?: string; readonly keyFile?: string };

export function namedKey(terminal: Terminal, { apiKey, keyFile }: KeyOptions): NamedKey | undefined {
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
export function othersMayRead(path: string): string | undefined {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0;
  if (process.platform === "win32" || (mode & 0o077) === 0) return undefined;
  return `Others may read the key in ${path}. Keep them out: chmod 600 ${path}`;
}
