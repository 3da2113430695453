// The rules of strict JSON once more, written to be read rather than to be fast: what the real reader is compared with.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { JsonReading } from "../../src/domain/strict-json.ts";

class Refused extends Error {}

/** By recursion and patterns, value by value; squared in the length of numbers, so only for short texts. */
export function readPlainly(text: string): JsonReading {
  let at = 0;
  const refuse = (why: string): never => {
    throw new Refused(`${why} (at character ${at + 1})`);
  };
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    if (found !== undefined) at += found.length;
    return found;
  };
  const space = () => take(/[ \t\n\r]*/y);

  const string = (): string => {
    const found =
      take(/"(?:[^"\\\p{Cc}]|[\u007f-\u009f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/uy) ??
      refuse("a string is expected");
    const value = JSON.parse(found) as string;
    return value.isWellFormed() ? value : refuse("a string holds half of a surrogate pair");
  };

  const number = (): number => {
    const found = take(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y) ?? refuse("a value is expected");
    const value = Number(found);
    const isHeld = Number.isFinite(value) && decimal(found) === decimal(String(value));
    return isHeld ? value : refuse(`the number ${found} cannot be held exactly; send it as a string`);
  };

  const members = (close: string, member: () => void): void => {
    at += 1;
    space();
    if (text[at] === close) {
      at += 1;
      return;
    }
    for (let next = ","; next !== close; at += 1) {
      member();
      space();
      next = text[at] ?? "";
      if (next !== "," && next !== close) refuse(`a comma or ${close} is missing`);
    }
  };

  const value = (depth: number): JsonValue => {
    if (depth > 32) refuse("nested deeper than 32");
    space();
    if (text[at] === "[") {
      const items: JsonValue[] = [];
      members("]", () => items.push(value(depth + 1)));
      return items;
    }
    if (text[at] === "{") {
      const entries = new Map<string, JsonValue>();
      members("}", () => {
        space();
        const name = string();
        if (entries.has(name)) refuse(`the name ${JSON.stringify(name)} stands twice in one object`);
        space();
        if (take(/:/y) === undefined) refuse("a colon is missing");
        entries.set(name, value(depth + 1));
      });
      return Object.fromEntries(entries);
    }
    if (text[at] === '"') return string();
    const word = take(/true|false|null/y);
    return word === undefined ? number() : (JSON.parse(word) as JsonValue);
  };

  try {
    const json = value(0);
    space();
    return at < text.length ? refuse("nothing may follow the value") : { kind: "json", value: json };
  } catch (error) {
    if (error instanceof Refused) return { kind: "invalid", why: error.message };
    throw error;
  }
}

/** A number's digits and the place of its point, so that 1.50, 15e-1 and 1.5 are the same text. */
function decimal(text: string): string {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const digits = (whole + fraction).replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  if (significant === "") return "0";
  return `${sign}${significant}e${Number(exponent) - fraction.length + (digits.length - significant.length)}`;
}
