// Walks the operations of the API and makes, for every place that a caller can fill, inputs that grow: the stage's list of work.
import { writeCursor } from "../../src/api/cursor.ts";
import { definitionBytesMax } from "../../src/domain/workflow/definition.ts";
import { yamlBytesMax } from "../../src/domain/workflow/yaml-text.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { type Client, type Draft, spelt, validDraft } from "../fuzz/generate.ts";
import { type FuzzOperation, type Parameter, resolved, type Schema } from "../fuzz/operations.ts";
import type { FuzzRequest } from "../fuzz/request.ts";
import { valueFor } from "../fuzz/values.ts";
import { manyForms } from "./definitions.ts";
import { type Form, numberForms, textForms, valueForms } from "./raw-json.ts";
import { yamlForms } from "./yaml-forms.ts";

export type ScaledInput = {
  readonly operation: string;
  /** Where it stands: `path id`, `query cursor`, `body results[].output`. */
  readonly place: string;
  /** What grows. */
  readonly kind: string;
  readonly unit: string;
  /** The size of 8x: as much as any limit lets in, or a little more. */
  readonly largest: number;
  /** Work goes on after the answer, and counts. */
  readonly settles: boolean;
  /** Does what has to be there before, too. */
  request(size: number): FuzzRequest | Promise<FuzzRequest>;
};

export type Extent = "quick" | "full";

/** Of a request's head, which may have 16 KiB. */
const headBytesMax = 12_000;
/** The setting gateway.bodyBytesMax; the reader sees all of it. */
const bodyBytesMax = 2_000_000;
/** For bodies that are read in the same way as the large ones. */
const smallBodyBytesMax = { quick: 125_000, full: bodyBytesMax };
const fieldBytesMax = { quick: 64_000, full: 1_000_000 };

export function inputsOf(client: Client, operation: FuzzOperation, extent: Extent): readonly ScaledInput[] {
  const draft = () => {
    const random = createSeededRandom(7).stream(operation.name);
    return validDraft(client, { random, knowledge: client.knowledge }, operation);
  };
  const context: Context = { client, operation, extent, draft };
  return [
    ...headInputs(context),
    ...operation.parameters.flatMap((parameter) => parameterInputs(context, parameter)),
    ...(operation.body === undefined ? [] : bodyInputs(context, operation.body)),
  ];
}

type Context = {
  readonly client: Client;
  readonly operation: FuzzOperation;
  readonly extent: Extent;
  /** A valid request, the same each time. */
  draft(): Draft;
};

type Made = Pick<ScaledInput, "place" | "kind" | "unit" | "largest"> & {
  change(draft: Draft, size: number): Draft;
};

function input({ operation, draft }: Context, { change, ...rest }: Made): ScaledInput {
  return {
    ...rest,
    operation: operation.name,
    settles: false,
    request: (size) =>
      spelt(operation, { ...change(draft(), size), how: `${rest.kind}, ${size} ${rest.unit}` }),
  };
}

const header = (draft: Draft, name: string, value: string): Draft => ({
  ...draft,
  headers: { ...draft.headers, [name]: value },
});

function headInputs(context: Context): readonly ScaledInput[] {
  const head = (kind: string, change: Made["change"]) =>
    input(context, { place: "head", kind, unit: "bytes", largest: headBytesMax, change });
  return [
    head("headers, many", (draft, bytes) => ({
      ...draft,
      headers: {
        ...draft.headers,
        ...Object.fromEntries(Array.from({ length: bytes / 10 }, (_, index) => [`x-${index}`, "1"])),
      },
    })),
    head("header, long", (draft, bytes) => header(draft, "x-long", "a".repeat(bytes))),
    head("key, long", (draft, bytes) => header(draft, "x-api-key", `ilk_${"a".repeat(bytes)}`)),
    head("request id, long", (draft, bytes) => header(draft, "x-request-id", "a".repeat(bytes))),
    head("query, many names", (draft, bytes) => ({
      ...draft,
      query: Array.from({ length: bytes / 10 }, (_, index) => [`n${index}`, "1"] as const),
    })),
    head("query, one name again and again", (draft, bytes) => ({
      ...draft,
      query: Array.from({ length: bytes / 8 }, () => ["limit", "1"] as const),
    })),
    head("query, escapes", (draft, bytes) => ({ ...draft, query: [["%61".repeat(bytes / 3), "%2B"]] })),
  ];
}

