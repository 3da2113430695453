// The real SQLite store beside the memory of the simulation: it is asked the same in the same batches, and must answer the same (INV-30).
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { type Operations, operations } from "../../src/adapters/operations/perform.ts";
import { type RecordKind, type RecordKinds, recordKinds } from "../../src/adapters/operations/records.ts";
import type { Database, OpenDatabase, Statement } from "../../src/adapters/sqlite/driver.ts";
import { openDatabase } from "../../src/adapters/sqlite/open-database.ts";
import { bundledKinds } from "../../src/adapters/sqlite/run-bundles.ts";
import { decodeKey, tableOf } from "../../src/adapters/sqlite/schema.ts";
import { type Call, type Reply, SqliteCore } from "../../src/adapters/sqlite/sqlite-core.ts";
import { SqliteRecords } from "../../src/adapters/sqlite/sqlite-records.ts";
import type { StoreSettings } from "../../src/ports/store.ts";
import type { Kernel } from "../../src/testing/kernel.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import type { ArrivedCall, PerformedCall, StoreTwin } from "../../src/testing/simulated-store.ts";
import { JournaledRecords } from "./checks/journaled-records.ts";
import { mustHold } from "./invariants/violation.ts";

type SqliteTwinParts = {
  readonly kernel: Kernel;
  readonly open: OpenDatabase;
  readonly settings: StoreSettings;
  readonly table?: Operations;
  /** Goes around the connection; planted bugs change what reaches the file. */
  readonly wrapDatabase?: (database: Database) => Database;
  /** Told of every end of the store's process, by kind. */
  readonly hit: (fault: string) => void;
  /** From then on it works without an end, and if it may not be killed it is only closed and opened. */
  readonly diesUntilMs: number;
  readonly mayBeKilled: boolean;
};

/** How the process of the store ends after, or in the middle of, a batch, or what keeps a batch from being written. */
type Fate =
  | "none"
  | Refusal
  | "restart"
  | "killed before the commit"
  | "killed while writing"
  | "killed after the commit";

const fateRates: ReadonlyArray<readonly [Fate, number]> = [
  ["restart", 0.004],
  ["killed before the commit", 0.002],
  ["killed while writing", 0.002],
  ["killed after the commit", 0.002],
  ["disk full at the commit", 0.003],
  ["disk full while writing", 0.003],
  ["operations failed", 0.003],
];

/** A batch is decided and not written, and the process goes on. */
type Refusal = "disk full at the commit" | "disk full while writing" | "operations failed";

const repliesTo: Readonly<Record<Refusal, Reply["kind"]>> = {
  "disk full at the commit": "unavailable",
  "disk full while writing": "unavailable",
  "operations failed": "operation_failed",
};

/** Of the rows that a batch writes: most write more. */
const rowsBeforeFullMax = 3;

/** Calls that arrive within this time share a transaction, as they do while the one before is written. */
const batchMsMax = 2;

const silent = { info: () => {}, warn: () => {}, error: () => {} };

export class SqliteTwin implements StoreTwin {
  readonly #parts: SqliteTwinParts;
  readonly #random: SeededRandom;
  readonly #folder: string;
  #generation = 0;
  #database: Database;
  #core: SqliteCore;
  #arrived: ArrivedCall[] = [];
  #performed: PerformedCall[] = [];
  #flushing = false;
  #isOpen = false;
  /** What happens when the transaction is to be committed. */
  #atCommit: ((commit: () => unknown) => unknown) | undefined;
  /** How many rows may still be written. */
  #rowsLeft = Number.POSITIVE_INFINITY;
  #operationsFail = false;

