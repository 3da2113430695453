// Every field of every type of step with values of every kind, one at a time: what is read, and what is refused where, as on file.
// WRITE_ANSWERS=1 writes the file anew: the difference is what authors of definitions will see.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";
import { type Fields, problemsOf, stepOf, template } from "../support/step-reading.ts";

const values: readonly JsonValue[] = [
  ...[null, "", "x", "x y", "a.b", "ctx.a", "constructor", "2026-11-15T08:30:00Z", template("input.n > 1")],
  ...[true, false, 0, 0.5, 1, 2, -1],
  ...[[], ["x"], ["x", "x"], [""], [7], {}, { x: 1 }, { x: "y" }],
];

type Base = { readonly step: Fields; readonly fields: readonly string[]; readonly own?: readonly string[] };

const general = [
  "condition",
  "input",
  "input_schema",
  "output_schema",
  "result_data_path",
  "for_each",
].concat([
  ...[
    "for_each_on_failure",
    "max_parallel",
    "timeout_sec",
    "delay_sec",
    "delay_until",
    "separate_duties",
    "topic",
  ],
]);

const bases: Readonly<Record<string, Base>> = {
  worker: {
    step: { type: "worker", topic: "t" },
    fields: [
      ...[...general, "id", "name", "type", "worker_id", "depends_on", "input_schema_id", "output_schema_id"],
      ...["output_path", "meta", "on_error", "retry", "route_labels", "policy_gate", "unheard_of"],
    ],
  },
  "worker with a list": {
    step: { type: "worker", topic: "t", for_each: "input.items" },
    fields: ["for_each_on_failure", "max_parallel", "input"],
  },
  "worker with a retry": {
    step: { type: "worker", retry: { max_retries: 3 } },
    ...{ fields: [], own: ["retry.max_retries", "retry.initial_backoff_sec", "retry.max_backoff_sec"] },
  },
  "worker with another retry": {
    step: { type: "worker", retry: { initial_backoff_sec: 2 } },
    ...{ fields: [], own: ["retry.multiplier", "retry.unheard_of"] },
  },
  "worker with particulars": {
    step: { type: "worker", meta: { capability: "gpu" } },
    fields: [],
    own: [
      "actor_id",
      "actor_type",
      "idempotency_key",
      "pack_id",
      "capability",
      "risk_tags",
      "requires",
      "labels",
    ]
      .concat("unheard_of")
      .map((name) => `meta.${name}`),
  },
  approval: { step: { type: "approval" }, fields: general },
  condition: { step: { type: "condition", condition: "input.n > 1" }, fields: general },
  switch: {
    step: { type: "switch", condition: "input.n", input: { cases: [{ match: 1, next: "x" }] } },
    ...{ fields: general, own: ["input.cases", "input.default", "input.unheard_of"] },
  },
  parallel: {
    step: { type: "parallel", input: { steps: ["x", "y"] } },
    fields: general,
    own: ["steps", "strategy", "required", "max_parallel", "on_failure", "unheard_of"].map(
      (name) => `input.${name}`,
    ),
  },
  "parallel of some": {
    step: {
      type: "parallel",
      max_parallel: 1,
      input: { steps: ["x", "y"], strategy: "n_of_m", required: 1 },
    },
    ...{ fields: [], own: ["input.required", "input.max_parallel", "input.strategy"] },
  },
  loop: {
    step: { type: "loop", input: { body: "x" } },
    fields: general,
    own: ["body", "body_step", "max_iterations", "while", "condition", "until", "unheard_of"].map(
      (name) => `input.${name}`,
    ),
  },
  delay: { step: { type: "delay", delay_sec: 5 }, fields: general },
  "delay until": {
    step: { type: "delay", delay_until: "2026-11-15T08:30:00Z" },
    fields: ["delay_sec", "delay_until", "timeout_sec"],
  },
  notify: {
    step: { type: "notify", input: { message: "m" } },
    fields: general,
    own: ["level", "message", "component", "trace_id", "details", "unheard_of"].map(
      (name) => `input.${name}`,
    ),
  },
  transform: { step: { type: "transform", input: { a: 1 } }, fields: general },
  "storage that writes": {
    step: { type: "storage", input: { operation: "write", key: "a.b", value: 1 } },
    ...{ fields: general, own: ["input.operation", "input.key", "input.value", "input.unheard_of"] },
  },
  "storage that reads": {
    step: { type: "storage", input: { operation: "read", key: "a.b" } },
    ...{ fields: [], own: ["input.key", "input.value"] },
  },
  subworkflow: {
    step: { type: "subworkflow", input: { workflow_id: "w" } },
    fields: general,
    own: ["workflow_id", "input_mapping", "output_mapping", "unheard_of"].map((name) => `input.${name}`),
  },
};

