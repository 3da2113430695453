// Bounds on JSON that was read: how much an object and a text may hold, and the one name that no object may have.
import type { JsonValue } from "../domain/fingerprint.ts";

const membersMax = 1_000;
const charactersMax = 1_048_576;

/** What is beyond the bounds, in words; undefined when nothing is. The reader has bounded the depth. */
export function beyondLimits(value: JsonValue): string | undefined {
  if (typeof value === "string") return beyondText(value);
  if (typeof value !== "object" || value === null) return undefined;
  if (Array.isArray(value)) return firstBeyond(value);
  const names = Object.keys(value);
  if (names.length > membersMax) return `an object holds ${names.length} names, ${membersMax} are allowed`;
  // Kept as data it would be harmless here, but any later merge of objects would turn it into a prototype.
  if (names.includes("__proto__")) return "the name __proto__ is not allowed";
  return firstBeyond(names) ?? firstBeyond(Object.values(value));
}

function firstBeyond(values: readonly JsonValue[]): string | undefined {
  for (const value of values) {
    const found = beyondLimits(value);
    if (found !== undefined) return found;
  }
  return undefined;
}

function beyondText(text: string): string | undefined {
  return text.length > charactersMax
    ? `a text holds ${text.length} characters, ${charactersMax} are allowed`
    : undefined;
}
