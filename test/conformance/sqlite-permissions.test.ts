// Who may read what is written: every file of the data, of backups and of restores is its owner's alone, whatever the umask.
import { chmodSync, copyFileSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { backUpDatabase, restoreDatabase } from "../../src/adapters/sqlite/backup.ts";
import { loadDriver } from "../../src/adapters/sqlite/driver.ts";
import { backUpRunning } from "../../src/adapters/sqlite/running-backup.ts";
import { openAnchorsFile } from "../../src/adapters/system/anchors-file.ts";
import type { Head } from "../../src/domain/audit.ts";
import { writeKeys, writeOwnerNote } from "../../src/embedded/data-folder.ts";
import { InterlockError } from "../../src/errors.ts";
import {
  admission,
  call,
  damage,
  fileIn,
  numberOfActive,
  openStoreIn,
  range,
  silentLog,
} from "../support/sqlite-support.ts";
import { diskFolder } from "../support/stores.ts";

let folder: string;
let data: string;
let umask: number;
beforeEach(() => {
  folder = diskFolder();
  data = join(folder, "data");
  umask = process.umask();
});
afterEach(() => {
  process.umask(umask);
  rmSync(folder, { recursive: true, force: true });
});

/** Everything below, with what others may do with it: nothing is the empty list. */
function openToOthers(root: string): string[] {
  const entries = readdirSync(root, { recursive: true, withFileTypes: true });
  const paths = [root, ...entries.map((entry) => join(entry.parentPath, entry.name))];
  return paths.flatMap((path) => {
    const mode = statSync(path).mode & 0o777;
    const owners = statSync(path).isDirectory() ? 0o700 : 0o600;
    return mode === owners ? [] : [`${relative(folder, path)} ${mode.toString(8)}`];
  });
}

const inUse = new InterlockError("store_in_use", "another process has it");
const keys = { platform: "ilk_p", admin: "ilk_a", worker: "ilk_w" };

describe.each([0o000, 0o077])("with the umask %o", (mask) => {
  test("all that a running server has written is its owner's alone, and so is a backup of it", async () => {
    process.umask(mask);
    const store = await openStoreIn(data);
    writeKeys(data, keys);
    writeOwnerNote(data, { pid: process.pid, url: "http://127.0.0.1:1" });
    const anchors = openAnchorsFile(join(folder, "heads", "heads.json"), silentLog);
    const backups = join(folder, "backups");
    mkdirSync(backups, { mode: 0o700 });
    try {
      await store.admit(admission(1), call);
      anchors.note("acme" as never, { sequence: 1, hash: "h" } as Head);
      await anchors.close();
      expect(readdirSync(data)).toContain("interlock.db-wal");
      expect(openToOthers(data)).toEqual([]);
      expect(openToOthers(join(folder, "heads"))).toEqual([]);
      const asked = backUpRunning(fileIn(data), join(backups, "monday.db"), inUse);
      // Looked at all the while: what is beside the data for a moment may be read in that moment, too.
      const seen = new Set<string>();
      const looking = setInterval(() => {
        try {
          for (const found of [...openToOthers(data), ...openToOthers(backups)]) seen.add(found);
        } catch {
          // A file went while it was looked at.
        }
        // The thread looks for requests between two calls.
        void store.countActive({ tenant: "acme" as never }, call);
      }, 5);
      await asked.finally(() => clearInterval(looking));
      expect([...seen]).toEqual([]);
      expect([...openToOthers(data), ...openToOthers(backups)]).toEqual([]);
    } finally {
      await store.close();
    }
    expect(openToOthers(data)).toEqual([]);
  });

  test("what a restore writes and keeps is its owner's alone, whoever may read the backup", async () => {
    const store = await openStoreIn(data);
    await store.admit(admission(1), call);
    await store.close();
    process.umask(mask);
    const copy = join(folder, "copy.db");
    await backUpDatabase(data, copy);
    expect((statSync(copy).mode & 0o777).toString(8)).toBe("600");
    chmodSync(copy, 0o644);
    await restoreDatabase(copy, join(folder, "fresh"), { existing: "refuse" });
    expect(openToOthers(join(folder, "fresh"))).toEqual([]);
    await restoreDatabase(copy, data, { existing: "replace" });
    expect(readdirSync(data).sort()).toEqual(["interlock.db", "interlock.db.before-restore"]);
    expect(openToOthers(data)).toEqual([]);
    damage(data, 0, 4_096);
    await restoreDatabase(copy, data, { existing: "replace" });
    expect(openToOthers(data)).toEqual([]);
    const again = await openStoreIn(data);
    await again.admit(admission(2), call);
    expect(openToOthers(data)).toEqual([]);
    await again.close();
  });
});

describe("a file left beside a database that is restored", () => {
  /** What a killed writer of other data leaves: its log, the index of that, or the journal of a change that it had begun. */
  async function leftBehind(): Promise<Readonly<Record<string, string>>> {
    const other = join(folder, "other");
    const store = await openStoreIn(other);
    await store.admit(admission(7), call);
    const wal = join(folder, "left-wal");
    copyFileSync(`${fileIn(other)}-wal`, wal);
    await store.close();
    const open = await loadDriver();
    const database = open(fileIn(other), { readOnly: false });
    const journal = join(folder, "left-journal");
    // A cache of one page makes SQLite write to the file, and so to sync its journal, before the change is over.
    database.exec("PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; BEGIN; CREATE TABLE filler (x)");
    for (let index = 0; index < 50; index += 1) database.exec("INSERT INTO filler VALUES (randomblob(4000))");
    copyFileSync(`${fileIn(other)}-journal`, journal);
    database.exec("ROLLBACK");
    database.close();
    return { "-wal": wal, "-shm": wal, "-journal": journal };
  }

  test("is not applied to it: the data is that of the backup", async () => {
    const left = await leftBehind();
    const store = await openStoreIn(data);
    for (const index of range(50)) await store.admit(admission(index, { body: "x".repeat(2_000) }), call);
    await store.close();
    const copy = join(folder, "copy.db");
    await backUpDatabase(data, copy);
    for (const end of Object.keys(left)) {
      rmSync(fileIn(data));
      copyFileSync(left[end] as string, fileIn(data) + end);
      await restoreDatabase(copy, data, { existing: "refuse" });
      const restored = await openStoreIn(data);
      expect([end, await numberOfActive(restored)]).toEqual([end, 50]);
      await restored.close();
      expect(readdirSync(data)).toEqual(["interlock.db"]);
    }
  });
});
