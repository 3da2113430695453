// Drops audit records that are older than they are kept: first a genuine seal says from where on they are kept, then they go.
import type { EventRow } from "../../domain/audit.ts";
import { judgeSeal } from "../../domain/audit-verdict.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../caller.ts";
import type { SettingsEngine } from "../engine/engine.ts";
import { alarm, newestSeal, type SealBook } from "./seal-trail.ts";
import { dropFormerSeals, dropOldSeals, putSeal, readRows, sealAround, trailTerms } from "./seals.ts";

const dayMs = 86_400_000;

type Done = { readonly kind: "done" };

/** In short calls. What is interrupted goes on with the next round. */
export async function dropExpired(
  engine: SettingsEngine,
  book: SealBook,
  tenant: TenantId,
): Promise<Done | Trouble> {
  await dropFormerSeals(engine, tenant);
  if (engine.config["audit.keepDays"] === 0) return { kind: "done" };
  for (;;) {
    const dropped = await dropOnce(engine, book, tenant);
    if (dropped.kind !== "more") return dropped;
  }
}

/** Nothing is dropped while the newest seal cannot be written on: what is missing then has no excuse. */
async function dropOnce(
  engine: SettingsEngine,
  book: SealBook,
  tenant: TenantId,
): Promise<Done | { readonly kind: "more" } | Trouble> {
  const found = await newestSeal(engine, book, tenant);
  if (found.kind !== "newest") return found;
  const { newest } = found;
  if (newest === undefined || newest.state === "closed") return { kind: "done" };
  const { seal, revision } = newest.found;
  const { keptFrom } = seal;
  const rows = await readRows(engine, tenant, { after: 0, limit: 1 });
  if (rows.kind !== "events") return rows;
  if (rows.first < keptFrom) {
    const request = { tenant, below: keptFrom, actor: engine.ports.instance };
    const answer = await ask(engine, "dropTrail", request);
    return answer.kind === "dropped" ? { kind: "more" } : answer;
  }
  const expired = await findExpired(engine, tenant, keptFrom);
  if (expired.kind !== "expired") return expired;
  if (expired.below === keptFrom) return { kind: "done" };
  const { secret } = trailTerms(engine.config, tenant);
  const saved = await putSeal(engine, { tenant, secret }, { ...seal, keptFrom: expired.below }, revision);
  if (saved.kind === "unknown" || saved.kind === "unavailable") return saved;
  if (saved.kind === "saved") await dropOldSeals(engine, tenant, expired.below);
  // After a conflict the newest seal is read again.
  return { kind: "more" };
}

/**
 * Looks at the oldest seal whose records are kept. They are compared with it before they go: who makes records look old must
 * not get them removed.
 */
async function findExpired(
  engine: SettingsEngine,
  tenant: TenantId,
  keptFrom: number,
): Promise<{ readonly kind: "expired"; readonly below: number } | Trouble> {
  const around = await sealAround(engine, tenant, keptFrom);
  if (around.kind !== "found") return around;
  const none = { kind: "expired", below: keptFrom } as const;
  const { stored, before } = around;
  if (stored === undefined) return none;
  const { from, hashes } = stored.seal;
  const reading = await readRows(engine, tenant, { after: from - 1, limit: hashes.length });
  if (reading.kind !== "events") return reading;
  const terms = trailTerms(engine.config, tenant);
  const broken = judgeSeal(terms, { stored, before, rows: reading.events, keptFrom });
  if (broken === undefined) return { kind: "expired", below: keptAfter(engine, reading.events, keptFrom) };
  alarm(engine, "audit records are not as they were sealed: none is dropped", tenant, broken.sequence);
  return none;
}

/** The oldest record that is young enough. By whole days: dropping adds a record itself. */
function keptAfter(
  { config, storeTime }: SettingsEngine,
  rows: readonly EventRow[],
  keptFrom: number,
): number {
  const today = Math.floor(storeTime.nowMs() / dayMs);
  const keptSinceMs = (today - config["audit.keepDays"]) * dayMs;
  const young = rows.find(({ sequence, atMs }) => sequence >= keptFrom && atMs >= keptSinceMs);
  return young?.sequence ?? Math.max(keptFrom, (rows.at(-1)?.sequence ?? 0) + 1);
}
