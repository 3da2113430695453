// Checking a definition without saving it: nothing is stored, and a store that cannot answer is not taken for an answer.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { acme, FlowWorld, only, work } from "../support/flow-world.ts";

const calls = (...workflows: string[]): JsonValue => ({
  id: "parent",
  steps: Object.fromEntries(
    workflows.map((workflow_id, index) => [`s${index}`, { type: "subworkflow", input: { workflow_id } }]),
  ),
});

describe("a check", () => {
  test("asks the store once for every workflow that is named, and writes nothing", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("here", { a: work() });
    const [before, asked] = [
      plane.member.callsOf("putDocument").length,
      plane.member.callsOf("getDocument").length,
    ];
    const answer = only(
      await flow.finish(
        plane.api.validateWorkflow({ tenant: acme, definition: calls("here", "gone", "gone") }),
      ),
      "valid",
    );
    expect(answer.steps).toBe(3);
    expect(answer.warnings.map(({ path }) => path)).toEqual([
      "steps.s1.input.workflow_id",
      "steps.s2.input.workflow_id",
    ]);
    // For each name, and for the definition behind one that is there.
    expect(plane.member.callsOf("getDocument").length - asked).toBe(3);
    expect(plane.member.callsOf("putDocument").length).toBe(before);
  });

  test("of a definition that names no other asks nothing", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    plane.member.fail({ getDocument: "unavailable" });
    const answer = await flow.finish(
      plane.api.validateWorkflow({ tenant: acme, definition: { steps: { a: {} } } }),
    );
    expect(answer).toEqual({ kind: "valid", steps: 1, warnings: [] });
  });

  test("asks for fifty workflows at most", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const names = Array.from({ length: 60 }, (_, index) => `w${index}`);
    const answer = only(
      await flow.finish(plane.api.validateWorkflow({ tenant: acme, definition: calls(...names) })),
      "valid",
    );
    expect(answer.warnings.length).toBe(50);
  });

  test("that the store cannot answer is neither valid nor invalid", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    plane.member.fail({ getDocument: "unavailable" });
    expect(
      (await flow.finish(plane.api.validateWorkflow({ tenant: acme, definition: calls("x") }))).kind,
    ).toBe("store_unavailable");
  });

  test("of what is no definition tells its problems without asking the store", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    plane.member.fail({ getDocument: "unavailable" });
    const answer = await flow.finish(
      plane.api.validateWorkflow({ tenant: acme, definition: calls("x", "parent") }),
    );
    expect(only(answer, "workflow_invalid").problems).toEqual([
      { path: "steps.s1.input.workflow_id", message: "a workflow cannot run itself" },
    ]);
  });
});
