// How the other tenant floods: what it sends, and how much of it.
import type { HttpLoad } from "./http-load.ts";

/** Many cheap requests: beyond its limit, within none, or with a key that nobody made. */
const cheapFloods = ["over_limit", "admitted", "without_key"] as const;
/** The costliest requests that a tenant may send: a definition, an input and a loop that are as large as their limits allow. */
export const costlyFloods = ["costly_validate", "costly_start", "costly_dry_run"] as const;
export const floods = [...cheapFloods, ...costlyFloods] as const;
export type Flood = (typeof floods)[number];

export const startPath = "/api/v1/workflows/one-step/runs";
export const startBody = '{"order":"{n}"}';

const times = <Item>(count: number, item: (index: number) => Item): Item[] =>
  Array.from({ length: count }, (_, index) => item(index));

/** Schemas of 64 KiB with patterns, four times: as much as one definition has had to be judged for. */
const costlySchema = {
  type: "object",
  properties: Object.fromEntries(
    times(120, (index) => [`n${index}`, { type: "string", pattern: `^[a-z${index % 10}]{1,40}(x|y)?$` }]),
  ),
};
const costlyDefinition = {
  id: "costly-{n}",
  input_schema: costlySchema,
  steps: Object.fromEntries(
    times(3, (index) => [`n${index}`, { input_schema: { ...costlySchema, title: `{n}-${index}` } }]),
  ),
};

const numbers = `[${times(40, (index) => index).join(",")}]`;
const costlyExpression = `${numbers}.map(x, ${numbers}.map(y, x * y))`;

/** Saved for the tenants that start it and play it through. */
export const costlyWorkflows = {
  checked: {
    id: "checked",
    input_schema: {
      type: "object",
      properties: {
        order: { type: "string" },
        list: {
          type: "array",
          items: {
            type: "object",
            required: ["name"],
            properties: { name: { type: "string", maxLength: 20 } },
          },
        },
      },
    },
    steps: { one: { topic: "costly" } },
  },
  loop: {
    id: "loop",
    steps: {
      again: {
        type: "loop",
        input: { body: "one", max_iterations: 200, until: `size(${costlyExpression}) > 1000` },
      },
      one: { type: "transform", input: { all: `\${${costlyExpression}}` } },
    },
  },
} as const;

const costlyInput = { order: "{n}", list: times(10_000, (index) => ({ name: `item ${index}` })) };

type Sent = Pick<HttpLoad, "path" | "body" | "connections" | "perSecond" | "succeeds">;

const cheap: Sent = {
  path: startPath,
  body: startBody,
  connections: 200,
  perSecond: 400,
  succeeds: [200, 401, 429],
};

/** As many at once as a small program keeps open, each as soon as the one before is answered. */
const costly = (path: string, body: unknown): Sent => ({
  path,
  body: JSON.stringify(body),
  connections: 8,
  succeeds: [200, 422, 429, 503],
});

export const floodRequests: Readonly<Record<Flood, Sent>> = {
  over_limit: cheap,
  admitted: cheap,
  without_key: cheap,
  costly_validate: costly("/api/v1/workflows/validate", costlyDefinition),
  costly_start: costly("/api/v1/workflows/checked/runs", costlyInput),
  costly_dry_run: costly("/api/v1/workflows/loop/dry-run", { input: { order: "{n}" } }),
};