/** Texts as a head takes them. */
const headForms: readonly Form[] = [
  { name: "text, plain", text: (bytes) => "a".repeat(bytes) },
  { name: "text, digits", text: (bytes) => "9".repeat(bytes) },
  { name: "text, commas and dashes", text: (bytes) => "00-,".repeat(bytes / 4) },
  { name: "text, quotes and escapes", text: (bytes) => `"${'\\"'.repeat(bytes / 2)}"` },
];

function parameterInputs(context: Context, { in: where, name, schema }: Parameter): readonly ScaledInput[] {
  kindOf(schema);
  const cursors: readonly Form[] =
    name === "cursor"
      ? [
          {
            name: "cursor with a checksum",
            text: (bytes) =>
              writeCursor({
                operation: context.operation.name,
                tenant: "acme",
                after: "9".repeat(bytes / 2),
              }),
          },
        ]
      : [];
  const largest = name === "cursor" ? 1_000 : headBytesMax;
  return [...headForms, ...cursors].map(({ name: kind, text }) =>
    input(context, {
      place: `${where} ${name}`,
      kind: kind.startsWith("cursor") ? kind : `${where}, ${kind}`,
      unit: "bytes",
      largest: kind.startsWith("cursor") ? 700 : largest,
      change(draft, bytes) {
        const value = text(bytes);
        if (where === "header") return header(draft, name.toLowerCase(), value);
        const escaped = encodeURIComponent(value).slice(0, headBytesMax);
        if (where === "path")
          return { ...draft, params: { ...draft.params, [name]: value.slice(0, bytes / 3) } };
        return { ...draft, query: [...draft.query.filter(([each]) => each !== name), [name, escaped]] };
      },
    }),
  );
}

/** Stands where the text of a form goes; no other text has it. */
const mark = "(here)";

function bodyInputs(context: Context, schema: Schema): readonly ScaledInput[] {
  const { operation, extent } = context;
  const isOpen = kindOf(schema) === "any";
  const isDefinition = operation.mediaTypes.length > 1;
  const openMax = isDefinition && extent === "quick" ? 1.2 * definitionBytesMax : bodyBytesMax;
  const wholeMax = isOpen ? openMax : smallBodyBytesMax[extent];
  const whole = valueForms.map(({ name, text }) =>
    input(context, {
      place: "body",
      kind: `JSON, ${name}`,
      unit: "bytes",
      largest: wholeMax,
      // What takes any JSON mostly takes objects: a value inside one gets further than the first check.
      change: (draft, bytes) => ({
        ...draft,
        bytes: Buffer.from(isOpen ? `{"value":${text(bytes)}}` : text(bytes)),
      }),
    }),
  );
  const fields = placesOf(schema).flatMap((place) => placeInputs(context, place));
  return [...whole, ...fields, ...(isDefinition ? definitionInputs(context) : [])];
}

type Place = { readonly path: readonly string[]; readonly schema: Schema; readonly kind: Kind };
type Kind = "any" | "text" | "number" | "choice" | "list" | "object" | "names" | "alternatives";

/** Every kind of field that the API has. A new one must be given forms that grow before this stage passes. */
export function kindOf(given: Schema): Kind {
  const schema = resolved(given);
  if (schema.const !== undefined || schema.enum !== undefined) return "choice";
  if (schema.anyOf !== undefined) return "alternatives";
  switch (schema.type) {
    case "string":
      return "text";
    case "integer":
    case "number":
      return "number";
    case "boolean":
    case "null":
      return "choice";
    case "array":
      return "list";
    case "object":
      return Object.keys(schema.properties ?? {}).length === 0 &&
        typeof schema.additionalProperties === "object"
        ? "names"
        : "object";
    case undefined: {
      const { description: _description, ...more } = schema as Schema & { description?: string };
      if (Object.keys(more).length === 0) return "any";
    }
  }
  throw new Error(`nobody said which inputs of this kind grow: ${JSON.stringify(schema)}`);
}

const itemName = "[]";
const anyName = "{}";

