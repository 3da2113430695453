// API keys: making, checking, listing and revoking them. Only hashes are stored; a check costs the same for unknown keys.
import {
  type ApiKeyRecord,
  hashSecret,
  type KeyText,
  lineageBelow,
  makeKeyText,
  readKeyText,
  secretMatches,
  tenantOfKey,
  withRevoked,
} from "../../domain/api-key.ts";
import { describeChange } from "../../domain/audit.ts";
import { platformTenant, type TenantId } from "../../domain/tenant.ts";
import { type Acting, actorOf, credentialIn, troubleOf, writeTroubleOf } from "../acting.ts";
import { ask } from "../ask-until-known.ts";
import type { ControlApi, WriteTrouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import { changeTenant, readRecord } from "../tenants/tenants.ts";

type Answer<Name extends keyof ControlApi> = Awaited<
  ReturnType<Extract<ControlApi[Name], (...given: never[]) => unknown>>
>;

export async function createKey(
  engine: Engine,
  by: Acting,
  tenant: TenantId,
  options: Parameters<ControlApi["createKey"]>[2],
): Promise<Answer<"createKey">> {
  const { ports, storeTime } = engine;
  const lineage = lineageOf(by);
  if (lineage === undefined) return { kind: "lineage_too_long" };
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
  return answer.kind === "tenant_removed" ? { kind: answer.kind } : writeTroubleOf(answer);
}

/** Keys of the platform start and decide nothing: what they have made is nobody's beside its owner's. */
function lineageOf(by: Acting): readonly string[] | undefined {
  if (typeof by === "string" || by.person === undefined || by.tenant === platformTenant) return [];
  return lineageBelow(by.person);
}

const firstPage = { after: "", limit: 1_000 };

export async function listKeys(
  engine: Engine,
  tenant: TenantId,
  page = firstPage,
): Promise<Answer<"listKeys">> {
  const request = { tenant, collection: "apiKey", ...page } as const;
  const answer = await ask(engine, "listDocuments", request);
  if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
  return { kind: "listed", keys: answer.documents.map(({ body }) => JSON.parse(body) as ApiKeyRecord) };
}

/** First the list that operations check, so that the key is refused at once; then the record that caches read again. */
export async function revokeKey(
  engine: Engine,
  cache: KeyCache,
  request: { readonly by: Acting; readonly tenant: TenantId; readonly keyId: string },
): Promise<Answer<"revokeKey">> {
  const { by, tenant, keyId } = request;
  cache.forget(keyId);
  // An id that no key has must not get into the tenant's record, which everybody reads.
  const found = await ask(engine, "getDocument", { tenant, collection: "apiKey", id: keyId });
  if (found.kind === "not_found") return found;
  if (found.kind !== "document") return { kind: found.kind, cause: found.cause };
  const listed = await changeTenant(engine, by, tenant, (settings) =>
    withRevoked(settings, [keyId], engine.storeTime.nowMs()),
  );
  if (listed.kind === "version_conflict") return { kind: "unavailable", cause: "the settings keep changing" };
  if (listed.kind !== "saved") return listed;
  // The change above acted for the caller's key; its removal completes it, also when the key has revoked itself.
  const place = { tenant, collection: "apiKey", id: keyId, actor: actorOf(by) } as const;
  const answer = await ask(engine, "removeDocument", place);
  cache.forget(keyId);
  if (answer.kind === "removed") return { kind: "revoked" };
  return answer.kind === "not_found" ? answer : troubleOf(answer);
}

/** All at once, page by page, until none is left: of a tenant that is removed, so that none is made meanwhile. */
export async function revokeAllKeys(
  engine: Engine,
  cache: KeyCache,
  { by, tenant }: { readonly by: Acting; readonly tenant: TenantId },
): Promise<{ readonly kind: "revoked" } | WriteTrouble> {
  for (;;) {
    const page = await listKeys(engine, tenant);
    if (page.kind !== "listed") return page;
    if (page.keys.length === 0) return { kind: "revoked" };
    const keyIds = page.keys.map(({ keyId }) => keyId);
    const listed = await changeTenant(engine, by, tenant, (settings) =>
      withRevoked(settings, keyIds, engine.storeTime.nowMs()),
    );
    if (listed.kind === "version_conflict")
      return { kind: "unavailable", cause: "the settings keep changing" };
    if (listed.kind !== "saved") return listed;
    for (let first = 0; first < keyIds.length; first += removedTogether) {
      const answers = await Promise.all(
        keyIds.slice(first, first + removedTogether).map((keyId) => {
          cache.forget(keyId);
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

export async function describeKeys(
  engine: Engine,
  keyIds: readonly string[],
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
  recall(text: KeyText): ApiKeyRecord | undefined;
  learn(text: KeyText, key: ApiKeyRecord): void;
  forget(keyId: string): void;
};

/** Good keys only, for a time below the five seconds within which a revocation must be felt everywhere. */
export function createKeyCache(engine: Pick<Engine, "ports">, keepMs: number): KeyCache {
  const known = new Map<string, { readonly key: ApiKeyRecord; readonly atMs: number }>();
  const { clock } = engine.ports;
  return {
    recall({ keyId, secret }) {
      const found = known.get(keyId);
      if (found === undefined || !secretMatches(secret, found.key.secretHash)) return undefined;
      if (clock.monotonicMs() - found.atMs < keepMs) return found.key;
      known.delete(keyId);
      return undefined;
    },
    learn({ keyId }, key) {
      if (known.size >= 10_000) known.clear();
      known.set(keyId, { key, atMs: clock.monotonicMs() });
    },
    forget: (keyId) => void known.delete(keyId),
  };
}

/** Compared with when there is no such key: any hash will do. */
const noHash = hashSecret("");

export async function authenticate(
  engine: Engine,
  cache: KeyCache,
  text: string,
  from: "memory" | "stored" = "memory",
): Promise<Answer<"authenticate">> {
  const { storeTime } = engine;
  const read = readKeyText(text);
  if (read === undefined) return { kind: "refused" };
  const known = from === "memory" ? cache.recall(read) : undefined;
  if (known !== undefined) return judgeExpiry(known, storeTime.nowMs());
  // Both are asked for, whether there is such a key or not: an answer must not tell by its time.
  const [answer, tenant] = await Promise.all([readKey(engine, read), readRecord(engine, read.tenant)]);
  if (answer.kind === "unknown" || answer.kind === "unavailable") return troubleOf(answer);
  if (tenant.kind !== "tenant") return tenant;
  const key = answer.kind === "document" ? (JSON.parse(answer.document.body) as ApiKeyRecord) : undefined;
  const isRight = secretMatches(read.secret, key?.secretHash ?? noHash);
  if (!isRight || key === undefined || tenant.record.settings.removed === true) {
    cache.forget(read.keyId);
    return { kind: "refused" };
  }
  cache.learn(read, key);
  return judgeExpiry(key, storeTime.nowMs());
}

function readKey(engine: Engine, { tenant, keyId }: KeyText) {
  const request = { tenant, collection: "apiKey", id: keyId } as const;
  return ask(engine, "getDocument", request);
}

function judgeExpiry(key: ApiKeyRecord, nowMs: number): Answer<"authenticate"> {
  const expired = key.expiresAtMs !== undefined && nowMs > key.expiresAtMs;
  return expired ? { kind: "refused" } : { kind: "authenticated", key };
}
