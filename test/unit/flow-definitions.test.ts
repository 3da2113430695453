// Definitions and the runs that are made from them: a run keeps the one it began with, a start gets the latest, a repeat its run.
import { describe, expect, test } from "vitest";
import type { StartWorkflowRequest } from "../../src/control/admission/start-run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { fingerprintOf } from "../../src/index.ts";
import {
  acme,
  ann,
  type FlowPlane,
  FlowWorld,
  only,
  type Steps,
  single,
  work,
} from "../support/flow-world.ts";

const chain = (second: string): Steps => ({ a: work(), [second]: work({ depends_on: ["a"] }) });

async function revisionOf(flow: FlowWorld, plane: FlowPlane, id: string): Promise<number> {
  return only(await flow.finish(plane.api.getWorkflow({ tenant: acme, id })), "workflow").workflow.revision;
}

describe("a run", () => {
  test("keeps the definition it began with, whatever is saved later", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("w", chain("old"));
    const runId = await plane.start("w");
    await plane.save("w", chain("new"));
    await plane.report(single(await plane.poll()));
    const next = single(await plane.poll());
    expect(next.job).toMatchObject({ step: "old", runId });
    await plane.report(next);
    expect(await flow.ended(runId)).toBe("succeeded");
    const fresh = await plane.start("w");
    await plane.report(single(await plane.poll()));
    expect(single(await plane.poll()).job).toMatchObject({ step: "new", runId: fresh });
  });

  test("keeps it in a process that has never seen it", async () => {
    const flow = new FlowWorld();
    const first = await flow.open("p", { engine: "stopped" });
    await first.save("w", chain("old"));
    const runId = await first.start("w");
    const job = single(await first.poll());
    await first.save("w", chain("new"));
    first.member.process.crash();
    const second = await flow.open("q");
    await second.report(job);
    await flow.until(async () => (await flow.step(runId, "old")).status === "running");
    expect(single(await second.poll()).job.step).toBe("old");
  });

  test("goes on when its workflow is removed, and no new one starts", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const other = await flow.open("q");
    await plane.save("w", chain("b"));
    const runId = await plane.start("w");
    await other.start("w");
    only(await flow.finish(plane.api.removeWorkflow({ caller: ann, id: "w" })), "removed");
    for (const starter of [plane, other]) {
      const answer = await flow.finish(starter.api.startWorkflow({ caller: ann, workflow: "w", input: {} }));
      expect(answer).toEqual({ kind: "workflow_not_found" });
    }
    while ((await flow.header(runId)).endedAtMs === undefined) {
      for (const job of await plane.poll()) await plane.report(job);
    }
    expect(await flow.status(runId)).toBe("succeeded");
  });

  test("whose definition is lost fails visibly, instead of waiting for ever", async () => {
    const flow = new FlowWorld();
    const first = await flow.open("p", { engine: "stopped" });
    await first.save("w", chain("b"));
    const runId = await first.start("w");
    const job = single(await first.poll());
    const { definition } = await flow.header(runId);
    const document = { tenant: acme, collection: "definition", id: definition, actor: "vandal" } as const;
    only(await flow.world.store.removeDocument(document, { deadlineMs: 100 }), "removed");
    first.member.process.crash();
    const second = await flow.open("q");
    await second.report(job);
    expect(await flow.ended(runId)).toBe("failed");
    const active = await flow.world.store.countActive({ tenant: acme }, { deadlineMs: 100 });
    expect(only(active, "counted").active).toBe(0);
  });
});

describe("a start", () => {
  test("after somebody else has saved the workflow begins by the new one: the caller notices nothing", async () => {
    const flow = new FlowWorld();
    const p = await flow.open("p");
    const q = await flow.open("q");
    await p.save("w", { old: work() });
    await p.start("w");
    await q.save("w", { new: work() });
    const before = p.member.callsOf("admit").length;
    const runId = await p.start("w");
    expect(
      p.member
        .callsOf("admit")
        .slice(before)
        .map(({ answer }) => answer),
    ).toEqual(["version_conflict", "admitted"]);
    expect((await flow.step(runId, "new")).status).toBe("running");
  });

  test("of a workflow that changes with every read is refused for now, after three tries", async () => {
    const flow = new FlowWorld();
    let saves = 0;
    let restless = false;
    const plane = await flow.open("p", {
      onSend: ({ name }) => {
        if (name !== "admit" || !restless) return;
        saves += 1;
        const body = {
          tenant: acme,
          collection: "workflow",
          id: "w",
          actor: "other",
          changeId: `c${saves}`,
        } as const;
        const hash = definitionHash;
        void flow.world.store.putDocument({ ...body, body: JSON.stringify({ hash }) }, { deadlineMs: 100 });
      },
    });
    await plane.save("w", { a: work() });
    const definitionHash = (await flow.header(await plane.start("w"))).definition;
    restless = true;
    const answer = await flow.finish(plane.api.startWorkflow({ caller: ann, workflow: "w", input: {} }));
    expect(answer).toMatchObject({
      kind: "concurrency_gate_unavailable",
      cause: "the workflow keeps changing",
    });
    expect(saves).toBe(3);
    restless = false;
    await plane.start("w");
  });

  test("with an input that does not fit is refused with every problem, and admits nothing", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const input_schema = {
      type: "object",
      required: ["amount"],
      properties: { amount: { type: "number" }, note: { type: "string" } },
    };
    await plane.save("w", { a: work() }, { input_schema });
    const answer = await flow.finish(
      plane.api.startWorkflow({ caller: ann, workflow: "w", input: { note: 5 } }),
    );
    expect(only(answer, "input_invalid").problems).toHaveLength(2);
    expect(plane.member.callsOf("admit")).toEqual([]);
  });

  test("of another tenant's workflow finds nothing", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("w", { a: work() });
    const caller = { tenant: "beta" as TenantId, actor: "eve" };
    const answer = await flow.finish(plane.api.startWorkflow({ caller, workflow: "w", input: {} }));
    expect(answer).toEqual({ kind: "workflow_not_found" });
  });
});

