// The track record: rows land at the end of their own table, and name a commit that really ran.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  appendTrackRecord,
  dayOf,
  emptyTable,
  markersOf,
  readSourceVersion,
  TrackRecordError,
  withRow,
} from "../../proof/track-record.ts";

const tableOf = (name: "simulation" | "chaos") =>
  `${markersOf(name).begin}\n${emptyTable(name)}\n${markersOf(name).end}`;
const page = `# Words before\n\n${tableOf("simulation")}\n\nbetween\n\n${tableOf("chaos")}\n\nafter\n`;

const row = {
  date: "2026-01-02",
  commit: "0123456789",
  src: "abcdef0123",
  command: "`npm run sim`",
  seeds: 1_000,
  events: 2_345_678,
  "virtual hours": "1.50",
  faults: 17,
  operations: 99,
  violations: 0,
} as const;

describe("a row", () => {
  test("goes to the end of its table, and everything else stays as it is", () => {
    const once = withRow(page, "simulation", row);
    const twice = withRow(once, "simulation", { ...row, date: "2026-01-03", command: "a | b" });
    const line = "| 0123456789 | abcdef0123 | `npm run sim` | 1,000 | 2,345,678 | 1.50 | 17 | 99 | 0 |";
    const added = twice.split("\n").filter((text) => !page.split("\n").includes(text));
    expect(added).toEqual([
      `| 2026-01-02 ${line}`,
      `| 2026-01-03 ${line.replace("`npm run sim`", "a \\| b")}`,
      "- on `src` abcdef0123: 2 rows, 2,000 seeds, 4,691,356 events, 3 virtual hours, 34 faults, 198 operations, 0 violations",
      "- in all: 2 rows, 2,000 seeds, 4,691,356 events, 3 virtual hours, 34 faults, 198 operations, 0 violations",
    ]);
    const without = twice
      .replace("\n\n- on", "\n- on")
      .split("\n")
      .filter((text) => !added.includes(text))
      .join("\n");
    expect(without).toBe(page);
    expect(twice.indexOf("2026-01-03")).toBeLessThan(twice.indexOf(markersOf("simulation").end));
  });

  test("adds up with the rows on the same source, and with all", () => {
    const rows = [
      row,
      { ...row, src: "9999999999", seeds: 50 },
      { ...row, seeds: 7, "virtual hours": "0.25" },
    ];
    const text = rows.reduce((current, each) => withRow(current, "simulation", each), page);
    const sums = text.split("\n").filter((line) => line.startsWith("- "));
    expect(sums).toEqual([
      expect.stringMatching(
        /^- on `src` abcdef0123: 2 rows, 1,007 seeds, 4,691,356 events, 1\.75 virtual hours,/,
      ),
      expect.stringMatching(/^- in all: 3 rows, 1,057 seeds, 7,037,034 events, 3\.25 virtual hours,/),
    ]);
  });

  test.each([
    ["without its end", page.replace(markersOf("simulation").end, "")],
    ["that is there twice", page + page],
    ["that is not there", "# Nothing"],
    ["with other columns", page.replace("| virtual hours |", "| hours |")],
  ])("is refused by a table %s", (_what, text) => {
    expect(() => withRow(text, "simulation", row)).toThrow(TrackRecordError);
  });

  test("fits the page of this checkout", () => {
    const path = join(dirname(dirname(import.meta.dirname)), "docs", "reliability.md");
    const text = readFileSync(path, "utf8");
    expect(withRow(text, "simulation", row)).toContain("| 2026-01-02 | 0123456789 |");
    const { seeds: _seeds, events: _events, "virtual hours": _hours, ...shared } = row;
    const chaos = { ...shared, minutes: 3, durability: "replicated", kinds: "31 of 31", unknown: 4 };
    expect(withRow(text, "chaos", chaos)).toContain("| 3 | replicated | 17 | 31 of 31 | 99 | 4 | 0 |");
    for (const table of ["soak", "mutation", "planted bugs", "repeated tests"] as const) {
      expect(text).toContain(`${markersOf(table).begin}\n${emptyTable(table)}\n`);
    }
  });

  test("names its day in UTC", () => {
    expect([dayOf(0), dayOf(1_767_225_599_999)]).toEqual(["1970-01-01", "2025-12-31"]);
  });
});

describe("the version of the source", () => {
  let folder = "";
  const git = (...words: string[]) => execFileSync("git", words, { cwd: folder, stdio: "ignore" });

  const commit = (message: string) => {
    git("add", ".");
    const author = ["-c", "user.name=test", "-c", "user.email=test@example.com"];
    git(...author, "commit", "--quiet", "--no-gpg-sign", "-m", message);
  };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "interlock-track-record-"));
    for (const name of ["src", "docs"]) mkdirSync(join(folder, name));
    writeFileSync(join(folder, "src", "a.ts"), "one");
    writeFileSync(join(folder, "docs", "reliability.md"), page);
    git("init", "--quiet");
    commit("first");
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test("is the commit when nothing has changed, and changes elsewhere do not count", () => {
    writeFileSync(join(folder, "notes.md"), "new");
    const version = readSourceVersion(folder, ["src"], "refused");
    const hash = expect.stringMatching(/^[0-9a-f]{10}$/);
    expect(version).toEqual({ commit: hash, src: hash, changed: [] });
    appendTrackRecord(folder, "simulation", { ...row, commit: version.commit });
    expect(readFileSync(join(folder, "docs", "reliability.md"), "utf8")).toContain(`| ${version.commit} |`);
  });

  test("names the same source in commits that leave it as it is", () => {
    const before = readSourceVersion(folder, ["src", "docs"], "refused");
    writeFileSync(join(folder, "docs", "reliability.md"), "other words");
    expect(readSourceVersion(folder, ["src", "docs"], "allowed")).toEqual({
      commit: `${before.commit}+changes`,
      src: before.src,
      changed: ["docs/reliability.md"],
    });
    commit("second");
    const after = readSourceVersion(folder, ["src", "docs"], "refused");
    expect([after.src, after.commit === before.commit]).toEqual([before.src, false]);
  });

  test("is refused when a file of the source is not committed, changed or new, unless that is allowed", () => {
    writeFileSync(join(folder, "src", "a.ts"), "two");
    writeFileSync(join(folder, "src", "b.ts"), "new");
    expect(() => readSourceVersion(folder, ["src"], "refused")).toThrow(
      "A row of the track record names a commit, but src/a.ts, src/b.ts are not committed.",
    );
    const { commit, src, changed } = readSourceVersion(folder, ["src"], "allowed");
    for (const hash of [commit, src]) expect(hash).toMatch(/^[0-9a-f]{10}\+changes$/);
    expect(changed).toEqual(["src/a.ts", "src/b.ts"]);
  });
});
