// The floors: what starts could cost at the least on each store, measured in the same run as the starts themselves.
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { type Database, loadDriver, type Statement } from "../src/adapters/sqlite/driver.ts";
import { openDatabase } from "../src/adapters/sqlite/open-database.ts";
import type { ControlPlane } from "../src/control-plane.ts";
import type { ReservationDigest } from "../src/domain/fingerprint.ts";
import { admissionLock, type Fence, type LockToken } from "../src/domain/lock.ts";
import { makeRunId } from "../src/domain/run.ts";
import type { RequestOf, Store } from "../src/ports/store.ts";
import { type ClosedLoop, closedLoop } from "./load.ts";
import { commonStart, freshTenants } from "./start-requests.ts";
import { median } from "./statistics.ts";
import { openPlanes, openRedis } from "./targets.ts";

/**
 * In place of the real scripts: the same keys, the same arguments and the same form of answer, but one SET for each start is
 * all that they do. Client library, connection, deadlines and parsing are the adapter's own. Admissions share script calls;
 * the creation of a run under a lock, which has the same arguments and its guard besides, is always a call of its own.
 */
const oneSetEach = `#!lua
local answers, at = {}, 18
for item = 1, ARGV[1] do
  redis.call("SET", KEYS[1] .. "floor:" .. ARGV[at + 9], ARGV[at + 10])
  answers[item] = { "admitted", "1700000000000", "pending", 1, "", {}, "", "" }
  at = at + ARGV[at] + 1
end
return { "performed", "1700000000000", answers }`;

const oneSet = `#!lua
redis.call("SET", KEYS[1] .. "floor:" .. ARGV[29], ARGV[30])
return { "admitted", "1700000000000", "pending", 1, "", {}, "", "" }`;

export type RedisFloor = { readonly store: Store; readonly plane: ControlPlane };

/** A plane whose starts differ from real ones in the script alone. */
export async function openRedisFloor(url: string): Promise<RedisFloor> {
  const store = await openRedis(url, { admit: oneSetEach, createRun: oneSet });
  return { store, plane: (await openPlanes(store)).atomic };
}

const callTimeoutMs = 1_000;

const guard = {
  lock: admissionLock,
  token: "floor" as LockToken,
  fence: 1 as Fence,
  policy: "fence",
  ttlMs: 1,
} as const;

/** One script call for each start, of the store itself: the flow around it is part of what is measured against this. */
export function redisFloor(store: Store, load: ClosedLoop): Promise<number> {
  const [tenant] = freshTenants(1) as [RequestOf<"admit">["tenant"]];
  let made = 0;
  return closedLoop(load, async () => {
    made += 1;
    const unique = made.toString(16);
    const { fingerprint, ...common } = commonStart;
    const digest = unique.padStart(64, "0") as ReservationDigest;
    const runId = makeRunId(tenant, unique.padStart(32, "0"));
    const run = { runId, ...common, key: { digest, fingerprint } };
    const answer = await store.createRun({ tenant, guard, run }, { deadlineMs: callTimeoutMs });
    return answer.kind === "admitted" ? "succeeded" : "failed";
  });
}

/** Keys and values of the seven rows that one admission writes, counted in a file with one run in it. */
const admissionBytes = 1_190;

export type SqliteFloor = {
  readonly directory: string;
  readonly database: Database;
  readonly insert: Statement;
};

/** The store's own way to open a file, so that every setting that durability needs is the same. */
export async function openSqliteFloor(directory: string): Promise<SqliteFloor> {
  const silent = { info: () => {}, warn: () => {}, error: () => {} };
  const database = openDatabase(await loadDriver(), join(directory, "floor.db"), silent);
  return {
    directory,
    database,
    insert: database.prepare("INSERT INTO run (scope, member, value) VALUES ('floor', ?, ?)"),
  };
}

/** One bare row, one commit, one fsync, one after the other: a stricter floor than whole starts, for information. */
export function sqliteRowFloor({ database, insert }: SqliteFloor, durationMs: number) {
  const value = "x".repeat(admissionBytes);
  const begin = database.prepare("BEGIN");
  const commit = database.prepare("COMMIT");
  const commitMs: number[] = [];
  const startMs = performance.now();
  for (let lastMs = startMs; lastMs - startMs < durationMs; ) {
    begin.run();
    insert.run(`${startMs}-${commitMs.length}`, value);
    commit.run();
    const nowMs = performance.now();
    commitMs.push(nowMs - lastMs);
    lastMs = nowMs;
  }
  const perSecond = (commitMs.length / (performance.now() - startMs)) * 1000;
  // As the store does, when the answers are on their way.
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  return { perSecond, medianMs: median(commitMs) };
}

/** The disk alone: the median time of an fsync after a page was appended to a plain file. */
export function fsyncMs({ directory }: SqliteFloor, times: number): number {
  const file = openSync(join(directory, "fsync.probe"), "a");
  const page = Buffer.alloc(4096, "x");
  try {
    return median(
      Array.from({ length: times }, () => {
        writeSync(file, page);
        const startMs = performance.now();
        fsyncSync(file);
        return performance.now() - startMs;
      }),
    );
  } finally {
    closeSync(file);
  }
}
