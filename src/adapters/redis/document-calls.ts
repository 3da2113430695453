// The operations on documents as script calls.
import { type Collection, collectionQuotas, type Document } from "../../domain/tenant.ts";
import type { StoreSettings } from "../../ports/store.ts";
import type { TenantKeys } from "./keys.ts";
import { credentialWord, type ScriptCall, unexpected, wholeMs } from "./script-call.ts";

export const putDocument: ScriptCall<"putDocument"> = {
  keys: (keys, { collection }) => writtenKeys(keys, collection),
  args: ({ tenant, collection, id, body, expectedRevision, changeId, actor, credential }, settings) => [
    tenant,
    collection,
    id,
    body,
    expectedRevision === undefined ? "" : String(expectedRevision),
    changeId,
    actor,
    String(settings.eventsPerTenantMax),
    collection === "deadLetter" ? wholeMs("deadLetterRetentionMs", settings.deadLetterRetentionMs) : "",
    credentialWord(credential),
    ...quotaArgs(collection, settings),
  ],
  parse(reply) {
    switch (reply[0]) {
      case "saved":
      case "revision_conflict":
        return { kind: reply[0], revision: Number(reply[2]) };
      case "quota_reached":
        return { kind: "quota_reached", quota: Number(reply[2]) };
      case "unauthenticated":
      case "tenant_removed":
        return { kind: reply[0] };
      default:
        return unexpected("putDocument", reply);
    }
  },
};

export const getDocument: ScriptCall<"getDocument"> = {
  keys: (keys, { collection }) => [keys.documents(collection)],
  args: ({ id }) => [id],
  parse(reply, { id }) {
    switch (reply[0]) {
      case "document":
        return { kind: "document", document: parseDocument([id, String(reply[2]), String(reply[3])]) };
      case "not_found":
        return { kind: "not_found" };
      default:
        return unexpected("getDocument", reply);
    }
  },
};

export const listDocuments: ScriptCall<"listDocuments"> = {
  keys: (keys, { collection }) => [keys.documents(collection), keys.documentIds(collection)],
  args: ({ after, limit }) => [after, String(limit)],
  parse(reply) {
    if (reply[0] !== "listed") return unexpected("listDocuments", reply);
    return { kind: "listed", documents: (reply[2] as readonly DocumentRow[]).map(parseDocument) };
  },
};

export const removeDocument: ScriptCall<"removeDocument"> = {
  keys: (keys, { collection }) => writtenKeys(keys, collection),
  args: ({ tenant, collection, id, actor, credential }, { eventsPerTenantMax }) => [
    tenant,
    collection,
    id,
    actor,
    String(eventsPerTenantMax),
    credentialWord(credential),
  ],
  parse(reply) {
    switch (reply[0]) {
      case "removed":
      case "unauthenticated":
      case "not_found":
        return { kind: reply[0] };
      default:
        return unexpected("removeDocument", reply);
    }
  },
};

function quotaArgs(collection: Collection, { quotas }: StoreSettings): readonly string[] {
  const name = collectionQuotas[collection];
  return name === undefined ? ["", ""] : [`quota:${name}`, String(quotas[name])];
}

function writtenKeys(keys: TenantKeys, collection: Collection): string[] {
  return [keys.documents(collection), keys.documentIds(collection), keys.events, keys.due, keys.tenant];
}

/** The meta text is `<revision> <savedAt> <change>`. */
type DocumentRow = readonly [id: string, meta: string, body: string];

function parseDocument([id, meta, body]: DocumentRow): Document {
  const [revision, savedAt] = meta.split(" ", 2);
  return { id, body, revision: Number(revision), savedAtMs: Number(savedAt) };
}
