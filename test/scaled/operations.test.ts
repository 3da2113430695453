// Every operation is sent inputs that grow, on a server of its own: none costs more than its size says, blocks the event loop, or is
// repeated by a refusal.
import { expect, test } from "vitest";
import { operations } from "../../src/api/routes.ts";
import { fuzzOperations } from "../fuzz/operations.ts";
import { inputsOf, kindOf } from "./inputs.ts";
import { openStage } from "./stage.ts";

const { gateway, problemsWith } = openStage("operations");

/** What takes definitions is looked at beside this, in definitions.test.ts. What removes things comes last: others ask for them. */
const ordered = [
  ...fuzzOperations.filter(({ method }) => method !== "DELETE"),
  ...fuzzOperations.filter(({ method }) => method === "DELETE"),
].filter(({ mediaTypes }) => mediaTypes.length < 2);

test.each(ordered)(
  "$name grows with its input, and never blocks the others",
  async (operation) => {
    expect(await problemsWith(inputsOf(gateway().client, operation, "quick"))).toEqual([]);
  },
  600_000,
);

test("every operation of the table is asked, and every field of it has inputs that grow", () => {
  expect(fuzzOperations.map(({ name }) => name).sort()).toEqual([...operations].sort());
  for (const operation of fuzzOperations) {
    const places = new Set(inputsOf(gateway().client, operation, "quick").map(({ place }) => place));
    for (const { in: where, name } of operation.parameters) expect(places).toContain(`${where} ${name}`);
    if (operation.body !== undefined) expect(places).toContain("body");
  }
});

test("a field of a kind that nobody thought of is not passed over", () => {
  expect(() => kindOf({ type: "bytes" })).toThrow("nobody said which inputs of this kind grow");
});
