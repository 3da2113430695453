// Reads a regular expression of ECMAScript (flag `u`) into its pieces: one pass, each character once; and its character sets.

export type CharacterSet = {
  /** Pairs of first and last code point, sorted, without overlap. */
  readonly ranges: readonly number[];
  readonly properties: readonly Property[];
  readonly negated: boolean;
  /** Further steps of one question: a property is asked of the engine, which takes about 80 ns. */
  readonly steps: number;
};

type Property = { readonly has: (character: string) => boolean; readonly negated: boolean };

const stepsOfProperty = 8;

export function characterSet(
  ranges: readonly number[],
  { properties = [], negated = false }: { properties?: readonly Property[]; negated?: boolean } = {},
): CharacterSet {
  return {
    ranges: merged(ranges),
    properties,
    negated,
    steps: 1 + stepsOfProperty * properties.length,
  };
}

export function hasCharacter({ ranges, properties, negated }: CharacterSet, code: number): boolean {
  return (inRanges(ranges, code) || hasProperty(properties, code)) !== negated;
}

function inRanges(ranges: readonly number[], code: number): boolean {
  let low = 0;
  let high = ranges.length >> 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (code > (ranges[2 * middle + 1] ?? 0)) low = middle + 1;
    else high = middle;
  }
  return code >= (ranges[2 * low] ?? Number.POSITIVE_INFINITY);
}

function hasProperty(properties: readonly Property[], code: number): boolean {
  if (properties.length === 0) return false;
  const character = String.fromCodePoint(code);
  return properties.some(({ has, negated }) => has(character) !== negated);
}

function merged(ranges: readonly number[]): readonly number[] {
  if (ranges.length <= 2) return ranges;
  const pairs = Array.from({ length: ranges.length >> 1 }, (_, index) => [
    ranges[2 * index] ?? 0,
    ranges[2 * index + 1] ?? 0,
  ]).sort((left, right) => (left[0] ?? 0) - (right[0] ?? 0));
  const result: number[] = [];
  for (const [first = 0, last = 0] of pairs) {
    const end = result.length - 1;
    if (end > 0 && first <= (result[end] ?? 0) + 1) result[end] = Math.max(result[end] ?? 0, last);
    else result.push(first, last);
  }
  return result;
}

/** What is not in the ranges: `\D`, `\W` and `\S` inside a class. */
function complement(ranges: readonly number[]): readonly number[] {
  const result: number[] = [];
  let next = 0;
  for (let index = 0; index < ranges.length; index += 2) {
    if (next < (ranges[index] ?? 0)) result.push(next, (ranges[index] ?? 0) - 1);
    next = (ranges[index + 1] ?? 0) + 1;
  }
  return [...result, next, 0x10ffff];
}

const digits = [0x30, 0x39];
export const wordCharacters = [0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a];
const whiteSpace = [
  0x09, 0x0d, 0x20, 0x20, 0xa0, 0xa0, 0x1680, 0x1680, 0x2000, 0x200a, 0x2028, 0x2029, 0x202f, 0x202f, 0x205f,
  0x205f, 0x3000, 0x3000, 0xfeff, 0xfeff,
];
const lineEnds = [0x0a, 0x0a, 0x0d, 0x0d, 0x2028, 0x2029];

/** Only names that the engine knows are kept: there are about 1,700 spellings. */
const known = new Map<string, (character: string) => boolean>();

/**
 * The engine's own table of a Unicode property, made once per process. It takes 75 µs to parse and 150 µs to use first,
 * so a pattern of 200 properties took the engine 15 ms. Returns undefined for a name that does not exist.
 */
function propertyOf(name: string): ((character: string) => boolean) | undefined {
  const found = known.get(name);
  if (found !== undefined) return found;
  if (name.length > 64 || !/^[A-Za-z0-9_]+(?:=[A-Za-z0-9_]+)?$/.test(name)) return undefined;
  try {
    const native = new RegExp(`^\\p{${name}}$`, "u");
    const has = (character: string) => native.test(character);
    has("a");
    known.set(name, has);
    return has;
  } catch {
    return undefined;
  }
}

export type Assertion = "start" | "end" | "boundary" | "inside";

/** Every piece but `nothing` stands for at least one instruction, so that unrolling repeats never works for nothing. */
export type Piece =
  | { readonly kind: "nothing" }
  | { readonly kind: "character"; readonly code: number }
  | { readonly kind: "set"; readonly set: CharacterSet }
  | { readonly kind: "assertion"; readonly assertion: Assertion }
  | { readonly kind: "sequence"; readonly pieces: readonly Piece[] }
  | { readonly kind: "choice"; readonly pieces: readonly Piece[] }
  | { readonly kind: "repeat"; readonly piece: Piece; readonly min: number; readonly max: number };

/** Groups inside groups: more would overflow the stack of this reader. */
const groupDepthMax = 250;

/** What one property costs to read, whether or not the process has met it before: 225 µs, or 75 ns a step. */
const propertySteps = 3_000;

