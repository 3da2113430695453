// API keys: making, checking, listing and revoking them. Only hashes are stored; a check costs the same for unknown keys.

import {
  type ApiKeyRecord,
  hashSecret,
  type KeyRole,
  type KeyText,
  lineageBelow,
  lineageMax,
  makeKeyText,
  readKeyText,
  secretMatches,
  tenantOfKey,
  withRevoked,
} from "../../domain/api-key.ts";
import { describeChange } from "../../domain/audit.ts";
import { prioritiesMax } from "../../domain/gates.ts";
import { platformTenant, type QuotaReached, type TenantId } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/ports.ts";
import { ask } from "../ask-until-known.ts";
import {
  type Acting,
  actorOf,
  credentialIn,
  type Trouble,
  troubleOf,
  type WriteTrouble,
  writeTroubleOf,
} from "../caller.ts";
import type { SettingsEngine } from "../engine/engine.ts";
import { changeSettings, readRecord } from "../tenants/tenants.ts";

export const keyFlows = { authenticate, findSender, createKey, getKey, describeKeys, listKeys, revokeKey };

type CreateKeyRequest = {
  readonly by: Acting;
  /** The platform's for platform keys. */
  readonly tenant: TenantId;
  readonly role: KeyRole;
  readonly name: string;
  /** The person or service it belongs to; the name by default. */
  readonly owner?: string;
  readonly expiresAtMs?: number;
  readonly maxPriority?: number;
};

export type NewKey = { readonly text: string; readonly key: ApiKeyRecord };

type CreateKeyAnswer =
  | ({ readonly kind: "created" } & NewKey)
  /** It was removed. */
  | { readonly kind: "tenant_not_found" }
  | { readonly kind: "invalid_request"; readonly detail: string }
  | QuotaReached
  | WriteTrouble;

/** Made through so many others that nobody could tell any more who is behind it. */
const lineageTooLong = {
  kind: "invalid_request",
  detail: `your key was made through ${lineageMax} others: let somebody nearer to the first one make it`,
} as const;

/** The text is shown once; only its hash is kept. */
async function createKey(
  engine: SettingsEngine,
  { by, tenant, ...asked }: CreateKeyRequest,
): Promise<CreateKeyAnswer> {
  const { ports, storeTime } = engine;
  const options = { ...asked, ...maxPriorityOf(by, asked) };
  const lineage = lineageOf(by);
  if (lineage === undefined) return lineageTooLong;
  const keyId = `${tenant}.${ports.random.token().slice(0, 16)}`;
  // Two tokens of at least 128 bits each: 256 bits of which nobody can guess enough.
  const secret = hashSecret(ports.random.token() + ports.random.token()).slice(0, 64);
  const key: ApiKeyRecord = {
    keyId,
    tenant,
    ...options,
    owner: options.owner ?? options.name,
    ...(lineage.length === 0 ? {} : { lineage }),
    createdAtMs: storeTime.nowMs(),
    createdBy: actorOf(by),
    secretHash: hashSecret(secret),
  };
  const request = {
    tenant,
    collection: "apiKey",
    id: keyId,
    body: JSON.stringify(key),
    changeId: describeChange({}, options, keyId),
    actor: actorOf(by),
    ...credentialIn(tenant, by),
  } as const;
  const answer = await ask(engine, "putDocument", { ...request, expectedRevision: 0 });
  if (answer.kind === "saved") return { kind: "created", text: makeKeyText({ keyId, secret }), key };
  if (answer.kind === "revision_conflict") throw new Error("a random key id is new");
  if (answer.kind === "quota_reached") return { kind: answer.kind, quota: "api_keys", limit: answer.quota };
  return answer.kind === "tenant_removed" ? { kind: "tenant_not_found" } : writeTroubleOf(answer);
}

/** No key makes one that may do more than itself. */
function maxPriorityOf(by: Acting, { maxPriority }: Pick<CreateKeyRequest, "maxPriority">) {
  const own = typeof by === "string" ? undefined : by.priorityMax;
  const least = Math.min(own ?? prioritiesMax, maxPriority ?? prioritiesMax);
  return own === undefined && maxPriority === undefined ? {} : { maxPriority: least };
}

