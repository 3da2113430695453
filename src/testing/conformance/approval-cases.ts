// What every store must do with approvals: one decision, on what was shown, in time, and not by who asked.
import assert from "node:assert/strict";
import type { ApprovalId, ApprovalRequest } from "../../domain/approval.ts";
import type { RunId } from "../../domain/run.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, only } from "./harness.ts";
import {
  approvalOf,
  cancelOf,
  changeOf,
  decisionOf,
  deliver,
  deliverAndOwn,
  deliveryOf,
  picture,
  refusal,
  runLock,
} from "./run-steps.ts";

async function runWithApproval(harness: Harness, options: Partial<ApprovalRequest> = {}) {
  const runId = harness.runId();
  const approval = approvalOf(runId, options);
  await harness.admit(harness.newRun({ runId, change: { status: "waiting", approvals: [approval] } }));
  return { runId, approval, approvalId: approval.approvalId };
}

async function read(harness: Harness, approvalId: ApprovalId) {
  const answer = await harness.store.getApproval({ tenant: harness.tenant, approvalId }, call);
  return only(answer, "approval").approval;
}

/** Refused for this reason, with the approval as it is, and without effect. */
async function assertRefused(
  harness: Harness,
  runId: RunId,
  entry: ReturnType<typeof decisionOf>,
  because: string,
): Promise<void> {
  const before = await picture(harness, runId);
  const approval = await read(harness, entry.approvalId);
  assertOutcome(await deliver(harness, runId, entry), { kind: because, approval });
  assert.deepEqual(await picture(harness, runId), before);
}

