// Reading definitions: existing ones load, and every mistake is reported at once with its place.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { Problem } from "../../src/domain/workflow/compiled.ts";
import {
  type Definition,
  definitionBytesMax,
  definitionHash,
  definitionText,
  readDefinition,
} from "../../src/domain/workflow/definition.ts";

type Fields = { readonly [name: string]: JsonValue };

function valid(value: JsonValue): Definition {
  const reading = readDefinition(value);
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems, undefined, 1));
  return reading.definition;
}

/** What was written, without what was made of it. */
function written(value: JsonValue) {
  const { graph: _graph, expressions: _expressions, ...rest } = valid(value);
  return rest;
}

function problemsOf(value: JsonValue): readonly Problem[] {
  const reading = readDefinition(value);
  return reading.kind === "invalid" ? reading.problems : [];
}

const problemsOfStep = (step: Fields) => problemsOf({ steps: { a: step, b: {} } });
const stepOf = (step: Fields) => valid({ steps: { a: step, b: {} } }).steps.get("a");

/** Every field that existing definitions use, as far as it means the same here. */
const existing: Fields = {
  id: "loan-review",
  org_id: "acme",
  team_id: "risk",
  name: "Loan review",
  description: "Scores and approves",
  version: "2.1-beta",
  created_by: "ada",
  created_at: "2026-01-01T00:00:00Z",
  updated_at: "2026-01-01T00:00:00Z",
  timeout_sec: 3600,
  input_schema: { type: "object", required: ["amount"], properties: { amount: { type: "number" } } },
  parameters: [{ name: "amount", widget: "slider" }],
  config: { region: "eu" },
  policy_override: "",
  steps: {
    score: {
      id: "score",
      name: "Score",
      type: "llm",
      worker_id: "w-1",
      topic: "job.risk.score",
      input: { amount: `\${input.amount}`, note: `Loan of \${input.amount}` },
      output_path: "score.result",
      meta: {
        actor_id: "a",
        actor_type: "service",
        idempotency_key: "k",
        pack_id: "p",
        capability: "gpu",
        risk_tags: ["money"],
        requires: ["score", "gpu"],
        labels: { team: "risk" },
      },
      on_error: "apologise",
      retry: { max_retries: 3, initial_backoff_sec: 2, max_backoff_sec: 30, multiplier: 3 },
      timeout_sec: 60,
      route_labels: { region: "eu" },
      policy_gate: "allow",
      max_parallel: 0,
    },
    check: { type: "condition", depends_on: ["score"], condition: "ctx.score.result.value > 0.5" },
    ask: {
      type: "approval",
      depends_on: ["check"],
      condition: `\${steps.check.output}`,
      input: { amount: `\${input.amount}` },
      separate_duties: true,
    },
    wait: { type: "delay", depends_on: ["ask"], delay_sec: 1.5 },
    shape: { type: "transform", depends_on: ["wait"], input: { total: `\${input.amount * 2}` } },
    apologise: { type: "http", input: { why: `\${steps.score.error}` } },
  },
};

describe("an existing definition", () => {
  test("loads with all the fields that existing definitions use", () => {
    const definition = valid(existing);
    expect(definition).toMatchObject({
      id: "loan-review",
      name: "Loan review",
      risk: "standard",
      timeoutMs: 3_600_000,
    });
    expect(definition.steps.get("score")).toEqual({
      id: "score",
      type: "worker",
      name: "Score",
      dependsOn: [],
      onError: "apologise",
      input: { amount: `\${input.amount}`, note: `Loan of \${input.amount}` },
      topic: "job.risk.score",
      labels: { region: "eu" },
      capabilities: ["gpu", "score"],
      retry: { retriesMax: 3, initialMs: 2_000, maxMs: 30_000, multiplier: 3 },
      timeoutMs: 60_000,
      outputPath: ["score", "result"],
      separateDuties: false,
    });
    expect([...definition.steps.values()].map(({ type }) => type)).toEqual([
      "worker",
      "condition",
      "approval",
      "delay",
      "transform",
      "worker",
    ]);
  });

  test.each(["worker", "llm", "http", "container", "script", "input", ""])("type %j is a worker", (type) => {
    expect(stepOf({ type })?.type).toBe("worker");
  });

  test("null and empty texts count as not set", () => {
    const step = {
      type: null,
      condition: "",
      on_error: "",
      output_path: "",
      topic: "",
      retry: null,
      timeout_sec: 0,
    };
    expect(stepOf(step)).toEqual(stepOf({}));
  });

  test("a step called execute and a field requires_review can be read", () => {
    const steps = {
      execute: {},
      import: { depends_on: ["execute"] },
      next: {
        depends_on: ["import"],
        condition:
          "input.requires_review && steps.execute.output.constructor == 1 && steps.import.status == ''",
      },
    };
    expect(problemsOf({ steps })).toEqual([]);
  });
});

