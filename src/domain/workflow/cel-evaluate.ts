// Turns a parsed expression into a function. The library parses and checks types; running it is done here, because its
// own evaluator cannot be given a budget: nested comprehensions and long texts would hold the process for seconds.
import type { ASTNode, BinaryOperator } from "@marcbachmann/cel-js";
import {
  add,
  arithmetic,
  type CelFunction,
  compare,
  functions,
  isEqual,
  isMap,
  isMember,
  kindOf,
  lookup,
  methods,
  negate,
  truth,
  type Value,
} from "./cel-operations.ts";
import {
  comprehensions,
  nameWritten,
  nodeCount,
  refuse,
  type ScopeName,
  scopeNames,
  textWritten,
} from "./cel-references.ts";
import type { Scope } from "./compiled.ts";
import { type Budget, charge, chargeElement, chargeNames, chargeText, Failure } from "./work-count.ts";

export type Frame = {
  readonly scope: Scope;
  readonly budget: Budget;
  /** The variables of the comprehensions around a node, outermost first. */
  readonly variables: Value[];
};

export type Code = (frame: Frame) => Value;

/** Undefined when something on the path is not there. */
export type PathCode = (frame: Frame) => Value | undefined;

/** Names of the comprehension variables around a node, outermost first. */
type Names = readonly string[];

const roots = ["input", "ctx", "steps"] as const;

/** Two levels say "for all orders, for all items"; a third multiplies the cost once more. */
const comprehensionDepthMax = 2;

export function compileCel(node: ASTNode, names: Names = []): Code {
  switch (node.op) {
    case "value":
      return literal(node.args, node);
    case "id":
    case ".":
    case "[]":
      return requirePath(node, names);
    case "list":
      return listLiteral(node.args.map((item) => compileCel(item, names)));
    case "map":
      return mapLiteral(node.args.map(([key, value]) => [compileCel(key, names), compileCel(value, names)]));
    case "?:":
      return ternary(node.args.map((part) => compileCel(part, names)));
    case "||":
    case "&&":
      return logical(
        node.op,
        node.args.map((part) => compileCel(part, names)),
      );
    case "!_": {
      const operand = compileCel(node.args, names);
      return (frame) => !truth(operand(frame), '"!"');
    }
    case "-_": {
      const operand = compileCel(node.args, names);
      return (frame) => negate(operand(frame));
    }
    case "call":
      return call(node, names);
    case "rcall":
      return comprehensions.includes(node.args[0]) ? comprehension(node, names) : methodCall(node, names);
    case ".?":
    case "[?]":
      return refuse("optional access is not supported; use has()", node);
    case "==":
    case "!=":
    case "in":
    case "<":
    case "<=":
    case ">":
    case ">=":
    case "+":
    case "-":
    case "*":
    case "/":
    case "%":
      return binary(node, names);
  }
}

/** The members of a path, read one after the other without failing on what is absent. */
export function compilePath(node: ASTNode, names: Names = []): PathCode {
  if (node.op === "id") return variable(node, names);
  if (node.op === ".") {
    const [base, name] = [compilePath(node.args[0], names), node.args[1]];
    return (frame) => member(base(frame), name);
  }
  if (node.op === "[]") {
    const [base, key] = [compilePath(node.args[0], names), compileCel(node.args[1], names)];
    return (frame) => {
      const [container, name] = [base(frame), key(frame)];
      if (typeof name === "string") chargeText(frame.budget, name.length);
      return member(container, name);
    };
  }
  return compileCel(node, names);
}

function member(base: Value | undefined, key: Value): Value | undefined {
  return base === undefined ? undefined : lookup(base, key);
}

function requirePath(node: ASTNode, names: Names): Code {
  const path = compilePath(node, names);
  const written = textWritten(node.input.slice(node.range.start, node.range.end));
  const absent = new Failure("absent", `${written} is not there`);
  return (frame) => {
    const value = path(frame);
    if (value === undefined) throw absent;
    return value;
  };
}

function variable(node: ASTNode & { op: "id" }, names: Names): PathCode {
  const written = nameWritten(node.args);
  const depth = names.lastIndexOf(written);
  if (depth !== -1) return (frame) => frame.variables[depth];
  const root = roots.find((name) => name === written);
  if (root !== undefined) return (frame) => frame.scope[root];
  const placeName = scopeNames.find((name) => name === written);
  if (placeName !== undefined) return placeVariable(placeName);
  return refuse(`"${written}" is unknown: expressions read input, ctx and steps`, node);
}