function withField(step: Fields, field: string, value: JsonValue): Fields {
  const [outer = "", inner] = field.split(".");
  return { ...step, [outer]: inner === undefined ? value : { ...(step[outer] as Fields), [inner]: value } };
}

/** All that is wrong with it, or how what is read differs from what is read of the other one. */
function verdictOf(step: Fields, other: Fields = {}): string {
  const problems = problemsOf(step);
  if (problems.length > 0)
    return problems.map(([path, message]) => `${path.replace("steps.a.", "")}: ${message}`).join("; ");
  const [read, before] = [membersOf(step), membersOf(other)];
  const changed = [...read].flatMap(([name, text]) => (before.get(name) === text ? [] : [`${name}=${text}`]));
  const lost = [...before.keys()].filter((name) => !read.has(name)).map((name) => `no ${name}`);
  return `read: ${[...changed, ...lost].join(" ")}`;
}

function membersOf(step: Fields): ReadonlyMap<string, string> {
  return new Map(
    Object.entries(stepOf(step) ?? {}).map(([name, value]) => [name, JSON.stringify(value) ?? "undefined"]),
  );
}

const path = join(import.meta.dirname, "../fixtures/answers/step-verdicts.json");

/** By what comes of them: each field with its values. */
function verdictsOf({ step, fields, own = [] }: Base): Readonly<Record<string, readonly string[]>> {
  const verdicts: Record<string, string[]> = { [verdictOf(step)]: ["all of it"] };
  for (const field of [...fields, ...own]) {
    const found = new Map<string, string[]>();
    for (const value of values) {
      const verdict = verdictOf(withField(step, field, value), step);
      found.set(verdict, [...(found.get(verdict) ?? []), JSON.stringify(value)]);
    }
    for (const [verdict, those] of found) {
      verdicts[verdict] = [...(verdicts[verdict] ?? []), `${field} ${those.join(" or ")}`];
    }
  }
  return verdicts;
}

describe("a step of the type", () => {
  const written = process.env.WRITE_ANSWERS !== undefined;
  const all = written
    ? Object.fromEntries(Object.entries(bases).map(([name, base]) => [name, verdictsOf(base)]))
    : {};
  if (written) writeFileSync(path, `${JSON.stringify(all, null, 1)}\n`);
  const onFile = JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>;

  test.each(Object.entries(bases))("%s", (name, base) => {
    expect(verdictsOf(base)).toEqual(onFile[name]);
  });
});

