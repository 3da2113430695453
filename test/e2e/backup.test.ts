// Backup and restore of the embedded data: whole, checked, also of a running server, and never a half-replaced file.
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { backUpDatabase, removeDatabase, restoreDatabase } from "../../src/adapters/sqlite/backup.ts";
import { backUpRunning } from "../../src/adapters/sqlite/running-backup.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import { InterlockError } from "../../src/errors.ts";
import type { Store } from "../../src/ports/store.ts";
import { createHttpClient } from "../support/http-client.ts";
import { type Program, servedBy, startProgram } from "../support/program.ts";
import {
  admission,
  call,
  damage,
  fileIn,
  fillAndClose,
  openStoreIn,
  runIdOf,
  runSql,
  tenant,
} from "../support/sqlite-support.ts";
import { diskFolder } from "../support/stores.ts";

let folder: string;
let data: string;
let copy: string;
beforeEach(() => {
  folder = diskFolder();
  data = join(folder, "data");
  copy = join(folder, "backups", "monday.db");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function withStore<Value>(directory: string, work: (store: Store) => Promise<Value>): Promise<Value> {
  const store = await openStoreIn(directory);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

const admit = (store: Store, index: number) => store.admit(admission(index), call);
const kindOfRun = async (store: Store, index: number) =>
  (await store.loadRun({ tenant, runId: runIdOf(index) }, call)).kind;

async function takeLock(store: Store): Promise<number> {
  const lock = { namespace: "run", name: "any" } as const;
  const token = `token ${lockNumber}` as LockToken;
  lockNumber += 1;
  const answer = await store.acquireLock({ tenant, lock, token, instance: "test", ttlMs: 60_000 }, call);
  if (answer.kind !== "acquired") throw new Error(answer.kind);
  await store.releaseLock({ tenant, lock, token }, call);
  return Number(answer.fence);
}
let lockNumber = 0;

describe("of a closed store", () => {
  test("a restore takes the data back to the backup, keeps what was there, and fences go on growing", async () => {
    const before = await withStore(data, async (store) => {
      await admit(store, 1);
      return takeLock(store);
    });
    const made = await backUpDatabase(data, copy);
    expect(made).toMatchObject({ file: copy, bytes: statSync(copy).size });
    expect(statSync(copy).mode & 0o777).toBe(0o600);
    const after = await withStore(data, async (store) => {
      await admit(store, 2);
      return takeLock(store);
    });
    const restored = await restoreDatabase(copy, data, { existing: "replace" });
    expect(restored).toMatchObject({ file: fileIn(data), schemaVersion: made.schemaVersion });
    await withStore(data, async (store) => {
      expect([await kindOfRun(store, 1), await kindOfRun(store, 2)]).toEqual(["run", "not_found"]);
      const fence = await takeLock(store);
      expect([before, after, fence]).toEqual([before, after, fence].sort((left, right) => left - right));
      expect(fence).toBeGreaterThan(after);
    });
    // The data from before is still there: it can be restored in turn.
    expect(restored.before).toBe(`${fileIn(data)}.before-restore`);
    copyFileSync(restored.before as string, join(folder, "before.db"));
    await restoreDatabase(join(folder, "before.db"), join(folder, "other"), { existing: "refuse" });
    await withStore(join(folder, "other"), async (store) => expect(await kindOfRun(store, 2)).toBe("run"));
    expect(readdirSync(data).sort()).toEqual(["interlock.db", "interlock.db.before-restore"]);
  });

  test("existing files are not overwritten", async () => {
    await withStore(data, (store) => admit(store, 1));
    await backUpDatabase(data, copy);
    const before = readFileSync(copy);
    await expect(backUpDatabase(data, copy)).rejects.toMatchObject({ code: "data_left_alone" });
    await expect(restoreDatabase(copy, data, { existing: "refuse" })).rejects.toMatchObject({
      code: "data_left_alone",
      detail: expect.stringContaining("--replace") as string,
    });
    expect(readFileSync(copy).equals(before)).toBe(true);
    await expect(backUpDatabase(join(folder, "none"), join(folder, "x.db"))).rejects.toMatchObject({
      detail: expect.stringContaining("there is no data") as string,
    });
    expect(readdirSync(join(folder, "backups"))).toEqual(["monday.db"]);
  });

  test.each<[string, string, () => Promise<void>]>([
    ["a damaged backup", "store_corrupt", async () => damage(join(folder, "backup"), 40_000, 20_000)],
    [
      "no database at all",
      "store_corrupt",
      async () => writeFileSync(copy, "not a database, but long enough"),
    ],
    ["an empty file", "store_corrupt", async () => writeFileSync(copy, "")],
    ["another program's database", "store_corrupt", () => sqlOnCopy("PRAGMA application_id = 7")],
    ["one of a newer version", "store_schema_newer", () => sqlOnCopy("PRAGMA user_version = 999")],
    ["the live file of a server", "data_left_alone", async () => writeFileSync(`${copy}-wal`, "log")],
  ])("%s is refused with %s and the data stays as it is", async (_, code, spoil) => {
    copy = fileIn(join(folder, "backup"));
    await fillAndClose(join(folder, "full"));
    await backUpDatabase(join(folder, "full"), copy);
    await withStore(data, (store) => admit(store, 1));
    const before = readFileSync(fileIn(data));
    await spoil();
    await expect(restoreDatabase(copy, data, { existing: "replace" })).rejects.toMatchObject({ code });
    expect(readFileSync(fileIn(data)).equals(before)).toBe(true);
    expect(readdirSync(data)).toEqual(["interlock.db"]);
  });

  const sqlOnCopy = (sql: string) => runSql(join(folder, "backup"), sql);

  test("a file that cannot be read any more gives way to the backup and is kept", async () => {
    await withStore(data, (store) => admit(store, 1));
    await backUpDatabase(data, copy);
    damage(data, 0, 4_096);
    writeFileSync(`${fileIn(data)}-wal`, "what was left of the log");
    await expect(openStoreIn(data)).rejects.toMatchObject({ code: "store_corrupt" });
    await restoreDatabase(copy, data, { existing: "replace" });
    await withStore(data, async (store) => expect(await kindOfRun(store, 1)).toBe("run"));
    expect(existsSync(`${fileIn(data)}.before-restore-wal`)).toBe(true);
  });

  test("removing the data leaves other files alone, and nothing to remove is fine", async () => {
    await removeDatabase(data);
    await withStore(data, (store) => admit(store, 1));
    writeFileSync(join(data, "notes.txt"), "mine");
    await removeDatabase(data);
    expect(readdirSync(data)).toEqual(["notes.txt"]);
    await withStore(data, async (store) => expect(await kindOfRun(store, 1)).toBe("not_found"));
  });

  test("a store in use can be neither copied nor replaced nor removed", async () => {
    await withStore(join(folder, "other"), (store) => admit(store, 1));
    await backUpDatabase(join(folder, "other"), copy);
    const server = startProgram("serve.ts", { settings: { DATA_DIRECTORY: data, GATEWAY_PORT: "0" } });
    try {
      await servedBy(server);
      const inUse = { code: "store_in_use" };
      await expect(backUpDatabase(data, join(folder, "x.db"))).rejects.toMatchObject(inUse);
      await expect(restoreDatabase(copy, data, { existing: "replace" })).rejects.toMatchObject(inUse);
      await expect(removeDatabase(data)).rejects.toMatchObject(inUse);
    } finally {
      await server.kill();
    }
  });
});

const programs: Program[] = [];
afterEach(() => Promise.all(programs.splice(0).map((program) => program.kill())));

/** A command in the test's folder, on the data of this folder of it. */
function runOn(directory: string, name: string, ...args: string[]): Program {
  const settings = { DATA_DIRECTORY: directory, GATEWAY_PORT: "0" };
  const program = startProgram(name, { args, settings, cwd: folder });
  programs.push(program);
  return program;
}

type Acknowledged = { readonly key: string; readonly runId: string };

test("a backup of a running server has every start that was answered before it began, while starts go on", async () => {
  mkdirSync(data, { mode: 0o700 });
  const { url } = await servedBy(runOn("data", "serve.ts"));
  const keys = JSON.parse(readFileSync(join(data, "keys.json"), "utf8")) as { readonly admin: string };
  const admin = createHttpClient(() => url, keys.admin);
  await admin.post("/workflows", { id: "wait", steps: { ask: { type: "approval" } } });
  const acknowledged: Acknowledged[] = [];
  const others = new Set<number>();
  let isOver = false;
  const starters = Array.from({ length: 4 }, async (_, starter) => {
    for (let index = 0; !isOver; index += 1) {
      const key = `${starter}-${index}`;
      const headers = { "idempotency-key": key };
      const answer = await admin.post<{ run_id: string }>("/workflows/wait/runs", { index }, headers);
      if (answer.status === 200) acknowledged.push({ key, runId: answer.body.run_id });
      else others.add(answer.status);
    }
  });
  try {
    await expect.poll(() => acknowledged.length, { timeout: 60_000 }).toBeGreaterThan(50);
    const before = [...acknowledged];
    const made = runOn("data", "backup.ts", "copy.db");
    expect(await made.ended, made.output()).toBe(0);
    expect(made.output()).toMatch(/copy\.db: \d+ bytes, schema version \d+, checked/);
    expect(acknowledged.length).toBeGreaterThan(before.length);
    await expect.poll(() => acknowledged.length, { timeout: 60_000 }).toBeGreaterThan(before.length + 20);
    isOver = true;
    await Promise.all(starters);
    expect([...others]).toEqual([]);
    expect(statSync(join(folder, "copy.db")).mode & 0o777).toBe(0o600);
    expect(readdirSync(data).filter((name) => name.includes("backup"))).toEqual([]);

    const restored = join(folder, "restored");
    const back = runOn("restored", "restore.ts", "copy.db");
    expect(await back.ended, back.output()).toBe(0);
    await withStore(restored, async (store) => {
      const own = "default" as typeof tenant;
      const active = await store.listActive({ tenant: own, limit: 100_000 }, call);
      const usage = await store.countUsage({ tenant: own }, call);
      if (active.kind !== "listed" || usage.kind !== "counted") throw new Error("the store does not answer");
      expect(active.runIds).toEqual(expect.arrayContaining(before.map(({ runId }) => runId)));
      const { active_runs: runs, idempotency_keys: bound } = usage.used;
      expect([runs, bound]).toEqual([active.runIds.length, active.runIds.length]);
    });
    copyFileSync(join(data, "keys.json"), join(restored, "keys.json"));
    const { url: newUrl } = await servedBy(runOn("restored", "serve.ts"));
    const again = createHttpClient(() => newUrl, keys.admin);
    for (const { key, runId } of before.slice(-5)) {
      const answer = await again.post(
        "/workflows/wait/runs",
        { index: Number(key.split("-")[1]) },
        { "idempotency-key": key },
      );
      expect(answer).toMatchObject({ status: 200, body: { run_id: runId } });
    }
  } finally {
    isOver = true;
    await Promise.all(starters);
  }
});

test("a backup that the owner of the data does not take up is refused, and leaves nothing behind", async () => {
  await withStore(data, (store) => admit(store, 1));
  const inUse = new InterlockError("store_in_use", "another process has it");
  const asked = backUpRunning(fileIn(data), copy, inUse, { takenWithinMs: 100 });
  await expect(asked).rejects.toBe(inUse);
  expect(existsSync(copy)).toBe(false);
  expect(readdirSync(data)).toEqual(["interlock.db"]);
});

test("the commands: a copy with all that the server answered before a SIGKILL, and back", async () => {
  const run = (name: string, ...args: string[]) => runOn("data", name, ...args);
  mkdirSync(data, { mode: 0o700 });
  const first = run("serve.ts");
  const { url } = await servedBy(first);
  const keys = JSON.parse(readFileSync(join(data, "keys.json"), "utf8")) as { readonly admin: string };
  const admin = createHttpClient(() => url, keys.admin);
  await admin.post("/workflows", { id: "wait", steps: { ask: { type: "approval" } } });
  const started = await admin.post<{ run_id: string }>("/workflows/wait/runs", {});
  await first.kill();

  const made = run("backup.ts", "copy.db");
  expect(await made.ended, made.output()).toBe(0);
  expect(made.output()).toMatch(/copy\.db: \d+ bytes, schema version \d+, checked/);
  const again = run("restore.ts", "copy.db");
  expect(await again.ended).toBe(1);
  expect(again.output()).toContain("say --replace");
  const restored = run("restore.ts", "copy.db", "--replace");
  expect(await restored.ended, restored.output()).toBe(0);

  const second = run("serve.ts");
  const { url: newUrl } = await servedBy(second);
  const found = await createHttpClient(() => newUrl, keys.admin).get(`/workflow-runs/${started.body.run_id}`);
  expect(found.body).toMatchObject({ status: "waiting", workflow_id: "wait" });
});
