// API keys: their text, what is stored of them, what each role may do, and who is behind a key.
import { hash, timingSafeEqual } from "node:crypto";
import { crc32 } from "node:zlib";
import { parseTenantId, platformTenant, type TenantId, type TenantSettings } from "./tenant.ts";

/** `platform` and `metrics` keys belong to no tenant; the others act in one. */
export const keyRoles = ["platform", "admin", "operator", "viewer", "worker", "approver", "metrics"] as const;
export type KeyRole = (typeof keyRoles)[number];

/** May take jobs and report their results. */
export const workerRoles = ["worker", "admin"] as const satisfies readonly KeyRole[];

const platformRoles: ReadonlySet<KeyRole> = new Set<KeyRole>(["platform", "metrics"]);

export function isPlatformRole(role: KeyRole): boolean {
  return platformRoles.has(role);
}

export type ApiKeyRecord = {
  /** `<tenant>.<random>`: names its tenant, so that no global table is needed. Public. */
  readonly keyId: string;
  readonly tenant: TenantId;
  readonly role: KeyRole;
  readonly name: string;
  /** The person or service that it belongs to; of older keys the name says it. */
  readonly owner?: string;
  /** Owners of the keys through which it was made, the maker first; keys of the platform are not among them. */
  readonly lineage?: readonly string[];
  readonly createdAtMs: number;
  readonly createdBy: string;
  readonly expiresAtMs?: number;
  /** The highest priority that a run has which it starts, and that a key may have which it makes; absent means any. */
  readonly maxPriority?: number;
  /** SHA-256 of the secret; the secret itself is shown once and stored nowhere. */
  readonly secretHash: string;
};

const prefix = "ilk";
const textPattern = /^ilk_([A-Za-z0-9._-]{3,96})_([0-9a-f]{48,64})_([0-9a-f]{8})$/;

export type KeyText = { readonly keyId: string; readonly tenant: TenantId; readonly secret: string };

/** `ilk_<key id>_<secret>_<checksum>`: the checksum tells a mistyped key without asking the store. */
export function makeKeyText({ keyId, secret }: Pick<KeyText, "keyId" | "secret">): string {
  const body = `${prefix}_${keyId}_${secret}`;
  return `${body}_${checksumOf(body)}`;
}

export function readKeyText(text: string): KeyText | undefined {
  const [, keyId, secret, checksum] = textPattern.exec(text) ?? [];
  if (keyId === undefined || secret === undefined || checksum === undefined) return undefined;
  const tenant = tenantOfKey(keyId);
  if (tenant === undefined || checksum !== checksumOf(`${prefix}_${keyId}_${secret}`)) return undefined;
  return { keyId, tenant, secret };
}

/** What signs messages in the name of a key: who has stored the key knows it, too. */
export function signingPartOf({ keyId, secret }: KeyText): Pick<ApiKeyRecord, "keyId" | "secretHash"> {
  return { keyId, secretHash: hashSecret(secret) };
}

export function tenantOfKey(keyId: string): TenantId | undefined {
  return parseTenantId(keyId.slice(0, Math.max(0, keyId.lastIndexOf("."))));
}

export function hashSecret(secret: string): string {
  return hash("sha256", secret);
}

/** Compares in constant time; `expected` of an unknown key is any hash, so that both cost the same. */
export function secretMatches(secret: string, expectedHash: string): boolean {
  return timingSafeEqual(Buffer.from(hashSecret(secret), "hex"), Buffer.from(expectedHash, "hex"));
}

export function isPlatformKey(key: ApiKeyRecord): boolean {
  return key.tenant === platformTenant && key.role === "platform";
}

/** May read /metrics, which tell of all tenants. */
export function readsMetrics(key: ApiKeyRecord): boolean {
  return key.tenant === platformTenant && isPlatformRole(key.role);
}

export function personOf({ owner, name, lineage = [] }: ApiKeyRecord): Person {
  return { owner: owner ?? name, lineage };
}

/** Longer than anything acts for a key that it has asked about once: polls of 120 s at most, caches of 5 s. */
const revokedKeepMs = 180_000;
/** Half a megabyte in the tenant's record. Beyond it the oldest go, and only caches of 5 s may still believe in them. */
const revokedMax = 10_000;

type Revocations = Pick<TenantSettings, "revokedKeyIds" | "revokedSince">;

/** Lists keys as revoked. What is on the list stays there for three minutes at least and for six at most, if others follow. */
export function withRevoked(
  { revokedKeyIds = [], revokedSince }: Revocations,
  keyIds: readonly string[],
  nowMs: number,
): Revocations {
  const isOver = revokedSince !== undefined && nowMs - revokedSince.atMs >= revokedKeepMs;
  // An id that the list does not have, as after a change by an older version: nothing counts as old.
  const oldOnes = isOver ? Math.max(0, revokedKeyIds.indexOf(revokedSince.keyId)) : 0;
  const kept = revokedKeyIds.slice(oldOnes);
  const known = new Set(kept);
  const added = keyIds.filter((keyId) => !known.has(keyId));
  const [first] = added;
  const startsAnew = first !== undefined && (revokedSince === undefined || isOver);
  const since = startsAnew ? { atMs: nowMs, keyId: first } : revokedSince;
  return {
    revokedKeyIds: [...kept, ...added].slice(-revokedMax),
    ...(since === undefined ? {} : { revokedSince: since }),
  };
}

function checksumOf(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}

/** A named person or service, with the owners of the keys through which its key was made, the maker first. */
export type Person = {
  readonly owner: string;
  readonly lineage: readonly string[];
};

/** Longer chains are refused, not cut: a person cut from the chain could approve what the last key requests. */
export const lineageMax = 32;

type DutyVerdict = { readonly kind: "allowed" } | { readonly kind: "refused"; readonly rule: DutyRule };

export type DutyRule = "same_owner" | "made_by_requester" | "made_by_approver";

/** Two keys that a third person made may decide about each other's runs: the audit row names who that was. */
export function mayDecide(requester: Person, approver: Person): DutyVerdict {
  if (isSame(requester.owner, approver.owner)) return { kind: "refused", rule: "same_owner" };
  const has = ({ lineage }: Person, owner: string) => lineage.some((maker) => isSame(maker, owner));
  if (has(approver, requester.owner)) return { kind: "refused", rule: "made_by_requester" };
  if (has(requester, approver.owner)) return { kind: "refused", rule: "made_by_approver" };
  return { kind: "allowed" };
}

/** The lineage of a key that this person makes, or undefined when it would be too long. */
export function lineageBelow({ owner, lineage }: Person): readonly string[] | undefined {
  const makers = [owner, ...lineage.filter((each) => !isSame(each, owner))];
  return makers.length > lineageMax ? undefined : makers;
}

/** Ada and ada are one person: names that people take for the same must not pass for two. */
function isSame(one: string, other: string): boolean {
  return plainName(one) === plainName(other);
}

function plainName(name: string): string {
  return name.normalize("NFKC").trim().replaceAll(/\s+/g, " ").toLowerCase();
}
