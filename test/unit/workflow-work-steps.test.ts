// The fields of steps that do work: for_each, notify, storage, subworkflow, and schemas; every mistake with its exact place.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import {
  expectWrong,
  type Fields,
  problemsOf,
  stepOf,
  template,
  type Wrong,
} from "../support/step-reading.ts";

describe("for_each", () => {
  test.each<[Fields, object]>([
    [{ for_each: "input.items" }, { items: "input.items", parallelMax: 100, onFailure: "cancel" }],
    [{ for_each: template("input.items"), max_parallel: 0 }, { parallelMax: 100 }],
    [
      { for_each: "[1, 2]", max_parallel: 7, for_each_on_failure: "continue", type: "llm" },
      { parallelMax: 7, onFailure: "continue" },
    ],
  ])("reads %j", (step, expected) => {
    expect(stepOf(step)?.forEach).toMatchObject(expected);
  });

  test("an empty text is none", () => {
    expect(stepOf({ for_each: "" })?.forEach).toBeUndefined();
  });

  test.each<Wrong>([
    [{ for_each: ["a"] }, "for_each", "must be a text"],
    [{ for_each: "1 +" }, "for_each", "Unexpected token: EOF (at character 4)"],
    [{ for_each: "1 + 1" }, "for_each", "for_each goes over a list, this one gives int"],
    [{ for_each: "item.list" }, "for_each", "item is only known in the input of a step with for_each"],
    [{ for_each: "input.a", max_parallel: 1_001 }, "max_parallel", "must be a whole number from 0 to 1000"],
    [
      { for_each: "input.a", for_each_on_failure: "x" },
      "for_each_on_failure",
      "must be one of cancel, continue",
    ],
    [{ for_each_on_failure: "cancel" }, "for_each_on_failure", "only goes with for_each"],
    [
      { type: "approval", for_each: "input.a" },
      "for_each",
      "only goes with worker steps, not with approval; a subworkflow or loop repeats others",
    ],
  ])("%j is refused", (...wrong) => expectWrong(wrong));
});

describe("notify", () => {
  const notify = (input: JsonValue, more: Fields = {}): Fields => ({ type: "notify", input, ...more });

  test("is a job with a level, on a topic of its own unless another is named", () => {
    expect(stepOf(notify({ message: "hello" }))).toMatchObject({
      topic: "interlock.notify",
      input: { level: "info", message: "hello" },
    });
    const all = {
      level: "error",
      message: template("input.text"),
      component: "billing",
      trace_id: template("input.trace"),
      details: { amount: template("input.amount") },
    };
    expect(stepOf(notify(all, { topic: "my.alerts" }))).toMatchObject({ topic: "my.alerts", input: all });
  });

  test.each<Wrong>([
    [{ type: "notify" }, "input", "a notify step needs it"],
    [notify({}), "input.message", "a notify step needs it"],
    [notify({ message: "" }), "input.message", "a notify step needs it"],
    [notify({ message: 7 }), "input.message", "must be a text"],
    [notify({ message: "x".repeat(16_385) }), "input.message", "has at most 16384 characters, not 16385"],
    [notify({ message: "x", level: "fatal" }), "input.level", "must be one of info, warn, error"],
    [notify({ message: "x", component: 7 }), "input.component", "must be a text"],
    [notify({ message: "x", trace_id: 7 }), "input.trace_id", "must be a text"],
    [notify({ message: "x", colour: 7 }), "input.colour", "this field is unknown"],
    [
      notify({ message: template("nope") }),
      "input.message",
      '"nope" is unknown: expressions read input, ctx and steps (at character 1)',
    ],
    [
      notify({ message: "x", details: { a: template("steps.gone") } }),
      "input.details.a",
      'there is no step "gone"',
    ],
    [
      notify({ message: "x" }, { topic: "a b" }),
      "topic",
      "must be letters, digits, dots, dashes and underscores, starting with a letter or digit",
    ],
  ])("%j is refused", (...wrong) => expectWrong(wrong));
});

