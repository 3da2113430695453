// What the tests of the SQLite store share: stores and cores on the real disk, clocks, calls, and the log's commits.
import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { loadDriver } from "../../src/adapters/sqlite/driver.ts";
import { openSqliteCore, type Reply, type SqliteCore } from "../../src/adapters/sqlite/sqlite-core.ts";
import { openSqliteStore, type SqliteStoreOptions } from "../../src/adapters/sqlite/sqlite-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { digestOf, type Fingerprint } from "../../src/domain/fingerprint.ts";
import { makeRunId, type RunId, unchanged } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { Log } from "../../src/ports/ports.ts";
import {
  type CallOptions,
  defaultStoreSettings,
  type OperationName,
  type RequestOf,
  type Store,
} from "../../src/ports/store.ts";

export const tenant = "acme" as TenantId;
export const call: CallOptions = { deadlineMs: 5_000 };
export const silentLog: Log = { info: () => {}, warn: () => {}, error: () => {} };
export const settings = { ...defaultStoreSettings, eventsPerTenantMax: 1_000_000 };

export const fileIn = (directory: string) => join(directory, "interlock.db");

export function openStoreIn(directory: string, options: Partial<SqliteStoreOptions> = {}): Promise<Store> {
  return openSqliteStore({ directory, settings, clock: systemClock, log: silentLog, ...options });
}

/** For this clock no time passes, so a batch is one transaction however slow the machine is. */
const standingClock = { monotonicMs: () => 0 };

export function openCoreIn(directory: string, clock = standingClock): Promise<SqliteCore> {
  return openSqliteCore({ file: fileIn(directory), settings, clock, log: silentLog });
}

/** The system's timers, and time as the caller lets it pass. */
export function clockAt(nowMs: () => number) {
  return { ...systemClock, wallMs: nowMs, monotonicMs: nowMs };
}

/** Runs SQL on the file of a closed store, as an operator could. */
export async function runSql(directory: string, sql: string): Promise<void> {
  const open = await loadDriver();
  const database = open(fileIn(directory), { readOnly: false });
  database.exec(sql);
  database.close();
}

export function runIdOf(index: number, owner = tenant): RunId {
  return makeRunId(owner, `run${String(index).padStart(8, "0")}`);
}

export function keyOf(index: number) {
  return { digest: digestOf("start_run", `key ${index}`), fingerprint: `v1:${index}` as Fingerprint };
}

export type AdmitOptions = {
  readonly tenant?: TenantId;
  readonly workflow?: string;
  readonly body?: string;
};

/** A run with a key and one record. */
export function admission(index: number, options: AdmitOptions = {}): RequestOf<"admit"> {
  const { workflow = "deploy", body = "{}" } = options;
  const owner = options.tenant ?? tenant;
  const records = [{ key: "input/run", body }];
  const change = { ...unchanged, status: "pending", timeline: "[]", records } as const;
  const run = { workflow, definition: "sha256:1", actor: "tester", change, start: "applied" } as const;
  return { tenant: owner, run: { ...run, runId: runIdOf(index, owner), key: keyOf(index) } };
}

/** All calls in one transaction of the core. */
export function performAll<Name extends OperationName>(
  core: SqliteCore,
  name: Name,
  requests: ReadonlyArray<RequestOf<Name>>,
): readonly Reply[] {
  const calls = requests.map((request) => ({ name, request, notAfterMs: Number.MAX_SAFE_INTEGER }));
  return core.perform(calls, systemClock.wallMs());
}

/** How many transactions the log holds: its frames that carry the size of the file after a commit. */
export function countCommits(directory: string): number {
  const log = readFileSync(`${fileIn(directory)}-wal`);
  const frameBytes = 24 + log.readUInt32BE(8);
  let commits = 0;
  for (let start = 32; start + frameBytes <= log.length; start += frameBytes) {
    const isOfThisLog = log.compare(log, 16, 24, start + 8, start + 16) === 0;
    if (isOfThisLog && log.readUInt32BE(start + 4) > 0) commits += 1;
  }
  return commits;
}

export async function numberOfActive(store: Store, owner = tenant): Promise<number> {
  const answer = await store.countActive({ tenant: owner }, call);
  return answer.kind === "counted" ? answer.active : Number.NaN;
}

export async function eventNumbers(store: Store): Promise<number[]> {
  const answer = await store.readEvents({ tenant, after: 0, limit: 1_000_000 }, call);
  return answer.kind === "events" ? answer.events.map((event) => event.sequence) : [];
}

/** 200 runs of 2,000 bytes: the pages of the runs begin before the seventh and are more than 100. */
export async function fillAndClose(directory: string): Promise<void> {
  const core = await openCoreIn(directory);
  const requests = range(200).map((index) => admission(index, { body: "x".repeat(2_000) }));
  performAll(core, "admit", requests);
  core.close();
}

/** In place, as a failing disk would. */
export function damage(directory: string, start: number, length: number): void {
  const file = openSync(fileIn(directory), "r+");
  writeSync(file, Buffer.alloc(length, 0xa5), 0, length, start);
  closeSync(file);
}

export function range(length: number): number[] {
  return Array.from({ length }, (_, index) => index);
}
