// The table of all planted bugs; docs/planted-bugs.md is made from it.

import { plantedAdmissionBugs } from "./patches/admission-bugs.ts";
import { plantedAuditBugs } from "./patches/audit-bugs.ts";
import { plantedBudgetBugs } from "./patches/budget-bugs.ts";
import { plantedBusBugs } from "./patches/bus-bugs.ts";
import { plantedBusWorkerBugs } from "./patches/bus-worker-bugs.ts";
import { plantedCommandBugs } from "./patches/command-bugs.ts";
import { plantedDispatchBugs } from "./patches/dispatch-bugs.ts";
import { plantedDocumentBugs } from "./patches/document-bugs.ts";
import { plantedDoorBugs } from "./patches/door-bugs.ts";
import { plantedDrillAdmissionBugs } from "./patches/drill-admission-bugs.ts";
import { plantedDrillLoadBugs } from "./patches/drill-load-bugs.ts";
import { plantedEdgeBugs } from "./patches/edge-bugs.ts";
import { plantedEventBugs } from "./patches/event-bugs.ts";
import { plantedGateBugs } from "./patches/gate-bugs.ts";
import { plantedGateLuaBugs } from "./patches/gate-lua-bugs.ts";
import { plantedGatewayBugs } from "./patches/gateway-bugs.ts";
import { plantedJudgeBugs } from "./patches/judge-bugs.ts";
import { plantedKeyBugs } from "./patches/key-bugs.ts";
import { plantedLanguageBugs } from "./patches/language-bugs.ts";
import { plantedLimitLuaBugs } from "./patches/limit-lua-bugs.ts";
import { plantedLockBugs } from "./patches/lock-bugs.ts";
import { plantedLoopBugs } from "./patches/loop-bugs.ts";
import { plantedMemoryBugs } from "./patches/memory-bugs.ts";
import { plantedMetricBugs } from "./patches/metric-bugs.ts";
import { plantedPackagingBugs } from "./patches/packaging-bugs.ts";
import { plantedPolicyBugs } from "./patches/policy-bugs.ts";
import { plantedPoolBugs } from "./patches/pool-bugs.ts";
import { plantedProcessBugs } from "./patches/process-bugs.ts";
import { plantedPublicLockBugs } from "./patches/public-lock-bugs.ts";
import { plantedQueueBugs } from "./patches/queue-bugs.ts";
import { plantedQuotaBugs } from "./patches/quota-bugs.ts";
import { plantedRateBugs } from "./patches/rate-bugs.ts";
import { plantedRedisBugs } from "./patches/redis-bugs.ts";
import { plantedReleaseBugs } from "./patches/release-bugs.ts";
import { plantedRememberedBugs } from "./patches/remembered-bugs.ts";
import { plantedRepairBugs } from "./patches/repair-bugs.ts";
import { plantedRunBugs } from "./patches/run-bugs.ts";
import { plantedSchemaBugs } from "./patches/schema-bugs.ts";
import { plantedSdkBugs } from "./patches/sdk-bugs.ts";
import { plantedSqliteBugs } from "./patches/sqlite-bugs.ts";
import { plantedStopBugs } from "./patches/stop-bugs.ts";
import { plantedSweepBugs } from "./patches/sweep-bugs.ts";
import { plantedTableBugs } from "./patches/table-bugs.ts";
import { plantedTraceBugs } from "./patches/trace-bugs.ts";
import { plantedTreeBugs } from "./patches/tree-bugs.ts";
import { plantedWhyBugs } from "./patches/why-bugs.ts";
import type { Swap, TextPatch } from "./planted-bug.ts";
import { swappedAdmission } from "./swaps/admission-bugs.ts";
import { swappedBus } from "./swaps/bus-bugs.ts";
import { swappedChild } from "./swaps/child-bugs.ts";
import { swappedDurability } from "./swaps/durability-bugs.ts";
import { swappedFile } from "./swaps/file-bugs.ts";
import { swappedGate } from "./swaps/gate-bugs.ts";
import { swappedIsolation } from "./swaps/isolation-bugs.ts";
import { swappedLimit } from "./swaps/limit-bugs.ts";
import { swappedOriginals } from "./swaps/originals.ts";
import { swappedPlace } from "./swaps/place-bugs.ts";
import { swappedRun } from "./swaps/run-bugs.ts";
import { swappedSpec } from "./swaps/spec-bugs.ts";

/** Each makes tests fail in a copy of the tree. */
export const textPatches: readonly TextPatch[] = [
  ...plantedAdmissionBugs,
  ...plantedAuditBugs,
  ...plantedBudgetBugs,
  ...plantedBusBugs,
  ...plantedDispatchBugs,
  ...plantedCommandBugs,
  ...plantedDocumentBugs,
  ...plantedEdgeBugs,
  ...plantedEventBugs,
  ...plantedGateBugs,
  ...plantedGateLuaBugs,
  ...plantedGatewayBugs,
  ...plantedDoorBugs,
  ...plantedJudgeBugs,
  ...plantedQueueBugs,
  ...plantedQuotaBugs,
  ...plantedSqliteBugs,
  ...plantedKeyBugs,
  ...plantedStopBugs,
  ...plantedLimitLuaBugs,
  ...plantedLockBugs,
  ...plantedLoopBugs,
  ...plantedMemoryBugs,
  ...plantedMetricBugs,
  ...plantedPackagingBugs,
  ...plantedPolicyBugs,
  ...plantedPoolBugs,
  ...plantedProcessBugs,
  ...plantedPublicLockBugs,
  ...plantedLanguageBugs,
  ...plantedRateBugs,
  ...plantedRedisBugs,
  ...plantedRememberedBugs,
  ...plantedReleaseBugs,
  ...plantedRepairBugs,
  ...plantedRunBugs,
  ...plantedSchemaBugs,
  ...plantedSdkBugs,
  ...plantedBusWorkerBugs,
  ...plantedSweepBugs,
  ...plantedTableBugs,
  ...plantedTraceBugs,
  ...plantedDrillAdmissionBugs,
  ...plantedDrillLoadBugs,
  ...plantedTreeBugs,
  ...plantedWhyBugs,
];

/** Each breaks an invariant in a simulated world. */
export const swaps: Readonly<Record<string, Swap>> = {
  ...swappedAdmission,
  ...swappedRun,
  ...swappedChild,
  ...swappedPlace,
  ...swappedGate,
  ...swappedLimit,
  ...swappedFile,
  ...swappedDurability,
  ...swappedSpec,
  ...swappedIsolation,
  ...swappedOriginals,
  ...swappedBus,
};

export const plantedBugs: ReadonlyArray<TextPatch | (Swap & { readonly name: string })> = [
  ...textPatches,
  ...Object.entries(swaps).map(([name, swap]) => ({ name, ...swap })),
];