  constructor(parts: SqliteTwinParts) {
    this.#parts = parts;
    this.#random = parts.kernel.random.stream("sqlite");
    this.#folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "interlock-sim-"));
    [this.#database, this.#core] = this.#open();
  }

  /** A call is at the store: it waits for others, and is executed with them. */
  gather(arrived: ArrivedCall): void {
    this.#arrived.push(arrived);
    if (this.#arrived.length > 1) return;
    this.#parts.kernel.after(this.#random.fraction() * batchMsMax, () => this.#flush());
  }

  /** The memory has performed a call: the twin performs it, too, when the batch is complete. */
  performed(call: PerformedCall): void {
    this.#performed.push(call);
    if (!this.#flushing) this.#performBatch();
  }

  /** Something was written past all operations: the twin takes it over, and opens the file anew. */
  adopt<Kind extends RecordKind>(kind: Kind, scope: string, member: string, value: RecordKinds[Kind]): void {
    const records = new SqliteRecords(this.#database);
    this.#database.exec("BEGIN");
    records.put(kind, scope, member, value);
    records.keep();
    records.write();
    this.#database.exec("COMMIT");
    this.#reopen();
  }

  /** Every record, in both: to be called when nothing is under way. */
  checkAll(memory: ScopedRecords): void {
    this.#reopen();
    const records = new SqliteRecords(this.#database);
    for (const kind of recordKinds) {
      for (const scope of new Set([...memory.scopes(kind), ...scopesOf(this.#database, kind)])) {
        const here = JSON.stringify(memory.scan(kind, scope, "", Number.MAX_SAFE_INTEGER));
        const there = JSON.stringify(records.scan(kind, scope, "", 1e9));
        mustHold(
          isDeepStrictEqual(JSON.parse(here), JSON.parse(there)),
          "INV-30",
          () => `${kind} of ${scope}: memory has ${here}, SQLite has ${there}`,
        );
      }
    }
  }

  close(): void {
    this.#closeFile();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #flush(): void {
    const calls = this.#arrived;
    this.#arrived = [];
    const fate = this.#drawFate();
    if (fate !== "none") this.#parts.kernel.note("sqlite", fate);
    if (fate !== "none") this.#parts.hit(`sqlite ${fate}`);
    if (fate === "killed before the commit" || fate === "killed while writing") {
      this.#loseBatch(calls, fate);
      return;
    }
    if (isRefusal(fate)) {
      this.#refuseBatch(calls, fate);
      // Some callers give up; the others ask the same again at once, of a store that must remember nothing of the first time.
      if (this.#random.chance(0.3)) {
        for (const { lose } of calls) lose();
        return;
      }
    }
    this.#flushing = true;
    for (const { execute } of calls) execute();
    this.#flushing = false;
    this.#performBatch();
    if (fate === "killed after the commit") {
      for (const { lose } of calls) lose();
      this.#copyFiles();
      this.#reopenCopy();
    }
    if (fate === "restart") this.#reopen();
  }

  #drawFate(): Fate {
    const { kernel, diesUntilMs, mayBeKilled } = this.#parts;
    if (kernel.nowMs() >= diesUntilMs) return "none";
    let roll = this.#random.fraction();
    for (const [fate, rate] of fateRates) {
      if (roll < rate) return mayBeKilled ? fate : "restart";
      roll -= rate;
    }
    return "none";
  }

  /** All calls of one moment are one transaction. A jump of the clock divides them: a batch has one time. */
  #performBatch(): void {
    const performed = this.#performed;
    this.#performed = [];
    for (let first = 0; first < performed.length; ) {
      const { wallMs } = performed[first] as PerformedCall;
      let end = first + 1;
      while (performed[end]?.wallMs === wallMs) end += 1;
      const batch = performed.slice(first, end);
      const replies = this.#core.perform(batch as readonly Call[], wallMs);
      for (const [index, call] of batch.entries()) mustAgree(call, replies[index]);
      this.#core.maintain();
      first = end;
    }
  }

  /** Nothing of the batch may be kept, neither in the file nor in what the store remembers. */
  #refuseBatch(calls: readonly ArrivedCall[], refusal: Refusal): void {
    if (refusal === "operations failed") this.#operationsFail = true;
    else this.#atCommit = failAsFull;
    if (refusal === "disk full while writing") this.#rowsLeft = this.#random.integer(0, rowsBeforeFullMax);
    const replies = this.#core.perform(
      calls.map(({ call }) => call) as readonly Call[],
      this.#core.storeTimeMs,
    );
    this.#operationsFail = false;
    this.#atCommit = undefined;
    this.#rowsLeft = Number.POSITIVE_INFINITY;
    // A call that came too late is unavailable before anything fails.
    const other = replies.find(({ kind }) => kind !== "unavailable" && kind !== repliesTo[refusal]);
    mustHold(
      other === undefined,
      "INV-30",
      () => `a batch that was not written (${refusal}) is answered with ${other?.kind}`,
    );
  }

  /** The process ends before the transaction is whole in the file: nothing of it may come back. */
  #loseBatch(calls: readonly ArrivedCall[], fate: Fate): void {
    let copied = "";
    this.#atCommit = (commit) => {
      copied = this.#copyFiles();
      if (fate === "killed while writing") {
        const before = this.#logBytes();
        commit();
        const grownBy = this.#logBytes() - before;
        // A log that begins again at its start is not longer afterwards: then the copy is from before the commit.
        if (grownBy > 0) {
          copyFileSync(this.#fileOf("-wal"), `${copied}-wal`);
          truncateSync(`${copied}-wal`, before + Math.floor(this.#random.fraction() * grownBy));
        }
      }
      throw new Error("the process was killed");
    };
    this.#core.perform(calls.map(({ call }) => call) as readonly Call[], this.#core.storeTimeMs);
    this.#atCommit = undefined;
    if (copied === "") throw new Error("a batch is committed even if it changes nothing");
    this.#reopenCopy();
    for (const { lose } of calls) lose();
  }

  #logBytes(): number {
    return statSync(this.#fileOf("-wal"), { throwIfNoEntry: false })?.size ?? 0;
  }

  /** What another process would find if this one ended here and now. */
  #copyFiles(): string {
    const copy = this.#fileOf("", this.#generation + 1);
    mkdirSync(join(copy, ".."), { recursive: true });
    for (const ending of ["", "-wal"]) {
      if (existsSync(this.#fileOf(ending))) copyFileSync(this.#fileOf(ending), `${copy}${ending}`);
    }
    return copy;
  }

  /** The next process begins with the copy; what the one before still writes is nobody's. */
  #reopenCopy(): void {
    this.#closeFile();
    rmSync(join(this.#fileOf(""), ".."), { recursive: true });
    this.#generation += 1;
    [this.#database, this.#core] = this.#open();
  }

  #reopen(): void {
    this.#closeFile();
    [this.#database, this.#core] = this.#open();
  }

  /** Once: what follows may fail. */
  #closeFile(): void {
    if (this.#isOpen) this.#core.close();
    this.#isOpen = false;
  }

  #fileOf(ending: string, generation = this.#generation): string {
    return join(this.#folder, String(generation), `interlock.db${ending}`);
  }

  #open(): [Database, SqliteCore] {
    const { open, settings, table = operations, wrapDatabase } = this.#parts;
    const file = this.#fileOf("");
    const opened = openDatabase(open, file, silent);
    this.#isOpen = true;
    const database = wrapDatabase?.(opened) ?? opened;
    const options = {
      file,
      settings,
      // No batch is cut short: how long one takes must not depend on the machine.
      clock: { monotonicMs: () => 0 },
      log: silent,
      table: this.#failing(table),
    };
    return [database, new SqliteCore(this.#killable(database), options)];
  }

  /** The same operations, which can fail when they have decided and changed everything. */
  #failing(table: Operations): Operations {
    const failing = Object.entries(table).map(([name, operation]) => [
      name,
      (...given: Parameters<typeof operation>) => {
        const outcome = (operation as (...all: unknown[]) => unknown)(...given);
        if (this.#operationsFail) throw new Error("the operation failed when it had decided");
        return outcome;
      },
    ]);
    return Object.fromEntries(failing) as Operations;
  }

  /** The same connection, whose commits can be the moment of the store's end, and whose disk can be full. */
  #killable(database: Database): Database {
    return {
      exec: (sql) => database.exec(sql),
      function: (name, implementation) => database.function(name, implementation),
      close: () => database.close(),
      prepare: (sql) => {
        const statement = database.prepare(sql);
        const write: Statement["run"] = (...given) => {
          if (this.#rowsLeft === 0) failAsFull();
          this.#rowsLeft -= 1;
          return statement.run(...given);
        };
        const commit: Statement["run"] = () => {
          const whole = () => statement.run();
          return this.#atCommit === undefined ? whole() : this.#atCommit(whole);
        };
        const isWrite = /^\s*(INSERT|UPDATE|DELETE|REPLACE)/i.test(sql);
        if (sql !== "COMMIT" && !isWrite) return statement;
        return {
          run: isWrite ? write : commit,
          get: (...given) => statement.get(...given),
          all: (...given) => statement.all(...given),
        };
      },
    };
  }
}

function isRefusal(fate: Fate): fate is Refusal {
  return Object.hasOwn(repliesTo, fate);
}

/** As SQLite says it. */
function failAsFull(): never {
  throw Object.assign(new Error("database or disk is full"), { errcode: 13 });
}

function mustAgree({ name, caller, answer }: PerformedCall, reply: Reply | undefined): void {
  const here = JSON.stringify(answer);
  const there = JSON.stringify(reply);
  if (here === there) return;
  mustHold(
    there !== undefined && isDeepStrictEqual(JSON.parse(here), JSON.parse(there)),
    "INV-30",
    () => `${name} by ${caller}: memory answered ${here}, SQLite answered ${there}`,
  );
}

type ScopedRecords = Pick<JournaledRecords, "scan"> & { scopes(kind: RecordKind): readonly string[] };

/** Records that tell of what is written past all operations. */
export class WatchedRecords extends JournaledRecords {
  /** True while the store performs an operation. */
  performing = false;
  onAdopt:
    | (<Kind extends RecordKind>(kind: Kind, scope: string, member: string, value: RecordKinds[Kind]) => void)
    | undefined;

  override put<Kind extends RecordKind>(
    kind: Kind,
    scope: string,
    member: string,
    value: RecordKinds[Kind],
  ): void {
    super.put(kind, scope, member, value);
    if (!this.performing) this.onAdopt?.(kind, scope, member, value);
  }

  scopes(kind: RecordKind): readonly string[] {
    return [...new Set([...this.all(kind)].map(({ scope }) => scope))];
  }
}

/** Every scope of the kind in the file. */
function scopesOf(database: Database, kind: RecordKind): readonly string[] {
  const tables = [tableOf(kind), ...(bundledKinds.has(kind) ? ["run_bundle"] : [])];
  return tables.flatMap((table) =>
    database
      .prepare(`SELECT DISTINCT scope FROM ${table}`)
      .all()
      .map((row) => decodeKey((row as { readonly scope: string }).scope)),
  );
}
