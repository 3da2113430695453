// Reads JSON text so that nothing is silently lost: what two parsers could understand differently is refused.
import type { JsonValue } from "./fingerprint.ts";

export type JsonReading =
  | { readonly kind: "json"; readonly value: JsonValue }
  | { readonly kind: "invalid"; readonly why: string };

/** Deep enough for any workflow, and far below what could exhaust the stack. */
const depthMax = 32;

/**
 * Refuses duplicate names (parsers disagree on which one counts), numbers that a double cannot hold (they would be
 * changed, and two different requests would look the same), and nesting deeper than 32.
 */
export function readJson(text: string): JsonReading {
  try {
    const reader = new Reader(text);
    return { kind: "json", value: reader.document() };
  } catch (error) {
    if (error instanceof Refusal) return { kind: "invalid", why: error.message };
    throw error;
  }
}

class Refusal extends Error {}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): JsonValue {
    const value = this.#value(0);
    this.#space();
    if (this.#at < this.#text.length) this.#refuse("nothing may follow the value");
    return value;
  }

  #value(depth: number): JsonValue {
    if (depth > depthMax) this.#refuse(`nested deeper than ${depthMax}`);
    this.#space();
    const next = this.#text[this.#at];
    if (next === "{") return this.#object(depth);
    if (next === "[") return this.#array(depth);
    if (next === '"') return this.#string();
    if (this.#take(/true/y) !== undefined) return true;
    if (this.#take(/false/y) !== undefined) return false;
    if (this.#take(/null/y) !== undefined) return null;
    return this.#number();
  }

  #object(depth: number): JsonValue {
    const entries = new Map<string, JsonValue>();
    this.#members("{", "}", () => {
      this.#space();
      const name = this.#string();
      if (entries.has(name)) this.#refuse(`the name ${JSON.stringify(name)} stands twice in one object`);
      this.#space();
      if (this.#take(/:/y) === undefined) this.#refuse("a colon is missing");
      entries.set(name, this.#value(depth + 1));
    });
    return Object.fromEntries(entries);
  }

  #array(depth: number): JsonValue {
    const items: JsonValue[] = [];
    this.#members("[", "]", () => items.push(this.#value(depth + 1)));
    return items;
  }

  #members(open: string, close: string, member: () => void): void {
    this.#at += open.length;
    this.#space();
    if (this.#text[this.#at] === close) {
      this.#at += 1;
      return;
    }
    for (;;) {
      member();
      this.#space();
      const next = this.#text[this.#at];
      if (next !== "," && next !== close) this.#refuse(`a comma or ${close} is missing`);
      this.#at += 1;
      if (next === close) return;
    }
  }

  #string(): string {
    // Control characters must be escaped, except those above ASCII, which JSON allows as they are.
    const text = this.#take(/"(?:[^"\\\p{Cc}]|[\u007f-\u009f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/uy);
    if (text === undefined) this.#refuse("a string is expected");
    const value = JSON.parse(text) as string;
    if (!value.isWellFormed()) this.#refuse("a string holds half of a surrogate pair");
    return value;
  }

  #number(): number {
    const text = this.#take(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y);
    if (text === undefined) this.#refuse("a value is expected");
    const value = Number(text);
    if (!Number.isFinite(value) || !isHeldExactly(text, value)) {
      this.#refuse(`the number ${text} cannot be held exactly; send it as a string`);
    }
    return value;
  }

  #space(): void {
    this.#take(/[ \t\n\r]*/y);
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  #refuse(why: string): never {
    throw new Refusal(`${why} (at character ${this.#at + 1})`);
  }
}

/** Whether a number as JSON writes it is the same number once it is read. */
export function isHeldExactly(text: string, value: number): boolean {
  return decimal(text) === decimal(String(value));
}

/** A number's digits and the place of its point, so that 1.50, 15e-1 and 1.5 are the same text. */
function decimal(text: string): string {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const digits = (whole + fraction).replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  if (significant === "") return "0";
  const place = Number(exponent) - fraction.length + (digits.length - significant.length);
  return `${sign}${significant}e${place}`;
}
