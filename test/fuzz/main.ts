// npm run fuzz -- --minutes N --seed S: the fuzzer for as long as it is wanted, with a summary of what was asked and answered.
import { parseArgs } from "node:util";
import { findingText, fuzz, type Summary, summaryText } from "./fuzz.ts";
import { openFuzzWorld } from "./world.ts";

const usage = "usage: npm run fuzz -- [--minutes N] [--seed S] [--requests N]";

function optionsOf(words: readonly string[]) {
  const { values } = parseArgs({
    args: [...words],
    options: { minutes: { type: "string" }, seed: { type: "string" }, requests: { type: "string" } },
  });
  const whole = (name: keyof typeof values, otherwise: number) => {
    const value = values[name] === undefined ? otherwise : Number(values[name]);
    if (!(value > 0)) throw new Error(`--${name} needs a number above 0\n${usage}`);
    return value;
  };
  return {
    minutes: whole("minutes", 1),
    seed: whole("seed", 1),
    requests: whole("requests", Number.MAX_SAFE_INTEGER),
  };
}

const { minutes, seed, requests } = optionsOf(process.argv.slice(2));
const world = await openFuzzWorld();
const endMs = performance.now() + minutes * 60_000;
let toldMs = 0;
const tell = ({ requests: done, byClass, findings }: Summary) => {
  if (performance.now() - toldMs < 5_000) return;
  toldMs = performance.now();
  const classes = [...byClass].map(([name, count]) => `${name} ${count}`).join(", ");
  console.log(`${done} requests, ${findings.length} findings: ${classes}`);
};
const summary = await fuzz(world, {
  seed,
  goesOn: ({ requests: done }) => done < requests && performance.now() < endMs,
  onProgress: tell,
});
await world.close();
console.log(`\nseed ${seed}\n${summaryText(summary)}`);
for (const finding of summary.findings) console.log(`\n${findingText(finding)}`);
console.log(`\n${summary.findings.length} findings`);
process.exitCode = summary.findings.length === 0 ? 0 : 1;
