// The conformance suites of the store port: every adapter passes every case, against the real server.
import { defaultStoreSettings, type StoreSettings } from "../../ports/store.ts";
import { admissionCases } from "./admission-cases.ts";
import { approvalCases } from "./approval-cases.ts";
import { budgetCases } from "./budget-cases.ts";
import { budgetLimitCases } from "./budget-limit-cases.ts";
import { childCases, treeLimitCases } from "./child-cases.ts";
import { commitCases } from "./commit-cases.ts";
import { dispatchCases, heldSweepCases } from "./dispatch-cases.ts";
import { documentCases } from "./document-cases.ts";
import { gateCases } from "./gate-cases.ts";
import { gateChangeCases, newestCases } from "./gate-change-cases.ts";
import type { ConformanceSuite } from "./harness.ts";
import { hastyBudgetCases } from "./hasty-budget-cases.ts";
import { hastyLimitCases, hastySweepCases } from "./hasty-sweep-cases.ts";
import { inboxCases, poisonCases, slowOwnerCases } from "./inbox-cases.ts";
import { jobCases } from "./job-cases.ts";
import { keyQuotaCases, keyRetentionCases, keysForEverCases, lateCases } from "./key-cases.ts";
import { limitCases } from "./limit-cases.ts";
import { listingCases, trimmingCases } from "./listing-cases.ts";
import { lockCases } from "./lock-cases.ts";
import { lockOperatorCases } from "./lock-operator-cases.ts";
import { lockQueueCases } from "./lock-queue-cases.ts";
import { lockStrategyCases } from "./lock-strategy-cases.ts";
import { proposalCases } from "./proposal-cases.ts";
import { queueCases } from "./queue-cases.ts";
import { quotaCases } from "./quota-cases.ts";
import { hastyRateCases, rateCases } from "./rate-cases.ts";
import { releasedCases } from "./released-cases.ts";
import { repairCases } from "./repair-cases.ts";
import { retryCases, retryKeyCases } from "./retry-cases.ts";
import { runCases } from "./run-cases.ts";
import { sharedSweepCases, sweepCases, treeSweepCases } from "./sweep-cases.ts";
import { trailCases, trailTrimmingCases } from "./trail-cases.ts";
import { treeRetryCases, waitingRetryCases } from "./waiting-retry-cases.ts";

const { keyRetentionMs: _keyRetentionMs, ...keysForEver } = defaultStoreSettings;

/** Long enough that nothing is over before a slow machine has asked, short enough to wait for. */
const hasty: StoreSettings = {
  ...defaultStoreSettings,
  runRetentionMs: 30,
  deadLetterRetentionMs: 30,
  republishAfterMs: 20,
  republishAfterMaxMs: 60,
  sweepEveryMs: 1,
  attentionMs: 30,
  proveEveryMs: 30,
};

export const storeConformance: readonly ConformanceSuite[] = [
  {
    name: "usual settings",
    settings: defaultStoreSettings,
    cases: [
      ...lockCases,
      ...lockQueueCases,
      ...lockOperatorCases,
      ...admissionCases,
      ...lockStrategyCases,
      ...runCases,
      ...inboxCases,
      ...poisonCases,
      ...proposalCases,
      ...commitCases,
      ...childCases,
      ...retryCases,
      ...waitingRetryCases,
      ...treeRetryCases,
      ...repairCases,
      ...jobCases,
      ...dispatchCases,
      ...limitCases,
      ...gateCases,
      ...newestCases,
      ...queueCases,
      ...rateCases,
      ...budgetCases,
      ...budgetLimitCases,
      ...releasedCases,
      ...approvalCases,
      ...documentCases,
      ...listingCases,
      ...trailCases,
      ...lateCases,
    ],
  },
  { name: "swept at the usual pace", settings: defaultStoreSettings, cases: sweepCases },
  {
    name: "swept in haste",
    settings: hasty,
    cases: [
      ...hastySweepCases,
      ...sharedSweepCases,
      ...treeSweepCases,
      ...heldSweepCases,
      ...hastyLimitCases,
      ...gateChangeCases,
      ...hastyRateCases,
      ...hastyBudgetCases,
    ],
  },
  {
    name: "three runs in a tree",
    settings: { ...defaultStoreSettings, runsPerRootMax: 3 },
    cases: treeLimitCases,
  },
  {
    name: "entries set aside after 100 ms",
    settings: { ...defaultStoreSettings, setAsideAfterMs: 100 },
    cases: slowOwnerCases,
  },
  {
    name: "keys kept for 60 ms",
    settings: { ...defaultStoreSettings, keyRetentionMs: 60 },
    cases: [...keyRetentionCases, ...retryKeyCases],
  },
  {
    name: "small quotas",
    settings: {
      ...defaultStoreSettings,
      quotas: {
        ...{ api_keys: 2, workflows: 2, definitions: 3 },
        ...{ active_runs: 3, locks: 3, lock_tickets: 2 },
      },
    },
    cases: quotaCases,
  },
  { name: "keys kept for ever", settings: keysForEver, cases: keysForEverCases },
  {
    name: "few of everything",
    settings: {
      ...defaultStoreSettings,
      ...{ keysPerTenantMax: 3, timelineRowsMax: 3, eventsPerTenantMax: 5, auditRecordsPerTenantMax: 4 },
    },
    cases: [...keyQuotaCases, ...trimmingCases, ...trailTrimmingCases],
  },
];
