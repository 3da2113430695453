// The operators and functions of the expression language on values, each charged for the size of what it reads.
import {
  type Budget,
  charge,
  chargeNames,
  chargeSearch,
  chargeText,
  Failure,
  limitItems,
  limitText,
} from "./work-count.ts";

/** JSON, plus whole numbers written in the expression: CEL's `int` is a bigint, JSON numbers are doubles. */
export type Value =
  | null
  | boolean
  | bigint
  | number
  | string
  | readonly Value[]
  | { readonly [name: string]: Value };

export type ValueMap = { readonly [name: string]: Value };

export type CelFunction = {
  readonly argumentsMin: number;
  readonly argumentsMax: number;
  run(budget: Budget, ...values: Value[]): Value;
};

/** Called as `size(x)`. */
export const functions: ReadonlyMap<string, CelFunction> = new Map([
  ["size", { argumentsMin: 1, argumentsMax: 1, run: size }],
  ["length", { argumentsMin: 1, argumentsMax: 1, run: size }],
  ["first", { argumentsMin: 1, argumentsMax: 1, run: first }],
  ["string", { argumentsMin: 1, argumentsMax: 1, run: toText }],
  ["int", { argumentsMin: 1, argumentsMax: 1, run: toInt }],
  ["double", { argumentsMin: 1, argumentsMax: 1, run: toDouble }],
  ["dyn", { argumentsMin: 1, argumentsMax: 1, run: (_budget: Budget, value: Value) => value }],
]);

/** Called as `text.contains(x)`; the receiver is the first value. `matches` is missing on purpose: no regular expressions. */
export const methods: ReadonlyMap<string, CelFunction> = new Map([
  ["size", { argumentsMin: 0, argumentsMax: 0, run: size }],
  ["contains", { argumentsMin: 1, argumentsMax: 1, run: contains }],
  [
    "startsWith",
    { argumentsMin: 1, argumentsMax: 1, run: textTest("startsWith", (a, b) => a.startsWith(b)) },
  ],
  ["endsWith", { argumentsMin: 1, argumentsMax: 1, run: textTest("endsWith", (a, b) => a.endsWith(b)) }],
  ["lowerAscii", { argumentsMin: 0, argumentsMax: 0, run: lowerAscii }],
  ["upperAscii", { argumentsMin: 0, argumentsMax: 0, run: upperAscii }],
  ["trim", { argumentsMin: 0, argumentsMax: 0, run: trim }],
  ["split", { argumentsMin: 1, argumentsMax: 1, run: split }],
  ["join", { argumentsMin: 0, argumentsMax: 1, run: join }],
]);

export function kindOf(value: Value): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "boolean") return "true or false";
  if (typeof value === "string") return "a text";
  return isNumber(value) ? "a number" : "an object";
}

