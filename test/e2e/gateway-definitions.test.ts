// Definitions over HTTP: in JSON and in YAML, saved and merely checked, with problems that say where they are in the text.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type GatewayWorld, openGatewayWorld } from "../support/gateway-world.ts";

let world: GatewayWorld;
beforeAll(async () => {
  world = await openGatewayWorld();
});
afterAll(() => world.close());

const good = `id: greeting
steps:
  hello:
    topic: demo.hello
    input: {text: "Dear \${input.name}"}
`;

const bad = `id: wrong
steps:
  first:
    type: loop
    input:
      body: nobody
      while: loop.iteration < 3
  second:
    depends_on: [first, third]
    colour: red
`;

const yamlTypes = ["application/yaml", "text/yaml", "application/x-yaml", "text/x-yaml; charset=utf-8"];

const post = (path: string, text: string, type: string, key = world.acme.admin) =>
  world.ask("POST", `/api/v1${path}`, { key, text, headers: { "content-type": type } });
const save = (text: string, type = "application/yaml") => post("/workflows", text, type);
const validate = (text: string, type = "application/yaml") => post("/workflows/validate", text, type);

describe("a definition in YAML", () => {
  test.each(yamlTypes)("is saved when it is sent as %s, and shown as JSON", async (type) => {
    const saved = await save(good, type);
    expect(saved.status).toBe(201);
    expect(saved.json).toMatchObject({ id: "greeting" });
    const shown = await world.ask("GET", "/api/v1/workflows/greeting", { key: world.acme.viewer });
    expect(shown.headers.get("content-type")).toContain("application/json");
    expect(shown.json).toMatchObject({
      definition: {
        id: "greeting",
        steps: { hello: { topic: "demo.hello", input: { text: "Dear ${input.name}" } } },
      },
    });
  });

  test("is the same revision as the same definition in JSON", async () => {
    const first = await save(good);
    const json = {
      id: "greeting",
      steps: { hello: { topic: "demo.hello", input: { text: "Dear ${input.name}" } } },
    };
    const second = await save(JSON.stringify(json), "application/json");
    expect(second.json.revision).toBe(first.json.revision);
  });

  test("is refused with lines and columns", async () => {
    const answer = await save(bad);
    expect(answer.status).toBe(400);
    expect(answer.json.code).toBe("workflow_invalid");
    expect(answer.json.problems).toEqual([
      { path: "steps.second.colour", message: "this field is unknown", line: 10, column: 5 },
      { path: "steps.first.input.body", message: 'there is no step "nobody"', line: 6, column: 7 },
      { path: "steps.second.depends_on[1]", message: 'there is no step "third"', line: 9, column: 25 },
    ]);
  });

  test("that is no YAML is refused with lines and columns as well", async () => {
    for (const ask of [save, validate]) {
      const answer = await ask("id: x\nid: y\nsteps: {a: 010}");
      expect(answer.status).toBe(400);
      expect(answer.json).toMatchObject({
        code: "invalid_request",
        detail: 'the body is not valid YAML: the name "id" stands twice in one map (line 2, column 1)',
      });
      expect(answer.json.problems).toEqual([
        { path: "", message: 'the name "id" stands twice in one map', line: 2, column: 1 },
        {
          path: "",
          message: "the number 010 starts with zero; drop it, or put a text in quotes",
          line: 3,
          column: 12,
        },
      ]);
    }
  });

  test("has the limits of JSON", async () => {
    const names = Array.from({ length: 1_001 }, (_, index) => `n${index}: 1`).join(", ");
    for (const text of [`a: {${names}}`, "a: {__proto__: 1}", "[".repeat(100_000)]) {
      const answer = await save(text);
      expect(answer.status).toBe(400);
      expect(answer.json.code).toBe("invalid_request");
    }
    const notUtf8 = Uint8Array.from([0x61, 0x3a, 0x20, 0xff]);
    const answer = await world.ask("POST", "/api/v1/workflows", {
      key: world.acme.admin,
      text: notUtf8,
      headers: { "content-type": "application/yaml" },
    });
    expect(answer.json).toMatchObject({ code: "invalid_request", detail: "the body is not UTF-8" });
  });

  test("may not name another tenant", async () => {
    const answer = await save(`tenant: globex\n${good}`);
    expect(answer.json.code).toBe("tenant_mismatch");
  });
});

describe("another kind of text", () => {
  test("is refused, and told what is taken", async () => {
    const answer = await save(good, "text/plain");
    expect(answer.status).toBe(415);
    expect(answer.json).toMatchObject({
      code: "unsupported_media_type",
      detail:
        "this operation takes application/json, application/yaml, text/yaml, application/x-yaml, text/x-yaml, in UTF-8",
    });
  });

  test.each(["application/yaml", "text/plain"])(
    "%s is not taken by operations that take JSON",
    async (type) => {
      const answer = await post("/workflows/greeting/runs", "name: Ada", type);
      expect(answer.status).toBe(415);
      expect(answer.json.detail).toBe("this operation takes application/json, in UTF-8");
    },
  );
});

describe("a check", () => {
  test("stores nothing, and says what runs would be pinned to", async () => {
    const text = good.replace("greeting", "never-saved");
    const inYaml = await validate(text);
    expect(inYaml.status).toBe(200);
    expect(inYaml.json).toEqual({ valid: true, steps: 1, hash: expect.stringMatching(/^[0-9a-f]{64}$/) });
    const missing = await world.ask("GET", "/api/v1/workflows/never-saved", { key: world.acme.viewer });
    expect(missing.status).toBe(404);
    const unnamed = await validate('{"steps": {"a": {}, "b": {}}}', "application/json");
    expect(unnamed.json).toEqual({ valid: true, steps: 2 });
  });

  test("tells the hash that a run is pinned to", async () => {
    const checked = await validate(good);
    await save(good);
    const started = await post("/workflows/greeting/runs", '{"name": "Ada"}', "application/json");
    const path = `/api/v1/workflow-runs/${String(started.json.run_id)}`;
    const run = await world.ask("GET", path, { key: world.acme.viewer });
    expect(run.json.definition).toBe(checked.json.hash);
  });

  test("tells all problems, with places in YAML and without in JSON", async () => {
    const inYaml = await validate(bad);
    expect(inYaml.status).toBe(200);
    expect(inYaml.json).toMatchObject({ valid: false });
    expect(inYaml.json.problems).toHaveLength(3);
    const inJson = await validate('{"steps": {"a": {"colour": 1}}}', "application/json");
    expect(inJson.json).toEqual({
      valid: false,
      problems: [{ path: "steps.a.colour", message: "this field is unknown" }],
    });
  });

  test("warns of workflows that are not there yet", async () => {
    const text = `id: parent
steps:
  one: {type: subworkflow, input: {workflow_id: greeting}}
  two:
    type: subworkflow
    input:
      workflow_id: not-yet
`;
    await save(good);
    expect((await validate(text)).json).toMatchObject({
      valid: true,
      warnings: [
        {
          path: "steps.two.input.workflow_id",
          message: 'there is no workflow "not-yet" yet; a run that gets here before there is one fails',
          line: 7,
          column: 7,
        },
      ],
    });
    await save(good.replace("greeting", "not-yet"));
    expect((await validate(text)).json.warnings).toBeUndefined();
  });

  test("is open to viewers, and closed to workers", async () => {
    const as = (key: typeof world.acme.admin) => post("/workflows/validate", good, "application/yaml", key);
    expect((await as(world.acme.viewer)).status).toBe(200);
    expect((await as(world.acme.worker)).status).toBe(403);
  });
});
