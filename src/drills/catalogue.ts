// Every drill by its name. Each is loaded when it is run: a command that runs none should not pay for them.
import type { Drill, DrillName } from "./drill.ts";

export const catalogue: Readonly<Record<DrillName, () => Promise<Drill>>> = {
  "admission-burst": async () => (await import("./admission-burst/drill.ts")).admissionBurst,
  "key-survives-429": async () => (await import("./key-survives-429.ts")).keySurvives429,
  "lock-busy-waves": async () => (await import("./lock-busy-waves/drill.ts")).lockBusyWaves,
  "stale-owner": async () => (await import("./stale-owner/drill.ts")).staleOwner,
  "renewal-outage": async () => (await import("./renewal-outage/drill.ts")).renewalOutage,
  "staged-failure": async () => (await import("./staged-failure/drill.ts")).stagedFailure,
  "worker-loss": async () => (await import("./worker-loss/drill.ts")).workerLoss,
  "bus-loss": async () => (await import("./bus-loss.ts")).busLoss,
  "store-restart": async () => (await import("./store-restart.ts")).storeRestart,
  failover: async () => (await import("./failover/drill.ts")).failover,
};
