// Regular expressions in linear time: all ways through a pattern are followed at once, so nothing is ever tried twice.
// JavaScript's own engine goes back and tries again, which takes minutes on `^(a+)+$` and thirty characters.

/** Counts the work of one check; whoever starts a check sets it. */
export type PatternWork = { left: number };

export type LinearPattern = { test(text: string): boolean };

export type PatternReading =
  | { readonly kind: "pattern"; readonly pattern: LinearPattern }
  | { readonly kind: "invalid"; readonly message: string };

/** Thrown by `test` when the work is spent: neither a match nor a mismatch. */
export class PatternTooCostly extends Error {}

const instructionsMax = 1_000;

/** All of ECMAScript's syntax with the `u` flag but backward references and looking around. */
export function readPattern(source: string, work: PatternWork): PatternReading {
  try {
    // The engine knows the syntax best, and only parses here.
    new RegExp(source, "u");
    const program = compile(new Parser(source).pattern());
    return { kind: "pattern", pattern: { test: (text) => matches(program, text, work) } };
  } catch (error) {
    if (error instanceof SyntaxError) return { kind: "invalid", message: error.message };
    throw error;
  }
}

type Assertion = "start" | "end" | "boundary" | "inside";

type Piece =
  | { readonly kind: "character"; readonly fits: (character: string) => boolean }
  | { readonly kind: "assertion"; readonly assertion: Assertion }
  | { readonly kind: "sequence"; readonly pieces: readonly Piece[] }
  | { readonly kind: "choice"; readonly pieces: readonly Piece[] }
  | { readonly kind: "repeat"; readonly piece: Piece; readonly min: number; readonly max: number };

/** Finds where the parts of a pattern begin and end; that they are well-formed has been checked. */
class Parser {
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  pattern(): Piece {
    const branches = [this.#sequence()];
    while (this.#take(/\|/y) !== undefined) branches.push(this.#sequence());
    return branches.length === 1 ? (branches[0] as Piece) : { kind: "choice", pieces: branches };
  }

  #sequence(): Piece {
    const pieces: Piece[] = [];
    while (this.#at < this.#source.length && !/[|)]/.test(this.#source[this.#at] ?? "")) {
      pieces.push(this.#repeated(this.#atom()));
    }
    return { kind: "sequence", pieces };
  }

  #atom(): Piece {
    if (this.#take(/\(\?<?[=!]/y) !== undefined)
      throw new SyntaxError("looking ahead or back is not supported");
    if (this.#take(/\((?:\?:|\?<[^>]*>)?/y) !== undefined) {
      const inner = this.pattern();
      if (this.#take(/\)/y) === undefined) throw new SyntaxError("this kind of group is not supported");
      return inner;
    }
    const assertion = this.#take(/\^|\$|\\b|\\B/y);
    if (assertion !== undefined) return { kind: "assertion", assertion: assertions[assertion] ?? "start" };
    if (this.#take(/\\(?:[1-9]|k<)/y) !== undefined)
      throw new SyntaxError("references to groups are not supported");
    const one = this.#take(
      /\[(?:[^\]\\]|\\.)*\]|\\[pP]\{[^}]*\}|\\u\{[^}]*\}|\\u[dD][89abAB]..\\u....|\\u....|\\x..|\\c.|\\.|./suy,
    );
    return { kind: "character", fits: fitsOf(one ?? "") };
  }

  #repeated(piece: Piece): Piece {
    const quantifier = this.#take(/(?:[*+?]|\{\d+(?:,\d*)?\})\??/y);
    if (quantifier === undefined) return piece;
    const [, min = "0", comma, max] = /^\{(\d+)(,)?(\d*)/.exec(quantifier) ?? [];
    if (quantifier.startsWith("*")) return { kind: "repeat", piece, min: 0, max: Number.POSITIVE_INFINITY };
    if (quantifier.startsWith("+")) return { kind: "repeat", piece, min: 1, max: Number.POSITIVE_INFINITY };
    if (quantifier.startsWith("?")) return { kind: "repeat", piece, min: 0, max: 1 };
    const upper = comma === undefined ? Number(min) : Number(max || Number.POSITIVE_INFINITY);
    return { kind: "repeat", piece, min: Number(min), max: upper };
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }
}

const assertions: Readonly<Record<string, Assertion>> = {
  "^": "start",
  $: "end",
  "\\b": "boundary",
  "\\B": "inside",
};

