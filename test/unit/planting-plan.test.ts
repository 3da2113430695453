// Planting in pieces: shards that are together the whole, time limits, and verdicts of earlier runs that hold for the same code only.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  chooseBugs,
  openJudged,
  parsePlantingOptions,
  UsageError,
} from "../../proof/planted/planting-plan.ts";

const bugs = Array.from({ length: 10 }, (_, index) => ({ name: `bug-${index}` }));
const known = bugs.map(({ name }) => name);
const chosenBy = (...words: string[]) =>
  chooseBugs(bugs, parsePlantingOptions(words, known)).map(({ name }) => name);

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "interlock-planting-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("shards are together the whole, and no bug is in two of them", () => {
  const shards = ["1/3", "2/3", "3/3"].map((shard) => chosenBy("--shard", shard));
  expect(shards.map((each) => each.length)).toEqual([4, 3, 3]);
  expect(shards.flat().sort()).toEqual(known);
  expect(chosenBy()).toEqual(known);
});

test("a shard is of those that are named", () => {
  expect(chosenBy("bug-7", "bug-2", "bug-5")).toEqual(["bug-2", "bug-5", "bug-7"]);
  expect(chosenBy("bug-7", "bug-2", "bug-5", "--shard", "2/2")).toEqual(["bug-5"]);
});

test("words that mean nothing are refused with the usage", () => {
  const wrong = [
    ["--shard", "0/2"],
    ["--shard", "3/2"],
    ["--shard", "x"],
    ["--minutes", "0"],
    ["--frob"],
    ["bug-11"],
  ];
  for (const words of wrong) expect(() => parsePlantingOptions(words, known)).toThrow(UsageError);
  expect(parsePlantingOptions(["--minutes", "90", "--record"], known)).toMatchObject({
    minutes: 90,
    appends: true,
    resumes: false,
  });
});

test("a run that resumes knows the verdicts on the same code, and no others", () => {
  const file = join(folder, "deep", "judged.jsonl");
  const first = openJudged(file, "aaa", false);
  first.note("bug-1", { kind: "caught", detail: "by a test" });
  first.note("bug-2", { kind: "missed", detail: "none failed" });
  expect([...openJudged(file, "aaa", true).earlier.keys()]).toEqual(["bug-1", "bug-2"]);
  expect(openJudged(file, "bbb", true).earlier.size).toBe(0);
  expect(openJudged(file, "aaa+changes", true).earlier.size).toBe(0);
  expect(readFileSync(file, "utf8").split("\n")).toHaveLength(3);
});

test("a run that does not resume knows no verdict, and leaves those of others", () => {
  const file = join(folder, "judged.jsonl");
  openJudged(file, "aaa", false).note("bug-1", { kind: "missed", detail: "none failed" });
  expect(openJudged(file, "aaa", false).earlier.size).toBe(0);
  openJudged(file, "aaa", true).note("bug-1", { kind: "caught", detail: "by a test" });
  expect(openJudged(file, "aaa", true).earlier.get("bug-1")?.kind).toBe("caught");
});
