// npm run scaled -- [--full] [--operation NAME] [--kind TEXT]: every input that grows, and a table of what it cost.
import { parseArgs } from "node:util";
import { fuzzOperations } from "../fuzz/operations.ts";
import { openMeasuredGateway } from "./gateway.ts";
import { inputsOf } from "./inputs.ts";
import { judge, type Row } from "./judge.ts";
import { problemsOf, tableOf, writeTable } from "./report.ts";
import { storedInputs } from "./stored.ts";

const { values } = parseArgs({
  options: { full: { type: "boolean" }, operation: { type: "string" }, kind: { type: "string" } },
});
const gateway = await openMeasuredGateway();
const extent = values.full === true ? "full" : "quick";
const inputs = [
  ...storedInputs(gateway),
  ...fuzzOperations.flatMap((operation) => inputsOf(gateway.client, operation, extent)),
].filter(
  ({ operation, kind }) =>
    (values.operation === undefined || operation === values.operation) &&
    (values.kind === undefined || kind.includes(values.kind)),
);
const rows: Row[] = [];
const seen = new Set<string>();
for (const input of inputs) {
  const row = await judge(gateway, input, seen.has(input.kind) && extent === "quick" ? "largest" : "all");
  seen.add(input.kind);
  rows.push(row);
  for (const problem of problemsOf([row])) console.log(problem);
}
await gateway.close();
const problems = problemsOf(rows);
const path = writeTable("all", tableOf(rows));
console.log(
  `\n${tableOf(rows)}\n\n${rows.length} inputs, ${problems.length} with problems; the table is in ${path}`,
);
process.exitCode = problems.length === 0 ? 0 : 1;