describe("a repeated start with the same key is told of its run", () => {
  const fingerprint = fingerprintOf({ method: "POST", path: "/w", query: {}, body: { amount: 5 } });
  const request: StartWorkflowRequest = {
    caller: ann,
    workflow: "w",
    input: { amount: 5 },
    key: { text: "once", fingerprint },
  };

  async function startedOnce() {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("w", { a: work() });
    const { runId } = only(await flow.finish(plane.api.startWorkflow(request)), "admitted");
    return { flow, plane, runId };
  }

  test("after the workflow has changed", async () => {
    const { flow, plane, runId } = await startedOnce();
    await plane.save("w", { b: work() });
    expect(await flow.finish(plane.api.startWorkflow(request))).toMatchObject({ kind: "replayed", runId });
  });

  test("after the workflow was removed", async () => {
    const { flow, plane, runId } = await startedOnce();
    await flow.finish(plane.api.removeWorkflow({ caller: ann, id: "w" }));
    const other = await flow.open("q");
    for (const starter of [plane, other]) {
      expect(await flow.finish(starter.api.startWorkflow(request))).toMatchObject({
        kind: "replayed",
        runId,
      });
    }
    const fresh = { ...request, key: { text: "another", fingerprint } };
    expect(await flow.finish(other.api.startWorkflow(fresh))).toEqual({ kind: "workflow_not_found" });
  });

  test("after the workflow's input schema has changed so that the input no longer fits", async () => {
    const { flow, plane, runId } = await startedOnce();
    const input_schema = { type: "object", properties: { amount: { type: "string" } } };
    await plane.save("w", { a: work() }, { input_schema });
    expect(await flow.finish(plane.api.startWorkflow(request))).toMatchObject({ kind: "replayed", runId });
    const fresh = { ...request, key: { text: "another", fingerprint } };
    expect((await flow.finish(plane.api.startWorkflow(fresh))).kind).toBe("input_invalid");
  });

  test("also under the lock strategy, and with another request it is refused", async () => {
    const { flow, plane, runId } = await startedOnce();
    await flow.tenant({ admissionStrategy: "lock" });
    await flow.pass(5_000);
    await flow.finish(plane.api.removeWorkflow({ caller: ann, id: "w" }));
    expect(await flow.finish(plane.api.startWorkflow(request))).toMatchObject({ kind: "replayed", runId });
    const reused = { ...request, key: { text: "once", fingerprint: "v1:other" as typeof fingerprint } };
    expect((await flow.finish(plane.api.startWorkflow(reused))).kind).toBe("idempotency_key_reused");
    const fresh = { ...request, key: { text: "another", fingerprint } };
    expect(await flow.finish(plane.api.startWorkflow(fresh))).toEqual({ kind: "workflow_not_found" });
    expect(await flow.finish(plane.api.lookUpKey({ tenant: acme, key: "another" }))).toMatchObject({
      kind: "idempotency_key_unbound",
    });
  });
});

describe("saving", () => {
  test("gives the next revision for new content, the same for the same, and content may come back", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("w", { a: work() });
    expect(await revisionOf(flow, plane, "w")).toBe(1);
    await plane.save("w", { a: work() });
    expect(await revisionOf(flow, plane, "w")).toBe(1);
    await plane.save("w", { b: work() });
    expect(await revisionOf(flow, plane, "w")).toBe(2);
    await plane.save("w", { a: work() });
    expect(await revisionOf(flow, plane, "w")).toBe(3);
    expect((await flow.step(await plane.start("w"), "a")).status).toBe("running");
  });

  test("whose answer is lost is saved once", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    plane.member.fail({ putDocument: ["ok", "reply_lost"] });
    await plane.save("w", { a: work() });
    expect(await revisionOf(flow, plane, "w")).toBe(1);
  });

  test("something that is no definition is refused with its problems, and nothing is stored", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const answer = await flow.finish(
      plane.api.saveWorkflow({ caller: ann, definition: { id: "w", steps: { a: { type: "dance" } } } }),
    );
    expect(only(answer, "workflow_invalid").problems[0]?.path).toBe("steps.a.type");
    expect(plane.member.callsOf("putDocument")).toEqual([]);
  });

  test("is listed and read back as it was sent", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("w1", { a: work() }, { description: "first" });
    await plane.save("w2", { a: work() });
    const listed = only(
      await flow.finish(plane.api.listWorkflows({ tenant: acme, after: "", limit: 10 })),
      "listed",
    );
    expect(listed.workflows.map(({ id }) => id)).toEqual(["w1", "w2"]);
    expect(listed.workflows[0]?.definition).toEqual({ id: "w1", description: "first", steps: { a: work() } });
    const others = plane.api.listWorkflows({ tenant: "beta" as TenantId, after: "", limit: 10 });
    expect(only(await flow.finish(others), "listed").workflows).toEqual([]);
  });
});
