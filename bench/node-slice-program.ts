// One slice of the Node benchmark, in the process of the Node that is measured: floors, starts, runs and BullMQ; prints one line of JSON.
//   node --import ./scripts/setup/typescript.mjs bench/node-slice-program.ts <quick|full>
import { rmSync } from "node:fs";
import { startHttpLoader } from "./http-load.ts";
import { nodeFields, nodeScales } from "./node-plan.ts";
import { benchFolder } from "./program.ts";
import { lookupIn } from "./report.ts";
import { floorMeasurements, openHttpFloors } from "./runs-floors.ts";
import { bullmqMeasurement } from "./runs-peer.ts";
import { startMeasurement, threeStepMeasurement } from "./runs-plan.ts";
import { openFreshTarget } from "./runs-target.ts";
import { type Measurement, measureInSlices } from "./slices.ts";

const { floors, runs, peer } = nodeScales[process.argv[2] === "full" ? "full" : "quick"];
const folder = benchFolder("node");
const httpFloors = await openHttpFloors(folder);
const loader = startHttpLoader();
const round = {
  httpFloors,
  loader,
  open: (store: Parameters<typeof openFreshTarget>[0]) => openFreshTarget(store, folder),
};
const measurements: ReadonlyArray<Measurement<typeof round>> = [
  ...floorMeasurements(floors),
  startMeasurement("embedded", runs),
  startMeasurement("redis", runs),
  threeStepMeasurement("embedded", runs, "inprocess"),
  threeStepMeasurement("embedded", runs, "http"),
  bullmqMeasurement(peer),
];
const progress = { step: () => {}, end: () => {} };
const measured = await measureInSlices({
  measurements,
  open: async () => round,
  close: async () => {},
  progress,
});
const { value } = lookupIn(measured);
await loader.stop();
await httpFloors.close();
rmSync(folder, { recursive: true, force: true });
console.log(JSON.stringify(Object.fromEntries(Object.keys(nodeFields).map((name) => [name, value(name)]))));
process.exit(0);
