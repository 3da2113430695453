// API keys: their text, what is stored of them, and what each role may do.
import { createHash, timingSafeEqual } from "node:crypto";
import { crc32 } from "node:zlib";
import { parseTenantId, platformTenant, type TenantId } from "./tenant.ts";

/** `platform` keys belong to no tenant; the others act in one. */
export const keyRoles = ["platform", "admin", "operator", "viewer", "worker"] as const;
export type KeyRole = (typeof keyRoles)[number];

export type ApiKeyRecord = {
  /** `<tenant>.<random>`: names its tenant, so that no global table is needed. Public. */
  readonly keyId: string;
  readonly tenant: TenantId;
  readonly role: KeyRole;
  readonly name: string;
  readonly createdAtMs: number;
  readonly createdBy: string;
  readonly expiresAtMs?: number;
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
  const tenant = parseTenantId(keyId.slice(0, keyId.lastIndexOf(".")));
  if (tenant === undefined || checksum !== checksumOf(`${prefix}_${keyId}_${secret}`)) return undefined;
  return { keyId, tenant, secret };
}

export function hashSecret(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** Compares in constant time; `expected` of an unknown key is any hash, so that both cost the same. */
export function secretMatches(secret: string, expectedHash: string): boolean {
  return timingSafeEqual(Buffer.from(hashSecret(secret), "hex"), Buffer.from(expectedHash, "hex"));
}

export function isPlatformKey(key: ApiKeyRecord): boolean {
  return key.tenant === platformTenant && key.role === "platform";
}

function checksumOf(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}
