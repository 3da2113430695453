// Strict JSON: accepts what JSON.parse accepts without loss, and refuses what would be changed or is ambiguous.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { atOnce, beyondLimits, readingLimits } from "../../src/domain/slices.ts";
import { readingJson, readJson } from "../../src/domain/strict-json.ts";
import { readPlainly } from "../support/plain-json-reader.ts";

// Fixed, so that a green change stays green.
fc.configureGlobal({ seed: 1 });

describe("strict JSON", () => {
  test("anything that JSON.stringify writes is read back equal", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 6 }), fc.constantFrom(undefined, 1, "\t"), (text, space) => {
        const value = JSON.parse(text);
        expect(readJson(JSON.stringify(value, undefined, space))).toEqual({ kind: "json", value });
      }),
    );
  });

  test("whatever is not JSON for JSON.parse is not JSON here", () => {
    const mutated = fc.tuple(
      fc.json({ maxDepth: 3 }),
      fc.nat(),
      fc.constantFrom("", ",", '"', "}", "]", "x", "\n", "0"),
    );
    fc.assert(
      fc.property(mutated, ([text, at, inserted]) => {
        const place = at % (text.length + 1);
        const changed = text.slice(0, place) + inserted + text.slice(place);
        if (readJson(changed).kind === "json") expect(() => JSON.parse(changed)).not.toThrow();
      }),
      { numRuns: 2_000 },
    );
  });

  test.each([
    ['{"a":1,"a":2}', "stands twice"],
    ['{"a":1,"\\u0061":2}', "stands twice"],
    ["12345678901234567890", "cannot be held exactly"],
    ["0.1000000000000000055", "cannot be held exactly"],
    ["1e400", "cannot be held exactly"],
    ["[1,]", "a value is expected"],
    ["[1 2]", "a comma or ] is missing"],
    ['{"a" 1}', "a colon is missing"],
    ['"\\ud800"', "half of a surrogate pair"],
    ['"\u0001"', "a string is expected"],
    ["1 2", "nothing may follow"],
    ["", "a value is expected"],
    [`${"[".repeat(34)}${"]".repeat(34)}`, "nested deeper than 32"],
  ])("%s is refused: %s", (text, why) => {
    const reading = readJson(text);
    expect(reading.kind).toBe("invalid");
    expect((reading as { why: string }).why).toContain(why);
  });

  const space = fc.constantFrom("", "", " ", "\n", "\t\r ");
  const number = fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
    fc.stringMatching(/^-?\d{1,22}(?:\.\d{1,22})?(?:[eE][+-]?\d{1,3})?$/),
    fc.constantFrom("-0", "0", "1.50", "15e-1", "1e21", "1e400", "5e-324", "01", "1.", "1e+", "-", ".5"),
  );
  const string = fc.oneof(
    fc.string({ maxLength: 4 }).map((text) => JSON.stringify(text)),
    fc.stringMatching(/^"(?:\\["\\/bfnrtux]|\\u[0-9a-dD]{4}|[a-z[\]{},:])*"?$/),
    fc.constantFrom('"\\ud83d\\ude00"', '"\ud83d\ude00"', '"\\ud800"', '"\\u12"', '"__proto__"', '"1000"'),
    fc.constantFrom('"a"', '"\\u0061"', '"b"', '"7"'),
  );
  const { json } = fc.letrec<{ json: string }>((tie) => ({
    json: fc.oneof(
      { depthSize: "medium" },
      number,
      string,
      fc.constantFrom("true", "false", "null", "nul", "", "x"),
      fc
        .array(
          fc.tuple(space, tie("json"), space).map((parts) => parts.join("")),
          { maxLength: 5 },
        )
        .map((items) => `[${items.join(",")}]`),
      fc
        .array(
          fc.tuple(space, string, space, space, tie("json"), space).map(([a, name, b, c, value, d]) => {
            return `${a}${name}${b}:${c}${value}${d}`;
          }),
          { maxLength: 5 },
        )
        .map((fields) => `{${fields.join(",")}}`),
    ),
  }));
  const damaged = fc
    .tuple(
      json,
      fc.nat(),
      fc.constantFrom("", ",", '"', "}", "]", "[", ":", "x", "0", "\\", "\u0001", "\ud800"),
    )
    .map(([text, at, inserted]) => {
      const place = at % (text.length + 1);
      return text.slice(0, place) + inserted + text.slice(place + (at % 2));
    });

  test("reads and refuses as its rules written plainly do, in pieces of any size", () => {
    const seen = { json: 0, invalid: 0, beyond: 0 };
    fc.assert(
      fc.property(fc.oneof(json, damaged), fc.integer({ min: 1, max: 40 }), (text, pieceCharacters) => {
        const expected = readPlainly(text);
        seen[expected.kind] += 1;
        const reading = atOnce(readingJson(text, { pieceCharacters }));
        expect(reading).toEqual(expected);
        // The order of names is part of the answer, and so is the sign of zero.
        expect(JSON.stringify(reading)).toBe(JSON.stringify(expected));
      }),
      { numRuns: 6_000 },
    );
    expect(Math.min(seen.json, seen.invalid)).toBeGreaterThan(500);
  });

  test("refuses what a walk over the value finds beyond the limits of bodies, and nothing else", () => {
    const seen = { json: 0, invalid: 0, beyond: 0 };
    const named = json.map((text) => `{"a":${text},"__proto__":${text}}`);
    fc.assert(
      fc.property(fc.oneof(json, damaged, named), (text) => {
        const plain = readPlainly(text);
        const why = plain.kind === "json" ? atOnce(beyondLimits(plain.value)) : undefined;
        const expected = why === undefined ? plain : ({ kind: "beyond", why } as const);
        seen[expected.kind] += 1;
        expect(readJson(text, readingLimits)).toEqual(expected);
        expect(atOnce(readingJson(text, readingLimits))).toEqual(expected);
      }),
      { numRuns: 3_000 },
    );
    expect(Math.min(seen.json, seen.invalid, seen.beyond)).toBeGreaterThan(200);
  });

  test("a text or a name of more characters than are allowed is told, whatever it takes to write it", () => {
    const charactersMax = 1_048_576;
    const long = "a".repeat(charactersMax + 1);
    const why = `a text holds ${charactersMax + 1} characters, ${charactersMax} are allowed`;
    for (const text of [`["${long}"]`, `{"x":{"${long}":1}}`])
      expect(readJson(text, readingLimits)).toEqual({ kind: "beyond", why });
    const escaped = "\\n".repeat(charactersMax);
    expect(readJson(`["${escaped}"]`, readingLimits).kind).toBe("json");
    expect(readJson(`["${escaped}\\n"]`, readingLimits)).toEqual({ kind: "beyond", why });
    // What is wrong is told before what is too much.
    expect(readJson(`["${long}"`, readingLimits).kind).toBe("invalid");
  });

  test("a name that stands twice is found among few and among many, wherever it stands", () => {
    for (let count = 2; count <= 24; count += 1) {
      const names = Array.from({ length: count }, (_, index) => `n${index}`);
      const textOf = (all: readonly string[]) => `{${all.map((name) => `"${name}":1`).join(",")}}`;
      expect(readJson(textOf(names)).kind).toBe("json");
      for (const twice of names) {
        const reading = readJson(textOf([...names, twice]));
        expect(reading).toMatchObject({ kind: "invalid" });
        expect(JSON.stringify(reading)).toContain(`the name \\"${twice}\\" stands twice`);
      }
    }
  });

  test.each(["[-0]", '{"b":1,"1":2,"__proto__":{"a":[-0,1]}}'])("%s is the same in pieces", (text) => {
    for (const pieceCharacters of [1, 2, 5, 1_000]) {
      const reading = atOnce(readingJson(text, { pieceCharacters }));
      expect(reading).toEqual({ kind: "json", value: JSON.parse(text) as unknown });
    }
  });

  test("a number has at most 1,024 characters, and a refusal repeats 60 of them", () => {
    expect(readJson(`1.${"0".repeat(1_022)}`)).toEqual({ kind: "json", value: 1 });
    const shown = `1.${"0".repeat(58)}...`;
    expect(readJson(`1.${"0".repeat(1_023)}`)).toEqual({
      kind: "invalid",
      why: `the number ${shown} has 1025 characters, 1024 are allowed; send it as a string (at character 1026)`,
    });
    expect(readJson(`1.${"0".repeat(200)}1`)).toEqual({
      kind: "invalid",
      why: `the number ${shown} cannot be held exactly; send it as a string (at character 204)`,
    });
  });

  test("every double can be written to its last zero", () => {
    for (const text of [`0.${"0".repeat(323)}5`, `17976931348623157${"0".repeat(292)}`]) {
      expect(readJson(text)).toEqual({ kind: "json", value: Number(text) });
      expect(readJson(`-${text}`)).toEqual({ kind: "json", value: -Number(text) });
    }
  });

  test("a name that stands twice is repeated as far as one can recognise it", () => {
    const name = "n".repeat(100_000);
    expect(readJson(`{"${name}":1,"${name}":2}`)).toEqual({
      kind: "invalid",
      why: `the name "${"n".repeat(60)}..." stands twice in one object (at character 200009)`,
    });
  });

  test("limits on names and on arrays and objects hold where they are passed", () => {
    const whyOf = (text: string) => atOnce(readingJson(text, { namesMax: 2, containersMax: 3 }));
    expect(whyOf('[{"a":1,"b":2},{}]')).toMatchObject({ kind: "json" });
    expect(whyOf('{"a":1,"b":2,"c":3}')).toMatchObject({ why: expect.stringContaining("more than 2 names") });
    expect(whyOf("[[],[],[]]")).toMatchObject({
      why: expect.stringContaining("more than 3 arrays and objects"),
    });
  });

  test.each(["1.50", "15e-1", "-0", "0.1", "1e21", "9007199254740991", "100", "1E+2"])(
    "the number %s is kept",
    (text) => {
      expect(readJson(text)).toEqual({ kind: "json", value: Number(text) });
    },
  );

  test("a name like __proto__ is an ordinary name", () => {
    const reading = readJson('{"__proto__":{"polluted":true}}') as { value: object };
    expect(Object.keys(reading.value)).toEqual(["__proto__"]);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});
