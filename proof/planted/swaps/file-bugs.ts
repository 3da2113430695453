// Known mistakes in how the SQLite store uses its file, put in on purpose: each shows that both stores are really compared.
import { commitLater, eraseForgotten, rowForgotten, scanFromTheMember } from "./broken-files.ts";
import type { PlantedBug } from "./bugs.ts";

export const plantedFileBugs: Readonly<Record<string, PlantedBug>> = {
  sqlite_scan_from_the_member: {
    mistake: "a scan in SQLite begins with the member that it should begin after",
    caughtBy: ["INV-30"],
    wrapDatabase: scanFromTheMember,
  },
  sqlite_erase_forgotten: {
    mistake: "what is no longer due stays in the file",
    caughtBy: ["INV-30"],
    wrapDatabase: eraseForgotten,
  },
  sqlite_row_forgotten: {
    mistake: "a commit leaves out one of its rows",
    caughtBy: ["INV-30"],
    wrapDatabase: rowForgotten,
  },
  sqlite_commit_later: {
    mistake: "a batch is answered before it is committed",
    caughtBy: ["INV-30"],
    wrapDatabase: commitLater,
  },
};