/** Throws a SyntaxError that says what is wrong. `steps` is what reading it took. */
export function parsePattern(source: string): { readonly piece: Piece; readonly steps: number } {
  const parser = new Parser(source);
  const piece = parser.whole();
  return { piece, steps: parser.steps };
}

const nothing: Piece = { kind: "nothing" };

/** A sequence of one piece is that piece. */
function sequenceOf(pieces: readonly Piece[]): Piece {
  const [first = nothing, ...others] = pieces;
  return others.length === 0 ? first : { kind: "sequence", pieces };
}

function repeatOf(piece: Piece, min: number, max: number): Piece {
  if (piece.kind === "nothing" || max === 0) return nothing;
  return min === 1 && max === 1 ? piece : { kind: "repeat", piece, min, max };
}

type ClassItem =
  | { readonly kind: "character"; readonly code: number }
  | { readonly kind: "several"; readonly ranges: readonly number[]; readonly property?: Property };

const anyButLineEnds = characterSet(lineEnds, { negated: true });

const assertions: ReadonlyMap<string, Assertion> = new Map([
  ["^", "start"],
  ["$", "end"],
  ["\\b", "boundary"],
  ["\\B", "inside"],
]);

const controls: ReadonlyMap<string, number> = new Map([
  ["t", 0x09],
  ["n", 0x0a],
  ["v", 0x0b],
  ["f", 0x0c],
  ["r", 0x0d],
]);

const severals: ReadonlyMap<string, readonly number[]> = new Map([
  ["d", digits],
  ["D", complement(digits)],
  ["w", wordCharacters],
  ["W", complement(wordCharacters)],
  ["s", whiteSpace],
  ["S", complement(whiteSpace)],
]);

class Parser {
  readonly #source: string;
  readonly #sets = new Map<string, CharacterSet>();
  readonly #properties = new Set<string>();
  #at = 0;
  #depth = 0;
  steps = 0;

  constructor(source: string) {
    this.#source = source;
    this.steps = source.length;
  }

