// Reads one expression: parsed and type-checked by the CEL library, limited to what this product runs within bounds.
import {
  type ASTNode,
  TypeError as CelTypeError,
  Environment,
  ParseError,
  type TypeCheckResult,
} from "@marcbachmann/cel-js";
import { type Code, compileCel, compilePath, type PathCode } from "./cel-evaluate.ts";
import { nodeCount, pathOf, type Reference, referencesOf } from "./cel-references.ts";
import { CelRefusal } from "./cel-refusal.ts";
import { loopStandIn, textWritten, withStandIn } from "./cel-reserved.ts";

export type CelReading =
  | { readonly kind: "cel"; readonly cel: Cel }
  | { readonly kind: "invalid"; readonly message: string };

export type Cel = {
  readonly source: string;
  readonly references: readonly Reference[];
  /** How many parts it has. */
  readonly nodes: number;
  /** For a plain path, what is absent is undefined; anything else fails on it. */
  readonly run: Code | PathCode;
  /** The type as far as it is known without values: `dyn` when it is not. */
  readonly type: string;
};

const sourceBytesMax = 4_096;

export function readCel(source: string): CelReading {
  if (Buffer.byteLength(source) > sourceBytesMax) {
    return { kind: "invalid", message: `an expression has at most ${sourceBytesMax} bytes` };
  }
  if (source.trim() === "") return { kind: "invalid", message: "the expression is empty" };
  try {
    const { ast, check } = environment.parse(withStandIn(source));
    const references = referencesOf(ast);
    const run = isPlainPath(ast) ? compilePath(ast) : compileCel(ast);
    return { kind: "cel", cel: { source, references, nodes: nodeCount(ast), run, type: typeOf(check()) } };
  } catch (error) {
    if (error instanceof CelRefusal) return { kind: "invalid", message: error.message };
    if (error instanceof ParseError)
      return { kind: "invalid", message: textWritten(`${error.summary}${placeOf(error.range)}`) };
    // Whatever else the parser stumbles over is the author's text, not our state.
    return { kind: "invalid", message: error instanceof Error ? error.message : "cannot be read" };
  }
}

/** Names and written keys only: `input.order["id"].items[0]`. */
function isPlainPath(ast: ASTNode): boolean {
  return pathOf(ast)?.keys.every((key) => key.kind !== "computed") ?? false;
}

const environment = makeEnvironment();

function makeEnvironment(): Environment {
  const made = new Environment({
    homogeneousAggregateLiterals: false,
    limits: {
      maxAstNodes: 1_000,
      maxDepth: 64,
      maxListElements: 500,
      maxMapEntries: 500,
      maxCallArguments: 4,
    },
  });
  for (const name of ["input", "ctx", "steps", "item", "index", loopStandIn, "child"])
    made.registerVariable(name, "dyn");
  // The handlers only declare types for the checker: evaluation is done by cel-evaluate.ts.
  made.registerFunction("length(dyn): int", declared).registerFunction("first(list): dyn", declared);
  for (const operator of ["+", "-", "*", "/", "%"]) {
    made.registerOperator(`int ${operator} double: double`, declared);
    made.registerOperator(`double ${operator} int: double`, declared);
  }
  made.registerOperator("double % double: double", declared);
  return made;
}

function declared(): never {
  throw new Error("only declared for the type checker");
}

/**
 * Stricter in the library than when run here: mixed branches (`ready ? "yes" : null` drops a key), comparing unlike
 * values (`1 == 1.0`), and has() below a quoted name. These are let through.
 */
const allowedTypeErrors: readonly string[] = ["incompatible_ternary_branches", "invalid_macro_argument"];

function typeOf(result: TypeCheckResult): string {
  if (result.valid) return result.type ?? "dyn";
  const { error } = result;
  // Any other error is a slip of the checker itself, as on `[].filter(x, x > 1)` in version 8.0.0.
  if (!(error instanceof CelTypeError) || allowedTypeErrors.includes(error.code)) return "dyn";
  if (error.code === "no_such_overload" && /\s[!=]=\s/.test(error.summary)) return "dyn";
  throw new CelRefusal(textWritten(`${error.summary}${placeOf(error.range)}`));
}

function placeOf(range: { readonly start: number } | undefined): string {
  return range === undefined ? "" : ` (at character ${range.start + 1})`;
}