describe("ids", () => {
  test.each(["all", "a", "0", "A.b_c-D", "constructor", "x".repeat(64)])("%s is fine", (id) => {
    expect(problemsOf({ id, steps: { [id]: {} } })).toEqual([]);
  });

  test.each([
    "status:running",
    "active:acme",
    "a b",
    "-a",
    ".a",
    "__proto__",
    "a/b",
    "x".repeat(65),
    "ä",
    "a\n",
    "a@1",
  ])("%j is refused", (id) => {
    expect(problemsOf({ id, steps: { a: {} } })).toMatchObject([{ path: "id" }]);
    const steps = JSON.parse(`{${JSON.stringify(id)}: {}}`) as JsonValue;
    expect(problemsOf({ steps }).length).toBe(1);
  });

  test("a step's own id must be the name it stands under", () => {
    expect(problemsOfStep({ id: "other" })).toEqual([
      { path: "steps.a.id", message: 'must be "a", the name the step stands under' },
    ]);
  });

  test.each(["job.risk.score", "0", "x".repeat(128)])("topic %s is fine", (topic) => {
    expect(stepOf({ topic })?.topic).toBe(topic);
  });

  test.each(["job.>", "job.*", " a", "x".repeat(129), ".a"])("topic %j is refused", (topic) => {
    expect(problemsOfStep({ topic })).toMatchObject([{ path: "steps.a.topic" }]);
  });
});

describe("all problems are told at once", () => {
  test("with their places", () => {
    const problems = problemsOf({
      id: "a:b",
      name: "x".repeat(257),
      colour: "red",
      risk: "huge",
      timeout_sec: 604_801,
      input_schema: { type: "wat" },
      parameters: [1],
      config: [],
      steps: {
        review: {
          type: "dance",
          depends_on: ["gone", "review", "other", "other", 5],
          condition: "1 +",
          shade: 1,
        },
        "a.b": {
          retry: { max_retries: 101, multiplier: 0.5, jitter: 1 },
          timeout_sec: "5",
          meta: { colour: 1 },
        },
        other: { input: { list: [`\${nope}`] }, on_error: "gone" },
        plain: 7,
      },
    });
    expect(problems.map(({ path }) => path).toSorted()).toEqual(
      [
        "colour",
        "config",
        "id",
        "input_schema.type",
        "name",
        "parameters",
        "risk",
        'steps["a.b"].meta.colour',
        'steps["a.b"].retry.jitter',
        'steps["a.b"].retry.max_retries',
        'steps["a.b"].retry.multiplier',
        'steps["a.b"].timeout_sec',
        "steps.other.input.list[0]",
        "steps.other.on_error",
        "steps.plain",
        "steps.review.condition",
        "steps.review.depends_on[0]",
        "steps.review.depends_on[1]",
        "steps.review.depends_on[3]",
        "steps.review.depends_on[4]",
        "steps.review.shade",
        "steps.review.type",
        "timeout_sec",
      ].toSorted(),
    );
  });

  test("but not thousands of the same", () => {
    const fields = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`x${index}`, 1]));
    const problems = problemsOf({ ...fields, steps: { a: {} } });
    expect(problems.length).toBe(201);
    expect(problems.at(-1)).toEqual({ path: "", message: "and 4800 more problems" });
  });
});

