// A note in the data folder that names the server which owns it. Only for people: what keeps others out is the file's lock.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { readFileIfThere, writePrivateFile } from "./private-file.ts";

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
