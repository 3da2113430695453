// What reading a request costs: in proportion to its length, in short slices, and without taking room that it does not fill.
import { describe, expect, test } from "vitest";
import { resultsBody } from "../../src/api/schemas.ts";
import { fingerprinting, fingerprintOf, type JsonValue } from "../../src/domain/fingerprint.ts";
import { atOnce, beyondLimits, inSlices, type Sliced } from "../../src/domain/slices.ts";
import { readingJson, readJson } from "../../src/domain/strict-json.ts";
import { readYaml } from "../../src/domain/workflow/yaml-text.ts";

/** The least of several tries: whatever else the machine does only adds. */
function cpuMsOf(work: () => unknown): number {
  const tries = Array.from({ length: 3 }, () => {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
  return Math.min(...tries);
}

/**
 * Eight times the input takes about eight times the work, and squared work would take 64 times as much, each time. What lies
 * between is left to the collector of garbage, and below a few milliseconds the clock itself is too coarse. Noise only
 * adds: a comparison that fails is made again, up to four times (seen once: 25 times as much on a busy machine).
 */
function expectLinear(work: (size: number) => () => unknown, size: number): void {
  const tries: string[] = [];
  for (let left = 4; left > 0; left -= 1) {
    const small = cpuMsOf(work(size));
    const large = cpuMsOf(work(size * 8));
    if (large < 24 * Math.max(2, small)) return;
    tries.push(`${small} ms, then ${large} ms for eight times as much`);
  }
  expect(tries).toEqual([]);
}

/** As many items as fit. */
function listOf(item: (index: number) => string, size: number, [open, close] = ["[", "]"]): string {
  const items: string[] = [];
  for (let length = 2; length < size; length += (items.at(-1) ?? "").length + 1)
    items.push(item(items.length));
  return `${open}${items.join(",")}${close}`;
}

const costlyJson: Readonly<Record<string, (size: number) => string>> = {
  "a number with a long fraction": (size) => `1.${"0".repeat(size)}1`,
  "a long whole number": (size) => "9".repeat(size),
  "a number with a long exponent": (size) => `1e${"0".repeat(size)}1`,
  "numbers of a thousand characters": (size) => listOf(() => `1.${"0".repeat(1_000)}`, size),
  "short numbers": (size) => listOf(() => "1", size),
  "long fractions": (size) => listOf((index) => String(Math.sin(index)), size),
  "empty texts": (size) => listOf(() => '""', size),
  "empty objects": (size) => listOf(() => "{}", size),
  "arrays in arrays": (size) => listOf(() => "[".repeat(30) + "]".repeat(30), size),
  "objects with one name each": (size) => listOf((index) => `{"n${index}":1}`, size),
  "objects with a thousand names each": (size) =>
    listOf((object) => listOf((index) => `"n${index}_${object}":1`, 12_000, ["{", "}"]), size),
  "names that look like numbers": (size) => listOf((index) => `{"${index * 131_072}":1}`, size),
  "one object of many names": (size) => listOf((index) => `"n${index}":1`, size, ["{", "}"]),
  "a name that stands twice at the end": (size) =>
    `{${listOf((index) => `"n${index}":1`, size, ["", ""])},"n0":1}`,
  "one long text": (size) => `"${"x".repeat(size)}"`,
  "one long text of escapes": (size) => `"${"\\u00e9".repeat(size / 6)}"`,
  "one long text without an end": (size) => `"${'\\"'.repeat(size / 2)}`,
  "short texts of escapes": (size) => listOf(() => '"\\n\\ud83d\\ude00"', size),
  "nothing but space": (size) => " ".repeat(size),
  "space between": (size) => listOf(() => " 1   ", size),
  "nothing but brackets": (size) => "[".repeat(size),
};

describe("reading JSON", () => {
  test.each(Object.keys(costlyJson))("%s: takes time in proportion", (name) => {
    const make = costlyJson[name] ?? String;
    expectLinear((size) => {
      const text = make(size);
      return () => readJson(text);
    }, 32_768);
  });

  test("what is large is read in slices, whatever it holds", () => {
    for (const name of ["short numbers", "arrays in arrays", "objects with one name each"]) {
      const slices = countSlices(readingJson((costlyJson[name] ?? String)(524_288)));
      expect(slices, name).toBeGreaterThan(10);
    }
  });

  test("a small request is read without a break", () => {
    expect(countSlices(readingJson(listOf((index) => `{"n${index}":1}`, 30_000)))).toBe(1);
  });

  test("objects take as much room as they fill, whatever their names", () => {
    const text = listOf(() => '{ "1000": 1 }', 524_288);
    const before = process.memoryUsage().heapUsed;
    const reading = readJson(text);
    const grown = process.memoryUsage().heapUsed - before;
    expect(reading.kind).toBe("json");
    // 37,000 objects; 12 KB each if they were made by assignments.
    expect(grown).toBeLessThan(100_000_000);
  });
});

function countSlices(work: Sliced<unknown>): number {
  let slices = 1;
  while (work.next().done !== true) slices += 1;
  return slices;
}

/** Each is repeated as often as fits. */
const costlyYaml: Readonly<Record<string, readonly [begin: string, repeated: string, end: string]>> = {
  "one long number": ["a: 1.", "0", "1"],
  "escapes that do not exist": ['a: "', "\\q", '"'],
  names: ["", "a:\n", ""],
  "flow collections": ["a: [", "{a: [1]}, ", "]"],
  "aliases of nothing": ["a: [", "*b, ", "]"],
  directives: ["", "%A b\n", "---\n1"],
  comments: ["a:\n", " # c\n", " b: 1"],
  dashes: ["", "-\n", ""],
  brackets: ["", "[", ""],
  "closing brackets": ["", "]", ""],
};

describe("reading YAML", () => {
  test.each(Object.keys(costlyYaml))("%s: take time in proportion", (name) => {
    const [begin, repeated, end] = costlyYaml[name] ?? ["", "", ""];
    expectLinear((size) => {
      const text = begin + repeated.repeat(size / repeated.length) + end;
      return () => readYaml(text);
    }, 4_096);
  });

  test("of more than 100,000 parts ends there, and says what to do", () => {
    expect(readYaml(`a: [${"1,".repeat(30_000)}1]`).kind).toBe("yaml");
    expect(readYaml(`a: [${"1,".repeat(60_000)}1]`)).toMatchObject({
      problems: [{ message: "the text has too many parts, more than 100000: send it as JSON", line: 1 }],
    });
  });

  test("a refusal repeats little of a long tag, anchor, name or number", () => {
    const long = "x".repeat(100_000);
    for (const text of [
      `a: !${long} y`,
      `a: *${long}`,
      `${long}: 1\n${long}: 2`,
      `a: 1.${"0".repeat(100_000)}`,
    ]) {
      const reading = readYaml(text);
      expect(reading.kind).toBe("invalid");
      expect(JSON.stringify(reading).length).toBeLessThan(600);
    }
  });

  test("maps take as much room as they fill, whatever their names", () => {
    const text = `a: [${"{1000: x}, ".repeat(6_000)}]`;
    const before = process.memoryUsage().heapUsed;
    const reading = readYaml(text);
    const grown = process.memoryUsage().heapUsed - before;
    expect(reading.kind === "yaml" && reading.value).toMatchObject({
      a: expect.arrayContaining([{ 1000: "x" }]),
    });
    expect(grown).toBeLessThan(60_000_000);
  });
});

describe("after reading", () => {
  const values = ["short numbers", "arrays in arrays", "objects with a thousand names each", "empty objects"];
  const bodyOf = (name: string, size: number) => JSON.parse((costlyJson[name] ?? String)(size)) as JsonValue;
  const request = (body: JsonValue) => ({ method: "POST", path: "/", query: {}, body });

  test.each(values)("the limits of %s: take time in proportion", (name) => {
    expectLinear((size) => {
      const value = bodyOf(name, size);
      return () => atOnce(beyondLimits(value));
    }, 32_768);
  });

  test.each(values)("the fingerprint of %s: takes time in proportion", (name) => {
    expectLinear((size) => {
      const body = bodyOf(name, size);
      return () => fingerprintOf(request(body));
    }, 32_768);
  });

  test("a large body is fingerprinted in slices, a small one at once", () => {
    expect(countSlices(fingerprinting(request(bodyOf("short numbers", 524_288))))).toBeGreaterThan(10);
    expect(countSlices(fingerprinting(request(bodyOf("short numbers", 30_000))))).toBe(1);
  });

  test("a schema that bounds a list does not look at what is beyond it", () => {
    expectLinear((size) => {
      const body = { worker_id: "w", results: Array.from({ length: size }, () => ({})) };
      return () => resultsBody.safeParse(body);
    }, 32_768);
  });
});

describe("work in slices", () => {
  test("lets other work go first between two of them, and only there", async () => {
    const turns: string[] = [];
    function* work(slices: number): Sliced<string> {
      for (let slice = 1; slice <= slices; slice += 1) {
        turns.push(`slice ${slice}`);
        if (slice < slices) yield;
      }
      return "done";
    }
    const clock = {
      yield: async () => {
        turns.push("others");
      },
    };
    expect(await inSlices(clock, work(2))).toBe("done");
    expect(turns).toEqual(["slice 1", "others", "slice 2"]);
    turns.length = 0;
    expect(await inSlices(clock, work(1))).toBe("done");
    expect(atOnce(work(2))).toBe("done");
    expect(turns).toEqual(["slice 1", "slice 1", "slice 2"]);
  });
});
