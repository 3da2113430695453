// Reads what a request brings: strict JSON within its limits, then the schemas of its row.

import { isUtf8 } from "node:buffer";
import * as z from "zod";
import type { Route } from "../api/route.ts";
import { isYamlType, mediaTypesOf } from "../api/route.ts";
import { type ApiKeyRecord, isPlatformKey } from "../domain/api-key.ts";
import { excerptOf } from "../domain/excerpt.ts";
import type { JsonValue } from "../domain/fingerprint.ts";
import { inSlices, readingLimits } from "../domain/slices.ts";
import { type JsonReading, readingJson, readJson } from "../domain/strict-json.ts";
import { type TenantId, tenantNames } from "../domain/tenant.ts";
import type { DefinitionText } from "../domain/workflow/judge.ts";
import type { Clock } from "../ports/ports.ts";
import type { Failure, RequestHeaders } from "./handler.ts";

type Reading<Value> =
  | { readonly kind: "value"; readonly value: Value }
  | {
      readonly kind: "refused";
      readonly failure: Failure<"invalid_request" | "tenant_mismatch" | "unsupported_media_type">;
    };

/** A row made ready: what its schemas know is looked up once. */
export type Schemas = {
  readonly query: z.ZodType | undefined;
  readonly body: z.ZodType | undefined;
  readonly takesYaml: boolean;
  /** Names of a tenant that are fields of the operation itself. */
  readonly ownTenantNames: readonly string[];
  /** The body is passed on as it is. */
  readonly bodyIsOpen: boolean;
  /** What no query at all is read as, unless it is refused: most requests have none. */
  readonly withoutQuery: Reading<unknown> | undefined;
};

export function schemasOf({ query, body, takesYaml }: Route): Schemas {
  const bodyNames = body instanceof z.ZodObject ? Object.keys(body.shape) : [];
  const withoutQuery = query === undefined ? noFields : parse(query, {});
  const names = [...Object.keys(query?.shape ?? {}), ...bodyNames];
  return {
    query,
    body,
    takesYaml: takesYaml === true,
    ownTenantNames: tenantNames.filter((name) => names.includes(name)),
    withoutQuery: withoutQuery.kind === "value" ? withoutQuery : undefined,
    bodyIsOpen: body !== undefined && !(body instanceof z.ZodObject),
  };
}

/** Bodies are taken as they are: nothing is decompressed, so that nothing small becomes large. */
export function isCompressed(headers: RequestHeaders): boolean {
  const { "content-encoding": content, "transfer-encoding": transfer } = headers;
  return isOther(content, "identity") || isOther(transfer, "chunked");
}

const isOther = (value: RequestHeaders[string], plain: string): boolean =>
  value !== undefined && String(value).toLowerCase() !== plain;

export const compressedBody: Failure<"unsupported_media_type"> = {
  kind: "unsupported_media_type",
  detail: "the body is packed: send it without Content-Encoding, and with no Transfer-Encoding but chunked",
};

export function readQuery(schemas: Schemas, query: Named, key: ApiKeyRecord | undefined): Reading<unknown> {
  if (schemas.withoutQuery !== undefined && hasNoNames(query)) return schemas.withoutQuery;
  const foreign = key === undefined ? undefined : foreignField(schemas, query, key);
  if (foreign !== undefined) return mismatch(foreign);
  const fields = withoutTenantNames(query, schemas.ownTenantNames);
  if (schemas.query !== undefined) return parse(schemas.query, fields);
  const [unknown] = Object.keys(fields);
  return unknown === undefined ? noFields : refuse(`${excerptOf(unknown)}: this operation has no parameters`);
}

const noFields: Reading<unknown> = { kind: "value", value: {} };

function hasNoNames(fields: Named): boolean {
  for (const _name in fields) return false;
  return true;
}

/** A body's bytes, and what its sender says they are. */
type SentBody = { readonly bytes: Buffer | undefined; readonly contentType: string | undefined };

export function readBody(schemas: Schemas, sent: SentBody, key: ApiKeyRecord | undefined): Reading<unknown> {
  const unread = readUnparsed(schemas, sent);
  if (unread !== undefined) return unread;
  const text = textOf(sent.bytes);
  return text.kind === "refused" ? text : take(schemas, readJson(text.value, readingLimits), key);
}

/** A body of megabytes is read in slices: other requests go first between them. */
export async function readLargeBody(
  clock: Pick<Clock, "yield">,
  schemas: Schemas,
  sent: SentBody,
  key: ApiKeyRecord | undefined,
): Promise<Reading<unknown>> {
  const unread = readUnparsed(schemas, sent);
  if (unread !== undefined) return unread;
  const text = textOf(sent.bytes);
  if (text.kind === "refused") return text;
  return take(schemas, await inSlices(clock, readingJson(text.value, readingLimits)), key);
}

