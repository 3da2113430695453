// Reading the idempotency key: quoted or bare, 1-255 visible ASCII characters, one key per request.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readIdempotencyKey } from "../../src/domain/fingerprint.ts";

// Fixed, so that a green change stays green.
fc.configureGlobal({ seed: 1 });

const keyOf = (text: string) => ({ kind: "key", text }) as const;
/** Any key of up to 255 visible characters. */
const visible = fc
  .string({ unit: "grapheme-ascii", minLength: 1, maxLength: 255 })
  .map((text) => text.replaceAll(" ", "_"));
const quoted = (key: string) => `"${key.replaceAll(/["\\]/g, (sign) => `\\${sign}`)}"`;

describe("an idempotency key", () => {
  test("is absent when no header was sent", () => {
    expect(readIdempotencyKey([])).toEqual({ kind: "none" });
  });

  test.each([
    ["bare", "retry-after-limit", "retry-after-limit"],
    ["quoted", '"retry-after-limit"', "retry-after-limit"],
    ["surrounded by spaces", "  abc\t", "abc"],
    ["quoted and surrounded by spaces", ' "abc" ', "abc"],
    ["with an escaped quote", '"a\\"b"', 'a"b'],
    ["with an escaped backslash", '"a\\\\b"', "a\\b"],
    ["bare with a quote inside", 'a"b', 'a"b'],
    ["bare with a backslash", "a\\b", "a\\b"],
    ["one character long", "k", "k"],
  ])("is read %s", (_title, value, text) => {
    expect(readIdempotencyKey([value])).toEqual(keyOf(text));
  });

  test("is the same key quoted and bare", () => {
    fc.assert(
      fc.property(visible, (key) => {
        fc.pre(!key.startsWith('"'));
        expect(readIdempotencyKey([key])).toEqual(keyOf(key));
        expect(readIdempotencyKey([quoted(key)])).toEqual(keyOf(key));
        expect(readIdempotencyKey([key, quoted(key)])).toEqual(keyOf(key));
      }),
    );
  });

  test("may hold any visible ASCII character when quoted", () => {
    fc.assert(
      fc.property(visible, (key) => {
        expect(readIdempotencyKey([quoted(key)])).toEqual(keyOf(key));
      }),
    );
  });

  test.each([
    ["nothing", ""],
    ["only spaces", "   "],
    ["empty quotes", '""'],
  ])("that is empty is refused: %s", (_title, value) => {
    expect(readIdempotencyKey([value])).toEqual({ kind: "invalid", why: "the key is empty" });
  });

  test("of 255 characters is read, of 256 refused with the number", () => {
    expect(readIdempotencyKey(["k".repeat(255)])).toEqual(keyOf("k".repeat(255)));
    expect(readIdempotencyKey([quoted("k".repeat(255))])).toEqual(keyOf("k".repeat(255)));
    for (const value of ["k".repeat(256), quoted("k".repeat(256))]) {
      expect(readIdempotencyKey([value])).toEqual({
        kind: "invalid",
        why: "the key has 256 characters, 255 are allowed",
      });
    }
  });

  test("counts its characters without the escapes", () => {
    expect(readIdempotencyKey([quoted('"'.repeat(255))])).toEqual(keyOf('"'.repeat(255)));
  });

  test.each([
    ["a letter beyond ASCII", "schlüssel"],
    ["a space inside", "a b"],
    ["a quoted space", '"a b"'],
    ["a control character", "a\u0007b"],
    ["DEL", "a\u007fb"],
    ["a line break", "a\nb"],
    ["an emoji", "🔑"],
  ])("with %s is refused", (_title, value) => {
    const reading = readIdempotencyKey([value]);
    expect(reading).toEqual({ kind: "invalid", why: "the key may hold visible ASCII characters only" });
  });

  test.each([
    ["no closing quote", '"abc'],
    ["a lone quote", '"'],
    ["text after the closing quote", '"abc"d'],
    ["an escaped closing quote", '"abc\\"'],
    ["an unknown escape", '"a\\nb"'],
  ])("that is quoted wrongly is refused: %s", (_title, value) => {
    expect(readIdempotencyKey([value]).kind).toBe("invalid");
  });

  test("sent twice with the same value is one key, with different values it is refused", () => {
    expect(readIdempotencyKey(["a", "a"])).toEqual(keyOf("a"));
    expect(readIdempotencyKey(["a", "b"])).toEqual({ kind: "invalid", why: "two different keys were sent" });
    expect(readIdempotencyKey(["a", "A"]).kind).toBe("invalid");
  });

  test("beside an invalid one is refused, whatever their order", () => {
    expect(readIdempotencyKey(["a", ""]).kind).toBe("invalid");
    expect(readIdempotencyKey(["", "a"]).kind).toBe("invalid");
  });

  test("is never read from anything else: every reading is none, invalid, or 1-255 visible characters", () => {
    const anything = fc.oneof(
      fc.string({ unit: "binary-ascii" }),
      fc.constantFrom("ü", "🔑", '"ü"', "\ud800"),
    );
    fc.assert(
      fc.property(fc.array(anything, { maxLength: 3 }), (values) => {
        const reading = readIdempotencyKey(values);
        if (reading.kind === "key") expect(reading.text).toMatch(/^[\x21-\x7e]{1,255}$/);
        expect(reading.kind === "none").toBe(values.length === 0);
      }),
    );
  });
});
