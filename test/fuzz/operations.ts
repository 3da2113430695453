// The operations as the OpenAPI document describes them: what may be sent, and a check of every documented answer.
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formatsModule from "ajv-formats";
import { openApiDocument } from "../../src/api/openapi.ts";

export type Schema = {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly propertyNames?: Schema;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly pattern?: string;
  readonly format?: string;
};

export type Parameter = {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly schema: Schema;
};

export type DocumentedAnswer = {
  /** Absent for an answer without a body. */
  readonly mediaType: string | undefined;
  /** The codes that a failure of this status may have. */
  readonly codes: readonly string[];
  readonly fits: ValidateFunction | undefined;
};

export type FuzzOperation = {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  /** Roles whose keys may; absent for what is open. */
  readonly roles: readonly string[];
  readonly needsKey: boolean;
  readonly parameters: readonly Parameter[];
  readonly body: Schema | undefined;
  readonly mediaTypes: readonly string[];
  readonly answers: ReadonlyMap<number, DocumentedAnswer>;
};

type Content = Readonly<Record<string, { readonly schema: Schema }>>;
type OperationObject = {
  readonly operationId: string;
  readonly "x-roles"?: readonly string[];
  readonly security?: readonly unknown[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<
    Record<string, { readonly "x-codes"?: readonly string[]; readonly content?: Content }>
  >;
};
type Document = {
  readonly paths: Readonly<Record<string, Readonly<Record<string, OperationObject>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
};

const document = openApiDocument() as unknown as Document;
const ajv = new Ajv2020({ strict: false, allErrors: false });
formatsModule.default(ajv);
ajv.addSchema({ $id: "api", components: closed(document.components) });

export const fuzzOperations: readonly FuzzOperation[] = Object.entries(document.paths).flatMap(
  ([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: operation.operationId,
      method: method.toUpperCase(),
      path,
      roles: operation["x-roles"] ?? [],
      needsKey: operation.security === undefined,
      parameters: operation.parameters ?? [],
      body: Object.values(operation.requestBody?.content ?? {})[0]?.schema,
      mediaTypes: Object.keys(operation.requestBody?.content ?? {}),
      answers: answersOf(operation),
    })),
);

const offered = fuzzOperations.map(({ method, path }) => ({
  method,
  pattern: new RegExp(`^${path.replaceAll(".", "\\.").replaceAll(/\{[a-z_]+\}/g, "[^/]+")}$`),
}));

/** Whether any operation has this method and path. */
export function isOffered(method: string, path: string): boolean {
  const asked = method === "HEAD" ? "GET" : method;
  return offered.some((each) => each.method === asked && each.pattern.test(path));
}

/** A path with its parts in braces filled in. */
export function pathOf(template: string, params: Readonly<Record<string, string>>): string {
  return template.replaceAll(/\{([a-z_]+)\}/g, (_all, name: string) => escapedPart(params[name] ?? ""));
}

/** Texts that are escapes already are sent as they are. */
function escapedPart(text: string): string {
  return /^(%[0-9a-f]{2})+$/i.test(text) ? text : encodeURIComponent(text);
}

/** A schema of the document by its reference; others as they are. */
export function resolved(schema: Schema): Schema {
  const name = schema.$ref?.split("/").at(-1);
  if (name === undefined) return schema;
  const found = document.components.schemas[name];
  if (found === undefined) throw new Error(`the document has no schema ${name}`);
  return resolved(found);
}

function answersOf({ responses }: OperationObject): ReadonlyMap<number, DocumentedAnswer> {
  return new Map(
    Object.entries(responses).map(([status, { content = {}, "x-codes": codes = [] }]) => {
      const [[mediaType, described] = []] = Object.entries(content);
      const isText = mediaType?.startsWith("text/") === true;
      return [
        Number(status),
        {
          mediaType,
          codes,
          fits: described === undefined || isText ? undefined : ajv.compile(closed(described.schema)),
        },
      ];
    }),
  );
}

/** A field that the document does not name is as wrong as one that is missing: objects are closed unless they say that they are open. */
function closed(value: object): object {
  const text = JSON.stringify(value, (_name, part: unknown) => {
    if (typeof part !== "object" || part === null || Array.isArray(part)) return part;
    const schema = part as Schema;
    const isClosed =
      schema.type === "object" &&
      schema.properties !== undefined &&
      schema.additionalProperties === undefined;
    return isClosed ? { ...schema, additionalProperties: false } : schema;
  });
  return JSON.parse(text.replaceAll('"#/components/', '"api#/components/')) as object;
}
