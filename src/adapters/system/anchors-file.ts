// Keeps the newest head of every audit trail in one file that only its owner may read and write.
import { existsSync, readFileSync } from "node:fs";
import { mkdir, open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import type { Head } from "../../domain/audit.ts";
import { InterlockError } from "../../errors.ts";
import type { AuditAnchors, Log } from "../../ports/ports.ts";

/** One write at a time: heads that are noted meanwhile are written together by the next one. */
export function openAnchorsFile(path: string, log: Log): AuditAnchors {
  const heads = new Map(Object.entries(readHeads(path)));
  let writing: Promise<void> | undefined;
  let isChanged = false;
  const write = async () => {
    while (isChanged) {
      isChanged = false;
      try {
        await writeHeads(path, heads);
      } catch (error) {
        log.error("the heads of audit trails could not be written", { path, cause: String(error) });
      }
    }
    writing = undefined;
  };
  return {
    read: (tenant) => heads.get(tenant),
    note(tenant, head) {
      if (heads.get(tenant)?.hash === head.hash) return;
      heads.set(tenant, head);
      isChanged = true;
      writing ??= write();
    },
    close: async () => writing,
  };
}

/** A file that cannot be read is not taken for an empty one: that would forget what it anchors. */
function readHeads(path: string): Record<string, Head> {
  if (!existsSync(path)) return {};
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Record<string, Head>;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new InterlockError("config_invalid", `audit.anchorsFile ${path} cannot be read: ${why}`);
  }
}

async function writeHeads(path: string, heads: ReadonlyMap<string, Head>): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const partial = `${path}.partial-${process.pid}`;
  const file = await open(partial, "w", 0o600);
  try {
    await file.writeFile(`${JSON.stringify(Object.fromEntries(heads), null, 1)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(partial, path);
}