/** One character against one class: the engine's own answer, which cannot take long. */
function fitsOf(source: string): (character: string) => boolean {
  const native = new RegExp(`^${source === "/" ? "\\/" : source}$`, "u");
  const ascii = Array.from({ length: 128 }, (_, code) => native.test(String.fromCharCode(code)));
  return (character) =>
    ascii[character.length === 1 ? character.charCodeAt(0) : 128] ?? native.test(character);
}

type Instruction =
  | { readonly kind: "character"; readonly fits: (character: string) => boolean }
  | { readonly kind: "assertion"; readonly assertion: Assertion }
  | { readonly kind: "fork"; readonly to: readonly number[] }
  | { readonly kind: "match" };

/** Instructions follow each other, except after a fork. */
function compile(piece: Piece): readonly Instruction[] {
  const program: Instruction[] = [];
  emit(program, piece);
  program.push({ kind: "match" });
  return program;
}

function push(program: Instruction[], instruction: Instruction): number {
  if (program.length >= instructionsMax)
    throw new SyntaxError(`the pattern is longer than ${instructionsMax} parts`);
  return program.push(instruction) - 1;
}

function emit(program: Instruction[], piece: Piece): void {
  switch (piece.kind) {
    case "character":
    case "assertion":
      push(program, piece);
      return;
    case "sequence":
      for (const part of piece.pieces) emit(program, part);
      return;
    case "choice":
      emitChoice(program, piece.pieces);
      return;
    case "repeat":
      emitRepeat(program, piece);
      return;
  }
}

function emitChoice(program: Instruction[], branches: readonly Piece[]): void {
  const start = push(program, { kind: "fork", to: [] });
  const entries: number[] = [];
  const exits: number[] = [];
  for (const branch of branches) {
    entries.push(program.length);
    emit(program, branch);
    exits.push(push(program, { kind: "fork", to: [] }));
  }
  program[start] = { kind: "fork", to: entries };
  for (const exit of exits) program[exit] = { kind: "fork", to: [program.length] };
}

/** Counted repetitions are written out, which the limit on instructions bounds. */
function emitRepeat(program: Instruction[], { piece, min, max }: Piece & { readonly kind: "repeat" }): void {
  if (min > instructionsMax) throw new SyntaxError(`a part is repeated more than ${instructionsMax} times`);
  for (let count = 0; count < min; count += 1) emit(program, piece);
  if (max === Number.POSITIVE_INFINITY) {
    const start = push(program, { kind: "fork", to: [] });
    emit(program, piece);
    push(program, { kind: "fork", to: [start] });
    program[start] = { kind: "fork", to: [start + 1, program.length] };
    return;
  }
  const starts: number[] = [];
  for (let count = min; count < max; count += 1) {
    starts.push(push(program, { kind: "fork", to: [] }));
    emit(program, piece);
  }
  for (const start of starts) program[start] = { kind: "fork", to: [start + 1, program.length] };
}

/** Each place of the text visits each instruction at most once. */
function matches(program: readonly Instruction[], text: string, work: PatternWork): boolean {
  const characters = [...text];
  const seenAt = new Int32Array(program.length).fill(-1);
  let waiting: number[] = [];
  for (let at = 0; at <= characters.length; at += 1) {
    // A match may begin anywhere.
    const pending = [...waiting, 0];
    const next: number[] = [];
    const character = characters[at];
    for (let index = pending.pop(); index !== undefined; index = pending.pop()) {
      if (seenAt[index] === at) continue;
      seenAt[index] = at;
      work.left -= 1;
      const instruction = program[index];
      if (instruction === undefined || instruction.kind === "match") return true;
      if (instruction.kind === "fork") pending.push(...instruction.to);
      else if (instruction.kind === "assertion") {
        if (holds(instruction.assertion, characters, at)) pending.push(index + 1);
      } else if (character !== undefined && instruction.fits(character)) next.push(index + 1);
    }
    if (work.left < 0) throw new PatternTooCostly("the patterns take too long on this input");
    waiting = next;
  }
  return false;
}

function holds(assertion: Assertion, characters: readonly string[], at: number): boolean {
  if (assertion === "start") return at === 0;
  if (assertion === "end") return at === characters.length;
  const isBoundary = isWord(characters[at - 1]) !== isWord(characters[at]);
  return assertion === "boundary" ? isBoundary : !isBoundary;
}

function isWord(character: string | undefined): boolean {
  return character !== undefined && /^\w$/.test(character);
}
