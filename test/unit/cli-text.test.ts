// What the command line shows: tables, ages, colours, and nothing that could take over a terminal.
import { describe, expect, test } from "vitest";
import { tableLines } from "../../src/cli/output.ts";
import { age, between, duration, paintFor, shortened, visible } from "../../src/cli/text.ts";
import { formatTime } from "../../src/domain/engine/rfc3339.ts";

const plain = { columns: Number.POSITIVE_INFINITY, paint: (_: string, text: string) => text };
const marked = { ...plain, paint: (tone: string, text: string) => `<${tone}>${text}</>` };
const paper = (isTty: boolean) => ({ write: () => {}, isTty, columns: 80 });

describe("tables", () => {
  test("columns are as wide as they need, numbers stand right, and no line ends in spaces", () => {
    const lines = tableLines(
      ["run", { title: "tries", align: "right" }, "by"],
      [
        ["run_1", 7, "ann"],
        ["a longer one", 12, undefined],
      ],
      plain,
    );
    expect(lines).toEqual(["RUN           TRIES  BY", "run_1             7  ann", "a longer one     12"]);
  });

  test("a narrow terminal cuts the widest column and leaves the others alone", () => {
    const lines = tableLines(["id", "text"], [["run_1", "x".repeat(100)]], { ...plain, columns: 40 });
    expect(lines[1]).toBe(`run_1  ${"x".repeat(32)}…`);
    expect(lines.every((line) => line.length <= 40)).toBe(true);
  });

  test("the first column is never cut, however narrow the terminal is: people copy ids", () => {
    const id = `run_30_${"0".repeat(32)}`;
    const row = [id, "a workflow with a long name", "waiting", "by somebody with a long name"];
    const [, line = ""] = tableLines(["run", "workflow", "status", "by"], [row], { ...plain, columns: 50 });
    expect(line).toBe(`${id}  a workf…  waiting  by some…`);
    const [, wide = ""] = tableLines(["run", "workflow", "status", "by"], [row], { ...plain, columns: 90 });
    expect(wide).toBe(`${id}  a workflow with a …  waiting  by somebody with a…`);
    expect(wide).toHaveLength(90);
  });

  test("a pipe gets everything", () => {
    expect(tableLines(["text"], [["x".repeat(500)]], plain)[1]).toHaveLength(500);
  });

  test("colours do not count as width", () => {
    const [, first, second] = tableLines(
      ["status", "id"],
      [
        [{ text: "ok", tone: "good" }, "1"],
        [{ text: "failed", tone: "bad" }, "2"],
      ],
      marked,
    );
    expect([first, second]).toEqual(["<good>ok</>      <plain>1</>", "<bad>failed</>  <plain>2</>"]);
  });

  test("characters that are two places wide keep the columns straight", () => {
    const lines = tableLines(
      ["a", "b"],
      [
        ["日本", "x"],
        ["abcd", "y"],
      ],
      plain,
    );
    expect(lines.slice(1)).toEqual(["日本  x", "abcd  y"]);
  });

  test("an escape sequence in a cell is shown, not obeyed", () => {
    const [, line] = tableLines(["owner"], [["\u001b[2Jann\r\n"]], plain);
    expect(line).toBe("\u{fffd}[2Jann\u{fffd}");
  });
});

describe("words", () => {
  test.each([
    [0, "0 ms"],
    [999, "999 ms"],
    [1_500, "1.5 s"],
    [61_000, "61 s"],
    [125_000, "2 min"],
    [7_200_000, "2 h"],
    [200 * 3_600_000, "8 d"],
  ])("%d ms are told as %s", (ms, words) => {
    expect(duration(ms)).toBe(words);
  });

  test("ages look back, and forward for what expires", () => {
    expect(age(formatTime(1_000_000), 1_030_000)).toBe("30 s ago");
    expect(age(formatTime(1_090_000), 1_030_000)).toBe("in 60 s");
    expect(age(undefined, 0)).toBe("");
    expect(between(formatTime(1_000), formatTime(3_500))).toBe("2.5 s");
    expect(between(formatTime(1_000), undefined)).toBe("");
  });

  test("text is cut by characters and on one line", () => {
    expect(shortened("one\ntwo", 20)).toBe("one two");
    expect(shortened("🙂🙂🙂🙂", 3)).toBe("🙂🙂…");
    expect(visible("a\u202eb\u0000")).toBe("a\u{fffd}b\u{fffd}");
  });
});

describe("colours", () => {
  test("are for terminals, unless NO_COLOR or a dumb terminal says no", () => {
    expect(paintFor(paper(true), {})("good", "ok")).toBe("\u001b[32mok\u001b[39m");
    expect(paintFor(paper(false), {})("good", "ok")).toBe("ok");
    expect(paintFor(paper(true), { NO_COLOR: "1" })("good", "ok")).toBe("ok");
    expect(paintFor(paper(true), { TERM: "dumb" })("good", "ok")).toBe("ok");
  });
});
