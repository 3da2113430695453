// The answers to a start in docs/guide/embedding.md are those of the code, with the status of their error.
import { expect, test } from "vitest";
import { admissionOutcomes } from "../../src/domain/admission-outcomes.ts";
import { errors } from "../../src/errors.ts";
import { textOf } from "../support/packaging.ts";

const rows = [...textOf("docs/guide/embedding.md").matchAll(/^\| `(\w+)` \| (\d{3}) \|/gm)].map(
  ([, kind = "", status]) => ({ kind, status: Number(status) }),
);

test("every answer to a start is listed, and no other", () => {
  const kinds = [
    ...Object.keys(admissionOutcomes),
    "workflow_not_found",
    "start_expression_failed",
    "input_invalid",
  ];
  expect(rows.map(({ kind }) => kind).sort()).toEqual(kinds.sort());
});

test.each(rows)("$kind has the status $status", ({ kind, status }) => {
  const failures: Readonly<Record<string, { readonly status: number }>> = errors;
  expect(failures[kind]?.status ?? (kind === "queued" ? 202 : 200)).toBe(status);
});
