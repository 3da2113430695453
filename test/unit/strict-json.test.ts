// Strict JSON: accepts what JSON.parse accepts without loss, and refuses what would be changed or is ambiguous.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readJson } from "../../src/domain/strict-json.ts";

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
