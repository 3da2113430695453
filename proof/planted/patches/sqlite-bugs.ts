// The planted bugs in what the SQLite store keeps in memory, and in how a batch becomes durable.
import type { TextPatch } from "../planted-bug.ts";

const core = "src/adapters/sqlite/sqlite-core.ts";
const records = "src/adapters/sqlite/sqlite-records.ts";
const keyRows = "src/adapters/sqlite/key-rows.ts";
const bundles = "src/adapters/sqlite/run-bundles.ts";
const remembered = "test/conformance/sqlite-remembered.test.ts";
const store = "test/conformance/sqlite-store.test.ts";
/** Fails with none of these: a copy in which every test fails may just not run. */
const sweep = "test/conformance/sqlite-sweep.test.ts";

export const plantedSqliteBugs: readonly TextPatch[] = [
  {
    name: "sqlite-answer-before-commit",
    what: "a batch is answered, and committed afterwards: a kill between the two loses what a client was promised",
    edits: [
      {
        file: core,
        find: "      this.#commit.run();",
        replace: "      queueMicrotask(() => this.#commit.run());",
      },
    ],
    tests: [store],
  },
  {
    name: "sqlite-failure-spills",
    what: "a call that throws takes the changes of the calls before it in its batch along, though they were answered",
    edits: [{ file: core, find: "        records.undo();", replace: "        records.forget();" }],
    tests: [store],
  },
  {
    name: "sqlite-rows-outlive-rollback",
    what: "rows and sizes of a batch that was rolled back stay in memory: a run is answered that is not in the file",
    edits: [
      {
        file: records,
        find: "    this.#keyRows.forget();\n    this.#forgetRows();",
        replace: "    this.#keyRows.forget();",
      },
    ],
    tests: [remembered, sweep],
  },
  {
    name: "sqlite-bundles-outlive-rollback",
    what: "the records of runs of a batch that was rolled back stay in memory",
    edits: [{ file: records, find: "    this.#bundles.forget();\n", replace: "" }],
    tests: [remembered, sweep],
  },
  {
    name: "sqlite-keys-outlive-rollback",
    what: "keys of a batch that was rolled back stay in memory: their rows are looked for in vain",
    edits: [{ file: records, find: "    this.#keyRows.forget();\n", replace: "" }],
    tests: [remembered, sweep],
  },
  {
    name: "sqlite-undone-row-vanishes",
    what: "a member that a failed call erased without having read it counts as gone for the rest of the batch",
    edits: [
      {
        file: records,
        find: "row.value = changed || row.isRead ? value : this.#read(row.scope, row.member);",
        replace: "row.value = value;",
      },
    ],
    tests: [remembered, sweep],
  },
  {
    name: "sqlite-vanished-row-stays",
    what: "a member that is erased in the batch that changed it stays in the file",
    edits: [
      {
        file: records,
        find: "else stored.erase(scope.key, member);",
        replace: "else if (this.#fresh.length === 0) stored.erase(scope.key, member);",
      },
    ],
    tests: [remembered, sweep],
  },
  {
    name: "sqlite-order-loses-a-key",
    what: "the first of the young keys gets no place in the order: its request can start a second run",
    edits: [
      {
        file: keyRows,
        find: "this.#orderYoung.run(this.#orderedUpTo);",
        replace: "this.#orderYoung.run(this.#orderedUpTo + 1);",
      },
    ],
    tests: [remembered, sweep],
  },
  {
    name: "sqlite-last-run-not-noted",
    what: "a run that came after the last one known counts as new for ever: once it is not in memory, it is not found",
    edits: [
      {
        file: records,
        find: "    latest?.add(member);\n",
        replace: "",
      },
    ],
    tests: [remembered, sweep],
  },
  {
    name: "sqlite-last-bundle-not-noted",
    what: "the same for the records of a run: once it is not in memory, it has none",
    edits: [
      {
        file: bundles,
        find: "    if (bundle.rows === 0) this.#latest.get(tenantOf(scope))?.add(scope);\n",
        replace: "",
      },
    ],
    tests: [remembered, sweep],
  },
  {
    name: "sqlite-latest-runs-lost",
    what: "when many runs have begun, those known apart are forgotten and nothing takes their place: they count as new",
    edits: [
      {
        file: "src/adapters/sqlite/latest-members.ts",
        find: "    for (const known of this.#known) if (known > this.#before) this.#before = known;\n",
        replace: "",
      },
    ],
    tests: [remembered, sweep],
  },
  {
    name: "sqlite-range-erases-between",
    what: "numbered rows that are erased take along those that lie between them",
    edits: [
      {
        file: records,
        find: "Number(members[end]) === Number(members[end - 1]) + 1",
        replace: "Number(members[end]) > Number(members[end - 1])",
      },
    ],
    tests: [remembered, sweep],
  },
  {
    name: "sqlite-last-part-for-the-whole",
    what: "a record of a run that is read back has only the fields that its last change wrote",
    edits: [
      {
        file: bundles,
        find: "isPart ? { ...(cell.value as object), ...(values[key] as object) } : values[key];",
        replace: "values[key];",
      },
    ],
    tests: [remembered, sweep],
  },
];
