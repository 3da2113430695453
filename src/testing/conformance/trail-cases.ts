// What every store must do with audit records: which operations add one, their own numbers, and how they are dropped.
import assert from "node:assert/strict";
import type { EventRow } from "../../domain/audit.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, only } from "./harness.ts";
import { openRun } from "./retry-cases.ts";
import { approvalOf, cancelOf, childOf, decisionOf, deliver, retryOf, runWithClaim } from "./run-steps.ts";

function read({ store, tenant }: Harness, of?: "trail") {
  const request = { tenant, after: 0, limit: 1_000, ...(of === undefined ? {} : { of }) };
  return store.readEvents(request, call);
}

/** The numbers that are kept, and what the answer says about them. */
async function kept(harness: Harness) {
  const { events, first, last } = only(await read(harness, "trail"), "events");
  return { numbers: events.map(({ sequence }) => sequence), first, last };
}

async function put(harness: Harness, collection: "workflow" | "deadLetter" | "seal", id: string) {
  const { store, tenant } = harness;
  const document = { tenant, collection, id, body: "{}", changeId: harness.id("change"), actor: "editor" };
  assert.equal((await store.putDocument(document, call)).kind, "saved");
}

/** Each with the type of the record that it adds, or none. */
const acts: ReadonlyArray<readonly [type: string | undefined, act: (harness: Harness) => Promise<unknown>]> =
  [
    ["tenant_changed", (harness) => harness.set({ stopped: false })],
    ["document_saved", (harness) => put(harness, "workflow", "w")],
    [undefined, (harness) => put(harness, "seal", "s")],
    [undefined, (harness) => put(harness, "deadLetter", "letter")],
    [
      "document_removed",
      ({ store, tenant }) =>
        store.removeDocument({ tenant, collection: "deadLetter", id: "letter", actor: "editor" }, call),
    ],
    [undefined, (harness) => runWithClaim(harness)],
    [undefined, async (harness) => harness.commit(await harness.admit())],
    [undefined, async (harness) => harness.commit(await harness.admit(), { children: [childOf(harness)] })],
    [
      undefined,
      async (harness) => {
        const root = await harness.admit();
        const child = childOf(harness);
        await harness.commit(root, { children: [child] });
        await harness.commit(root, { cancelChildren: [child.runId], status: "failed" });
      },
    ],
    ["cancel_requested", async (harness) => deliver(harness, await harness.admit(), cancelOf(harness))],
    [
      "approval_decided",
      async (harness) => {
        const runId = harness.runId();
        await harness.admit(harness.newRun({ runId, change: { approvals: [approvalOf(runId)] } }));
        await deliver(harness, runId, decisionOf(harness, approvalOf(runId).approvalId));
      },
    ],
    [
      "letter_retried",
      async (harness) => {
        const { runId, jobId } = await openRun(harness);
        await deliver(harness, runId, retryOf(harness, jobId));
      },
    ],
    [
      "run_reopened",
      async (harness) => {
        const { runId, jobId } = await openRun(harness);
        await harness.end(runId, "failed");
        await deliver(harness, runId, retryOf(harness, jobId));
      },
    ],
    [
      "run_deleted",
      async (harness) => {
        const runId = await harness.admit();
        await harness.end(runId);
        await harness.store.deleteRun({ tenant: harness.tenant, runId, actor: "janitor" }, call);
      },
    ],
    [
      "lock_broken",
      async (harness) => {
        const { lock, fence } = await harness.acquire({ namespace: "public", name: "printer" }, 60_000);
        const reason = "its holder hangs";
        await harness.store.breakLock({ tenant: harness.tenant, lock, fence, actor: "olivia", reason }, call);
      },
    ],
  ];

const unnumbered = ({ sequence: _sequence, ...rest }: EventRow) => rest;

export const trailCases: readonly ConformanceCase[] = [
  {
    name: "what a person does adds an audit record beside its event row; starts, results and commits add none",
    async check(harness) {
      const expected: string[] = [];
      for (const [type, act] of acts) {
        await act(harness);
        if (type !== undefined) expected.push(type);
        const { events } = only(await read(harness, "trail"), "events");
        assert.deepEqual(
          events.map((row) => row.type),
          expected,
        );
      }
      const trail = only(await read(harness, "trail"), "events");
      assert.deepEqual(
        trail.events.map(({ sequence }) => sequence),
        expected.map((_, index) => index + 1),
      );
      assert.deepEqual([trail.first, trail.last], [1, expected.length]);
      const feed = only(await read(harness), "events").events.map(unnumbered);
      for (const row of trail.events.map(unnumbered))
        assert.ok(feed.some((each) => JSON.stringify(each) === JSON.stringify(row)));
    },
  },
  {
    name: "audit records are dropped below a number, with the record that says so, and only once",
    async check(harness) {
      const { store, tenant } = harness;
      const drop = (below: number) => store.dropTrail({ tenant, below, actor: "sealer" }, call);
      assertOutcome(await drop(7), { kind: "dropped" });
      assert.deepEqual(await kept(harness), { numbers: [], first: 1, last: 0 });
      for (let index = 0; index < 4; index += 1) await put(harness, "workflow", `w${index}`);
      for (let repeat = 0; repeat < 2; repeat += 1) {
        assertOutcome(await drop(3), { kind: "dropped" });
        assert.deepEqual(await kept(harness), { numbers: [3, 4, 5], first: 3, last: 5 });
      }
      const { events } = only(await read(harness, "trail"), "events");
      const { type, subject, actor, detail } = events.at(-1) as EventRow;
      assert.deepEqual([type, subject, actor, detail], ["records_dropped", tenant, "sealer", "1 to 2"]);
      assertOutcome(await drop(7), { kind: "dropped" });
      assert.deepEqual(await kept(harness), { numbers: [3, 4, 5], first: 3, last: 5 });
      for (let repeat = 0; repeat < 2; repeat += 1) assertOutcome(await drop(6), { kind: "dropped" });
      assert.deepEqual(await kept(harness), { numbers: [6], first: 6, last: 6 });
      await put(harness, "workflow", "more");
      assert.deepEqual(await kept(harness), { numbers: [6, 7], first: 6, last: 7 });
    },
  },
];

/** For a store that keeps four audit records of a tenant. */
export const trailTrimmingCases: readonly ConformanceCase[] = [
  {
    name: "only the last audit records of a tenant are kept, however many events come, and their numbers go on",
    async check(harness) {
      for (let index = 0; index < 6; index += 1) await put(harness, "workflow", `w${index}`);
      const runId = await harness.admit();
      for (let index = 0; index < 6; index += 1) await harness.commit(runId);
      assert.deepEqual(await kept(harness), { numbers: [3, 4, 5, 6], first: 3, last: 6 });
      await harness.store.dropTrail({ tenant: harness.tenant, below: 5, actor: "sealer" }, call);
      assert.deepEqual(await kept(harness), { numbers: [5, 6, 7], first: 5, last: 7 });
    },
  },
];
