// Files that only their owner may read: written whole or not at all, and on the disk when the call returns.
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from "node:fs";

export function writePrivateFile(path: string, text: string): void {
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
