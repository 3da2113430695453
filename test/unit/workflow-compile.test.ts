// Compiled definitions: neighbours, defaults, what expressions need loaded, and the check of inputs.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { compileDefinition } from "../../src/domain/workflow/compile.ts";
import type { CompiledStep, Scope } from "../../src/domain/workflow/compiled.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";
import { readCondition } from "../../src/domain/workflow/expression.ts";

function compiled(value: JsonValue) {
  const reading = readDefinition(value);
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  return compileDefinition("orders", reading.definition);
}

const definition = {
  name: "Orders",
  risk: "high",
  timeout_sec: 90,
  input_schema: { type: "object", required: ["amount"], properties: { amount: { type: "number" } } },
  steps: {
    fetch: { output_path: "order.lines", on_error: "undo", meta: { capability: "sql" } },
    enrich: { output_path: "order.customer" },
    review: {
      type: "approval",
      depends_on: ["fetch", "enrich"],
      condition: "ctx.order.lines.size() > 0 && ctx.steps.enrich.ok",
      input: { order: `\${ctx.order}`, status: `\${steps.fetch.status}`, limit: `\${input.amount / 2}` },
      separate_duties: true,
    },
    pause: { type: "delay", depends_on: ["review"], delay_until: `\${ctx.steps.review.until}` },
    final: { depends_on: ["pause"], output_path: "order", topic: "job.final", route_labels: { zone: "eu" } },
    undo: { depends_on: ["fetch"], input: { why: `\${steps.fetch.error}` } },
  },
} as const;

describe("a compiled definition", () => {
  const result = compiled(definition);
  const step = (id: string) => result.steps.get(id) as CompiledStep;

  test("knows its name, risk, timeout and where to begin", () => {
    expect(result).toMatchObject({ workflow: "orders", name: "Orders", risk: "high", timeoutMs: 90_000 });
    expect(result.roots).toEqual(["fetch", "enrich"]);
    expect(compiled({ steps: { a: {} } })).toMatchObject({ name: "orders", risk: "standard" });
  });

  test("knows every step's neighbours; a handler waits for nothing and follows nobody", () => {
    expect(step("fetch")).toMatchObject({
      dependsOn: [],
      dependents: ["review"],
      onError: "undo",
      handlesErrors: false,
    });
    expect(step("review")).toMatchObject({ dependsOn: ["fetch", "enrich"], dependents: ["pause"] });
    expect(step("undo")).toMatchObject({ dependsOn: [], dependents: [], handlesErrors: true });
  });

  test("fills in defaults and passes on what workers must offer", () => {
    expect(step("fetch")).toMatchObject({
      topic: "job.workflow.orders",
      requires: { labels: {}, capabilities: ["sql"] },
      name: "fetch",
    });
    expect(step("final")).toMatchObject({
      topic: "job.final",
      requires: { labels: { zone: "eu" }, capabilities: [] },
    });
    expect(step("enrich").requires).toBeUndefined();
    expect(step("review").separateDuties).toBe(true);
  });

  test("lists the steps that an expression reads, also those that fill the context", () => {
    expect(step("review").condition?.steps).toEqual(["fetch", "enrich"]);
    // "final" writes to the same place, but only afterwards.
    expect(step("review").input?.steps).toEqual(["fetch", "enrich"]);
    expect(step("undo").input?.steps).toEqual(["fetch"]);
    expect(step("pause").delay).toMatchObject({ kind: "until", at: { steps: ["review"] } });
  });

  test("evaluates with what the engine gives it", () => {
    const scope: Scope = {
      input: { amount: 5 },
      ctx: { order: { lines: [1] }, steps: { enrich: { ok: true }, fetch: [1] } },
      steps: { fetch: { status: "succeeded", output: [1], error: null } },
    };
    expect(step("review").condition?.evaluate(scope)).toEqual({ kind: "value", value: true });
    expect(step("review").input?.evaluate(scope)).toEqual({
      kind: "value",
      value: { order: { lines: [1] }, status: "succeeded", limit: 2.5 },
    });
    expect(step("undo").input?.evaluate(scope)).toEqual({ kind: "value", value: {} });
  });

  test("tells all problems of an input, and none without a schema", () => {
    expect(result.problemsOfInput({ amount: 1 })).toEqual([]);
    expect(result.problemsOfInput({})).toEqual([{ path: "input.amount", message: "is required" }]);
    expect(compiled({ steps: { a: {} } }).problemsOfInput("anything")).toEqual([]);
  });

  test("is refused loudly when the definition was never valid", () => {
    const reading = readDefinition({ steps: { a: {} } });
    if (reading.kind === "invalid") throw new Error("valid");
    const condition = { reading: readCondition("1 +", "steps.a.condition") };
    const expressions = new Map([["a", { condition: { ...condition, knows: [], seesInside: false } }]]);
    const broken = { ...reading.definition, expressions };
    expect(() => compileDefinition("orders", broken)).toThrow("was not read as valid");
  });
});