/** Keys of the platform start and decide nothing: what they have made is nobody's beside its owner's. */
function lineageOf(by: Acting): readonly string[] | undefined {
  if (typeof by === "string" || by.person === undefined || by.tenant === platformTenant) return [];
  return lineageBelow(by.person);
}

async function getKey(
  engine: SettingsEngine,
  { tenant, keyId }: { readonly tenant: TenantId; readonly keyId: string },
): Promise<
  { readonly kind: "key"; readonly key: ApiKeyRecord } | { readonly kind: "api_key_not_found" } | Trouble
> {
  const answer = await readKey(engine, { tenant, keyId });
  if (answer.kind === "not_found") return { kind: "api_key_not_found" };
  if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
  return { kind: "key", key: JSON.parse(answer.document.body) as ApiKeyRecord };
}

type ListKeysRequest = {
  readonly tenant: TenantId;
  readonly after?: string;
  readonly limit?: number;
};

/** By id; the first 1,000 unless a page is named. */
async function listKeys(
  engine: SettingsEngine,
  { tenant, after = "", limit = 1_000 }: ListKeysRequest,
): Promise<{ readonly kind: "listed"; readonly keys: readonly ApiKeyRecord[] } | Trouble> {
  const request = { tenant, collection: "apiKey", after, limit } as const;
  const answer = await ask(engine, "listDocuments", request);
  if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
  return { kind: "listed", keys: answer.documents.map(({ body }) => JSON.parse(body) as ApiKeyRecord) };
}

/** First the list that operations check, so that the key is refused at once; then the record that caches read again. */
async function revokeKey(
  engine: SettingsEngine,
  { by, tenant, keyId }: { readonly by: Acting; readonly tenant: TenantId; readonly keyId: string },
): Promise<{ readonly kind: "revoked" } | { readonly kind: "api_key_not_found" } | WriteTrouble> {
  const { keys } = engine;
  keys.forget(keyId);
  // An id that no key has must not get into the tenant's record, which everybody reads.
  const found = await ask(engine, "getDocument", { tenant, collection: "apiKey", id: keyId });
  if (found.kind === "not_found") return { kind: "api_key_not_found" };
  if (found.kind !== "document") return { kind: found.kind, cause: found.cause };
  const listed = await changeSettings(engine, { by, tenant }, (settings) =>
    withRevoked(settings, [keyId], engine.storeTime.nowMs()),
  );
  if (listed.kind === "version_conflict") return { kind: "unavailable", cause: "the settings keep changing" };
  if (listed.kind !== "saved") return listed;
  // The change above acted for the caller's key; its removal completes it, also when the key has revoked itself.
  const place = { tenant, collection: "apiKey", id: keyId, actor: actorOf(by) } as const;
  const answer = await ask(engine, "removeDocument", place);
  keys.forget(keyId);
  if (answer.kind === "removed") return { kind: "revoked" };
  return answer.kind === "not_found" ? { kind: "api_key_not_found" } : troubleOf(answer);
}

/** All at once, page by page, until none is left: of a tenant that is removed, so that none is made meanwhile. */
export async function revokeAllKeys(
  engine: SettingsEngine,
  { by, tenant }: { readonly by: Acting; readonly tenant: TenantId },
): Promise<{ readonly kind: "revoked" } | WriteTrouble> {
  for (;;) {
    const page = await listKeys(engine, { tenant });
    if (page.kind !== "listed") return page;
    if (page.keys.length === 0) return { kind: "revoked" };
    const keyIds = page.keys.map(({ keyId }) => keyId);
    const listed = await changeSettings(engine, { by, tenant }, (settings) =>
      withRevoked(settings, keyIds, engine.storeTime.nowMs()),
    );
    if (listed.kind === "version_conflict")
      return { kind: "unavailable", cause: "the settings keep changing" };
    if (listed.kind !== "saved") return listed;
    for (let first = 0; first < keyIds.length; first += removedTogether) {
      const answers = await Promise.all(
        keyIds.slice(first, first + removedTogether).map((keyId) => {
          engine.keys.forget(keyId);
          const place = { tenant, collection: "apiKey", id: keyId, actor: actorOf(by) } as const;
          return ask(engine, "removeDocument", place);
        }),
      );
      const failed = answers.find(({ kind }) => kind !== "removed" && kind !== "not_found");
      if (failed !== undefined) return troubleOf(failed);
    }
  }
}