/** Undefined where the body is JSON that has to be read. */
function readUnparsed(schemas: Schemas, { bytes, contentType }: SentBody): Reading<unknown> | undefined {
  if (schemas.body === undefined) {
    return bytes === undefined || bytes.length === 0 ? noBody : refuse("this operation has no body");
  }
  const isYaml = isYamlType(contentType);
  if (schemas.takesYaml) {
    const text: DefinitionText = { bytes: bytes ?? Buffer.alloc(0), format: isYaml ? "yaml" : "json" };
    return { kind: "value", value: text };
  }
  return isYaml ? { kind: "refused", failure: wrongMediaType({}) } : undefined;
}

const noBody: Reading<unknown> = { kind: "value", value: undefined };

/** No body at all counts as an empty object: what it lacks is then named field by field. */
function textOf(bytes: Buffer | undefined): Reading<string> {
  if (bytes === undefined || bytes.length === 0) return { kind: "value", value: "{}" };
  return isUtf8(bytes) ? { kind: "value", value: bytes.toString("utf8") } : refuse("the body is not UTF-8");
}

function take(schemas: Schemas, reading: JsonReading, key: ApiKeyRecord | undefined): Reading<unknown> {
  if (reading.kind === "invalid") return refuse(`the body is not valid JSON: ${reading.why}`);
  if (reading.kind === "beyond") return refuse(reading.why);
  const { value } = reading;
  const fields = isNamed(value) ? value : undefined;
  const foreign = key === undefined || fields === undefined ? undefined : foreignField(schemas, fields, key);
  if (foreign !== undefined) return mismatch(foreign);
  if (schemas.bodyIsOpen || schemas.body === undefined) return { kind: "value", value };
  return parse(
    schemas.body,
    fields === undefined ? value : withoutTenantNames(fields, schemas.ownTenantNames),
  );
}

/** Tells what an operation takes. */
export function wrongMediaType(route: Pick<Route, "takesYaml">): Failure<"unsupported_media_type"> {
  const types = mediaTypesOf(route).join(", ");
  return { kind: "unsupported_media_type", detail: `this operation takes ${types}, in UTF-8` };
}

function foreignField({ ownTenantNames }: Schemas, fields: Named, key: ApiKeyRecord): string | undefined {
  return foreignTenant(key.tenant, { fields }, isPlatformKey(key) ? ownTenantNames : []);
}

function parse(schema: z.ZodType, value: unknown): Reading<unknown> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return { kind: "value", value: parsed.data };
  const problems = parsed.error.issues.slice(0, problemsMax).map(({ path, message }) => ({
    path: excerptOf(z.core.toDotPath(path), 200),
    message: excerptOf(message, 200),
  }));
  const detail = problems
    .map(({ path, message }) => (path === "" ? message : `${path}: ${message}`))
    .join("; ");
  return { kind: "refused", failure: { kind: "invalid_request", detail, problems } };
}

const problemsMax = 20;

function refuse(detail: string): { readonly kind: "refused"; readonly failure: Failure<"invalid_request"> } {
  return { kind: "refused", failure: { kind: "invalid_request", detail } };
}

function mismatch(place: string): Reading<never> {
  return { kind: "refused", failure: { kind: "tenant_mismatch", detail: `${place} names another tenant` } };
}

const headerNames = ["x-tenant-id", "x-org-id"];

type Named = Readonly<Record<string, unknown>>;

/** The first place that names another tenant. `free` are names that the caller may use as it likes. */
export function foreignTenant(
  tenant: TenantId,
  { headers, fields }: { readonly headers?: RequestHeaders; readonly fields?: Named },
  free: readonly string[],
): string | undefined {
  if (headers !== undefined) {
    const found = headerNames.find((name) => headers[name] !== undefined && headers[name] !== tenant);
    if (found !== undefined) return found;
  }
  if (fields === undefined) return undefined;
  return tenantNames.find(
    (name) => Object.hasOwn(fields, name) && fields[name] !== tenant && !free.includes(name),
  );
}

/** What names the tenant has been compared and is no field of the operation's own. */
function withoutTenantNames(fields: Named, own: readonly string[]): Named {
  const superfluous = tenantNames.filter((name) => Object.hasOwn(fields, name) && !own.includes(name));
  if (superfluous.length === 0) return fields;
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !superfluous.includes(name)));
}

function isNamed(value: JsonValue | undefined): value is { readonly [name: string]: JsonValue } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
