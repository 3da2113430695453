// Reads JSON text so that nothing is silently lost: what two parsers could understand differently is refused.
import { excerptOf } from "./excerpt.ts";
import type { JsonValue } from "./fingerprint.ts";
import { atOnce, beyondText, readingLimits, type Sliced } from "./slices.ts";

export type JsonReading =
  | { readonly kind: "json"; readonly value: JsonValue }
  | { readonly kind: "invalid"; readonly why: string }
  /** It is right, and holds what the limits do not allow. */
  | { readonly kind: "beyond"; readonly why: string };

/** Deep enough for any workflow, and far below what could exhaust the stack. */
const depthMax = 32;

/** No double needs more than 350 to be written exactly, without an exponent and to the last zero. */
export const numberCharactersMax = 1_024;

/**
 * Refuses duplicate names (parsers disagree on which one counts), numbers that a double cannot hold (they would be
 * changed, and two different requests would look the same), and nesting deeper than 32.
 */
export function readJson(text: string, limits: ReadingLimits = {}): JsonReading {
  return atOnce(readingJson(text, limits));
}

/**
 * How much is built at once. The built-in parser alone gives an object only the room that it needs: made by assignments,
 * `{"1000": 1}` takes 12 KB, and a body of 2 MiB would take all memory.
 */
const pieceCharacters = 32_768;

type ReadingLimits = {
  /** In one object; as many as there are when absent. */
  readonly namesMax?: number;
  /** Arrays and objects, in all. */
  readonly containersMax?: number;
  /** In one string or name. */
  readonly charactersMax?: number;
  readonly pieceCharacters?: number;
  /** Kept as data the name __proto__ would be harmless, but any later merge of objects would turn it into a prototype. */
  readonly prototypes?: "taken" | "refused";
};

/** The same in slices, for text of megabytes: the costliest that we know takes 0.3 s for 2 MiB, 10 ms at a time. */
export function* readingJson(text: string, limits: ReadingLimits = {}): Sliced<JsonReading> {
  try {
    const reader = new Reader(text, limits);
    while (reader.advance() === "paused") yield;
    return reader.reading();
  } catch (error) {
    if (error instanceof Refusal) return { kind: "invalid", why: error.message };
    throw error;
  }
}

class Refusal extends Error {}

/** An array or an object whose end has not been reached. */
type Open = {
  /** Of an object, all so far; an array has none. A few are compared one by one, which costs less than a set. */
  names: string[] | Set<string> | undefined;
  /** Where the member that is being read begins and, in an object, its name. */
  memberAt: number;
  name: string;
  /** Nothing has been built of the text from here on; undefined right after a member that was built by itself. */
  unbuiltFrom: number | undefined;
  /** Only of what is too long to be built at once. */
  built: Built | undefined;
};

type Built = JsonValue[] | Record<string, JsonValue>;

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const plus = 0x2b;
const minus = 0x2d;
const point = 0x2e;
const zero = 0x30;
const nine = 0x39;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const letterE = 0x65;
const letterU = 0x75;
const openBrace = 0x7b;
const closeBrace = 0x7d;

const unlimited = Number.POSITIVE_INFINITY;
const noLimits: Required<ReadingLimits> = {
  namesMax: unlimited,
  containersMax: unlimited,
  charactersMax: unlimited,
  pieceCharacters,
  prototypes: "taken",
};
/** Of all bodies: put together once. */
const usualLimits: Required<ReadingLimits> = { ...noLimits, ...readingLimits };
/** Comparing with so many costs as much as a set does. */
const fewNames = 8;

/** Looks at every character once, and leaves it to the built-in parser to make values of what was found to be right. */
class Reader {
  readonly #text: string;
  readonly #open: Open[] = [];
  readonly #limits: Required<ReadingLimits>;
  #at = 0;
  #containers = 0;
  /** The value, where it was too long to be built at once. */
  #built: Built | undefined;
  /** The next is a member of this one. */
  #paused: Open | undefined;
  /** The first thing that is beyond the limits: what is wrong is told before it. */
  #beyond: string | undefined;

  constructor(text: string, limits: ReadingLimits) {
    this.#text = text;
    this.#limits = limits === readingLimits ? usualLimits : { ...noLimits, ...limits };
  }

