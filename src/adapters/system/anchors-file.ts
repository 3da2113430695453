// Keeps the newest head of every audit trail in one file that only its owner may read and write.
import { existsSync, readFileSync } from "node:fs";
import { mkdir, open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import type { Head } from "../../domain/audit.ts";
import { InterlockError } from "../../errors.ts";
import type { AuditAnchors, Log } from "../../ports/ports.ts";

/** In this process: two that write at the same time must not write into one partial file. */
let opened = 0;

/**
 * One write at a time: heads that are noted meanwhile are written together by the next one. What could not be written is
 * written with the next head that is noted: a file that cannot be read stays so, and trying at once would never end.
 * Processes of one machine may share the file: a head that another one has noted since is not written over, but taken on, so
 * that the next sealing compares the trail with it.
 */
export function openAnchorsFile(path: string, log: Log): AuditAnchors {
  opened += 1;
  const partial = `${path}.partial-${process.pid}-${opened}`;
  const heads = readHeads(path);
  let inFile: ReadonlyMap<string, Head> = new Map(heads);
  const noted = new Set<string>();
  let writing: Promise<void> | undefined;
  let isFailing = false;
  const merge = () => {
    const merged = readHeads(path);
    for (const tenant of noted) {
      const [mine, found] = [heads.get(tenant), merged.get(tenant)];
      if (found !== undefined && found.hash !== inFile.get(tenant)?.hash) heads.set(tenant, found);
      else if (mine !== undefined) merged.set(tenant, mine);
    }
    return merged;
  };
  const write = async () => {
    while (noted.size > 0) {
      let taken: readonly string[] = [];
      try {
        const merged = merge();
        taken = [...noted];
        noted.clear();
        await writeHeads(path, partial, merged);
        inFile = merged;
        isFailing = false;
      } catch (error) {
        for (const tenant of taken) noted.add(tenant);
        if (!isFailing)
          log.error("the heads of audit trails could not be written", { path, cause: String(error) });
        isFailing = true;
        break;
      }
    }
    writing = undefined;
  };
  return {
    read: (tenant) => heads.get(tenant),
    note(tenant, head) {
      if (heads.get(tenant)?.hash === head.hash) return;
      heads.set(tenant, head);
      noted.add(tenant);
      writing ??= Promise.resolve().then(write);
    },
    close: async () => writing,
  };
}

/** Heads without this mark are of versions whose trail was the event feed: they say nothing about this one. */
const format = 2;

type AnchorsFile = { readonly format?: unknown; readonly heads?: Record<string, Head> };

/** A file that cannot be read is not taken for an empty one: that would forget what it anchors. */
function readHeads(path: string): Map<string, Head> {
  if (!existsSync(path)) return new Map();
  try {
    const file = JSON.parse(readFileSync(path, "utf8")) as AnchorsFile;
    return new Map(file.format === format ? Object.entries(file.heads ?? {}) : []);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new InterlockError("config_invalid", `audit.anchorsFile ${path} cannot be read: ${why}`);
  }
}

async function writeHeads(path: string, partial: string, heads: ReadonlyMap<string, Head>): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const file = await open(partial, "w", 0o600);
  try {
    await file.writeFile(`${JSON.stringify({ format, heads: Object.fromEntries(heads) }, null, 1)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(partial, path);
}
