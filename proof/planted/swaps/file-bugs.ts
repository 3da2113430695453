// Known mistakes in how the SQLite store uses its file, put in on purpose: each shows that both stores are really compared.

import type { Database, Statement } from "../../../src/adapters/sqlite/driver.ts";
import type { Swap } from "../planted-bug.ts";

/** A scan in ascending order begins with the member that it should begin after. */
function scanFromTheMember(database: Database): Database {
  return rewriting(database, (sql) =>
    sql.replace("member > ? ORDER BY member LIMIT", "member >= ? ORDER BY member LIMIT"),
  );
}

/** What waits for the bus or the clock is never removed from the file. */
function eraseForgotten(database: Database): Database {
  return replacing(database, (sql) => (sql.startsWith("DELETE FROM due ") ? () => {} : undefined));
}

/** A commit leaves out the row of the audit log; the memory of the process has it until it is closed. */
function rowForgotten(database: Database): Database {
  return replacing(database, (sql) => (sql.startsWith("INSERT INTO event ") ? () => {} : undefined));
}

/** Two batches share a commit: the first is answered before it is in the file. */
function commitLater(database: Database): Database {
  let [isOpen, commits] = [false, 0];
  const statements: Readonly<Record<string, () => void>> = {
    BEGIN: () => {
      if (!isOpen) database.exec("BEGIN");
      isOpen = true;
    },
    COMMIT: () => {
      commits += 1;
      if (commits % 2 === 1) return;
      database.exec("COMMIT");
      isOpen = false;
    },
  };
  const exec = (sql: string) => {
    // A transaction that is under way when the file is closed is lost.
    if (isOpen && sql.includes("journal_mode")) database.exec("ROLLBACK");
    database.exec(sql);
  };
  return { ...replacing(database, (sql) => statements[sql]), exec };
}

function rewriting(database: Database, rewrite: (sql: string) => string): Database {
  return { ...plain(database), prepare: (sql) => database.prepare(rewrite(sql)) };
}

/** Statements that do something else when they are run. */
function replacing(database: Database, replacement: (sql: string) => (() => void) | undefined): Database {
  return {
    ...plain(database),
    prepare: (sql): Statement => {
      const statement = database.prepare(sql);
      const run = replacement(sql);
      if (run === undefined) return statement;
      return { run, get: (...given) => statement.get(...given), all: (...given) => statement.all(...given) };
    },
  };
}

/** The methods of a connection as a plain object. */
function plain(database: Database): Database {
  return {
    exec: (sql) => database.exec(sql),
    prepare: (sql) => database.prepare(sql),
    function: (name, implementation) => database.function(name, implementation),
    close: () => database.close(),
  };
}

export const swappedFile: Readonly<Record<string, Swap>> = {
  sqlite_scan_from_the_member: {
    what: "a scan in SQLite begins with the member that it should begin after",
    caughtBy: ["INV-30"],
    wrapDatabase: scanFromTheMember,
  },
  sqlite_erase_forgotten: {
    what: "what is no longer due stays in the file",
    caughtBy: ["INV-30"],
    wrapDatabase: eraseForgotten,
  },
  sqlite_row_forgotten: {
    what: "a commit leaves out one of its rows",
    caughtBy: ["INV-30"],
    wrapDatabase: rowForgotten,
  },
  sqlite_commit_later: {
    what: "a batch is answered before it is committed",
    caughtBy: ["INV-30"],
    wrapDatabase: commitLater,
  },
};