describe("the largest that is taken, and one more", () => {
  const text = (length: number) => "x".repeat(length);
  type Make = (size: number) => Fields;
  const worker =
    (field: string, make: (size: number) => JsonValue): Make =>
    (size) =>
      withField({ type: "worker" }, field, make(size));
  const inside =
    (type: string, input: Fields, field: string, make: (size: number) => JsonValue): Make =>
    (size) =>
      withField({ type, input }, `input.${field}`, make(size));
  const list = (size: number) => Array.from({ length: size }, (_, index) => `x${index}`);

  test.each<[string, number, Make, string]>([
    ["name", 256, worker("name", text), "name: has at most 256 characters, not 257"],
    ["worker_id", 256, worker("worker_id", text), "worker_id: has at most 256 characters, not 257"],
    ["topic", 128, worker("topic", text), "topic: has at most 128 characters, not 129"],
    [
      "timeout_sec",
      604_800,
      worker("timeout_sec", (n) => n),
      "timeout_sec: must be a plain number from 0 to 604800",
    ],
    [
      "retries",
      100,
      worker("retry.max_retries", (n) => n),
      "retry.max_retries: must be a whole number from 0 to 100",
    ],
    [
      "a multiplier",
      100,
      worker("retry.multiplier", (n) => n),
      "retry.multiplier: must be a plain number from 0 to 100",
    ],
    [
      "a first wait",
      ...([604_800, worker("retry.initial_backoff_sec", (n) => n)] as const),
      "retry.initial_backoff_sec: must be a plain number from 0 to 604800",
    ],
    [
      "a longest wait",
      ...([604_800, worker("retry.max_backoff_sec", (n) => n)] as const),
      "retry.max_backoff_sec: must be a plain number from 0 to 604800",
    ],
    ["an actor", 256, worker("meta.actor_id", text), "meta.actor_id: has at most 256 characters, not 257"],
    [
      "a capability",
      256,
      worker("meta.capability", text),
      "meta.capability: has at most 256 characters, not 257",
    ],
    [
      "a requirement",
      256,
      worker("meta.requires", (n) => [text(n)]),
      "meta.requires[0]: has at most 256 characters, not 257",
    ],
    [
      "a risk tag",
      256,
      worker("meta.risk_tags", (n) => [text(n)]),
      "meta.risk_tags[0]: has at most 256 characters, not 257",
    ],
    ["requirements", 100, worker("meta.requires", list), "meta.requires: has at most 100 items"],
    [
      "a label's value",
      ...([256, worker("route_labels.a", text)] as const),
      "route_labels.a: must be a text of at most 256 characters, under a name of at most 128",
    ],
    [
      "names of a path",
      ...([16, worker("output_path", (n) => list(n).join("."))] as const),
      "output_path: must be at most 16 names joined by dots, as review.result",
    ],
    [
      "characters of a path",
      256,
      worker("output_path", text),
      "output_path: has at most 256 characters, not 257",
    ],
    [
      "items at once",
      ...([1_000, (n: number) => ({ for_each: "input.items", max_parallel: n })] as const),
      "max_parallel: must be a whole number from 0 to 1000",
    ],
    [
      "iterations",
      ...([10_000, inside("loop", { body: "x" }, "max_iterations", (n) => n)] as const),
      "input.max_iterations: must be a whole number from 1 to 10000",
    ],
    [
      "a message",
      ...([16_384, inside("notify", {}, "message", text)] as const),
      "input.message: has at most 16384 characters, not 16385",
    ],
    [
      "those that must succeed",
      ...([2, inside("parallel", { steps: ["x", "y"], strategy: "n_of_m" }, "required", (n) => n)] as const),
      "input.required: must be a whole number from 0 to 2",
    ],
  ])("%s: %i", (_, largest, make, refused) => {
    expect(verdictOf(make(largest - 1))).toMatch(/^read: /);
    expect(verdictOf(make(largest))).toMatch(/^read: /);
    expect(verdictOf(make(largest + 1))).toBe(refused);
  });

  test("a delay is a year", () => {
    const delayed = (seconds: number) => verdictOf({ type: "delay", delay_sec: seconds });
    expect(delayed(31_536_000)).toMatch(/^read: /);
    expect(delayed(31_536_001)).toContain("delay_sec: must be a plain number from 0 to 31536000");
  });

  test("the name of a label has 128 characters", () => {
    const labelled = (length: number) => verdictOf({ route_labels: { [text(length)]: "v" } });
    expect(labelled(128)).toMatch(/^read: /);
    expect(labelled(129)).toContain("must be a text of at most 256 characters, under a name of at most 128");
  });

  const whole = (fields: Fields) => {
    const reading = readDefinition({ steps: { a: {} }, ...fields });
    return reading.kind === "invalid" ? reading.problems : [];
  };

  test.each([
    ...(["org_id", "team_id", "name", "version", "created_by"].map((field) => [field, 256]) as [
      string,
      number,
    ][]),
    ["description", 16_384],
    ["id", 64],
  ])("%s of a definition: %i characters", (field, largest) => {
    expect(whole({ [field]: text(largest) })).toEqual([]);
    const message = `has at most ${largest} characters, not ${largest + 1}`;
    expect(whole({ [field]: text(largest + 1) })).toEqual([{ path: field, message }]);
  });

  test("a definition has 1,000 steps, and 200 problems are told", () => {
    const steps = (count: number, step: Fields) => Object.fromEntries(list(count).map((id) => [id, step]));
    expect(whole({ steps: steps(1_000, {}) })).toEqual([]);
    const message = "has 1 to 1000 steps, not 1001";
    expect(whole({ steps: steps(1_001, {}) })).toEqual([{ path: "steps", message }]);
    expect(whole({ steps: steps(200, { wrong: 1 }) })).toHaveLength(200);
    const many = whole({ steps: steps(201, { wrong: 1 }) });
    expect([many.length, many.at(-1)]).toEqual([201, { path: "", message: "and 1 more problems" }]);
  });
});