describe("storage", () => {
  const storage = (input: JsonValue): Fields => ({ type: "storage", input });

  test.each<[Fields, object]>([
    [
      { operation: "read", key: "a.b" },
      { operation: "read", path: ["a", "b"] },
    ],
    [
      { operation: "delete", key: "ctx.a" },
      { operation: "delete", path: ["a"] },
    ],
    [
      { operation: "write", key: "a", value: [template("input.x")] },
      { operation: "write", path: ["a"], value: [template("input.x")] },
    ],
    [
      { operation: "write", key: "a", value: false },
      { operation: "write", path: ["a"], value: false },
    ],
  ])("reads %j", (input, expected) => {
    expect(stepOf(storage(input))?.storage).toEqual(expected);
  });

  const noPath = "must be at most 16 names joined by dots, as review.result";
  test.each<Wrong>([
    [{ type: "storage" }, "input", "a storage step needs it"],
    [storage({ key: "a" }), "input.operation", "must be one of read, write, delete"],
    [storage({ operation: "move", key: "a" }), "input.operation", "must be one of read, write, delete"],
    [storage({ operation: "read" }), "input.key", "a storage step needs it: a path in ctx, as review.result"],
    [storage({ operation: "read", key: 7 }), "input.key", "must be a text"],
    [storage({ operation: "read", key: template("input.key") }), "input.key", noPath],
    [storage({ operation: "read", key: "a..b" }), "input.key", noPath],
    [storage({ operation: "read", key: "__proto__" }), "input.key", noPath],
    [
      storage({ operation: "delete", key: "steps.x" }),
      "input.key",
      "may not start with steps: the outputs of all steps are there already",
    ],
    [
      storage({ operation: "write", key: "a" }),
      "input.value",
      "a write needs it; to remove what is there, use the operation delete",
    ],
    [
      storage({ operation: "read", key: "a", value: 1 }),
      "input.value",
      "only goes with the operation write, not with read",
    ],
    [
      storage({ operation: "delete", key: "a", value: 1 }),
      "input.value",
      "only goes with the operation write, not with delete",
    ],
    [storage({ operation: "read", key: "a", colour: 1 }), "input.colour", "this field is unknown"],
    [
      storage({ operation: "write", key: "a", value: { b: template("steps.gone") } }),
      "input.value.b",
      'there is no step "gone"',
    ],
  ])("%j is refused", (...wrong) => expectWrong(wrong));
});

describe("subworkflow", () => {
  const sub = (input: JsonValue): Fields => ({ type: "subworkflow", input });
  const rule = "must be letters, digits, dots, dashes and underscores, starting with a letter or digit";

  test("reads the workflow and both mappings", () => {
    const input = {
      workflow_id: "other",
      input_mapping: { order: template("input.order") },
      output_mapping: { total: template('child.steps["sum-up"].output') },
    };
    expect(stepOf(sub(input))?.subworkflow).toEqual({
      workflow: "other",
      input: input.input_mapping,
      output: input.output_mapping,
    });
    expect(stepOf(sub({ workflow_id: "other" }))?.subworkflow).toEqual({ workflow: "other" });
  });

  test.each<Wrong>([
    [{ type: "subworkflow" }, "input", "a subworkflow step needs it"],
    [sub({}), "input.workflow_id", "a subworkflow step needs it"],
    [sub({ workflow_id: 7 }), "input.workflow_id", "must be a text"],
    [sub({ workflow_id: template("input.w") }), "input.workflow_id", rule],
    [sub({ workflow_id: "me" }), "input.workflow_id", "a workflow cannot run itself"],
    [sub({ workflow_id: "w", input_mapping: [] }), "input.input_mapping", "must be an object"],
    [sub({ workflow_id: "w", output_mapping: "x" }), "input.output_mapping", "must be an object"],
    [sub({ workflow_id: "w", colour: 1 }), "input.colour", "this field is unknown"],
    [
      sub({ workflow_id: "w", input_mapping: { a: template("child.output") } }),
      "input.input_mapping.a",
      "child is only known in the output_mapping of a subworkflow step",
    ],
    [
      sub({ workflow_id: "w", output_mapping: { a: template("child.colour") } }),
      "input.output_mapping.a",
      '"child" must be followed by one of run_id, status, output, steps (at character 1)',
    ],
    [
      sub({ workflow_id: "w", output_mapping: { a: template("child.steps[input.x].output") } }),
      "input.output_mapping.a",
      '"child.steps" must be followed by the name of a step, as child.steps["my-step"]; computed names are not allowed here (at character 1)',
    ],
  ])("%j is refused", (...wrong) => expectWrong(wrong));
});