describe("what is not supported is refused, not ignored", () => {
  test("an unknown type is told all that there are", () => {
    expect(problemsOfStep({ type: "dance" })).toEqual([
      {
        path: "steps.a.type",
        message:
          "must be one of worker, llm, http, container, script, input, approval, condition, switch, parallel, loop, delay, notify, transform, storage, subworkflow",
      },
    ]);
  });

  test.each<[string, JsonValue]>([
    ["output_schema_id", "s"],
    ["input_schema_id", "s"],
    ["policy_gate", "deny"],
    ["policy_gate", "require_approval"],
    ["separate_duties", true],
    ["delay_sec", 5],
    ["delay_until", "2026-11-15T08:30:00Z"],
  ])("%s: %j", (name, value) => {
    expect(problemsOfStep({ [name]: value })).toMatchObject([{ path: `steps.a.${name}` }]);
  });

  test("policy_override", () => {
    expect(problemsOf({ policy_override: "rules: []", steps: { a: {} } })).toMatchObject([
      { path: "policy_override" },
    ]);
  });
});

describe("sizes", () => {
  test("steps are 1 to 1,000", () => {
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`s${index}`, {}]));
    expect(problemsOf({ steps: many(1_000) })).toEqual([]);
    expect(problemsOf({ steps: many(1_001) })).toMatchObject([{ path: "steps" }]);
    expect(problemsOf({ steps: {} })).toMatchObject([{ path: "steps" }]);
    expect(problemsOf({})).toMatchObject([{ path: "steps" }]);
    expect(problemsOf({ steps: [] })).toMatchObject([{ path: "steps" }]);
    expect(problemsOf([])).toMatchObject([{ path: "" }]);
  });

  test("the text has at most 256 KiB", () => {
    expect(problemsOf({ config: { a: "x".repeat(definitionBytesMax) }, steps: { a: {} } })).toMatchObject([
      { path: "" },
    ]);
  });

  test("a definition made to be slow is read quickly", () => {
    const ids = Array.from({ length: 400 }, (_, index) => `s${index}`);
    const steps = Object.fromEntries(
      ids.map((id, index) => [
        id,
        {
          depends_on: ids.slice(Math.max(0, index - 50), index),
          output_path: `p${index % 7}.x`,
          input: { a: `\${ctx.p1} \${ctx.p2.x} \${steps.nope}` },
        },
      ]),
    );
    const started = performance.now();
    expect(problemsOf({ steps }).length).toBeGreaterThan(100);
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});

describe("the stored form", () => {
  test("is the same however the definition was written", () => {
    const text = definitionText(existing);
    const rewritten = JSON.parse(
      JSON.stringify(Object.fromEntries(Object.entries(existing).toReversed())),
    ) as JsonValue;
    expect(definitionText(rewritten)).toBe(text);
    expect(definitionHash(text)).toMatch(/^[0-9a-f]{64}$/);
    expect(written(JSON.parse(text) as JsonValue)).toEqual(written(existing));
  });

  test("whatever is sent, reading it never throws", () => {
    const name = fc.constantFrom(
      "steps",
      "a",
      "b",
      "id",
      "type",
      "depends_on",
      "on_error",
      "input",
      "retry",
      "condition",
      "input_schema",
      "meta",
      "$ref",
      "__proto__",
      "delay_until",
      "timeout_sec",
    );
    const leaf = fc.constantFrom<JsonValue>(
      null,
      true,
      -1,
      1e308,
      "",
      "a",
      "b",
      "delay",
      `\${steps.a}`,
      "input.x > 1",
      "#",
      "object",
    );
    const { value } = fc.letrec<{ value: JsonValue }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 6 },
        leaf,
        fc.array(tie("value"), { maxLength: 3 }),
        fc.dictionary(name, tie("value"), { maxKeys: 5 }),
      ),
    }));
    fc.assert(
      fc.property(value, value, (steps, schema) => {
        for (const definition of [
          steps,
          { steps },
          { steps: { a: steps, b: {} } },
          { steps: { a: {} }, input_schema: schema },
        ]) {
          expect(["valid", "invalid"]).toContain(readDefinition(definition).kind);
        }
      }),
      { seed: 6, numRuns: 1_500 },
    );
  });
});
