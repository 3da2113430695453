// Writes docs/guide/capacity.md from its input; told on which Node it was measured, takes the input from the benchmarks first.
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { type CapacityInput, inputNames } from "./capacity-model.ts";
import { capacityPage } from "./capacity-page.ts";

const folder = join(dirname(import.meta.dirname), "docs/guide");
const inputFile = join(folder, "capacity-input.json");
const usage = "usage: npm run capacity -- [--node VERSION [--cpu FILE] [--bytes FILE]]";
/** Where the benchmarks leave their numbers. */
const resultOf = (name: string) => join(dirname(import.meta.dirname), "bench/results", `${name}.json`);

function takeInput(files: readonly string[], node: string): CapacityInput {
  type Metric = { readonly name: string; readonly value: number };
  const measured = new Map(
    files
      .flatMap((file) => JSON.parse(readFileSync(file, "utf8")) as Metric[])
      .map(({ name, value }) => [name, value]),
  );
  const numbers = inputNames.map((name) => {
    const value = measured.get(name);
    if (value === undefined) throw new Error(`${name} is in none of ${files.join(", ")}`);
    return [name, Number(value.toPrecision(4))] as const;
  });
  return { node, numbers: Object.fromEntries(numbers) as CapacityInput["numbers"] };
}

const { values } = parseArgs({
  options: { cpu: { type: "string" }, bytes: { type: "string" }, node: { type: "string" } },
});
const { node, cpu = resultOf("cpu"), bytes = resultOf("bytes") } = values;
if (node !== undefined) {
  writeFileSync(inputFile, `${JSON.stringify(takeInput([cpu, bytes], node), undefined, 2)}\n`);
} else if (Object.keys(values).length > 0) {
  console.error(usage);
  process.exit(2);
}
const input = JSON.parse(readFileSync(inputFile, "utf8")) as CapacityInput;
writeFileSync(join(folder, "capacity.md"), capacityPage(input));
console.log("wrote docs/guide/capacity.md");
