// What the SQLite store remembers between batches is what is stored, also after batches that were rolled back at any moment.
import { rmSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { MemoryRecords } from "../../src/adapters/memory-store.ts";
import { orderedNumber, type RecordKind, type RecordKinds } from "../../src/adapters/operations/records.ts";
import { type Database, loadDriver } from "../../src/adapters/sqlite/driver.ts";
import { openDatabase } from "../../src/adapters/sqlite/open-database.ts";
import { SqliteCore } from "../../src/adapters/sqlite/sqlite-core.ts";
import { SqliteRecords } from "../../src/adapters/sqlite/sqlite-records.ts";
import { createSeededRandom, type SeededRandom } from "../../src/testing/seeded-random.ts";
import {
  admission,
  fileIn,
  keyOf,
  performAll,
  range,
  settings,
  silentLog,
  tenant,
} from "../support/sqlite-support.ts";
import { diskFolder } from "../support/stores.ts";

let directory: string;
beforeEach(() => {
  directory = diskFolder();
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const open = await loadDriver();

type Change = {
  readonly kind: RecordKind;
  readonly scope: string;
  readonly member: string;
  readonly value: unknown;
};

/** Of each way to be kept: remembered for long, also when it is not there, by its order, for the batch, numbered, in the order of arrival, in a bundle. */
const kinds = [
  "tenant",
  "lock",
  "run",
  "active",
  "due",
  "event",
  "reservation",
  "job",
] as const satisfies readonly RecordKind[];

/** Locks of runs are forgotten with their run; of numbers some follow each other and some do not. */
const membersOf: Partial<Record<RecordKind, readonly string[]>> = {
  lock: ["a", "run/run_1", "run/run_2", "run/run_3"],
  event: [1, 2, 3, 5, 6, 9].map(orderedNumber),
};

/** Members meet often, so that one is put, read, erased and put again in one batch and in the next. */
function drawChange(random: SeededRandom): Change {
  const kind = random.pick<RecordKind>(kinds);
  const scope = random.pick(["acme", "acme/run_1", "zeta"]);
  const member = random.pick(membersOf[kind] ?? ["a", "run_1", "run_2", "run_3"]);
  const isEnded = random.chance(0.3);
  const value = { body: random.token(), ...(isEnded ? { endedAtMs: 1 } : {}) };
  return { kind, scope, member, value: random.chance(0.35) ? undefined : value };
}

function apply(records: SqliteRecords | MemoryRecords, { kind, scope, member, value }: Change): void {
  if (value === undefined) records.erase(kind, scope, member);
  else records.put(kind, scope, member, value as RecordKinds[typeof kind]);
}

type Question = Pick<Change, "kind" | "scope" | "member"> & { readonly of: "value" | "whole scope" };

/** A scope whose size was asked for reads what it changes: most questions leave it unasked. */
function drawQuestion(random: SeededRandom, about = drawChange(random)): Question {
  const { kind, scope, member } = about;
  return { kind, scope, member, of: random.chance(0.2) ? "whole scope" : "value" };
}

function answerOf(records: SqliteRecords | MemoryRecords, { kind, scope, member, of }: Question): unknown {
  if (of === "value") return records.get(kind, scope, member);
  return {
    size: records.size(kind, scope),
    scanned: records.scan(kind, scope, kind === "event" ? orderedNumber(1) : "a", 3),
    back: records.scanBack(kind, scope, "run_3", 3),
  };
}

function expectSame(records: SqliteRecords, model: MemoryRecords, question: Question, when: string): void {
  const found = answerOf(records, question);
  expect({ question, when, found }).toEqual({ question, when, found: answerOf(model, question) });
}

function modelOf(changes: readonly Change[]): MemoryRecords {
  const model = new MemoryRecords();
  for (const change of changes) apply(model, change);
  return model;
}

/** Operations of a batch, each kept or undone. Gives the changes that were kept. */
function playBatch(
  records: SqliteRecords,
  stored: readonly Change[],
  random: SeededRandom,
): readonly Change[] {
  let kept: readonly Change[] = [];
  for (let operation = random.integer(1, 4); operation > 0; operation -= 1) {
    const changes = range(random.integer(1, 8)).map(() => drawChange(random));
    for (const [index, change] of changes.entries()) {
      apply(records, change);
      if (random.chance(0.3)) {
        const model = modelOf([...stored, ...kept, ...changes.slice(0, index + 1)]);
        expectSame(records, model, drawQuestion(random), "within an operation");
      }
    }
    if (random.chance(0.3)) records.undo();
    else {
      records.keep();
      kept = [...kept, ...changes];
    }
    const model = modelOf([...stored, ...kept]);
    expectSame(records, model, drawQuestion(random, random.pick(changes)), "after an operation");
  }
  return kept;
}

test("records are as they were stored after operations that were undone and batches that were rolled back", () => {
  for (let seed = 1; seed <= 60; seed += 1) {
    const random = createSeededRandom(seed);
    const database = openDatabase(open, `${fileIn(directory)}-${seed}`, silentLog);
    database.exec("PRAGMA synchronous = OFF");
    const records = new SqliteRecords(database);
    let stored: readonly Change[] = [];
    for (let batch = 0; batch < 12; batch += 1) {
      database.exec("BEGIN");
      const kept = playBatch(records, stored, random);
      const end = random.pick([
        "committed",
        "committed",
        "rolled back before writing",
        "rolled back",
      ] as const);
      if (end !== "rolled back before writing") records.write();
      if (end === "committed") {
        database.exec("COMMIT");
        records.committed();
        stored = [...stored, ...kept];
      } else {
        database.exec("ROLLBACK");
        records.forget();
      }
      const model = modelOf(stored);
      const fresh = new SqliteRecords(database);
      for (const _ of range(10)) {
        const question = drawQuestion(random);
        expectSame(records, model, question, `seed ${seed}, after a batch that was ${end}`);
        expectSame(fresh, model, question, `seed ${seed}, read anew`);
      }
    }
    database.close();
  }
});

/** The same connection, whose next commits fail before they have an effect. */
function failing(database: Database) {
  let failures = 0;
  const wrapped: Database = {
    exec: (sql) => database.exec(sql),
    function: (name, implementation) => database.function(name, implementation),
    close: () => database.close(),
    prepare: (sql) => {
      const statement = database.prepare(sql);
      if (sql !== "COMMIT") return statement;
      const run = () => {
        if (failures === 0) return statement.run();
        failures -= 1;
        throw new Error("the commit was refused");
      };
      return { run, get: (...given) => statement.get(...given), all: (...given) => statement.all(...given) };
    },
  };
  return { wrapped, failNext: () => (failures = 1) };
}

test("keys are found while their order is behind, after it was written, and after the batch that wrote it was rolled back", () => {
  const { wrapped, failNext } = failing(openDatabase(open, fileIn(directory), silentLog));
  const options = { file: fileIn(directory), settings, clock: { monotonicMs: () => 0 }, log: silentLog };
  const core = new SqliteCore(wrapped, options);
  const amountOf = (table: string) =>
    (core.database.prepare(`SELECT COUNT(*) AS amount FROM ${table}`).get() as { amount: number }).amount;
  const admitAll = (first: number, amount: number) =>
    performAll(
      core,
      "admit",
      range(amount).map((index) => admission(first + index)),
    );
  const expectFound = (first: number, amount: number) => {
    const requests = range(amount).map((index) => ({ tenant, digest: keyOf(first + index).digest }));
    for (const answer of performAll(core, "inspectReservation", requests)) expect(answer.kind).toBe("bound");
  };
  for (let first = 0; first < 8_000; first += 1_000) admitAll(first, 1_000);
  expect(amountOf("reservation_order")).toBe(0);
  expectFound(0, 8_000);
  failNext();
  for (const answer of admitAll(8_000, 1_000)) expect(answer.kind).toBe("unknown");
  expect([amountOf("reservation"), amountOf("reservation_order")]).toEqual([8_000, 0]);
  expectFound(0, 8_000);
  expect(admitAll(8_000, 1_000).at(-1)).toMatchObject({ kind: "admitted", active: 9_000, keysKept: 9_000 });
  expect([amountOf("reservation"), amountOf("reservation_order")]).toEqual([9_000, 9_000]);
  admitAll(9_000, 10);
  expectFound(0, 9_010);
  // A repeat finds its run, whether its key is in order yet or not.
  for (const index of [0, 8_500, 9_005]) {
    const again = admission(index);
    const run = { ...again.run, runId: admission(index + 50_000).run.runId };
    expect(performAll(core, "admit", [{ ...again, run }])).toMatchObject([{ kind: "replayed" }]);
  }
  core.close();
});

test("the records of a run that ended in the batch that began it are found in the file", () => {
  const database = openDatabase(open, fileIn(directory), silentLog);
  const records = new SqliteRecords(database);
  database.exec("BEGIN");
  expect(records.get("runRecord", "acme/run_1", "input")).toBe(undefined);
  const [begun, ended] = [{ body: "{}" }, { endedAtMs: 1 } as RecordKinds["run"]];
  records.put("runRecord", "acme/run_1", "input", begun);
  records.put("run", "acme", "run_1", ended);
  records.keep();
  records.write();
  database.exec("COMMIT");
  records.committed();
  expect(records.get("runRecord", "acme/run_1", "input")).toEqual(begun);
  expect(records.get("run", "acme", "run_1")).toEqual(ended);
  database.close();
});

function batchOf(database: Database, records: SqliteRecords, work: () => void): void {
  database.exec("BEGIN");
  work();
  records.keep();
  records.write();
  database.exec("COMMIT");
  records.committed();
}

test("runs of one millisecond, which come in no order, are found when they have ended, however many", () => {
  const database = openDatabase(open, fileIn(directory), silentLog);
  const records = new SqliteRecords(database);
  const random = createSeededRandom(7);
  const names = range(1_000).map(() => `run_${random.token()}`);
  for (let first = 0; first < names.length; first += 50) {
    batchOf(database, records, () => {
      for (const name of names.slice(first, first + 50)) {
        expect(records.get("run", "acme", name)).toBe(undefined);
        records.put("runRecord", `acme/${name}`, "input", { body: name });
        records.put("run", "acme", name, { runId: name, endedAtMs: 1 } as unknown as RecordKinds["run"]);
      }
    });
  }
  for (const name of names) {
    expect(records.get("run", "acme", name)).toMatchObject({ runId: name });
    expect(records.get("runRecord", `acme/${name}`, "input")).toEqual({ body: name });
  }
  database.close();
});

test("numbered rows that are erased together leave those between them", () => {
  const database = openDatabase(open, fileIn(directory), silentLog);
  const records = new SqliteRecords(database);
  const batch = (work: () => void) => batchOf(database, records, work);
  const event = (sequence: number) => ({ sequence }) as RecordKinds["event"];
  const left = () => records.scan("event", "acme", "", 20).map(({ value }) => value.sequence);
  batch(() => {
    for (const number of range(12)) records.put("event", "acme", orderedNumber(number), event(number));
  });
  batch(() => {
    // The last was never there.
    for (const number of [0, 1, 2, 4, 8, 9, 6, 5, 12]) records.erase("event", "acme", orderedNumber(number));
  });
  expect(left()).toEqual([3, 7, 10, 11]);
  batch(() => {
    records.erase("event", "acme", orderedNumber(3));
    records.erase("event", "acme", orderedNumber(10));
  });
  expect(left()).toEqual([7, 11]);
  database.close();
});

test("of more runs than are remembered, those not remembered are read as they were stored", () => {
  const database = openDatabase(open, fileIn(directory), silentLog);
  const records = new SqliteRecords(database);
  const scopes = range(300).map((number) => `acme/run_${number}`);
  const bodyOf = (scope: string) => scope.padEnd(100_000, "-");
  const inBatches = (work: (scope: string) => void) => {
    for (let first = 0; first < scopes.length; first += 30)
      batchOf(database, records, () => scopes.slice(first, first + 30).forEach(work));
  };
  // 30 MB, of which half is remembered.
  inBatches((scope) => records.put("runRecord", scope, "input", { body: bodyOf(scope) }));
  inBatches((scope) => records.put("runRecord", scope, "step/a", { body: "begun" }));
  inBatches((scope) => records.put("runRecord", scope, "step/a", { body: scope }));
  for (const found of [records, new SqliteRecords(database)]) {
    for (const scope of scopes) {
      expect(found.get("runRecord", scope, "input")).toEqual({ body: bodyOf(scope) });
      expect(found.get("runRecord", scope, "step/a")).toEqual({ body: scope });
    }
  }
  database.close();
});