/** Where it has no value, reading it is a failure and not an absent value: has() would turn it into a silent no. */
function placeVariable(name: ScopeName): PathCode {
  const unknown = new Failure("wrong", `${name} is not known here`);
  return ({ scope }) => {
    const value = scope[name];
    if (value === undefined) throw unknown;
    return value;
  };
}

function literal(value: unknown, node: ASTNode): Code {
  if (
    value === null ||
    typeof value === "boolean" ||
    typeof value === "string" ||
    typeof value === "number"
  ) {
    return () => value;
  }
  if (typeof value !== "bigint") return refuse("bytes and unsigned numbers are not supported", node);
  if (BigInt.asIntN(64, value) !== value) return refuse("the number does not fit into 64 bits", node);
  return () => value;
}

function listLiteral(items: readonly Code[]): Code {
  return (frame) => items.map((item) => item(frame));
}

function mapLiteral(entries: readonly (readonly [Code, Code])[]): Code {
  return (frame) => {
    chargeNames(frame.budget, 2 + entries.length);
    // fromEntries defines own members, also for "__proto__".
    return Object.fromEntries(
      entries.map(([key, value]) => {
        const name = key(frame);
        if (typeof name === "string") return [name, value(frame)];
        throw new Failure("wrong", `the names of an object are texts, not ${kindOf(name)}`);
      }),
    );
  };
}

function ternary([condition = nothing, then = nothing, otherwise = nothing]: readonly Code[]): Code {
  return (frame) => (truth(condition(frame), '"? :"') ? then(frame) : otherwise(frame));
}

/** As in CEL, a side that settles the answer wins over an error on the other side. */
function logical(operator: "||" | "&&", [left = nothing, right = nothing]: readonly Code[]): Code {
  const settling = operator === "||";
  const where = `"${operator}"`;
  return (frame) => {
    const first = attempt(left, frame, where);
    if (first === settling) return settling;
    const second = attempt(right, frame, where);
    if (second === settling) return settling;
    if (first instanceof Failure) throw first;
    if (second instanceof Failure) throw second;
    return !settling;
  };
}

/** An error that may be swallowed costs as much as 50 steps: catching it takes about a microsecond. */
function attempt(code: Code, frame: Frame, where: string): boolean | Failure {
  try {
    return truth(code(frame), where);
  } catch (failure) {
    if (!(failure instanceof Failure) || failure.reason === "spent") throw failure;
    charge(frame.budget, 50);
    return failure;
  }
}

const nothing: Code = () => null;

function binary(node: ASTNode & { op: BinaryOperator }, names: Names): Code {
  const [left, right] = [compileCel(node.args[0], names), compileCel(node.args[1], names)];
  const operator = node.op;
  switch (operator) {
    case "==":
      return (frame) => isEqual(frame.budget, left(frame), right(frame));
    case "!=":
      return (frame) => !isEqual(frame.budget, left(frame), right(frame));
    case "in":
      return (frame) => isMember(frame.budget, left(frame), right(frame));
    case "<":
      return (frame) => compare(frame.budget, left(frame), right(frame)) < 0;
    case "<=":
      return (frame) => compare(frame.budget, left(frame), right(frame)) <= 0;
    case ">":
      return (frame) => compare(frame.budget, left(frame), right(frame)) > 0;
    case ">=":
      return (frame) => compare(frame.budget, left(frame), right(frame)) >= 0;
    case "+":
      return (frame) => add(frame.budget, left(frame), right(frame));
    case "-":
    case "*":
    case "/":
    case "%":
      return (frame) => arithmetic(operator, left(frame), right(frame));
  }
}

function call(node: ASTNode & { op: "call" }, names: Names): Code {
  const [name, parts] = node.args;
  if (name === "has") return has(node, names);
  const known = functions.get(name);
  if (known === undefined) {
    const all = ["has", ...functions.keys()].join(", ");
    return refuse(`there is no function "${name}"; there are ${all}`, node);
  }
  limitArguments(known, name, parts.length, node);
  const codes = parts.map((part) => compileCel(part, names));
  return (frame) => known.run(frame.budget, ...codes.map((code) => code(frame)));
}

/** False when any part of the path is absent, unlike strict CEL, which fails unless only the last one is. */
function has(node: ASTNode & { op: "call" }, names: Names): Code {
  const [operand, ...others] = node.args[1];
  if (operand === undefined || others.length > 0 || (operand.op !== "." && operand.op !== "[]")) {
    return refuse("has() takes a member, as has(input.amount)", node);
  }
  const path = compilePath(operand, names);
  return (frame) => path(frame) !== undefined;
}

