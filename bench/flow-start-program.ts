// What a start without gates costs in a tree of this repository, ours or an earlier commit's: reads a number of starts per line, and
// prints the CPU time of one in microseconds, of all threads.
//   node --expose-gc --import ./scripts/setup/typescript.mjs bench/flow-start-program.ts <tree> <folder>
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [tree, folder] = process.argv.slice(2) as [string, string];
const load = <Module>(file: string) => import(pathToFileURL(join(tree, file)).href) as Promise<Module>;
const { createControlPlane } = await load<typeof import("../src/control-plane.ts")>("src/control-plane.ts");
const { fingerprintOf } =
  await load<typeof import("../src/domain/fingerprint.ts")>("src/domain/fingerprint.ts");
const { createSystemLog } = await load<typeof import("../src/adapters/system/system-log.ts")>(
  "src/adapters/system/system-log.ts",
);

const caller = { tenant: "starts" as never, actor: "bench" };
const definition = { id: "one-step", steps: { only: { topic: "nobody.works.here" } } };
const input = { order: "order-4711" };
const fingerprint = fingerprintOf({ method: "POST", path: "/", query: {}, body: input });
const inFlight = 100;
const overrides = { "store.kind": "sqlite", "quotas.activeRuns": 5_000_000 } as const;
const gc = (globalThis as { readonly gc?: () => void }).gc ?? (() => {});

const plane = await createControlPlane({
  overrides: { ...overrides, "store.dataDirectory": mkdtempSync(join(folder, "starts-")) },
  ports: { log: createSystemLog("error") },
  engine: "stopped",
});
const saved = await plane.api.saveWorkflow({ caller, definition });
if (saved.kind !== "saved") throw new Error(`the workflow was not saved: ${saved.kind}`);

let started = 0;

/** Both trees' files grow alike. */
async function slice(starts: number): Promise<number> {
  const end = started + starts;
  const lane = async () => {
    while (started < end) {
      started += 1;
      const key = { text: `order-${started}`, fingerprint };
      const answer = await plane.api.startWorkflow({ caller, workflow: definition.id, input, key });
      if (answer.kind !== "admitted") throw new Error(`a start was answered ${answer.kind}`);
    }
  };
  gc();
  const before = process.cpuUsage();
  await Promise.all(Array.from({ length: inFlight }, lane));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / starts;
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify({ us: await slice(Number(line)) }));
}
