// The conformance suite of the store port: every adapter passes every case, against the real server.
import { admissionCases } from "./admission-cases.ts";
import type { ConformanceCase } from "./harness.ts";
import { lockCases } from "./lock-cases.ts";
import { lockStrategyCases } from "./lock-strategy-cases.ts";
import { runCases } from "./run-cases.ts";

export const storeConformance: readonly ConformanceCase[] = [
  ...lockCases,
  ...admissionCases,
  ...lockStrategyCases,
  ...runCases,
];
