// Compares two OpenAPI documents as a client of the older one sees them: what it sends must be taken, what it reads must be there.
type Json = { readonly [name: string]: unknown };

/** What the newer document takes away from the older one, each with its place; none when it has only grown. */
export function takenAway(older: unknown, newer: unknown): readonly string[] {
  const found: string[] = [];
  const before = fieldsOf(older);
  const after = fieldsOf(newer);
  const compare: Comparison = { before, after, found, seen: new Set() };
  for (const [path, methods] of Object.entries(fieldsOf(before.paths))) {
    for (const [method, operation] of Object.entries(fieldsOf(methods))) {
      const place = `${method.toUpperCase()} ${path}`;
      const now = fieldsOf(fieldsOf(after.paths)[path])[method];
      if (now === undefined) found.push(`${place}: gone`);
      else compareOperation(compare, place, fieldsOf(operation), fieldsOf(now));
    }
  }
  return found;
}

type Comparison = {
  readonly before: Json;
  readonly after: Json;
  readonly found: string[];
  /** Pairs of named schemas that were compared: they refer to each other. */
  readonly seen: Set<string>;
};

function compareOperation(compare: Comparison, place: string, before: Json, after: Json): void {
  const { found } = compare;
  if (before.operationId !== after.operationId) found.push(`${place}: another operationId`);
  for (const role of listOf(before["x-roles"])) {
    if (!listOf(after["x-roles"]).includes(role)) found.push(`${place}: not for ${String(role)} any more`);
  }
  compareParameters(compare, place, before, after);
  for (const [type, { schema }] of contentOf(before.requestBody)) {
    const now = new Map(contentOf(after.requestBody)).get(type);
    if (now === undefined) found.push(`${place}: takes no ${type} any more`);
    else compareSchemas(compare, `${place} body`, { side: "sent", before: schema, after: now.schema });
  }
  for (const [status, response] of Object.entries(fieldsOf(before.responses))) {
    const now = fieldsOf(after.responses)[status];
    if (now === undefined) found.push(`${place}: no ${status} any more`);
    else compareResponse(compare, `${place} ${status}`, fieldsOf(response), fieldsOf(now));
  }
}

function compareParameters({ found }: Comparison, place: string, before: Json, after: Json): void {
  const named = (operation: Json) =>
    new Map(
      listOf(operation.parameters).map((item) => {
        const parameter = fieldsOf(item);
        return [`${String(parameter.in)} ${String(parameter.name)}`, parameter] as const;
      }),
    );
  const [old, now] = [named(before), named(after)];
  for (const name of old.keys()) if (!now.has(name)) found.push(`${place}: no parameter ${name} any more`);
  for (const [name, { required }] of now) {
    if (required === true && old.get(name)?.required !== true) found.push(`${place}: needs ${name} now`);
  }
}

function compareResponse(compare: Comparison, place: string, before: Json, after: Json): void {
  for (const code of listOf(before["x-codes"])) {
    if (!listOf(after["x-codes"]).includes(code))
      compare.found.push(`${place}: no code ${String(code)} any more`);
  }
  for (const [type, { schema }] of contentOf(before)) {
    const now = new Map(contentOf(after)).get(type);
    if (now === undefined) compare.found.push(`${place}: no ${type} any more`);
    else compareSchemas(compare, place, { side: "received", before: schema, after: now.schema });
  }
}

type Schemas = {
  /** Who writes the value: a client that knows the older schema, or the server. */
  readonly side: "sent" | "received";
  readonly before: unknown;
  readonly after: unknown;
};

function compareSchemas(compare: Comparison, place: string, { side, ...pair }: Schemas): void {
  const { found, seen } = compare;
  const key = `${side} ${referenceOf(pair.before)} ${referenceOf(pair.after)}`;
  if (referenceOf(pair.before) !== "" && seen.has(key)) return;
  seen.add(key);
  const before = resolved(compare.before, pair.before);
  const after = resolved(compare.after, pair.after);
  if (before.type !== undefined && after.type !== undefined && !sameType(before.type, after.type)) {
    found.push(`${place}: is ${JSON.stringify(after.type)}, was ${JSON.stringify(before.type)}`);
    return;
  }
  if (side === "sent") compareSent(compare, place, before, after);
  else compareReceived(compare, place, before, after);
  const properties = fieldsOf(before.properties);
  for (const [name, schema] of Object.entries(properties)) {
    const now = fieldsOf(after.properties)[name];
    if (now === undefined) found.push(`${place}.${name}: gone`);
    else compareSchemas(compare, `${place}.${name}`, { side, before: schema, after: now });
  }
  if (before.items !== undefined && after.items !== undefined)
    compareSchemas(compare, `${place}[]`, { side, before: before.items, after: after.items });
  for (const word of ["anyOf", "oneOf", "allOf"]) {
    const now = listOf(after[word]);
    listOf(before[word]).forEach((schema, index) => {
      if (now[index] === undefined) found.push(`${place}: ${word} has fewer forms`);
      else compareSchemas(compare, `${place}|${index}`, { side, before: schema, after: now[index] });
    });
  }
}

/** A request of an older client is still valid. */
function compareSent({ found }: Comparison, place: string, before: Json, after: Json): void {
  for (const name of listOf(after.required)) {
    if (!listOf(before.required).includes(name)) found.push(`${place}.${String(name)}: is required now`);
  }
  for (const value of listOf(before.enum)) {
    if (!listOf(after.enum).includes(value))
      found.push(`${place}: does not take ${JSON.stringify(value)} any more`);
  }
  const tighter = (name: string, isTighter: (now: number, old: number) => boolean, none: number) => {
    if (after[name] !== undefined && isTighter(Number(after[name]), Number(before[name] ?? none)))
      found.push(`${place}: ${name} is ${Number(after[name])} now`);
  };
  for (const name of ["maximum", "maxLength", "maxItems", "exclusiveMaximum"])
    tighter(name, (now, old) => now < old, Number.POSITIVE_INFINITY);
  for (const name of ["minimum", "minLength", "minItems", "exclusiveMinimum"])
    tighter(name, (now, old) => now > old, Number.NEGATIVE_INFINITY);
  if (after.pattern !== undefined && after.pattern !== before.pattern)
    found.push(`${place}: has another pattern`);
}

/** An older client still finds what it was promised. */
function compareReceived({ found }: Comparison, place: string, before: Json, after: Json): void {
  for (const name of listOf(before.required)) {
    if (!listOf(after.required).includes(name)) found.push(`${place}.${String(name)}: may be absent now`);
  }
}

function resolved(document: Json, schema: unknown): Json {
  const reference = referenceOf(schema);
  if (reference === "") return fieldsOf(schema);
  const name = reference.replace("#/components/schemas/", "");
  return fieldsOf(fieldsOf(fieldsOf(document.components).schemas)[name]);
}

const referenceOf = (schema: unknown): string => String(fieldsOf(schema).$ref ?? "");
const sameType = (left: unknown, right: unknown): boolean => JSON.stringify(left) === JSON.stringify(right);
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const fieldsOf = (value: unknown): Json =>
  typeof value === "object" && value !== null ? (value as Json) : {};
const contentOf = (holder: unknown): ReadonlyArray<readonly [string, Json]> =>
  Object.entries(fieldsOf(fieldsOf(holder).content)).map(([type, media]) => [type, fieldsOf(media)]);