describe("schemas and result_data_path", () => {
  const schema = { type: "object", required: ["a"] };
  const types: Readonly<Record<string, Fields>> = {
    worker: {},
    transform: { type: "transform", input: {} },
    subworkflow: { type: "subworkflow", input: { workflow_id: "w" } },
    approval: { type: "approval" },
    condition: { type: "condition", condition: "true" },
    delay: { type: "delay", delay_sec: 1 },
    notify: { type: "notify", input: { message: "x" } },
    storage: { type: "storage", input: { operation: "read", key: "k" } },
    switch: { type: "switch", input: { cases: [{ when: true, next: "x" }] } },
    parallel: { type: "parallel", input: { steps: ["x"] } },
    loop: { type: "loop", input: { body: "x" } },
  };
  const allowed: Readonly<Record<string, readonly string[]>> = {
    input_schema: ["worker", "approval", "transform", "subworkflow"],
    output_schema: ["worker", "transform", "subworkflow"],
    result_data_path: ["worker"],
  };

  test.each(Object.keys(allowed).flatMap((field) => Object.keys(types).map((type) => ({ field, type }))))(
    "$field on $type",
    ({ field, type }) => {
      const step = { ...types[type], [field]: field === "result_data_path" ? "data.items" : schema };
      const isAllowed = allowed[field]?.includes(type);
      expect(problemsOf(step).map(([path]) => path)).toEqual(isAllowed ? [] : [`steps.a.${field}`]);
    },
  );

  test.each<Wrong>([
    [{ input_schema: [] }, "input_schema", "must be an object"],
    [{ output_schema: "x" }, "output_schema", "must be an object"],
    [
      { output_schema: { properties: { a: { $ref: "https://example.com" } } } },
      'output_schema.properties.a["$ref"]',
      "must point into this schema, as #/$defs/address; other schemas are never fetched",
    ],
    [{ input_schema: { $ref: "#" } }, "input_schema", "a schema that refers to itself is not supported"],
    [{ input_schema: { description: "x".repeat(65_536) } }, "input_schema", "has at most 65536 bytes"],
    [
      { result_data_path: "a..b" },
      "result_data_path",
      "must be at most 16 names joined by dots, as review.result",
    ],
    [{ result_data_path: 7 }, "result_data_path", "must be a text"],
    [{ input_schema_id: "s" }, "input_schema_id", "not supported: put the schema itself into input_schema"],
  ])("%j is refused", (...wrong) => expectWrong(wrong));

  test("an invalid schema is told where", () => {
    expect(problemsOf({ input_schema: { type: "wat" } }).map(([path]) => path)).toContain(
      "steps.a.input_schema.type",
    );
  });

  test("a definition has 200 of them and no more", () => {
    const many = (count: number): Fields =>
      Object.fromEntries(
        Array.from({ length: count }, (_, index) => [`s${index}`, { input_schema: { minLength: index } }]),
      );
    expect(problemsOf({}, many(200))).toEqual([]);
    expect(problemsOf({}, many(201))).toEqual([["steps", "have 201 schemas together, 200 are allowed"]]);
  });
});