  whole(): Piece {
    const piece = this.#choice();
    if (this.#at < this.#source.length) throw new SyntaxError("a group ends that never began");
    return piece;
  }

  #choice(): Piece {
    const branches = [this.#sequence()];
    while (this.#takes("|")) branches.push(this.#sequence());
    if (branches.length === 1) return branches[0] ?? nothing;
    return { kind: "choice", pieces: branches };
  }

  #sequence(): Piece {
    const pieces: Piece[] = [];
    for (let next = this.#source[this.#at]; next !== undefined; next = this.#source[this.#at]) {
      if (next === "|" || next === ")") break;
      const piece = this.#term();
      if (piece.kind !== "nothing") pieces.push(piece);
    }
    return sequenceOf(pieces);
  }

  #term(): Piece {
    const assertion = this.#take(/\^|\$|\\[bB]/y);
    if (assertion !== undefined) {
      if (this.#take(/[*+?{]/y) !== undefined) throw new SyntaxError(`"${assertion}" cannot be repeated`);
      return { kind: "assertion", assertion: assertions.get(assertion) ?? "start" };
    }
    return this.#repeated(this.#atom());
  }

  #atom(): Piece {
    if (this.#takes("(")) return this.#group();
    if (this.#takes(".")) return { kind: "set", set: anyButLineEnds };
    if (this.#takes("[")) return { kind: "set", set: this.#class() };
    if (this.#takes("\\")) {
      if (this.#take(/[1-9]|k/y) !== undefined)
        throw new SyntaxError("references to groups are not supported");
      const start = this.#at;
      const item = this.#escape();
      if (item.kind === "character") return item;
      return { kind: "set", set: this.#shared(start, () => this.#setOf([item], false)) };
    }
    const code = this.#source.codePointAt(this.#at) ?? 0;
    const character = String.fromCodePoint(code);
    if (/[*+?]/.test(character)) throw new SyntaxError("nothing to repeat");
    if (/[\]{}]/.test(character)) throw new SyntaxError(`"${character}" needs a backslash before it`);
    this.#at += character.length;
    return { kind: "character", code };
  }

  #group(): Piece {
    if (this.#take(/\?<?[=!]/y) !== undefined)
      throw new SyntaxError("looking ahead or back is not supported");
    if (this.#takes("?") && this.#take(groupStart) === undefined)
      throw new SyntaxError("this kind of group is not supported");
    this.#depth += 1;
    if (this.#depth > groupDepthMax) throw new SyntaxError(`groups stand ${groupDepthMax} deep at most`);
    const inner = this.#choice();
    if (!this.#takes(")")) throw new SyntaxError("a group has no end");
    this.#depth -= 1;
    return inner;
  }

  #repeated(piece: Piece): Piece {
    const sign = this.#take(/[*+?]|\{\d+(?:,\d*)?\}/y);
    if (sign === undefined) return piece;
    this.#takes("?");
    if (sign === "*") return repeatOf(piece, 0, Number.POSITIVE_INFINITY);
    if (sign === "+") return repeatOf(piece, 1, Number.POSITIVE_INFINITY);
    if (sign === "?") return repeatOf(piece, 0, 1);
    const [min = "0", max = min] = sign.slice(1, -1).split(",");
    const upper = max === "" ? Number.POSITIVE_INFINITY : Number(max);
    if (Number(min) > upper) throw new SyntaxError("the numbers of a repeat are out of order");
    return repeatOf(piece, Number(min), upper);
  }

  /** After the opening bracket. */
  #class(): CharacterSet {
    const start = this.#at;
    const negated = this.#takes("^");
    const items: ClassItem[] = [];
    while (!this.#takes("]")) {
      const first = this.#classItem();
      // A hyphen at the end is a hyphen.
      if (this.#take(/-(?!\])/y) === undefined) items.push(first);
      else items.push(rangeOf(first, this.#classItem()));
    }
    return this.#shared(start, () => this.#setOf(items, negated));
  }

  #classItem(): ClassItem {
    if (this.#takes("\\")) {
      if (this.#takes("b")) return { kind: "character", code: 0x08 };
      if (this.#takes("-")) return { kind: "character", code: 0x2d };
      return this.#escape();
    }
    const code = this.#source.codePointAt(this.#at);
    if (code === undefined) throw new SyntaxError("a class has no end");
    this.#at += code > 0xffff ? 2 : 1;
    return { kind: "character", code };
  }

  /** The same text always means the same set. */
  #shared(start: number, make: () => CharacterSet): CharacterSet {
    const text = this.#source.slice(start - 1, this.#at);
    const known = this.#sets.get(text);
    if (known !== undefined) return known;
    const set = make();
    this.#sets.set(text, set);
    return set;
  }

  #setOf(items: readonly ClassItem[], negated: boolean): CharacterSet {
    const ranges: number[] = [];
    const properties = new Set<Property>();
    for (const item of items) {
      if (item.kind === "character") ranges.push(item.code, item.code);
      else for (const bound of item.ranges) ranges.push(bound);
      if (item.kind === "several" && item.property !== undefined) properties.add(item.property);
    }
    this.steps += ranges.length + properties.size;
    return characterSet(ranges, { properties: [...properties], negated });
  }

  /** After the backslash, both inside and outside of a class. */
  #escape(): ClassItem {
    const letter = this.#take(/[dDwWsStnvfr]/y);
    if (letter !== undefined) {
      const ranges = severals.get(letter);
      if (ranges !== undefined) return { kind: "several", ranges };
      return { kind: "character", code: controls.get(letter) ?? 0 };
    }
    const property = this.#take(/[pP]\{[^}]*\}/y);
    if (property !== undefined) return this.#property(property);
    const code = this.#characterEscape();
    if (code === undefined) throw new SyntaxError("a backslash stands before a character that needs none");
    return { kind: "character", code };
  }

  #characterEscape(): number | undefined {
    const control = this.#take(/c[A-Za-z]/y);
    if (control !== undefined) return control.charCodeAt(1) % 32;
    if (this.#take(/0(?!\d)/y) !== undefined) return 0;
    const braced = this.#take(/u\{[0-9A-Fa-f]+\}/y);
    if (braced !== undefined) {
      const code = Number.parseInt(braced.slice(2, -1), 16);
      return code <= 0x10ffff ? code : undefined;
    }
    const pair = this.#take(/u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}/y);
    if (pair !== undefined) {
      const [high = "", low = ""] = pair.slice(1).split("\\u");
      return String.fromCharCode(Number.parseInt(high, 16), Number.parseInt(low, 16)).codePointAt(0);
    }
    const hex = this.#take(/u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}/y);
    if (hex !== undefined) return Number.parseInt(hex.slice(1), 16);
    return this.#take(/[\^$\\.*+?()[\]{}|/]/y)?.charCodeAt(0);
  }

  #property(text: string): ClassItem {
    const name = text.slice(2, -1);
    if (!this.#properties.has(name)) this.steps += propertySteps;
    this.#properties.add(name);
    const has = propertyOf(name);
    if (has === undefined)
      throw new SyntaxError(`there is no property ${JSON.stringify(name.slice(0, 64))} of characters`);
    return { kind: "several", ranges: [], property: { has, negated: text.startsWith("P") } };
  }

  #takes(character: string): boolean {
    if (this.#source[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }
}

/** What may follow `(?`. The name of a group has no meaning here: there are no references to it. */
const groupStart =
  /:|<(?:[\p{ID_Start}$_]|\\u\{[0-9A-Fa-f]{1,6}\}|\\u[0-9A-Fa-f]{4})(?:[\p{ID_Continue}$\u200c\u200d]|\\u\{[0-9A-Fa-f]{1,6}\}|\\u[0-9A-Fa-f]{4})*>/uy;

function rangeOf(first: ClassItem, last: ClassItem): ClassItem {
  if (first.kind !== "character" || last.kind !== "character")
    throw new SyntaxError("a range of a class goes from one character to another");
  if (first.code > last.code) throw new SyntaxError("the ends of a range are out of order");
  return { kind: "several", ranges: [first.code, last.code] };
}