export function isMap(value: Value): value is ValueMap {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A member by name or place; undefined when it is not there. Own keys only: `constructor` is absent like any other. */
export function lookup(base: Value, key: Value): Value | undefined {
  if (base === null) return undefined;
  if (Array.isArray(base)) {
    const index = typeof key === "bigint" ? Number(key) : key;
    if (typeof index !== "number" || !Number.isInteger(index)) {
      throw new Failure("wrong", `a list is read by a whole number, not by ${kindOf(key)}`);
    }
    return base[index];
  }
  if (typeof base === "object") {
    if (typeof key !== "string")
      throw new Failure("wrong", `an object is read by a name, not by ${kindOf(key)}`);
    return Object.hasOwn(base, key) ? (base as ValueMap)[key] : undefined;
  }
  throw new Failure("wrong", `${kindOf(base)} has no members to read`);
}

export function isEqual(budget: Budget, left: Value, right: Value): boolean {
  charge(budget, 1);
  // Texts of one length are read as far as they are alike.
  if (typeof left === "string" && typeof right === "string" && left.length === right.length)
    chargeText(budget, left.length);
  if (left === right) return true;
  if (typeof left === "bigint" && typeof right === "number") return isSameNumber(left, right);
  if (typeof left === "number" && typeof right === "bigint") return isSameNumber(right, left);
  if (left === null || right === null || typeof left !== "object" || typeof right !== "object") return false;
  if (Array.isArray(left) || Array.isArray(right)) {
    if (!Array.isArray(left) || !Array.isArray(right) || left.length !== right.length) return false;
    return left.every((item, index) => isEqual(budget, item, right[index]));
  }
  const [one, other] = [left as ValueMap, right as ValueMap];
  const names = Object.keys(one);
  chargeNames(budget, names.length);
  if (names.length !== Object.keys(other).length) return false;
  return names.every(
    (name) => Object.hasOwn(other, name) && isEqual(budget, one[name] ?? null, other[name] ?? null),
  );
}

function isSameNumber(int: bigint, double: number): boolean {
  return Number.isInteger(double) && BigInt(double) === int;
}

export function isMember(budget: Budget, value: Value, container: Value): boolean {
  if (Array.isArray(container)) return container.some((item) => isEqual(budget, value, item));
  if (isMap(container)) {
    if (typeof value !== "string") return false;
    chargeText(budget, value.length);
    return Object.hasOwn(container, value);
  }
  throw new Failure("wrong", `"in" looks into a list or an object, not into ${kindOf(container)}`);
}

/** Negative, zero or positive; NaN when a number is none. */
export function compare(budget: Budget, left: Value, right: Value): number {
  if (isNumber(left) && isNumber(right)) {
    if (left < right) return -1;
    if (left > right) return 1;
    return Number.isNaN(left) || Number.isNaN(right) ? Number.NaN : 0;
  }
  if (typeof left === "string" && typeof right === "string") {
    chargeText(budget, Math.min(left.length, right.length));
    return left < right ? -1 : Number(left > right);
  }
  if (typeof left === "boolean" && typeof right === "boolean") return Number(left) - Number(right);
  throw new Failure("wrong", `${kindOf(left)} cannot be compared with ${kindOf(right)}`);
}

function isNumber(value: Value): value is number | bigint {
  return typeof value === "number" || typeof value === "bigint";
}

export function add(budget: Budget, left: Value, right: Value): Value {
  if (typeof left === "string" && typeof right === "string") {
    limitText(left.length + right.length);
    chargeText(budget, left.length + right.length);
    return left + right;
  }
  if (Array.isArray(left) && Array.isArray(right)) {
    limitItems(left.length + right.length);
    charge(budget, left.length + right.length);
    return [...left, ...right];
  }
  return arithmetic("+", left, right);
}

type ArithmeticOperator = "+" | "-" | "*" | "/" | "%";

/** Two whole numbers of the expression stay whole (7 / 2 is 3, as in CEL); with a JSON number the result is a double. */
export function arithmetic(operator: ArithmeticOperator, left: Value, right: Value): Value {
  if (!isNumber(left) || !isNumber(right)) {
    throw new Failure("wrong", `"${operator}" does not go with ${kindOf(left)} and ${kindOf(right)}`);
  }
  if ((operator === "/" || operator === "%") && Number(right) === 0)
    throw new Failure("wrong", "division by zero");
  if (typeof left === "bigint" && typeof right === "bigint") return whole(intResult(operator, left, right));
  return doubleResult(operator, Number(left), Number(right));
}

function intResult(operator: ArithmeticOperator, left: bigint, right: bigint): bigint {
  switch (operator) {
    case "+":
      return left + right;
    case "-":
      return left - right;
    case "*":
      return left * right;
    case "/":
      return left / right;
    case "%":
      return left % right;
  }
}

function doubleResult(operator: ArithmeticOperator, left: number, right: number): number {
  switch (operator) {
    case "+":
      return left + right;
    case "-":
      return left - right;
    case "*":
      return left * right;
    case "/":
      return left / right;
    case "%":
      return left % right;
  }
}

/** CEL's int has 64 bits; leaving them is an error, so that no multiplication grows without bound. */
function whole(value: bigint): bigint {
  if (BigInt.asIntN(64, value) !== value)
    throw new Failure("wrong", "a whole number leaves the 64 bit range");
  return value;
}

export function negate(value: Value): Value {
  if (typeof value === "bigint") return whole(-value);
  if (typeof value === "number") return -value;
  throw new Failure("wrong", `"-" does not go with ${kindOf(value)}`);
}

export function truth(value: Value, where: string): boolean {
  if (typeof value === "boolean") return value;
  throw new Failure("wrong", `${where} needs true or false, not ${kindOf(value)}`);
}

/** Texts are counted in characters, not in UTF-16 units, as in CEL. */
function size(budget: Budget, value: Value = null): Value {
  if (Array.isArray(value)) return BigInt(value.length);
  if (typeof value === "string") {
    charge(budget, 1 + (value.length >> 1));
    let count = 0;
    for (const _character of value) count += 1;
    return BigInt(count);
  }
  if (isMap(value)) {
    const count = Object.keys(value).length;
    chargeNames(budget, count);
    return BigInt(count);
  }
  throw new Failure("wrong", `${kindOf(value)} has no size`);
}

/** Null for an empty list, so that a template around it drops its key. */
function first(_budget: Budget, value: Value = null): Value {
  if (!Array.isArray(value)) throw new Failure("wrong", `first() needs a list, not ${kindOf(value)}`);
  return value[0] ?? null;
}

function toText(budget: Budget, value: Value = null): Value {
  if (value === null || typeof value === "object") {
    throw new Failure("wrong", `string() cannot turn ${kindOf(value)} into a text`);
  }
  // Writing a fraction takes up to 800 ns.
  charge(budget, typeof value === "number" && !Number.isSafeInteger(value) ? 10 : 1);
  return String(value);
}

function toInt(budget: Budget, value: Value = null): Value {
  charge(budget, 2);
  if (typeof value === "bigint") return value;
  if (typeof value === "number" && Number.isFinite(value)) return whole(BigInt(Math.trunc(value)));
  if (typeof value === "string" && /^-?\d{1,19}$/.test(value)) return whole(BigInt(value));
  throw new Failure("wrong", `int() cannot read ${kindOf(value)} as a whole number`);
}

function toDouble(budget: Budget, value: Value = null): Value {
  charge(budget, 4);
  if (isNumber(value)) return Number(value);
  if (typeof value === "string" && value.length <= 64 && /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(value)) {
    return Number(value);
  }
  throw new Failure("wrong", `double() cannot read ${kindOf(value)} as a number`);
}

function contains(budget: Budget, value: Value = null, sought: Value = null): Value {
  const [text, part] = [textOf(value, "contains"), textOf(sought, "contains")];
  chargeSearch(budget, text, part);
  return text.includes(part);
}

/** Only what is sought is read, unlike in a search. */
function textTest(name: string, test: (text: string, sought: string) => boolean): CelFunction["run"] {
  return (budget, value = null, sought = null) => {
    const [text, part] = [textOf(value, name), textOf(sought, name)];
    chargeText(budget, part.length);
    return test(text, part);
  };
}

function textOf(value: Value, name: string): string {
  if (typeof value === "string") return value;
  throw new Failure("wrong", `${name}() needs a text, not ${kindOf(value)}`);
}

function lowerAscii(budget: Budget, value: Value = null): Value {
  const text = textOf(value, "lowerAscii");
  charge(budget, 1 + text.length);
  return text.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

function upperAscii(budget: Budget, value: Value = null): Value {
  const text = textOf(value, "upperAscii");
  charge(budget, 1 + text.length);
  return text.replaceAll(/[a-z]+/g, (letters) => letters.toUpperCase());
}

function trim(budget: Budget, value: Value = null): Value {
  const text = textOf(value, "trim");
  chargeText(budget, text.length);
  return text.trim();
}

/** An empty separator splits between characters, never inside one: half a surrogate pair would not be a JSON text. */
function split(budget: Budget, value: Value = null, by: Value = null): Value {
  const [text, separator] = [textOf(value, "split"), textOf(by, "split")];
  chargeSearch(budget, text, separator);
  if (separator === "") {
    limitItems(text.length);
    charge(budget, text.length);
    return [...text];
  }
  const parts = text.split(separator);
  limitItems(parts.length);
  charge(budget, parts.length);
  return parts;
}

function join(budget: Budget, value: Value = null, by: Value = ""): Value {
  if (!Array.isArray(value)) throw new Failure("wrong", `join() needs a list, not ${kindOf(value)}`);
  const separator = textOf(by, "join");
  charge(budget, value.length);
  const texts = value.map((item) => textOf(item, "join"));
  const characters = texts.reduce((sum, text) => sum + text.length + separator.length, 0);
  limitText(characters);
  chargeText(budget, characters);
  return texts.join(separator);
}