export const approvalCases: readonly ConformanceCase[] = [
  {
    name: "an approval waits as it was asked for, and its decision is kept with who, when and why",
    async check(harness) {
      const expiresAtMs = 9_000_000_000_000;
      const { runId, approval, approvalId } = await runWithApproval(harness, { expiresAtMs });
      const { requestedAtMs, ...pending } = await read(harness, approvalId);
      assert.deepEqual(pending, { ...approval, runId, state: "pending" });
      const entry = decisionOf(harness, approvalId, { decision: "rejected", reason: "too dear" });
      const { entries } = await deliverAndOwn(harness, runId, entry);
      const { entryId, hash: _hash, ...rest } = entry;
      assert.deepEqual(entries, [{ ...rest, entryId }]);
      const { decidedAtMs = 0, ...decided } = await read(harness, approvalId);
      const how = { decidedBy: "bob", decisionId: entryId, reason: "too dear" };
      assert.deepEqual(decided, { ...pending, requestedAtMs, state: "rejected", ...how });
      assert.ok(decidedAtMs >= requestedAtMs);
      const { tenant } = harness;
      const rows = only(await harness.store.readEvents({ tenant, after: 2, limit: 9 }, call), "events");
      assert.deepEqual(
        rows.events.map(({ type, subject, actor, detail }) => [type, subject, actor, detail]),
        [["approval_decided", approvalId, "bob", `rejected ${approval.hash}`]],
      );
    },
  },
  {
    name: "a decision is answered with the approval as it is then, however it was brought and when it is repeated",
    async check(harness) {
      const { store } = harness;
      const owned = await runWithApproval(harness);
      const first = deliveryOf(
        harness,
        owned.runId,
        decisionOf(harness, owned.approvalId, { reason: "why" }),
      );
      const { approval } = only(await store.deliver(first, call), "delivered");
      assert.equal(approval?.state, "approved");
      assert.deepEqual(approval, await read(harness, owned.approvalId));
      assert.deepEqual(only(await store.deliver(first, call), "delivered").approval, approval);
      const busy = await runWithApproval(harness);
      await deliverAndOwn(harness, busy.runId, cancelOf(harness));
      const handed = deliveryOf(harness, busy.runId, decisionOf(harness, busy.approvalId));
      const found = only(await store.deliver(handed, call), "delivered");
      assert.deepEqual([found.run.kind, found.approval?.state], ["handed_over", "approved"]);
      assert.deepEqual(only(await store.deliver(handed, call), "delivered").approval, found.approval);
      const free = await runWithApproval(harness);
      const change = changeOf({ status: "running" });
      const proposal = { expectedVersion: 1, commitId: harness.id("commit"), change };
      const applied = { ...deliveryOf(harness, free.runId, decisionOf(harness, free.approvalId)), proposal };
      const made = only(await store.deliver(applied, call), "applied");
      assert.deepEqual(made.approval, await read(harness, free.approvalId));
      assert.deepEqual(only(await store.deliver(applied, call), "applied").approval, made.approval);
    },
  },
  {
    name: "a decision that holds only where duties are not separate is refused where they are, before its hash is compared",
    async check(harness) {
      const separate = await runWithApproval(harness, { separateDuties: true });
      const condition = { unlessSeparate: true, hash: "another" } as const;
      const entry = decisionOf(harness, separate.approvalId, condition);
      await assertRefused(harness, separate.runId, entry, "duties_separate");
      const together = await runWithApproval(harness);
      const asShown = decisionOf(harness, together.approvalId, { unlessSeparate: true });
      await deliverAndOwn(harness, together.runId, asShown);
      assert.equal((await read(harness, together.approvalId)).state, "approved");
    },
  },
  {
    name: "a decision keeps who is behind its key, and its row names them and who made the key",
    async check(harness) {
      const { runId, approval, approvalId } = await runWithApproval(harness);
      const decider = { owner: 'Ada "of" acme', role: "approver", madeBy: "root" };
      const decided = decisionOf(harness, approvalId, { decision: "approved" });
      await deliverAndOwn(harness, runId, { ...decided, decider });
      assert.deepEqual((await read(harness, approvalId)).decider, decider);
      const request = { tenant: harness.tenant, after: 2, limit: 9 };
      const [row] = only(await harness.store.readEvents(request, call), "events").events;
      const who = String.raw`by="Ada \"of\" acme" role=approver made_by=root`;
      assert.equal(row?.detail, `approved ${approval.hash} ${who}`);
    },
  },
  {
    name: "a decision without a reason has none with the approval, and an empty one in the inbox",
    async check(harness) {
      const { runId, approvalId } = await runWithApproval(harness);
      const { entries } = await deliverAndOwn(harness, runId, decisionOf(harness, approvalId));
      assert.equal((entries[0] as { reason: string }).reason, "");
      assert.equal("reason" in (await read(harness, approvalId)), false);
    },
  },
  {
    name: "a repeated decision is recognised by its id, also when the run is free again",
    async check(harness) {
      const { runId, approvalId } = await runWithApproval(harness);
      const request = deliveryOf(harness, runId, decisionOf(harness, approvalId));
      const first = only(await harness.store.deliver(request, call), "delivered");
      const again = only(await harness.store.deliver(request, call), "delivered");
      assert.deepEqual(again.run, first.run);
      await harness.release({ lock: runLock(runId), token: request.take.token });
      const before = await picture(harness, runId);
      const late = only(await harness.store.deliver(request, call), "delivered");
      assert.deepEqual(late.run, { kind: "handed_over" });
      assert.deepEqual(await picture(harness, runId), before);
    },
  },
  {
    name: "of two decisions the first wins, and the second learns what was decided",
    async check(harness) {
      const { runId, approvalId } = await runWithApproval(harness);
      await deliverAndOwn(harness, runId, decisionOf(harness, approvalId));
      const second = decisionOf(harness, approvalId, { decision: "rejected" });
      await assertRefused(harness, runId, second, "approval_already_decided");
    },
  },
  {
    name: "of twenty deciders one decides",
    async check(harness) {
      const { runId, approvalId } = await runWithApproval(harness);
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => deliver(harness, runId, decisionOf(harness, approvalId))),
      );
      assert.equal(answers.filter(({ kind }) => kind === "delivered").length, 1);
      assert.equal(answers.filter(({ kind }) => kind === "approval_already_decided").length, 19);
    },
  },
  {
    name: "a decision on something else than what waits is refused",
    async check(harness) {
      const { runId, approvalId } = await runWithApproval(harness);
      await assertRefused(
        harness,
        runId,
        decisionOf(harness, approvalId, { hash: "hash-2" }),
        "approval_changed",
      );
    },
  },
  {
    name: "a decision after the approval has expired is refused, by the store's time",
    async check(harness) {
      const expiresAtMs = await harness.now();
      const { runId, approvalId } = await runWithApproval(harness, { expiresAtMs });
      await harness.untilAfter(expiresAtMs);
      await assertRefused(harness, runId, decisionOf(harness, approvalId), "approval_expired");
      assert.equal((await read(harness, approvalId)).state, "pending");
    },
  },
  {
    name: "with separate duties who asked may reject but not approve",
    async check(harness) {
      const { runId, approvalId } = await runWithApproval(harness, { separateDuties: true });
      const own = { decidedBy: "alice" };
      await assertRefused(harness, runId, decisionOf(harness, approvalId, own), "self_approval");
      const rejection = decisionOf(harness, approvalId, { ...own, decision: "rejected" });
      await deliverAndOwn(harness, runId, rejection);
      assert.equal((await read(harness, approvalId)).state, "rejected");
    },
  },
  {
    name: "without separate duties who asked may approve",
    async check(harness) {
      const { runId, approvalId } = await runWithApproval(harness);
      await deliverAndOwn(harness, runId, decisionOf(harness, approvalId, { decidedBy: "alice" }));
      assert.equal((await read(harness, approvalId)).state, "approved");
    },
  },
  {
    name: "a decision on an unknown approval, or in the name of another run, is refused without effect",
    async check(harness) {
      const { runId, approvalId } = await runWithApproval(harness);
      const other = await runWithApproval(harness);
      const before = await picture(harness, runId);
      const unknown = decisionOf(harness, `${runId}:none@1` as ApprovalId);
      assertOutcome(await deliver(harness, runId, unknown), { kind: "approval_not_found" });
      const crossed = await deliver(harness, other.runId, decisionOf(harness, approvalId));
      assertOutcome(crossed, { kind: "approval_not_found" });
      assert.deepEqual(await picture(harness, runId), before);
      const missing = { tenant: harness.tenant, approvalId: unknown.approvalId };
      assertOutcome(await harness.store.getApproval(missing, call), { kind: "not_found" });
    },
  },
  {
    name: "a decision on an ended run is refused, and one made in time is still recognised",
    async check(harness) {
      const { runId, approvalId } = await runWithApproval(harness);
      await harness.end(runId);
      assert.equal(await refusal(deliver(harness, runId, decisionOf(harness, approvalId))), "run_ended");
      const decided = await runWithApproval(harness);
      const entry = decisionOf(harness, decided.approvalId);
      const change = changeOf({ status: "succeeded" });
      const proposal = { expectedVersion: 1, commitId: harness.id("commit"), change };
      only(await deliver(harness, decided.runId, entry, { proposal }), "applied");
      only(await deliver(harness, decided.runId, entry), "delivered");
    },
  },
  {
    name: "with whenBusy refuse a decision on a busy run leaves the approval pending",
    async check(harness) {
      const { runId, approvalId } = await runWithApproval(harness);
      await harness.acquire(runLock(runId), 60_000);
      const before = await picture(harness, runId);
      const options = { whenBusy: "refuse" } as const;
      only(await deliver(harness, runId, decisionOf(harness, approvalId), options), "run_busy");
      assert.deepEqual(await picture(harness, runId), before);
    },
  },
  {
    name: "approvals are listed newest run first, by state, and page by page",
    async check(harness) {
      const { store, tenant } = harness;
      const made: ApprovalId[] = [];
      for (let index = 0; index < 5; index += 1) made.unshift((await runWithApproval(harness)).approvalId);
      const [, second = made[0] as ApprovalId] = made;
      const owner = second.split(":")[0] as RunId;
      await deliverAndOwn(harness, owner, decisionOf(harness, second));
      const ids = (answer: Awaited<ReturnType<typeof store.listApprovals>>) =>
        only(answer, "listed").approvals.map(({ approvalId }) => approvalId);
      assert.deepEqual(ids(await store.listApprovals({ tenant, limit: 100 }, call)), made);
      const pending = await store.listApprovals({ tenant, state: "pending", limit: 100 }, call);
      assert.deepEqual(
        ids(pending),
        made.filter((id) => id !== second),
      );
      assert.equal(only(pending, "listed").next, undefined);
      assert.deepEqual(ids(await store.listApprovals({ tenant, state: "approved", limit: 9 }, call)), [
        second,
      ]);
      const page = only(await store.listApprovals({ tenant, limit: 3 }, call), "listed");
      assert.equal(page.next, made[2]);
      const rest = await store.listApprovals({ tenant, limit: 3, before: page.next as string }, call);
      assert.deepEqual(ids(rest), made.slice(3));
      assert.equal(only(rest, "listed").next, undefined);
      const foreign = await store.listApprovals({ tenant: harness.otherTenant(), limit: 9 }, call);
      assertOutcome(foreign, { kind: "listed", approvals: [] });
    },
  },
];
