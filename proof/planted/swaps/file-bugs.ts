// Known mistakes in how the SQLite store uses its file, put in on purpose: each shows that both stores are really compared.

import type { Swap } from "../planted-bug.ts";
import { commitLater, eraseForgotten, rowForgotten, scanFromTheMember } from "./broken-files.ts";

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
