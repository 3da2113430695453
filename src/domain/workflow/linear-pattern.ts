// Regular expressions in linear time: all ways through a pattern are followed at once, so nothing is ever tried twice.
// JavaScript's own engine goes back and tries again, which takes minutes on `^(a+)+$` and thirty characters.
import {
  type Assertion,
  type CharacterSet,
  characterSet,
  hasCharacter,
  type Piece,
  parsePattern,
  wordCharacters,
} from "./pattern-syntax.ts";
import { type Steps, StepsSpent } from "./schema-node.ts";

/** Throws `StepsSpent` when the steps are spent: neither a match nor a mismatch. */
export type LinearPattern = { test(text: string, steps: Steps): boolean };

type PatternReading =
  | {
      readonly kind: "pattern";
      readonly pattern: LinearPattern;
      /** What reading it took. */
      readonly steps: number;
    }
  | { readonly kind: "invalid"; readonly message: string; readonly steps: number };

const instructionsMax = 1_000;

const word = characterSet(wordCharacters);

/** All of ECMAScript's syntax with the `u` flag but backward references and looking around. */
export function readPattern(source: string): PatternReading {
  try {
    const { piece, steps } = parsePattern(source);
    const program = compile(piece);
    return {
      kind: "pattern",
      pattern: { test: (text, left) => matches(program, text, left) },
      steps: steps + program.instructions.length,
    };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return { kind: "invalid", message: error.message, steps: source.length + instructionsMax };
  }
}

type Instruction =
  | { readonly kind: "character"; readonly code: number }
  | { readonly kind: "set"; readonly set: CharacterSet }
  | { readonly kind: "assertion"; readonly assertion: Assertion }
  | { readonly kind: "fork"; readonly to: readonly number[] }
  | { readonly kind: "match" };

type Program = {
  readonly instructions: readonly Instruction[];
  /** A match can only begin at the beginning. */
  readonly anchored: boolean;
  /** The last place that visited each instruction, counted over all texts. */
  readonly visitedAt: Float64Array;
  /** Two stacks of instructions, used again for every text. A fork has as many targets as instructions at most. */
  readonly stacks: readonly [Int32Array, Int32Array];
  place: number;
};

/** Instructions follow each other, except after a fork. */
function compile(piece: Piece): Program {
  const instructions: Instruction[] = [];
  emit(instructions, piece);
  instructions.push({ kind: "match" });
  const [first] = instructions;
  const stackSize = 4 * instructions.length;
  return {
    instructions,
    anchored: first?.kind === "assertion" && first.assertion === "start",
    visitedAt: new Float64Array(instructions.length),
    stacks: [new Int32Array(stackSize), new Int32Array(stackSize)],
    place: 0,
  };
}

function push(program: Instruction[], instruction: Instruction): number {
  if (program.length >= instructionsMax)
    throw new SyntaxError(`the pattern is longer than ${instructionsMax} parts`);
  return program.push(instruction) - 1;
}

/** Every piece emits an instruction, and those inside each other more than one: the limit on instructions bounds the visits. */
function emit(program: Instruction[], piece: Piece): void {
  switch (piece.kind) {
    case "nothing":
      return;
    case "character":
    case "set":
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
function matches(program: Program, text: string, steps: Steps): boolean {
  const { instructions, visitedAt, anchored } = program;
  let [waiting, next] = program.stacks;
  let waitingCount = 1;
  waiting[0] = 0;
  let before = -1;
  for (let at = 0; at <= text.length; ) {
    program.place += 1;
    const { place } = program;
    const code = at < text.length ? (text.codePointAt(at) ?? -1) : -1;
    let nextCount = 0;
    let visits = 0;
    while (waitingCount > 0) {
      waitingCount -= 1;
      const index = waiting[waitingCount] ?? 0;
      if (visitedAt[index] === place) continue;
      visitedAt[index] = place;
      visits += 1;
      const instruction = instructions[index] as Instruction;
      switch (instruction.kind) {
        case "match":
          return true;
        case "fork":
          for (const target of instruction.to) waiting[waitingCount++] = target;
          break;
        case "character":
          if (instruction.code === code) next[nextCount++] = index + 1;
          break;
        case "set":
          visits += instruction.set.steps;
          if (code >= 0 && hasCharacter(instruction.set, code)) next[nextCount++] = index + 1;
          break;
        case "assertion":
          if (holds(instruction.assertion, before, code)) waiting[waitingCount++] = index + 1;
      }
    }
    steps.left -= visits;
    if (steps.left < 0) throw new StepsSpent("pattern");
    if (!anchored) next[nextCount++] = 0;
    if (nextCount === 0) return false;
    [waiting, next] = [next, waiting];
    waitingCount = nextCount;
    before = code;
    at += code > 0xffff ? 2 : 1;
  }
  return false;
}

/** Between two characters, or one and an end of the text (-1). */
function holds(assertion: Assertion, before: number, after: number): boolean {
  if (assertion === "start") return before < 0;
  if (assertion === "end") return after < 0;
  const isBoundary = isWord(before) !== isWord(after);
  return assertion === "boundary" ? isBoundary : !isBoundary;
}

function isWord(code: number): boolean {
  return code >= 0 && hasCharacter(word, code);
}
