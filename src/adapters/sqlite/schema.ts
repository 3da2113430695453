// The tables in the file, one per record kind and readable with the sqlite3 command: steps from older versions, and keys as text.
import { InterlockError } from "../../errors.ts";
import { neverMs, type RecordKind, recordKinds } from "../operations/records.ts";
import type { Database } from "./driver.ts";

/** "ILCK": tells our files from those of other programs. */
const applicationId = 0x494c434b;

/** `runRecord` is kept in `run_record`. */
export function tableOf(kind: RecordKind): string {
  return kind.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** The step at index n leads from version n to version n + 1; version 0 is an empty file. */
const migrations: ReadonlyArray<(database: Database) => void> = [
  createAdmissionTables,
  addMeta,
  addRuns,
  addLockQueues,
  addPlaces,
  addHoldings,
  addTrail,
  orderKeysApart,
  allowPartialRows,
  addGates,
  addLimits,
];

const schemaVersion = migrations.length;

/** Brings the file to the current version in one transaction: after a crash it has the old version or the new one. */
export function migrate(database: Database, file: string): { readonly from: number; readonly to: number } {
  const tables = database.prepare("SELECT COUNT(*) AS amount FROM sqlite_schema").get();
  const from = checkedVersion(file, {
    version: pragmaValue(database, "user_version") as number,
    applicationId: pragmaValue(database, "application_id") as number,
    tables: (tables as { readonly amount: number }).amount,
  });
  if (from < schemaVersion) {
    database.exec("BEGIN IMMEDIATE");
    for (const step of migrations.slice(from)) step(database);
    database.exec(`PRAGMA application_id = ${applicationId}`);
    database.exec(`PRAGMA user_version = ${schemaVersion}`);
    database.exec("COMMIT");
  }
  return { from, to: schemaVersion };
}

type SchemaFacts = {
  readonly version: number;
  readonly applicationId: number;
  readonly tables: number;
};

/** The file's version; refuses a newer one, and a database that another program made. */
export function checkedVersion(file: string, facts: SchemaFacts): number {
  const { version, tables } = facts;
  if (version === 0 && tables === 0) return 0;
  if (facts.applicationId !== applicationId) {
    throw new InterlockError("store_corrupt", `${file} is a database, but not one of Interlock's`);
  }
  if (version > schemaVersion) {
    const detail = `${file} has schema version ${version}; this program knows versions up to ${schemaVersion}`;
    throw new InterlockError("store_schema_newer", detail);
  }
  return version;
}

export function pragmaValue(database: Database, name: string): unknown {
  return Object.values(database.prepare(`PRAGMA ${name}`).get() as object)[0];
}

/**
 * Members of these kinds come in no order, and their values are long. Rows in the order of the key would then spread one
 * admission over three pages of 16 rows; rows in the order of arrival with an index beside them touch pages of 80 keys.
 * Measured with 100 admissions a commit: 20,000 a second instead of 15,000, and checkpoints in half the time.
 */
const scatteredKinds: ReadonlySet<RecordKind> = new Set<RecordKind>([
  "run",
  "runRecord",
  "reservation",
  "job",
  "timeline",
]);

const admissionKinds = [
  "fence",
  "lock",
  "tenant",
  "run",
  "runRecord",
  "active",
  "reservation",
  "event",
] as const satisfies readonly RecordKind[];

const lockQueueKinds = ["ticket", "ending"] as const satisfies readonly RecordKind[];

const placeKinds = ["running"] as const satisfies readonly RecordKind[];

const trailKinds = ["trail"] as const satisfies readonly RecordKind[];

const holdingKinds = ["holding"] as const satisfies readonly RecordKind[];

const gateKinds = [
  "place",
  "heldGate",
  "gateQueue",
  "line",
  "lineKey",
  "queuedRun",
  "queued",
] as const satisfies readonly RecordKind[];

const limitKinds = [
  "rateLevel",
  "ledger",
  "parked",
  "parkedLine",
  "charge",
  "released",
] as const satisfies readonly RecordKind[];

function createAdmissionTables(database: Database): void {
  createRecordTables(database, admissionKinds);
}

/** Version 2 kept ended runs for ever; from the migration on they have a week, as the default is. */
const removeAtMs = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 604800000";

/**
 * Version 2 knew runs only up to their admission. Its runs get the fields that they lacked, its keys their places in the order
 * of expiry, and its tenants and ended runs their places in what is due: a run's id names the partition.
 */
function addRuns(database: Database): void {
  const others: readonly RecordKind[] = [
    ...admissionKinds,
    ...lockQueueKinds,
    ...placeKinds,
    ...holdingKinds,
    ...trailKinds,
    ...gateKinds,
    ...limitKinds,
  ];
  createRecordTables(
    database,
    recordKinds.filter((kind) => !others.includes(kind)),
  );
  database.exec(
    `CREATE TABLE run_bundle (scope TEXT NOT NULL, value TEXT NOT NULL);
     CREATE INDEX run_bundle_by_scope ON run_bundle (scope);
     INSERT INTO run_bundle SELECT DISTINCT scope, '' FROM run_record;
     UPDATE run SET value = json_set(json_remove(value, '$.endedByFence'), '$.definition', '', '$.version', 1,
       '$.updatedAtMs', COALESCE(json_extract(value, '$.endedAtMs'), json_extract(value, '$.admittedAtMs')),
       '$.entriesAppended', 0, '$.entriesWaiting', 0, '$.drains', 0);
     UPDATE run SET value = json_set(run.value, '$.fingerprint', json_extract(reservation.value, '$.fingerprint'))
       FROM reservation WHERE reservation.scope = run.scope
       AND reservation.member = json_extract(run.value, '$.reservation');
     UPDATE run SET value = json_set(value, '$.removeAtMs', ${removeAtMs})
       WHERE json_extract(value, '$.endedAtMs') IS NOT NULL;
     INSERT INTO due SELECT 'p' || substr(member, 5, 2),
       printf('%016d', json_extract(value, '$.removeAtMs')) || ' retention ' || scope || ' ' || member, '{}'
       FROM run WHERE json_extract(value, '$.removeAtMs') IS NOT NULL;
     INSERT INTO proof SELECT DISTINCT scope, 'next', '{"atMs":0,"after":""}' FROM run;
     INSERT INTO due SELECT DISTINCT 'p' || substr(member, 5, 2), printf('%016d', 0) || ' proof ' || scope || ' ', '{}' FROM run;
     INSERT INTO keyed SELECT scope,
       printf('%016d', COALESCE(json_extract(value, '$.expiresAtMs'), ${neverMs})) || ' ' || member, '{}' FROM reservation`,
  );
}

/** Version 3 knew no queues. Its grants need no change: what they lack is optional. */
function addLockQueues(database: Database): void {
  createRecordTables(database, lockQueueKinds);
}

/** Version 4 knew no limits, and counted no running jobs: they join when their tenant has limits, at their next heartbeat. */
function addPlaces(database: Database): void {
  createRecordTables(database, placeKinds);
}

/** Version 5 knew no quotas: locks that were held then are counted from their next renewal on. */
function addHoldings(database: Database): void {
  createRecordTables(database, holdingKinds);
}

/** Version 6 had no audit trail of its own: it begins here, and older rows stay in the feed. */
function addTrail(database: Database): void {
  createRecordTables(database, trailKinds);
}

/**
 * Version 7 kept every key twice in an order of its own, with the row and by when it ends. Now a key's row lies where it came,
 * its order beside it is written later (key-rows.ts), and only keys that end are ordered by their end.
 */
function orderKeysApart(database: Database): void {
  database.exec(
    `ALTER TABLE reservation RENAME TO reservation_before;
     CREATE TABLE reservation (id INTEGER NOT NULL PRIMARY KEY, scope TEXT NOT NULL, member TEXT NOT NULL, value TEXT NOT NULL);
     INSERT INTO reservation SELECT rowid, scope, member, value FROM reservation_before ORDER BY rowid;
     DROP TABLE reservation_before;
     CREATE TABLE reservation_order (scope TEXT NOT NULL, beginning TEXT NOT NULL, id INTEGER NOT NULL,
       PRIMARY KEY (scope, beginning, id)) WITHOUT ROWID;
     INSERT INTO reservation_order SELECT scope, substr(member, 1, 10), id FROM reservation ORDER BY 1, 2;
     CREATE TRIGGER reservation_leaves_order AFTER DELETE ON reservation BEGIN
       DELETE FROM reservation_order
         WHERE scope = OLD.scope AND beginning = substr(OLD.member, 1, 10) AND id = OLD.id;
     END;
     INSERT INTO meta SELECT 'reservations_ordered', CAST(COALESCE(MAX(id), 0) AS TEXT) FROM reservation;
     DELETE FROM keyed WHERE member >= '${neverMs}'`,
  );
}

/** Rows of bundles may hold parts of records from now on (run-bundles.ts). Nothing changes here, but older programs must not read them. */
function allowPartialRows(): void {}

/** Version 9 knew no gates but the tenant's own, at which nobody waited. */
function addGates(database: Database): void {
  createRecordTables(database, gateKinds);
}

/** Version 10 knew no rates and budgets, and no runs that give their places back. */
function addLimits(database: Database): void {
  createRecordTables(database, limitKinds);
}

/** The others are kept in the order of their key: a row is found with one search, and neighbours are on one page. */
function createRecordTables(database: Database, kinds: readonly RecordKind[]): void {
  const columns =
    "scope TEXT NOT NULL, member TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (scope, member)";
  for (const kind of kinds) {
    const order = scatteredKinds.has(kind) ? "" : " WITHOUT ROWID";
    database.exec(`CREATE TABLE ${tableOf(kind)} (${columns})${order}`);
  }
}

/** Version 1 forgot the store's last time at every restart; the newest time in its records is the best known one. */
function addMeta(database: Database): void {
  database.exec(
    `CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
     INSERT INTO meta SELECT 'last_time_us', CAST(MAX(
       COALESCE((SELECT MAX(json_extract(value, '$.last')) FROM fence), 0),
       COALESCE((SELECT MAX(json_extract(value, '$.atMs')) FROM event), 0) * 1000) AS TEXT)`,
  );
}

/**
 * Scopes and members as SQLite text: reversible for every string, and SQLite's byte order is the order of JavaScript.
 * Nearly all keys are stored as they are. Three kinds of characters would not survive: the driver for Node 20 ends a text
 * at U+0000; half a surrogate pair is no valid text; and UTF-8 orders characters above U+FFFF after U+E000..U+FFFF,
 * JavaScript before. They become an escape character that sorts where they belong, and what tells them apart.
 */
export function encodeKey(key: string): string {
  if (isPlain(key)) return key;
  let text = "";
  for (let index = 0; index < key.length; index++) text += encodeUnit(key.charCodeAt(index));
  return text;
}

export function decodeKey(text: string): string {
  if (isPlain(text)) return text;
  let key = "";
  for (let index = 0; index < text.length; ) {
    const unit = text.charCodeAt(index);
    if (unit === lowEscape) {
      key += String.fromCharCode(text.charCodeAt(index + 1) - 1);
      index += 2;
    } else if (unit === highEscape) {
      key += String.fromCharCode(Number.parseInt(text.slice(index + 1, index + 5), 16));
      index += 5;
    } else {
      key += text[index];
      index += 1;
    }
  }
  return key;
}

/** Before U+0000 and U+0001: followed by U+0001 or U+0002. */
const lowEscape = 0x0001;
/** Before everything from U+D7FF on, which is itself no assigned character: followed by four hexadecimal digits. */
const highEscape = 0xd7ff;

function isPlain(text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit <= lowEscape || unit >= highEscape) return false;
  }
  return true;
}

function encodeUnit(unit: number): string {
  if (unit <= lowEscape) return String.fromCharCode(lowEscape, unit + 1);
  if (unit >= highEscape) return `${String.fromCharCode(highEscape)}${unit.toString(16)}`;
  return String.fromCharCode(unit);
}
