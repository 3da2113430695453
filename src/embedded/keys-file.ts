// The keys of the first start on disk: keys.json for programs, curl-headers for `curl -H @...`, both for their owner only.
import { join } from "node:path";
import { InterlockError } from "../errors.ts";
import { readFileIfThere, writePrivateFile } from "./private-file.ts";

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