const removedTogether = 50;

/** A page of an audit trail names hardly more. */
const describedMax = 100;

/** Who these keys belong to, of those that still exist. */
async function describeKeys(
  engine: SettingsEngine,
  { keyIds }: { readonly keyIds: readonly string[] },
): Promise<ReadonlyMap<string, ApiKeyRecord>> {
  const found = await Promise.all(
    [...new Set(keyIds)].slice(0, describedMax).map(async (keyId) => {
      const tenant = tenantOfKey(keyId);
      if (tenant === undefined) return [];
      const request = { tenant, collection: "apiKey", id: keyId } as const;
      const answer = await ask(engine, "getDocument", request);
      return answer.kind === "document" ? [JSON.parse(answer.document.body) as ApiKeyRecord] : [];
    }),
  );
  return new Map(found.flat().map((key) => [key.keyId, key]));
}

export type KeyCache = {
  recall(keyId: string): ApiKeyRecord | undefined;
  /** The key of a text that was found to be right; undefined when it has to be checked. */
  recallText(text: string): ApiKeyRecord | undefined;
  /** What the store has just answered. */
  learn(key: ApiKeyRecord): void;
  /** The text was compared with the hash of a key that is remembered. It is remembered for as long as the key is, and no longer. */
  learnText(keyId: string, text: string): void;
  forget(keyId: string): void;
};

type KnownKey = { readonly key: ApiKeyRecord; readonly atMs: number; text: string | undefined };

const knownKeysMax = 10_000;

/**
 * Good keys only, for a time below the five seconds within which a revocation must be felt everywhere. A text is found without
 * hashing it: 0.1 us instead of 2 us. Texts that never matched a key are not kept.
 */
export function createKeyCache(clock: Clock, keepMs: number): KeyCache {
  /** In the order in which they were read from the store. */
  const byId = new Map<string, KnownKey>();
  const byText = new Map<string, KnownKey>();
  const drop = ({ key, text }: KnownKey) => {
    byId.delete(key.keyId);
    if (text !== undefined) byText.delete(text);
  };
  const forget = (keyId: string) => {
    const known = byId.get(keyId);
    if (known !== undefined) drop(known);
  };
  const fresh = (known: KnownKey | undefined) => {
    if (known === undefined || clock.monotonicMs() - known.atMs < keepMs) return known?.key;
    drop(known);
    return undefined;
  };
  return {
    recall: (keyId) => fresh(byId.get(keyId)),
    recallText: (text) => fresh(byText.get(text)),
    learn(key) {
      const nowMs = clock.monotonicMs();
      forget(key.keyId);
      for (const known of byId.values()) {
        if (nowMs - known.atMs < keepMs && byId.size < knownKeysMax) break;
        drop(known);
      }
      byId.set(key.keyId, { key, atMs: nowMs, text: undefined });
    },
    learnText(keyId, text) {
      const known = byId.get(keyId);
      if (known === undefined) return;
      known.text = text;
      byText.set(text, known);
    },
    forget,
  };
}

/** Compared with when there is no such key: any hash will do. */
const noHash = hashSecret("");

type AuthenticateRequest = {
  readonly text: string;
  /** `stored` asks the store whatever is remembered. */
  readonly from?: "memory" | "stored";
};

type AuthenticateAnswer =
  | { readonly kind: "authenticated"; readonly key: ApiKeyRecord }
  | { readonly kind: "unauthenticated" }
  | Trouble;

