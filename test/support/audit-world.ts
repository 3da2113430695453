// What the tests of the audit trail share: rows that others write, seals and verdicts, and hands in the store.
import { orderedNumber } from "../../src/adapters/operations/records.ts";
import type { TrailVerdict } from "../../src/control/audit/verify-trail.ts";
import type { EventRow } from "../../src/domain/audit.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { acme, type FlowPlane, type FlowWorld, only, type PlaneOptions } from "./flow-world.ts";

const call = { deadlineMs: 5_000 };
export const asked: PlaneOptions = { engine: "stopped" };

let written = 0;

/** Adds rows as if somebody else did: nobody is told. */
export async function write(flow: FlowWorld, count: number, tenant: TenantId = acme): Promise<void> {
  for (let row = 0; row < count; row += 1) {
    written += 1;
    const change = { id: `w${row % 10}`, changeId: `change ${written}` };
    const request = { tenant, collection: "workflow", body: "{}", actor: "ann", ...change } as const;
    const saved = await flow.world.store.putDocument(request, call);
    if (saved.kind !== "saved") throw new Error(saved.kind);
  }
}

export async function verify(flow: FlowWorld, plane: FlowPlane, expect?: string): Promise<TrailVerdict> {
  const [sequence, hash = ""] = expect?.split(":") ?? [];
  const head = expect === undefined ? undefined : { sequence: Number(sequence), hash };
  return only(await flow.finish(plane.api.verifyTrail({ tenant: acme, expect: head })), "verified");
}

export const headText = ({ head }: TrailVerdict) => `${head?.sequence}:${head?.hash}`;

export async function seals(flow: FlowWorld, tenant: TenantId = acme) {
  const request = { tenant, collection: "seal", after: "", limit: 1_000 } as const;
  return only(await flow.world.store.listDocuments(request, call), "listed").documents;
}

export async function sealedTo(flow: FlowWorld, tenant: TenantId = acme): Promise<number> {
  const newest = (await seals(flow, tenant)).at(-1);
  if (newest === undefined) return 0;
  const { from, hashes } = JSON.parse(newest.body) as { from: number; hashes: string[] };
  return from + hashes.length - 1;
}

/** Somebody with his hands in the store. */
export function tamper(flow: FlowWorld, sequence: number, change: Partial<EventRow> | "remove"): void {
  const { records } = flow.world;
  const member = orderedNumber(sequence);
  const row = records.get("trail", acme, member);
  if (row === undefined) throw new Error(`there is no record ${sequence}`);
  if (change === "remove") records.erase("trail", acme, member);
  else records.put("trail", acme, member, { ...row, ...change });
}

export function changeSeal(flow: FlowWorld, id: string, change: (body: string) => string): void {
  const { records } = flow.world;
  const document = records.get("document", `${acme}/seal`, id);
  if (document === undefined) throw new Error(`there is no seal ${id}`);
  records.put("document", `${acme}/seal`, id, { ...document, body: change(document.body) });
}

export const sealId = (from: number) => `t${String(from).padStart(12, "0")}`;
