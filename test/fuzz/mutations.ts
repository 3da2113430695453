// A valid request with one thing wrong: a field, the query, the media type, the method, the key or the tenant.

import type { Client, Draft } from "./generate.ts";
import { hostileTexts } from "./hostile.ts";
import { type FuzzOperation, isOffered, pathOf, type Schema } from "./operations.ts";
import { anyValue, placesIn, type Source, withoutPlace, withValueAt } from "./values.ts";

export type Mutated = {
  readonly client: Client;
  readonly source: Source;
  readonly operation: FuzzOperation;
  readonly draft: Draft;
};

export type Mutation = (mutated: Mutated) => Draft;

/** Those that change something of this request. */
export function mutationsOf(operation: FuzzOperation, draft: Draft): readonly Mutation[] {
  const isObject = typeof draft.body === "object" && draft.body !== null;
  const hasFields = isObject && Object.keys(draft.body).length > 0;
  return [
    otherMethod,
    unknownQuery,
    ...(operation.needsKey ? [otherKey, foreignTenant] : []),
    ...(draft.query.length > 0 ? [oddQuery, twiceInQuery] : []),
    ...(operation.body === undefined ? [bodyWhereNoneIs] : [otherMediaType, brokenText]),
    ...(isObject ? [extraField] : []),
    ...(hasFields ? [missingField, otherType, otherType, beyondBound, beyondBound, oddText] : []),
  ];
}

const someField = ({ source, operation, draft }: Mutated) => {
  const places = placesIn(operation.body ?? {}, draft.body).filter(({ path }) => path.length > 0);
  return source.random.pick(places);
};

const missingField: Mutation = (mutated) => {
  const { path } = someField(mutated);
  return {
    ...mutated.draft,
    how: `without ${path.join(".")}`,
    body: withoutPlace(mutated.draft.body, path),
  };
};

const extraField: Mutation = ({ source, draft }) => {
  const name = source.random.pick([
    "extra",
    "state",
    "fence",
    "org",
    "constructor",
    "toString",
    "Résumé",
    "",
  ]);
  return {
    ...draft,
    how: `with the field "${name}"`,
    body: { ...(draft.body as object), [name]: anyValue(source.random, 2) },
  };
};

const otherType: Mutation = (mutated) => {
  const { path } = someField(mutated);
  const value = mutated.source.random.pick([null, true, 0, -1, 1.5, "", "text", [], [null], {}, { a: 1 }]);
  return {
    ...mutated.draft,
    how: `${path.join(".")} is ${JSON.stringify(value)}`,
    body: withValueAt(mutated.draft.body, path, value),
  };
};

const oddText: Mutation = (mutated) => {
  const { path } = someField(mutated);
  const value = mutated.source.random.pick(hostileTexts);
  return {
    ...mutated.draft,
    how: `${path.join(".")} is an odd text`,
    body: withValueAt(mutated.draft.body, path, value),
  };
};

/** Just outside of what the document says, and just inside where that takes no time. */
const beyondBound: Mutation = (mutated) => {
  const { source, draft } = mutated;
  const { path, schema } = someField(mutated);
  const values = outsideOf(schema);
  if (values.length === 0) return otherType(mutated);
  const value = source.random.pick(values);
  return { ...draft, how: `${path.join(".")} beyond its bound`, body: withValueAt(draft.body, path, value) };
};

function outsideOf({ minimum, maximum, minLength, maxLength, minItems, maxItems, items }: Schema): unknown[] {
  const values: unknown[] = [];
  if (minimum !== undefined) values.push(minimum - 1, minimum + 0.5, -minimum - 1);
  if (maximum !== undefined) values.push(maximum + 1, maximum * 2, Number.MAX_VALUE);
  if (minLength !== undefined && minLength > 0) values.push("a".repeat(minLength - 1));
  if (maxLength !== undefined) values.push("a".repeat(maxLength + 1), "é".repeat(maxLength + 1));
  if (minItems !== undefined && minItems > 0) values.push([]);
  if (maxItems !== undefined) {
    const item = items?.type === "string" ? "a" : {};
    values.push(Array.from({ length: maxItems + 1 }, () => item));
  }
  return values;
}

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "QUERY"];

/** A method that nobody offers at this path: what another operation answers is judged with that one. */
const otherMethod: Mutation = ({ source, operation, draft }) => {
  const path = pathOf(operation.path, draft.params);
  const method = source.random.pick(methods.filter((each) => !isOffered(each, path)));
  return { ...draft, how: `as ${method}`, method, body: undefined, isRouted: false };
};

const unknownQuery: Mutation = ({ source, draft }) => {
  const name = source.random.pick([
    "stauts",
    "LIMIT",
    "limit[]",
    "a.b",
    "__proto__",
    "constructor",
    "%00",
    "",
  ]);
  return { ...draft, how: `with ?${name}`, query: [...draft.query, [name, "1"]] };
};

const oddQuery: Mutation = ({ source, draft }) => {
  const [name] = source.random.pick(draft.query);
  const value = source.random.pick([
    "",
    "-1",
    "0",
    "501",
    "1e2",
    "1.5",
    "%00",
    "%F0%9F%98%80",
    "a%0d%0ab",
    "%zz",
  ]);
  return { ...draft, how: `${name} is ${value}`, query: [[name, value]] };
};

const twiceInQuery: Mutation = ({ source, draft }) => {
  const pair = source.random.pick(draft.query);
  return { ...draft, how: `${pair[0]} twice`, query: [...draft.query, pair, pair] };
};

const otherMediaType: Mutation = ({ source, draft }) => {
  const type = source.random.pick([
    "text/plain",
    "application/xml",
    "application/json; charset=utf-16",
    "application/JSON",
    "application/yaml",
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded",
    "application/json, text/plain",
    "application/json;",
    "x",
    "/",
    " ",
  ]);
  return { ...draft, how: `as ${type}`, headers: { ...draft.headers, "content-type": type } };
};

const brokenText: Mutation = ({ source, draft }) => {
  const text = JSON.stringify(draft.body ?? {});
  const bytes = Buffer.from(
    source.random.pick([
      text.slice(0, -1),
      `${text},`,
      `${text}${text}`,
      text.replace("{", "{,"),
      `\n${text}\n`,
      "",
    ]),
  );
  return { ...draft, how: "its text broken", bytes };
};

const bodyWhereNoneIs: Mutation = ({ source, draft }) => ({
  ...draft,
  how: "with a body",
  body: anyValue(source.random, 2),
});

const otherKey: Mutation = ({ client, source, draft }) => {
  const role = source.random.pick(["platform", "admin", "operator", "viewer", "worker"]);
  const key = source.random.pick([undefined, "x", "ilk_", client.keys.ofRole(role), ...client.keys.others]);
  return { ...draft, how: "with another key", key };
};

const foreignTenant: Mutation = ({ source, draft }) => {
  const value = source.random.pick(["globex", "acme", "platform", "nobody", ""]);
  const where = source.random.pick(["x-tenant-id", "x-org-id", "tenant", "tenant_id", "org_id"]);
  if (where.startsWith("x-"))
    return { ...draft, how: `${where} says ${value}`, headers: { ...draft.headers, [where]: value } };
  return { ...draft, how: `?${where}=${value}`, query: [...draft.query, [where, value]] };
};
