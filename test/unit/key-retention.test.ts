// The default settings keep every idempotency key for its whole retention at the load that the guide names.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { MemoryRecords } from "../../src/adapters/memory-store.ts";
import { type Context, orderedNumber } from "../../src/adapters/operations/records.ts";
import {
  makeRoomForKey,
  putReservation,
  readReservation,
} from "../../src/adapters/operations/reservations.ts";
import { storeSettings } from "../../src/control-plane.ts";
import type { Fingerprint, ReservationDigest } from "../../src/domain/fingerprint.ts";
import type { RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { loadConfig } from "../../src/load-config.ts";

const tenant = "acme" as TenantId;
const dayMs = 86_400_000;
const guide = new URL("../../docs/guide/limits-and-idempotency.md", import.meta.url);

const [, load = "0", retentionDays] =
  /at ([\d,]+) starts with keys a day per tenant, every key is remembered for its (\d+) days/.exec(
    readFileSync(guide, "utf8"),
  ) ?? [];
const startsPerDay = Number(load.replaceAll(",", ""));
const { config } = loadConfig();

test("the guide names a load, and the retention as it is set", () => {
  expect(startsPerDay).toBeGreaterThanOrEqual(40_000);
  expect(Number(retentionDays)).toBe(config["admission.keyRetentionDays"]);
});

test("at the documented load every key is remembered until its retention is over", () => {
  const records = new MemoryRecords();
  const retentionMs = config["admission.keyRetentionDays"] * dayMs;
  const starts = startsPerDay * config["admission.keyRetentionDays"];
  const settings = storeSettings(config);
  const contextAt = (nowMs: number): Context => ({ records, nowUs: nowMs * 1_000, settings });
  // In order: a store in memory would spend most of the time on moving what stands behind a new one.
  const digestOf = (start: number) => `digest-${orderedNumber(start)}` as ReservationDigest;
  for (let start = 0; start < starts; start += 1) {
    const nowMs = Math.floor((start / startsPerDay) * dayMs);
    const context = contextAt(nowMs);
    const { evictedEarly } = makeRoomForKey(context, tenant, digestOf(start));
    if (evictedEarly) throw new Error(`the first key gave way after ${nowMs / dayMs} days`);
    putReservation(context, tenant, digestOf(start), {
      ...{ state: "bound", runId: `run-${start}` as RunId, fingerprint: "f" as Fingerprint },
      expiresAtMs: nowMs + retentionMs,
    });
  }
  expect(readReservation(contextAt(retentionMs), tenant, digestOf(0))).toMatchObject({ state: "bound" });
  // Runs under way keep their keys, too: as many as may be.
  const room = config["admission.keysPerTenantMax"] - records.size("keyed", tenant);
  expect(room).toBeGreaterThanOrEqual(config["quotas.activeRuns"]);
});
