// Turns what an expression gave back into JSON, and refuses what would not fit or would not be the same after a round trip.
import type { JsonValue } from "../fingerprint.ts";
import { Failure, resultBytesMax } from "./cel-budget.ts";
import type { Value, ValueMap } from "./cel-operations.ts";

/** How much of the result may still be made; shared by all templates of one value. */
export type Output = { bytesLeft: number; readonly bytesMax: number };

export function newOutput(bytesMax = resultBytesMax): Output {
  return { bytesLeft: bytesMax, bytesMax };
}

/** The items of a list are written down in parts, so they may be as large as a whole request: 200 bytes each for 10,000. */
export const itemsBytesMax = 2_097_152;

/** As deep as JSON is read elsewhere: what is stored must be readable again. */
const depthMax = 32;

export function toJson(output: Output, value: Value, depth: number): JsonValue {
  if (depth > depthMax) throw new Failure("wrong", `the result is nested deeper than ${depthMax}`);
  if (typeof value === "string") {
    takeText(output, value);
    return value;
  }
  if (typeof value === "bigint" || typeof value === "number") return numberOf(output, value);
  if (value === null || typeof value === "boolean") {
    takeBytes(output, 5);
    return value;
  }
  takeBytes(output, 2);
  if (Array.isArray(value)) {
    return value.map((item) => {
      takeBytes(output, 1);
      return toJson(output, item, depth + 1);
    });
  }
  const entries = Object.entries(value as ValueMap).map(([name, member]) => {
    takeName(output, name);
    return [name, toJson(output, member, depth + 1)] as const;
  });
  return Object.fromEntries(entries);
}

function numberOf(output: Output, value: bigint | number): number {
  takeBytes(output, 8);
  const number = Number(value);
  if (typeof value === "bigint" && !Number.isSafeInteger(number)) {
    throw new Failure("wrong", `the number ${value} cannot be held exactly in JSON; use string()`);
  }
  if (!Number.isFinite(number)) throw new Failure("wrong", "the result is not a finite number");
  return number === 0 ? 0 : number;
}

export function takeName(output: Output, name: string): void {
  takeText(output, name);
  takeBytes(output, 2);
}

export function takeBytes(output: Output, bytes: number): void {
  output.bytesLeft -= bytes;
  if (output.bytesLeft < 0) {
    throw new Failure("spent", `the result is larger than ${output.bytesMax} bytes`);
  }
}

function takeText(output: Output, text: string): void {
  // The length first: a text far too long must not be encoded just to find that out.
  if (text.length > output.bytesLeft) takeBytes(output, text.length);
  takeBytes(output, Buffer.byteLength(JSON.stringify(text)));
}
