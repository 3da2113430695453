// Every flow wakes the watchers in its own process: none of them waits for a poll.
import { expect, test } from "vitest";
import type { EventRow } from "../../src/domain/audit.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { client } from "../support/event-world.ts";
import { acme, ann, ben, FlowWorld, only, single } from "../support/flow-world.ts";

const never = { "events.pollMs": 60_000, "events.pollMaxMs": 60_000 } as const;

test("every row that a process writes is shown there at once", async () => {
  const flow = new FlowWorld();
  const plane = await flow.open("one", { overrides: never });
  const { api } = plane;
  const rows: EventRow[] = [];
  const opened = await flow.finish(api.followEvents({ tenant: acme, start: { kind: "now" } }));
  if (opened.kind !== "open") throw new Error(opened.kind);
  const watching = client(opened, (row) => {
    rows.push(row);
    return row.sequence;
  });
  const shown: string[] = [];
  const after = async (what: string, action: () => Promise<unknown>) => {
    await flow.pass(100);
    const before = rows.length;
    await action();
    await flow.until(() => rows.length > before, 100);
    await flow.pass(100);
    shown.push(`${what}: ${[...new Set(rows.slice(before).map(({ type }) => type))].join(" ")}`);
  };
  await after("tenant", () =>
    flow.finish(api.createTenant({ actor: "root", tenant: acme, settings: { maxConcurrentRuns: 9 } })),
  );
  await after("save", () => plane.save("w", { one: { type: "worker", topic: "t" } }));
  await plane.save("a", {
    ok: { type: "approval" },
    two: { type: "worker", topic: "t", depends_on: ["ok"] },
  });
  let runId = "" as Awaited<ReturnType<typeof plane.start>>;
  await after("start", async () => {
    runId = await plane.start("w");
  });
  const job = single(await plane.poll({ topics: ["t"] }));
  await after("result", () => plane.report(job));
  await after("delete", () => flow.finish(api.deleteRun({ caller: ann, runId })));
  await after("start", () => plane.start("a"));
  const { approvals } = only(await flow.finish(api.listApprovals({ tenant: acme, limit: 1 })), "listed");
  const approvalId = String(approvals[0]?.approvalId);
  await after("approve", () =>
    flow.finish(api.decideApproval({ caller: ben, approvalId, decision: "approved" })),
  );
  const second = await plane.start("w");
  await after("cancel", () => flow.finish(api.cancelRun({ caller: ann, runId: second, reason: "over" })));
  await after("key", () =>
    flow.finish(api.createKey({ by: "root", tenant: acme, role: "viewer", name: "k" })),
  );
  await after("remove", () => flow.finish(api.removeWorkflow({ caller: ann, id: "w" })));
  expect(shown).toEqual([
    "tenant: tenant_changed",
    "save: document_saved",
    "start: run_admitted",
    "result: run_ended",
    "delete: run_deleted",
    "start: run_admitted approval_requested",
    "approve: approval_decided run_changed",
    "cancel: cancel_requested run_ended",
    "key: document_saved",
    "remove: document_removed",
  ]);
  const told = rows.filter(({ type }) => /^(run_changed|run_ended|approval_requested)$/.test(type));
  expect(told.map(({ detail }) => detail)).toEqual([
    "succeeded step one: completed",
    "step ok",
    "2 running step ok: approved, step ok: completed, step two: dispatched",
    "cancelled run cancelled, step one: cancelled",
  ]);
  await plane.close();
  await watching.over;
  expect(watching.shown.at(-1)).toBe("closed");
});

test("what another process of the same store writes is found by polling", async () => {
  const flow = new FlowWorld();
  const watched = await flow.open("one");
  const other = await flow.open("two");
  const opened = await flow.finish(watched.api.followEvents({ tenant: acme, start: { kind: "now" } }));
  if (opened.kind !== "open") throw new Error(opened.kind);
  const { shown } = client(opened, ({ sequence }) => sequence);
  await other.save("w", { one: { type: "worker", topic: "t" } });
  await flow.until(() => shown.length > 0, 700);
  const foreign = await flow.finish(
    watched.api.followEvents({ tenant: "globex" as TenantId, start: { kind: "oldest" } }),
  );
  expect(foreign.kind).toBe("open");
  await Promise.all([watched.close(), other.close()]);
});
