// The routes table as an OpenAPI 3.1 document.
import * as z from "zod";
import { errors } from "../errors.ts";
import { problemBody, problemMediaType } from "./problem.ts";
import { errorsOf, eventStreamType, jsonMediaType, type Route, yamlMediaTypes } from "./route.ts";
import { operations, routes } from "./routes.ts";

type Json = { readonly [name: string]: unknown };

let text: string | undefined;

/** Made once: the table does not change while the process lives. */
export function openApiText(): string {
  text ??= JSON.stringify(openApiDocument());
  return text;
}

export function openApiDocument(): Json {
  const components: Record<string, unknown> = {};
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of operations) {
    const route: Route = routes[operation];
    paths[route.path] ??= {};
    Object.assign(paths[route.path] ?? {}, {
      [route.method.toLowerCase()]: operationObject(operation, route, components),
    });
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Interlock",
      version: "1",
      description:
        "A control plane for AI-agent workflows. Every failure is problem JSON (RFC 9457): decide by `code`, repeat by `retryable`.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    security: [{ apiKey: [] }, { bearer: [] }],
    paths,
    components: {
      schemas: components,
      securitySchemes: {
        apiKey: { type: "apiKey", in: "header", name: "X-API-Key" },
        bearer: { type: "http", scheme: "bearer" },
      },
    },
  };
}

function operationObject(operation: string, route: Route, components: Record<string, unknown>): Json {
  const roles = typeof route.access === "string" ? [] : route.access;
  const parameters = [
    ...pathParameters(route),
    ...queryParameters(route, components),
    ...headers(operation, route),
  ];
  return {
    operationId: operation,
    summary: route.summary,
    tags: [route.path.split("/")[3] ?? "server"],
    ...(roles.length === 0 ? {} : { description: `Roles: ${roles.join(", ")}.`, "x-roles": roles }),
    ...(route.access === "open" ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.body === undefined ? {} : { requestBody: requestBody(route, route.body, components) }),
    responses: { ...successes(operation, route, components), ...failures(route, components) },
  };
}

function requestBody(route: Route, body: z.core.$ZodType, components: Record<string, unknown>): Json {
  const types = route.takesYaml === true ? [jsonMediaType, yamlMediaTypes[0]] : [jsonMediaType];
  const schema = schemaOf(body, components);
  return { content: Object.fromEntries(types.map((type) => [type, { schema }])) };
}

function pathParameters({ path }: Route): Json[] {
  const names = [...path.matchAll(/\{([a-z_]+)\}/g)].map(([, name]) => name ?? "");
  return names.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } }));
}

function queryParameters({ query }: Route, components: Record<string, unknown>): Json[] {
  return Object.entries(query?.shape ?? {}).map(([name, schema]) => ({
    name,
    in: "query",
    required: !schema.safeParse(undefined).success && !isOptional(schema),
    schema: schemaOf(schema, components),
  }));
}

const isOptional = (schema: z.core.$ZodType): boolean => z.object({ it: schema }).safeParse({}).success;

function headers(operation: string, { mediaType }: Route): Json[] {
  if (mediaType === eventStreamType) {
    return [
      {
        name: "Last-Event-ID",
        in: "header",
        required: false,
        description: "The id of the last event received: the stream goes on after it.",
        schema: { type: "string", pattern: "^[0-9]{1,15}$" },
      },
    ];
  }
  if (operation === "reportResults") return [traceparent];
  if (operation !== "startRun" && operation !== "rerunRun") return [];
  return [
    traceparent,
    {
      name: "Idempotency-Key",
      in: "header",
      required: false,
      description: "1 to 255 visible ASCII characters, quoted or bare. The same key starts one run.",
      schema: { type: "string", minLength: 1, maxLength: 512 },
    },
  ];
}

const traceparent = {
  name: "traceparent",
  in: "header",
  required: false,
  description:
    "W3C trace context, version 00: the work that the request begins belongs to that trace, and workers are told. One that cannot be read is passed over.",
  schema: { type: "string" },
};

function successes(operation: string, route: Route, components: Record<string, unknown>): Json {
  const { mediaType = operation === "metrics" ? "text/plain" : "application/json" } = route;
  return Object.fromEntries(
    Object.entries(route.replies).map(([status, schema]) => [
      status,
      status === "204"
        ? { description: "Done." }
        : { description: "Done.", ...content(schema, components, mediaType) },
    ]),
  );
}

/** One response per status; its codes stand in the description, since all have the same form. */
function failures(route: Route, components: Record<string, unknown>): Json {
  const byStatus = new Map<number, string[]>();
  for (const code of errorsOf(route)) {
    const { status } = errors[code];
    // 499 is what the log says of a caller that went away; nobody is there to receive it.
    if (status === 499) continue;
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const entries = [...byStatus].sort(([left], [right]) => left - right);
  return Object.fromEntries(
    entries.map(([status, codes]) => [
      String(status),
      {
        description: codes.join(", "),
        "x-codes": codes,
        ...content(problemBody, components, problemMediaType),
      },
    ]),
  );
}

function content(schema: z.core.$ZodType, components: Record<string, unknown>, mediaType: string): Json {
  return { content: { [mediaType]: { schema: schemaOf(schema, components) } } };
}

/** Named schemas move to the components and are referred to. */
function schemaOf(schema: z.core.$ZodType, components: Record<string, unknown>): Json {
  const { $schema, $defs, ...rest } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  for (const [name, definition] of Object.entries($defs ?? {})) components[name] = moved(definition);
  return moved(rest) as Json;
}

function moved(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replaceAll('"#/$defs/', '"#/components/schemas/')) as unknown;
}
