// What requests bring, read purely: the limits of JSON, cursors and problems.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readCursor, writeCursor } from "../../src/api/cursor.ts";
import { problemBody, problemOf } from "../../src/api/problem.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { atOnce, beyondLimits as lookingBeyond } from "../../src/domain/slices.ts";
import { readJson } from "../../src/domain/strict-json.ts";
import { type ErrorCode, errors } from "../../src/errors.ts";

describe("limits on JSON", () => {
  const beyondLimits = (value: JsonValue) => atOnce(lookingBeyond(value));
  const object = (members: number) =>
    Object.fromEntries(Array.from({ length: members }, (_, index) => [`n${index}`, index]));

  test("an object holds a thousand names and no more", () => {
    expect(beyondLimits(object(1_000))).toBeUndefined();
    expect(beyondLimits({ inner: [object(1_001)] })).toMatch(/1001 names/);
  });

  test("a text holds a mebibyte of characters and no more, as a name too", () => {
    expect(beyondLimits(["x".repeat(1_048_576)])).toBeUndefined();
    expect(beyondLimits(["x".repeat(1_048_577)])).toMatch(/characters/);
    expect(beyondLimits({ ["x".repeat(1_048_577)]: 1 })).toMatch(/characters/);
  });

  test("no object may have a prototype among its names; other words are data", () => {
    const reading = readJson('{"a":[{"__proto__":{"x":1}}]}');
    expect(reading.kind === "json" && beyondLimits(reading.value)).toMatch(/__proto__/);
    expect(beyondLimits({ constructor: 1, prototype: { toString: 2 } })).toBeUndefined();
  });
});

describe("cursors", () => {
  const place = { operation: "listRuns", tenant: "acme", after: "run_01_abc" };

  test("lead back to their place", () => {
    fc.assert(
      fc.property(fc.string(), (after) => {
        expect(readCursor(writeCursor({ ...place, after }), place)).toBe(after);
      }),
    );
  });

  test("of another tenant or list are not understood", () => {
    const cursor = writeCursor(place);
    expect(readCursor(cursor, { ...place, tenant: "globex" })).toBeUndefined();
    expect(readCursor(cursor, { ...place, operation: "listApprovals" })).toBeUndefined();
  });

  test("that were edited anywhere are not understood", () => {
    const cursor = writeCursor(place);
    for (let index = 0; index < cursor.length; index += 1) {
      const letter = cursor[index] === "A" ? "B" : "A";
      const edited = cursor.slice(0, index) + letter + cursor.slice(index + 1);
      const found = readCursor(edited, place);
      // The last letter of base64 has bits that mean nothing.
      if (found !== undefined) expect(found).toBe(place.after);
    }
    for (const text of ["", "%", "null", "W10", Buffer.from('[1,"x"]').toString("base64url"), "____"]) {
      expect(readCursor(text, place)).toBeUndefined();
    }
  });
});

describe("problems", () => {
  test.each(Object.keys(errors) as ErrorCode[])(
    "%s is told by code, status and whether to repeat",
    (code) => {
      const problem = problemOf(code, { detail: "why", more: { limit: 3 } }, "req_1");
      expect(problemBody.parse(problem)).toEqual(problem);
      expect(problem).toMatchObject({
        type: `urn:interlock:error:${code}`,
        title: errors[code].message,
        status: errors[code].status,
        detail: "why",
        error: errors[code].message,
        code,
        retryable: errors[code].retryable,
        request_id: "req_1",
        limit: 3,
      });
    },
  );

  test("further members never replace the standard ones", () => {
    const more = { status: 200, code: "fine", type: "x", request_id: "forged" };
    expect(problemOf("forbidden", { more }, "req_1")).toMatchObject({
      status: 403,
      code: "forbidden",
      request_id: "req_1",
    });
  });
});
