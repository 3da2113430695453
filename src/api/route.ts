// What a row of the routes table says, and the types that follow from one.
import type * as z from "zod";
import type { KeyRole } from "../domain/api-key.ts";
import type { DefinitionText } from "../domain/workflow/judge.ts";
import type { ErrorCode } from "../errors.ts";

/** Replies of this type do not end by themselves. */
export const eventStreamType = "text/event-stream";

export type Route = {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** With names in braces: `/api/v1/workflows/{id}`. */
  readonly path: string;
  readonly summary: string;
  /** The roles that may; `open` needs no key, `metrics` is decided by the setting gateway.metricsAccess. */
  readonly access: readonly KeyRole[] | "open" | "metrics";
  readonly query?: z.ZodObject;
  readonly body?: z.ZodType;
  /** The body is a definition, in YAML or JSON. It is handed over unread: a thread of its own reads and judges it. */
  readonly takesYaml?: true;
  /** Of a success; JSON when absent. */
  readonly mediaType?: "text/plain" | typeof eventStreamType;
  /** Success only: a schema by status. */
  readonly replies: { readonly [status: number]: z.ZodType };
  /** What the operation itself may refuse; what any request may meet is added by `errorsOf`. */
  readonly errors: readonly ErrorCode[];
};

/** The names in braces of a path. */
type NamesIn<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | NamesIn<Rest>
  : never;

export type ParamsOf<Row extends Route> = { readonly [Name in NamesIn<Row["path"]>]: string };

export type QueryOf<Row extends Route> = Row["query"] extends z.ZodType
  ? Readonly<z.output<Row["query"]>>
  : Readonly<Record<never, never>>;

export type BodyOf<Row extends Route> = Row extends { readonly takesYaml: true }
  ? DefinitionText
  : Row["body"] extends z.ZodType
    ? z.output<Row["body"]>
    : undefined;

export type SuccessOf<Row extends Route> = {
  [Status in keyof Row["replies"] & number]: {
    readonly status: Status;
    readonly body: Row["replies"][Status] extends z.ZodType ? z.output<Row["replies"][Status]> : never;
    readonly headers?: Readonly<Record<string, string>>;
    /** Sent instead of the body: it is text already. */
    readonly rendered?: { readonly mediaType: string; readonly text: string };
  };
}[keyof Row["replies"] & number];

/** What any request may meet before or beside its operation. */
const everywhere = [
  "invalid_request",
  "overloaded",
  "draining",
  "internal",
] as const satisfies readonly ErrorCode[];
const withKey = [
  "unauthenticated",
  "forbidden",
  "tenant_mismatch",
  "too_many_failed_authentications",
  "too_many_requests",
  "store_unavailable",
] as const satisfies readonly ErrorCode[];
const withBody = ["payload_too_large", "unsupported_media_type"] as const satisfies readonly ErrorCode[];

export type SharedCode = (typeof everywhere | typeof withKey | typeof withBody)[number];

export function errorsOf(route: Route): readonly ErrorCode[] {
  const codes = [
    ...everywhere,
    ...(route.access === "open" ? [] : withKey),
    ...(route.body === undefined ? [] : withBody),
    ...route.errors,
  ];
  return [...new Set(codes)].sort();
}

export const jsonMediaType = "application/json";

/** The first is the registered one (RFC 9512); the others are what programs send. */
export const yamlMediaTypes = ["application/yaml", "text/yaml", "application/x-yaml", "text/x-yaml"] as const;

export function mediaTypesOf({ takesYaml }: Pick<Route, "takesYaml">): readonly string[] {
  return takesYaml === true ? [jsonMediaType, ...yamlMediaTypes] : [jsonMediaType];
}

/** By a Content-Type header, whatever parameters it has. */
export function isYamlType(contentType: string | undefined): boolean {
  return (
    contentType !== jsonMediaType && (yamlMediaTypes as readonly string[]).includes(essenceOf(contentType))
  );
}

/** Whether some operation takes a body of this type. */
export function isReadableType(contentType: string | undefined): boolean {
  return contentType === jsonMediaType || essenceOf(contentType) === jsonMediaType || isYamlType(contentType);
}

function essenceOf(contentType: string | undefined): string {
  const [essence = ""] = (contentType ?? "").split(";", 1);
  return essence.trim().toLowerCase();
}
