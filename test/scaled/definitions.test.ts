// Definitions, and what runs by them, in forms that grow: judging, starting, playing through and committing cost what their size says,
// and never block the event loop.
import { afterAll, beforeAll, expect, test } from "vitest";
import { fuzzOperations } from "../fuzz/operations.ts";
import { type MeasuredGateway, openMeasuredGateway } from "./gateway.ts";
import { inputsOf, type ScaledInput } from "./inputs.ts";
import { judge, type Row } from "./judge.ts";
import { problemsOf, tableOf, writeTable } from "./report.ts";
import { storedInputs } from "./stored.ts";

let gateway: MeasuredGateway;
const rows: Row[] = [];
const seen = new Set<string>();

beforeAll(async () => {
  gateway = await openMeasuredGateway();
}, 60_000);

afterAll(async () => {
  await gateway.close();
  const table = tableOf(rows);
  console.log(`${table}\n\nThe table is in ${writeTable("definitions", table)}`);
});

async function problemsWith(inputs: readonly ScaledInput[]): Promise<readonly string[]> {
  const own: Row[] = [];
  for (const input of inputs) {
    own.push(await judge(gateway, input, seen.has(input.kind) ? "largest" : "all"));
    seen.add(input.kind);
  }
  rows.push(...own);
  return problemsOf(own);
}

test.each(fuzzOperations.filter(({ mediaTypes }) => mediaTypes.length > 1))(
  "$name grows with the definition, and never blocks the others",
  async (operation) => {
    expect(await problemsWith(inputsOf(gateway.client, operation, "quick"))).toEqual([]);
  },
  600_000,
);

test("what a stored definition makes of an input, a loop, a list and a result grows with them", async () => {
  expect(await problemsWith(storedInputs(gateway))).toEqual([]);
}, 600_000);