/** The places below the body itself. */
export function placesOf(given: Schema, path: readonly string[] = []): readonly Place[] {
  const schema = resolved(given);
  const kind = kindOf(schema);
  const here = path.length === 0 ? [] : [{ path, schema, kind }];
  switch (kind) {
    case "alternatives":
      return (schema.anyOf ?? []).flatMap((part) => placesOf(part, path));
    case "list":
      return [...here, ...placesOf(schema.items ?? {}, [...path, itemName])];
    case "names":
      return [...here, ...placesOf(schema.additionalProperties as Schema, [...path, anyName])];
    case "object":
      return [
        ...here,
        ...Object.entries(schema.properties ?? {}).flatMap(([name, part]) => placesOf(part, [...path, name])),
      ];
    case "any":
    case "text":
    case "number":
    case "choice":
      return here;
  }
}

function placeInputs(context: Context, { path, schema, kind }: Place): readonly ScaledInput[] {
  const place = `body ${path.join(".").replaceAll(`.${itemName}`, itemName)}`;
  return formsFor(context, kind, schema).map(({ name, text }) =>
    input(context, {
      place,
      kind: `field, ${name}`,
      unit: "bytes",
      largest: fieldBytesMax[context.extent],
      change(draft, bytes) {
        const body = withMarkAt(draft.body, path);
        return { ...draft, bytes: Buffer.from(JSON.stringify(body).replace(`"${mark}"`, () => text(bytes))) };
      },
    }),
  );
}

/** The forms, as JSON, that a place of this kind is given. */
function formsFor({ client }: Context, kind: Kind, schema: Schema): readonly Form[] {
  const quoted = textForms.map(({ name, text }) => ({ name, text: (bytes: number) => `"${text(bytes)}"` }));
  const example = (part: Schema) =>
    JSON.stringify(valueFor({ random: createSeededRandom(3), knowledge: client.knowledge }, part));
  switch (kind) {
    case "any":
      return valueForms;
    case "text":
      return quoted;
    case "number":
      return numberForms;
    case "choice":
      return quoted.slice(0, 1);
    case "list": {
      const item = example(schema.items ?? {});
      const many = (bytes: number) => Math.max(1, Math.floor(bytes / (item.length + 1)));
      return [
        {
          name: "list of many",
          text: (bytes) => `[${Array.from({ length: many(bytes) }, () => item).join(",")}]`,
        },
        { name: "list of numbers", text: (bytes) => `[${"7,".repeat(bytes / 2)}7]` },
      ];
    }
    case "names": {
      const value = example(schema.additionalProperties as Schema);
      const many = (bytes: number) => Math.min(2_000, Math.max(1, Math.floor(bytes / (value.length + 9))));
      return [
        {
          name: "many names",
          text: (bytes) =>
            `{${Array.from({ length: many(bytes) }, (_, index) => `"n${index}":${value}`).join(",")}}`,
        },
      ];
    }
    case "object":
      return valueForms.filter(({ name }) => name === "object of many names");
    case "alternatives":
      return [];
  }
}

/** A copy of a body with the mark at this place; what is missing on the way is made. */
function withMarkAt(value: unknown, path: readonly string[]): unknown {
  const [first, ...rest] = path;
  if (first === undefined) return mark;
  if (first === itemName) return [withMarkAt(Array.isArray(value) ? value[0] : undefined, rest)];
  const fields = typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
  const name = first === anyName ? "n0" : first;
  return { ...fields, [name]: withMarkAt((fields as Record<string, unknown>)[name], rest) };
}

/** For operations that take a definition: in JSON what it may have many of, in YAML the text itself. */
function definitionInputs(context: Context): readonly ScaledInput[] {
  const [, yamlType] = context.operation.mediaTypes;
  const many = manyForms.map(({ name, unit, largest, definition }) =>
    input(context, {
      place: "body",
      kind: name,
      unit,
      largest,
      change: (draft, count) => ({ ...draft, body: definition(count) }),
    }),
  );
  const yaml = yamlForms.map(({ name, text }) =>
    input(context, {
      place: "body",
      kind: name,
      unit: "bytes",
      largest: yamlBytesMax - 1_000,
      change: (draft, bytes) => ({
        ...draft,
        bytes: Buffer.from(text(bytes)),
        headers: { ...draft.headers, "content-type": String(yamlType) },
      }),
    }),
  );
  return [...many, ...yaml];
}