  /** Reads to the end of the text, or until a piece has been built and others may go first. */
  advance(): "paused" | "done" {
    if (this.#paused !== undefined) this.#member(this.#paused);
    this.#paused = undefined;
    for (;;) {
      if (this.#open.length > depthMax) this.#refuse(`nested deeper than ${depthMax}`);
      this.#space();
      if (this.#begin() === "members") continue;
      const around = this.#nextAround();
      if (around === undefined) break;
      if (this.#build(around)) {
        this.#paused = around;
        return "paused";
      }
      this.#member(around);
    }
    this.#space();
    if (this.#at < this.#text.length) this.#refuse("nothing may follow the value");
    return "done";
  }

  /** To be asked when it is done. */
  reading(): JsonReading {
    if (this.#beyond !== undefined) return { kind: "beyond", why: this.#beyond };
    return { kind: "json", value: this.#built ?? (JSON.parse(this.#text) as JsonValue) };
  }

  /** A value has ended, and with it perhaps what it stands in: gives the one that goes on. */
  #nextAround(): Open | undefined {
    for (let around = this.#open.at(-1); around !== undefined; around = this.#open.at(-1)) {
      if (this.#next(around) === "member") return around;
      this.#built = this.#end(around);
    }
    return undefined;
  }

  /** Reads a whole value, or opens an array or an object that has members. */
  #begin(): "members" | "value" {
    const first = this.#text.charCodeAt(this.#at);
    if (first === quote) this.#string();
    else if (first === openBrace || first === openBracket) {
      this.#containers += 1;
      if (this.#containers > this.#limits.containersMax) {
        this.#refuse(`there are more than ${this.#limits.containersMax} arrays and objects`);
      }
      this.#at += 1;
      this.#space();
      const isObject = first === openBrace;
      if (this.#text.charCodeAt(this.#at) === (isObject ? closeBrace : closeBracket)) this.#at += 1;
      else {
        const at = this.#at;
        const names = isObject ? [] : undefined;
        const open: Open = { names, memberAt: at, name: "", unbuiltFrom: at, built: undefined };
        this.#open.push(open);
        this.#member(open);
        return "members";
      }
    } else if (!this.#word("true") && !this.#word("false") && !this.#word("null")) this.#number();
    return "value";
  }

  #member(around: Open): void {
    around.memberAt = this.#at;
    const { names } = around;
    if (names === undefined) return;
    this.#space();
    const start = this.#at;
    const isPlain = this.#string() === "plain";
    const name = isPlain
      ? this.#text.slice(start + 1, this.#at - 1)
      : (JSON.parse(this.#text.slice(start, this.#at)) as string);
    if (this.#addName(around, names, name) > this.#limits.namesMax) {
      this.#refuse(`an object holds more than ${this.#limits.namesMax} names`);
    }
    if (name === "__proto__" && this.#limits.prototypes === "refused")
      this.#beyond ??= "the name __proto__ is not allowed";
    around.name = name;
    this.#space();
    if (this.#text.charCodeAt(this.#at) !== colon) this.#refuse("a colon is missing");
    this.#at += 1;
  }

  /** Gives how many there are with it. */
  #addName(around: Open, names: string[] | Set<string>, name: string): number {
    const isArray = Array.isArray(names);
    if (isArray ? names.includes(name) : names.has(name)) {
      this.#refuse(`the name ${JSON.stringify(excerptOf(name))} stands twice in one object`);
    }
    if (isArray && names.length < fewNames) return names.push(name);
    const set = isArray ? new Set(names) : names;
    around.names = set.add(name);
    return set.size;
  }

  #next({ names }: Open): "member" | "end" {
    this.#space();
    const next = this.#text.charCodeAt(this.#at);
    const isEnd = next === (names === undefined ? closeBracket : closeBrace);
    if (next !== comma && !isEnd) {
      this.#refuse(`a comma or ${names === undefined ? "]" : "}"} is missing`);
    }
    this.#at += 1;
    return isEnd ? "end" : "member";
  }

  /** Before the next member, once enough has been read. */
  #build(around: Open): boolean {
    around.unbuiltFrom ??= this.#at;
    if (this.#at - around.unbuiltFrom < this.#limits.pieceCharacters) return false;
    this.#buildTo(around, this.#at - 1);
    around.unbuiltFrom = this.#at;
    return true;
  }

  /** Closes it; gives its value if that has been built. */
  #end(around: Open): Built | undefined {
    this.#open.pop();
    const { built } = around;
    if (built === undefined) return undefined;
    this.#buildTo(around, this.#at - 1);
    const outer = this.#open.at(-1);
    if (outer === undefined) return built;
    // What stands before this member ends with a comma.
    this.#buildTo(outer, outer.memberAt - 1);
    outer.built ??= outer.names === undefined ? [] : {};
    append(outer.built, outer.name, built);
    outer.unbuiltFrom = undefined;
    return undefined;
  }

  #buildTo(around: Open, end: number): void {
    const { unbuiltFrom, names, built } = around;
    if (unbuiltFrom === undefined || end <= unbuiltFrom) return;
    const members = this.#text.slice(unbuiltFrom, end);
    if (names === undefined) {
      const items = JSON.parse(`[${members}]`) as JsonValue[];
      if (built === undefined) around.built = items;
      else for (const item of items) append(built, "", item);
    } else {
      const fields = JSON.parse(`{${members}}`) as Record<string, JsonValue>;
      if (built === undefined) around.built = fields;
      else for (const [name, value] of Object.entries(fields)) append(built, name, value);
    }
  }

  /** Passes a string; what it says is made of its text where it is needed. */
  #string(): "plain" | "escaped" {
    const text = this.#text;
    if (text.charCodeAt(this.#at) !== quote) this.#refuse("a string is expected");
    let at = this.#at + 1;
    let isPlain = true;
    let isSimple = true;
    for (let character = text.charCodeAt(at); character !== quote; character = text.charCodeAt(at)) {
      // Also at the end of the text, where there is no character.
      if (!(character >= 0x20)) this.#refuse("a string is expected");
      if (character === backslash) {
        isPlain = false;
        at += 1;
        if (text.charCodeAt(at) === letterU) isSimple = false;
        else if (!'"\\/bfnrt'.includes(text.charAt(at) || " ")) this.#refuse("a string is expected");
      } else if (character >= 0xd800 && character <= 0xdfff) isSimple = false;
      at += 1;
    }
    const start = this.#at;
    this.#at = at + 1;
    if (at - start - 1 > this.#limits.charactersMax) this.#judgeLength(text.slice(start, at + 1));
    if (isSimple) return isPlain ? "plain" : "escaped";
    const value = parsedString(text.slice(start, at + 1));
    if (value?.isWellFormed() === true) return "escaped";
    if (value === undefined) this.#at = start;
    this.#refuse(value === undefined ? "a string is expected" : "a string holds half of a surrogate pair");
  }

  /** Escaped it is longer than what it says. */
  #judgeLength(written: string): void {
    const value = parsedString(written);
    if (value !== undefined && value.length > this.#limits.charactersMax) this.#beyond ??= beyondText(value);
  }

  #number(): void {
    const start = this.#at;
    const text = this.#text;
    const whole = text.charCodeAt(start) === minus ? start + 1 : start;
    let end = text.charCodeAt(whole) === zero ? whole + 1 : afterDigits(text, whole);
    if (end === whole) this.#refuse("a value is expected");
    if (text.charCodeAt(end) === point) {
      const afterFraction = afterDigits(text, end + 1);
      if (afterFraction > end + 1) end = afterFraction;
    }
    // A double holds any 15 digits, as long as it is neither huge nor tiny.
    let isHeld = end - start <= 15;
    // Bit 5 is what tells a small letter from a capital one.
    if ((text.charCodeAt(end) | 0x20) === letterE) {
      const sign = text.charCodeAt(end + 1);
      const digits = sign === plus || sign === minus ? end + 2 : end + 1;
      const afterExponent = afterDigits(text, digits);
      if (afterExponent > digits) {
        end = afterExponent;
        isHeld &&= end - digits <= 2;
      }
    }
    this.#at = end;
    if (isHeld) return;
    const why = problemOfNumber(text.slice(start, end));
    if (why !== undefined) this.#refuse(why);
  }

  #word(word: string): boolean {
    if (!this.#text.startsWith(word, this.#at)) return false;
    this.#at += word.length;
    return true;
  }

  #space(): void {
    const text = this.#text;
    let at = this.#at;
    for (let next = text.charCodeAt(at); next <= 0x20; next = text.charCodeAt(at)) {
      if (next !== 0x20 && next !== 0x0a && next !== 0x0d && next !== 0x09) break;
      at += 1;
    }
    this.#at = at;
  }

  #refuse(why: string): never {
    throw new Refusal(`${why} (at character ${this.#at + 1})`);
  }
}

function append(built: Built, name: string, value: JsonValue): void {
  if (Array.isArray(built)) built.push(value);
  else if (name !== "__proto__") built[name] = value;
  else Object.defineProperty(built, name, { value, enumerable: true, configurable: true, writable: true });
}

function parsedString(text: string): string | undefined {
  try {
    return JSON.parse(text) as string;
  } catch {
    return undefined;
  }
}

function afterDigits(text: string, from: number): number {
  let at = from;
  for (let next = text.charCodeAt(at); next >= zero && next <= nine; next = text.charCodeAt(at)) at += 1;
  return at;
}

function problemOfNumber(text: string): string | undefined {
  if (text.length > numberCharactersMax) {
    return `the number ${excerptOf(text)} has ${text.length} characters, ${numberCharactersMax} are allowed; send it as a string`;
  }
  const value = Number(text);
  if (Number.isFinite(value) && isHeldExactly(text, value)) return undefined;
  return `the number ${excerptOf(text)} cannot be held exactly; send it as a string`;
}

/** Whether a number as JSON writes it is the same number once it is read. */
export function isHeldExactly(text: string, value: number): boolean {
  return decimal(text) === decimal(String(value));
}

/** A number's digits and the place of its point, so that 1.50, 15e-1 and 1.5 are the same text. */
function decimal(text: string): string {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const digits = whole + fraction;
  let first = 0;
  while (digits.charCodeAt(first) === zero) first += 1;
  let end = digits.length;
  // By hand: a pattern for the zeros at the end would try again from each of the zeros before them.
  while (end > first && digits.charCodeAt(end - 1) === zero) end -= 1;
  if (first === end) return "0";
  const place = Number(exponent) - fraction.length + (digits.length - end);
  return `${sign}${digits.slice(first, end)}e${place}`;
}
