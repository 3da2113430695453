// What `interlock/testing` offers: the conformance suites for stores and buses, and virtual time with faults for flows.
export { busCases } from "./conformance/bus-cases.ts";
export { BusHarness } from "./conformance/bus-harness.ts";
export { type ConformanceCase, type ConformanceSuite, Harness } from "./conformance/harness.ts";
export { storeConformance } from "./conformance/store-conformance.ts";
export { createKernel, type Kernel, type KernelOptions, type RunEnd, type RunLimits } from "./kernel.ts";
export { createSeededRandom, type SeededRandom } from "./seeded-random.ts";
export type { ProcessOptions, SimulatedProcess } from "./simulated-process.ts";
export { createSimulatedStore } from "./simulated-store.ts";
export { noStoreFaults, type StoreFaults } from "./store-link.ts";