/** Good keys are remembered for 4 s; the store's own check refuses a revoked one at once. A key that is remembered is answered at once. */
function authenticate(
  engine: SettingsEngine,
  { text, from = "memory" }: AuthenticateRequest,
): AuthenticateAnswer | Promise<AuthenticateAnswer> {
  const known = from === "memory" ? engine.keys.recallText(text) : undefined;
  return known === undefined ? checkText(engine, text, from) : judgeExpiry(known, engine.storeTime.nowMs());
}

async function checkText(
  engine: SettingsEngine,
  text: string,
  from: "memory" | "stored",
): Promise<AuthenticateAnswer> {
  const { keys, storeTime } = engine;
  const read = readKeyText(text);
  if (read === undefined) return { kind: "unauthenticated" };
  const known = from === "memory" ? keys.recall(read.keyId) : undefined;
  if (known !== undefined && secretMatches(read.secret, known.secretHash)) {
    keys.learnText(read.keyId, text);
    return judgeExpiry(known, storeTime.nowMs());
  }
  const found = await readLivingKey(engine, read);
  if (found.kind !== "read") return found;
  const isRight = secretMatches(read.secret, found.key?.secretHash ?? noHash);
  if (!isRight) return unauthenticated(engine, read);
  const answer = learnKey(engine, read, found.key);
  keys.learnText(read.keyId, text);
  return answer;
}

/** For messages that are signed with a key instead of carrying it: a signature that is right proves the secret. */
export async function findSender(
  engine: SettingsEngine,
  { keyId }: { readonly keyId: string },
): Promise<AuthenticateAnswer> {
  const known = engine.keys.recall(keyId);
  if (known !== undefined) return judgeExpiry(known, engine.storeTime.nowMs());
  const tenant = tenantOfKey(keyId);
  if (tenant === undefined || keyId.length > keyIdCharactersMax) return { kind: "unauthenticated" };
  const found = await readLivingKey(engine, { tenant, keyId });
  return found.kind === "read" ? learnKey(engine, { keyId }, found.key) : found;
}

/** As in the text of a key. */
const keyIdCharactersMax = 96;

type KeyName = Pick<KeyText, "tenant" | "keyId">;

/** Both are asked for, whether there is such a key or not: an answer must not tell by its time. */
async function readLivingKey(
  engine: SettingsEngine,
  name: KeyName,
): Promise<{ readonly kind: "read"; readonly key: ApiKeyRecord | undefined } | Trouble> {
  const [answer, tenant] = await Promise.all([readKey(engine, name), readRecord(engine, name.tenant)]);
  if (answer.kind === "unknown" || answer.kind === "unavailable") return troubleOf(answer);
  if (tenant.kind !== "tenant") return tenant;
  const isThere = answer.kind === "document" && tenant.record.settings.removed !== true;
  return { kind: "read", key: isThere ? (JSON.parse(answer.document.body) as ApiKeyRecord) : undefined };
}

function learnKey(
  engine: SettingsEngine,
  name: Pick<KeyName, "keyId">,
  key: ApiKeyRecord | undefined,
): AuthenticateAnswer {
  if (key === undefined) return unauthenticated(engine, name);
  engine.keys.learn(key);
  return judgeExpiry(key, engine.storeTime.nowMs());
}

function unauthenticated({ keys }: SettingsEngine, { keyId }: Pick<KeyName, "keyId">): AuthenticateAnswer {
  keys.forget(keyId);
  return { kind: "unauthenticated" };
}

function readKey(engine: SettingsEngine, { tenant, keyId }: KeyName) {
  const request = { tenant, collection: "apiKey", id: keyId } as const;
  return ask(engine, "getDocument", request);
}

function judgeExpiry(key: ApiKeyRecord, nowMs: number): AuthenticateAnswer {
  const expired = key.expiresAtMs !== undefined && nowMs > key.expiresAtMs;
  return expired ? { kind: "unauthenticated" } : { kind: "authenticated", key };
}
