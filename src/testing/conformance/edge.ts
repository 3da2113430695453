// A case at an edge: what a store does just below a time or a size, exactly at it, and just above.
import assert from "node:assert/strict";
import { defaultStoreSettings, type StoreSettings } from "../../ports/store.ts";
import type { Harness } from "./harness.ts";

/** The time of a store that stands still until it is set. */
export type SetTime = { pass(ms: number): Promise<void> };

type Offset = -1 | 0 | 1;

/** `look` goes to the edge, or one before or past it, and says what it sees there. */
export type Edge = {
  readonly name: string;
  /** The comparisons that decide it, each by its file and a part of its line, among the operations. */
  readonly decidedBy: readonly string[];
  readonly below: unknown;
  readonly at: unknown;
  readonly above: unknown;
  look(harness: Harness, offset: Offset, time: SetTime): Promise<unknown>;
};

/** The same for all edges: a store in SQLite takes half a second to open in a test. */
export const edgeSettings = {
  ...defaultStoreSettings,
  eventsPerTenantMax: 4,
  auditRecordsPerTenantMax: 6,
  timelineRowsMax: 4,
  keysPerTenantMax: 3,
  keyRetentionMs: 10_000,
  runRetentionMs: 10_000,
  deadLetterRetentionMs: 10_000,
  republishAfterMs: 1_000,
  republishAfterMaxMs: 3_000,
  attentionMs: 2_000,
  setAsideAfterMs: 120_000,
  proveEveryMs: 4_000,
  runsPerRootMax: 4,
  queuedPerTenantMax: 10,
  quotas: {
    ...defaultStoreSettings.quotas,
    ...{ api_keys: 3, workflows: 3, definitions: 3, locks: 3, lock_tickets: 3 },
  },
} as const satisfies StoreSettings;

/** Every look has a tenant of its own. */
export async function checkEdge(edge: Edge, newHarness: () => Harness, time: SetTime): Promise<void> {
  const seen = {
    below: await edge.look(newHarness(), -1, time),
    at: await edge.look(newHarness(), 0, time),
    above: await edge.look(newHarness(), 1, time),
  };
  assert.deepEqual(seen, { below: edge.below, at: edge.at, above: edge.above });
}
