// The few expressions that drawn workflows use, evaluated in the plainest way: paths, literals, one comparison, whole templates.
import type { JsonValue } from "../../src/domain/fingerprint.ts";

/** What is not there is undefined. */
export type SmallScope = { readonly [name: string]: JsonValue | undefined };

type Evaluated = { readonly value: JsonValue } | "nothing" | "failed";

const literalPattern = /^(true|false|null|-?\d+|"[^"]*")$/;
const comparisonPattern = /^(\S+) (==|!=|<=|>=|<|>) (\S+)$/;

/** A bare expression: all that it reads must be there. */
export function evaluateText(text: string, scope: SmallScope): Evaluated {
  const [, left, operator, right] = comparisonPattern.exec(text) ?? [];
  if (left === undefined || operator === undefined || right === undefined) {
    const read = operand(text, scope);
    return read === "nothing" ? "failed" : read;
  }
  const [one, other] = [operand(left, scope), operand(right, scope)];
  if (typeof one === "string" || typeof other === "string") return "failed";
  return compare(one.value, operator, other.value);
}

export function evaluateCondition(text: string, scope: SmallScope): boolean | "failed" {
  const evaluated = evaluateText(text, scope);
  return typeof evaluated === "object" && typeof evaluated.value === "boolean" ? evaluated.value : "failed";
}

/** JSON whose texts may be one template each; a member that gives nothing is left out. */
export function evaluateTemplates(value: JsonValue, scope: SmallScope): Evaluated {
  if (typeof value === "string") {
    const [, text] = /^\$\{(.*)\}$/.exec(value) ?? [];
    if (text === undefined) return { value };
    const given = operand(text, scope);
    return typeof given === "object" && given.value === null ? "nothing" : given;
  }
  if (value === null || typeof value !== "object") return { value };
  if (Array.isArray(value)) {
    const items = value.map((item) => evaluateTemplates(item, scope));
    if (items.includes("failed")) return "failed";
    return { value: items.map((item) => (typeof item === "object" ? item.value : null)) };
  }
  const members: Record<string, JsonValue> = {};
  for (const [name, member] of Object.entries(value)) {
    const given = evaluateTemplates(member as JsonValue, scope);
    if (given === "failed") return "failed";
    if (given !== "nothing") members[name] = given.value;
  }
  return { value: members };
}

function operand(text: string, scope: SmallScope): Evaluated {
  if (literalPattern.test(text)) return { value: JSON.parse(text) as JsonValue };
  let place: JsonValue | undefined = scope as Record<string, JsonValue>;
  for (const name of text.split(".")) {
    if (place === undefined || place === null) return "nothing";
    if (typeof place !== "object" || Array.isArray(place)) return "failed";
    place = Object.hasOwn(place, name) ? (place as Record<string, JsonValue>)[name] : undefined;
  }
  return place === undefined ? "nothing" : { value: place };
}

function compare(left: JsonValue, operator: string, right: JsonValue): Evaluated {
  if (operator === "==") return { value: left === right };
  if (operator === "!=") return { value: left !== right };
  if (typeof left !== "number" || typeof right !== "number") return "failed";
  switch (operator) {
    case "<":
      return { value: left < right };
    case "<=":
      return { value: left <= right };
    case ">":
      return { value: left > right };
    default:
      return { value: left >= right };
  }
}
