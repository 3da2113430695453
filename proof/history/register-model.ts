// A register that is read, written, and compared and set.
import type { Model } from "./linearize.ts";

type RegisterValue = number | undefined;

export type RegisterOperation =
  | { readonly kind: "read" }
  | { readonly kind: "write"; readonly value: number }
  | { readonly kind: "compare_and_set"; readonly expected: number; readonly value: number };

export type RegisterAnswer =
  | { readonly kind: "value"; readonly value: RegisterValue }
  | { readonly kind: "written" }
  /** The register held something else. */
  | { readonly kind: "different" };

export const registerModel: Model<RegisterValue, RegisterOperation, RegisterAnswer> = {
  initial: undefined,
  step(value, operation, answer) {
    switch (operation.kind) {
      case "read":
        return answer === undefined || (answer.kind === "value" && answer.value === value) ? [value] : [];
      case "write":
        return [operation.value];
      case "compare_and_set": {
        const isEqual = value === operation.expected;
        if (answer !== undefined && isEqual !== (answer.kind === "written")) return [];
        return [isEqual ? operation.value : value];
      }
    }
  },
  hash: String,
  isReading: (operation, answer) => operation.kind === "read" || answer.kind === "different",
  effectOf(operation) {
    switch (operation.kind) {
      case "read":
        return "read";
      case "write":
        return `write ${operation.value}`;
      case "compare_and_set":
        return `${operation.expected} to ${operation.value}`;
    }
  },
};
