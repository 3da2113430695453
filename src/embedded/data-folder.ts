// What a server leaves in its data folder for programs and people, for their owner only: its first keys, and a note that names it.

import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { InterlockError } from "../errors.ts";

/** The texts of the keys. `admin` and `worker` act in the tenant `default`. */
export type Keys = { readonly platform: string; readonly admin: string; readonly worker: string };

type KeyPaths = { readonly keysFile: string; readonly headersFile: string };

export function keyPaths(directory: string): KeyPaths {
  return { keysFile: join(directory, "keys.json"), headersFile: join(directory, "curl-headers") };
}

export function writeKeys(directory: string, keys: Keys): void {
  const { keysFile, headersFile } = keyPaths(directory);
  writePrivateFile(headersFile, headersText(keys));
  writePrivateFile(keysFile, `${JSON.stringify(keys, null, 2)}\n`);
}

export function readKeys(directory: string): Keys | undefined {
  const { keysFile, headersFile } = keyPaths(directory);
  const text = readFileIfThere(keysFile);
  if (text === undefined) return undefined;
  const keys = parseKeys(text);
  if (keys === undefined) {
    const detail = `${keysFile} does not hold the keys platform, admin and worker: correct it, or move it away`;
    throw new InterlockError("config_invalid", detail);
  }
  if (readFileIfThere(headersFile) !== headersText(keys)) writePrivateFile(headersFile, headersText(keys));
  return keys;
}

function headersText({ admin }: Keys): string {
  return `X-API-Key: ${admin}\n`;
}

function parseKeys(text: string): Keys | undefined {
  try {
    const { platform, admin, worker } = JSON.parse(text) as Partial<Record<keyof Keys, unknown>>;
    if (typeof platform !== "string" || typeof admin !== "string" || typeof worker !== "string")
      return undefined;
    return { platform, admin, worker };
  } catch {
    return undefined;
  }
}

function writePrivateFile(path: string, text: string): void {
  const partial = `${path}.partial-${process.pid}`;
  // A new file, since an existing one would keep the permissions it has.
  rmSync(partial, { force: true });
  const file = openSync(partial, "wx", 0o600);
  try {
    writeSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(partial, path);
}

export function readFileIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    // The second: what should be its folder is a file.
    const isAbsent =
      error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR");
    if (isAbsent) return undefined;
    throw error;
  }
}

type OwnerNote = { readonly pid: number; readonly url: string };

const noteIn = (directory: string): string => join(directory, "server.json");

export function writeOwnerNote(directory: string, note: OwnerNote): void {
  writePrivateFile(noteIn(directory), `${JSON.stringify(note)}\n`);
}

export function removeOwnerNote(directory: string): void {
  rmSync(noteIn(directory), { force: true });
}

/** Undefined when there is none or its process has ended; a killed server leaves its note behind. */
export function readOwnerNote(directory: string): OwnerNote | undefined {
  const text = readFileIfThere(noteIn(directory));
  if (text === undefined) return undefined;
  try {
    const { pid, url } = JSON.parse(text) as Partial<OwnerNote>;
    if (typeof pid !== "number" || typeof url !== "string") return undefined;
    process.kill(pid, 0);
    return { pid, url };
  } catch {
    return undefined;
  }
}