function methodCall(node: ASTNode & { op: "rcall" }, names: Names): Code {
  const [name, receiver, parts] = node.args;
  if (name === "matches") {
    return refuse("matches() is not supported: a regular expression may take unbounded time", node);
  }
  const known = methods.get(name);
  if (known === undefined) {
    const all = [...comprehensions, ...methods.keys()].join(", ");
    return refuse(`there is no method "${name}"; there are ${all}`, node);
  }
  limitArguments(known, name, parts.length, node);
  const codes = [receiver, ...parts].map((part) => compileCel(part, names));
  return (frame) => known.run(frame.budget, ...codes.map((code) => code(frame)));
}

function limitArguments(
  { argumentsMin, argumentsMax }: CelFunction,
  name: string,
  count: number,
  node: ASTNode,
): void {
  if (count >= argumentsMin && count <= argumentsMax) return;
  const wanted = argumentsMin === argumentsMax ? `${argumentsMin}` : `${argumentsMin} or ${argumentsMax}`;
  refuse(`${name}() takes ${wanted} arguments, not ${count}`, node);
}

function comprehension(node: ASTNode & { op: "rcall" }, names: Names): Code {
  const [name, receiver, [declared, ...bodies]] = node.args;
  const bodiesMax = name === "map" ? 2 : 1;
  if (declared?.op !== "id" || bodies.length < 1 || bodies.length > bodiesMax) {
    return refuse(`${name}() takes a variable and an expression, as list.${name}(item, item.ready)`, node);
  }
  const declaredName = nameWritten(declared.args);
  if ((roots as readonly string[]).includes(declaredName) || declaredName === "loop") {
    return refuse(`the variable may not be called "${declaredName}"`, declared);
  }
  if (names.length >= comprehensionDepthMax) {
    return refuse(`${name}() may stand inside at most ${comprehensionDepthMax - 1} other`, node);
  }
  const depth = names.length;
  const weight = bodies.reduce((sum, body) => sum + nodeCount(body), 0);
  const range = compileCel(receiver, names);
  const [one = nothing, other] = bodies.map((body) => compileCel(body, [...names, declaredName]));
  const bind = (frame: Frame, item: Value) => {
    chargeElement(frame.budget);
    charge(frame.budget, weight);
    frame.variables[depth] = item;
  };
  const itemsOf = (frame: Frame) => iterable(range(frame), frame.budget, name);
  if (name === "map")
    return mapItems({ itemsOf, bind, ...(other ? { keep: one, give: other } : { give: one }) });
  if (name === "filter") return filterItems({ itemsOf, bind, keep: one });
  if (name === "exists_one") return existsOne({ itemsOf, bind, keep: one });
  return quantifier({ itemsOf, bind, keep: one }, name === "exists" ? "exists" : "all");
}

type Loop = {
  itemsOf(frame: Frame): readonly Value[];
  bind(frame: Frame, item: Value): void;
};

function iterable(value: Value, budget: Budget, name: string): readonly Value[] {
  if (Array.isArray(value)) return value;
  if (!isMap(value))
    throw new Failure("wrong", `${name}() goes over a list or an object, not over ${kindOf(value)}`);
  const keys = Object.keys(value);
  chargeNames(budget, keys.length);
  return keys;
}

function mapItems({ itemsOf, bind, keep, give }: Loop & { readonly keep?: Code; readonly give: Code }): Code {
  return (frame) => {
    const made: Value[] = [];
    for (const item of itemsOf(frame)) {
      bind(frame, item);
      if (keep === undefined || truth(keep(frame), "map()")) made.push(give(frame));
    }
    return made;
  };
}

function filterItems({ itemsOf, bind, keep }: Loop & { readonly keep: Code }): Code {
  return (frame) =>
    itemsOf(frame).filter((item) => {
      bind(frame, item);
      return truth(keep(frame), "filter()");
    });
}

function existsOne({ itemsOf, bind, keep }: Loop & { readonly keep: Code }): Code {
  return (frame) => {
    let count = 0;
    for (const item of itemsOf(frame)) {
      bind(frame, item);
      if (truth(keep(frame), "exists_one()")) count += 1;
    }
    return count === 1;
  };
}

/** As `||` and `&&`: an element that settles the answer wins over errors on others. */
function quantifier({ itemsOf, bind, keep }: Loop & { readonly keep: Code }, name: "all" | "exists"): Code {
  const settling = name === "exists";
  const where = `${name}()`;
  return (frame) => {
    let failure: Failure | undefined;
    for (const item of itemsOf(frame)) {
      bind(frame, item);
      const answer = attempt(keep, frame, where);
      if (answer === settling) return settling;
      if (answer instanceof Failure) failure ??= answer;
    }
    if (failure !== undefined) throw failure;
    return !settling;
  };
}
