// What every store must do with retries of dead letters: once for a letter, and a run that failed is opened again with its slot.
import assert from "node:assert/strict";
import type { ClaimToken, JobId } from "../../domain/job.ts";
import type { RunId, RunRecord, TerminalStatus } from "../../domain/run.ts";
import type { KeyRequest } from "../../ports/admission-operations.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, key, only } from "./harness.ts";
import {
  activeRuns,
  cancelOf,
  changeOf,
  commit,
  commitOf,
  deliver,
  deliverAndOwn,
  deliveryOf,
  headerOf,
  jobOf,
  picture,
  refusal,
  resultOf,
  retryOf,
  runLock,
  runWithClaim,
  take,
} from "./run-steps.ts";

type Failed = { readonly runId: RunId; readonly jobId: JobId };
type Past = { readonly key?: KeyRequest; readonly records?: readonly RunRecord[] };

/** A run that has ended, and the letter of the job that did not get through. */
export async function endedRun(
  harness: Harness,
  status: TerminalStatus = "failed",
  past: Past = {},
): Promise<Failed> {
  const runId = await harness.admit(harness.newRun(past));
  const { jobId } = jobOf(runId);
  await harness.commit(runId, { status, deadLetters: [letterOf(jobId)] });
  return { runId, jobId };
}

/** The same of a run that goes on. */
export async function openRun(harness: Harness): Promise<Failed> {
  const runId = await harness.admit();
  const { jobId } = jobOf(runId);
  await harness.commit(runId, { deadLetters: [letterOf(jobId)] });
  return { runId, jobId };
}

export function letterOf(id: string) {
  return { id, reason: "retries_exhausted", body: '{"why":"no"}' } as const;
}

export async function letterRevision({ store, tenant }: Harness, id: string): Promise<number> {
  const answer = await store.getDocument({ tenant, collection: "deadLetter", id }, call);
  const { document } = only(answer, "document");
  assert.equal(document.body, letterOf(id).body);
  return document.revision;
}

async function putLetter({ store, tenant }: Harness, id: string): Promise<void> {
  const { body } = letterOf(id);
  const letter = { tenant, collection: "deadLetter", id, body, changeId: "given up", actor: "bus" } as const;
  only(await store.putDocument(letter, call), "saved");
}

export const retryCases: readonly ConformanceCase[] = [
  {
    name: "a letter of a run that goes on is retried: the entry waits, and the letter says so",
    async check(harness) {
      const { runId, jobId } = await openRun(harness);
      assert.equal(await letterRevision(harness, jobId), 1);
      const retry = retryOf(harness, jobId);
      const owned = await deliverAndOwn(harness, runId, retry);
      assert.deepEqual(owned.entries, [{ kind: "retry", entryId: retry.entryId, jobId, actor: "dora" }]);
      assert.equal(await letterRevision(harness, jobId), 2);
      assert.deepEqual([owned.header.status, owned.header.version], ["running", 2]);
      const read = await harness.store.readEvents({ tenant: harness.tenant, after: 2, limit: 9 }, call);
      assert.deepEqual(
        only(read, "events").events.map(({ type, subject, actor, detail }) => [type, subject, actor, detail]),
        [["letter_retried", runId, "dora", jobId]],
      );
    },
  },
  {
    name: "a letter is retried once: repeats and other retries of it change nothing",
    async check(harness) {
      for (const failed of [await openRun(harness), await endedRun(harness)]) {
        const { runId, jobId } = failed;
        const request = deliveryOf(harness, runId, retryOf(harness, jobId));
        const first = only(await harness.store.deliver(request, call), "delivered");
        const before = await picture(harness, runId);
        const again = only(await harness.store.deliver(request, call), "delivered");
        assert.deepEqual(again.run, first.run);
        const other = only(await deliver(harness, runId, retryOf(harness, jobId)), "delivered");
        assert.equal(other.run.kind, "handed_over");
        assert.deepEqual(await picture(harness, runId), before);
        await harness.release({ lock: runLock(runId), token: request.take.token });
        const late = only(await deliver(harness, runId, retryOf(harness, jobId)), "delivered");
        assert.deepEqual(late.run, { kind: "handed_over" });
        assert.equal(only(await take(harness, runId), "owned").entries.length, 1);
      }
    },
  },
  {
    name: "a retry without its letter, without its run or by a revoked key is refused without effect",
    async check(harness) {
      const { runId, jobId } = await endedRun(harness);
      await harness.set({ revokedKeyIds: ["key_1"] });
      const before = await picture(harness, runId);
      const none = retryOf(harness, jobId, { letterId: "none" });
      assert.equal(await refusal(deliver(harness, runId, none)), "dead_letter_not_found");
      const stranger = await refusal(deliver(harness, harness.runId(), retryOf(harness, jobId)));
      assert.equal(stranger, "run_not_found");
      const revoked = deliver(harness, runId, retryOf(harness, jobId), { credential: "key_1" });
      assert.equal(await refusal(revoked), "unauthenticated");
      assert.deepEqual(await picture(harness, runId), before);
    },
  },
  {
    name: "a result from its letter retries the letter when it is accepted, once, whether the run is busy or free",
    async check(harness) {
      for (const whenBusy of ["append", "refuse"] as const) {
        const { runId, jobId, token } = await runWithClaim(harness);
        if (whenBusy === "append") await harness.acquire(runLock(runId), 60_000);
        const entry = resultOf(harness, { jobId, token }, { letter: { letterId: jobId, actor: "dora" } });
        const before = await picture(harness, runId);
        const none = await refusal(deliver(harness, runId, entry, { whenBusy }));
        assert.equal(none, "dead_letter_not_found");
        assert.deepEqual(await picture(harness, runId), before);
        await putLetter(harness, jobId);
        const { events } = only(
          await harness.store.readEvents({ tenant: harness.tenant, after: 0, limit: 99 }, call),
          "events",
        );
        only(await deliver(harness, runId, entry, { whenBusy }), "delivered");
        assert.equal(await letterRevision(harness, jobId), 2);
        only(await deliver(harness, runId, entry, { whenBusy }), "delivered");
        const after = events.at(-1)?.sequence ?? 0;
        const read = await harness.store.readEvents({ tenant: harness.tenant, after, limit: 9 }, call);
        assert.deepEqual(
          only(read, "events").events.map(({ type, subject, actor, detail }) => [
            type,
            subject,
            actor,
            detail,
          ]),
          [["letter_retried", runId, "dora", jobId]],
        );
        const other = resultOf(harness, { jobId, token }, { letter: { letterId: jobId, actor: "dora" } });
        assert.equal(await refusal(deliver(harness, runId, other, { whenBusy })), "duplicate");
      }
    },
  },
  {
    name: "a result from its letter is refused without effect when its claim is another's",
    async check(harness) {
      const { runId, jobId } = await runWithClaim(harness);
      await putLetter(harness, jobId);
      const before = await picture(harness, runId);
      const stale = { jobId, token: "another claim" as ClaimToken };
      const entry = resultOf(harness, stale, { letter: { letterId: jobId, actor: "dora" } });
      assert.equal(await refusal(deliver(harness, runId, entry)), "stale_claim");
      assert.deepEqual(await picture(harness, runId), before);
      assert.equal(await letterRevision(harness, jobId), 1);
    },
  },
  {
    name: "a run that failed is opened again with its slot, goes on, and ends like any other",
    async check(harness) {
      const { store, tenant } = harness;
      for (const status of ["failed", "timed_out"] as const) {
        const { runId, jobId } = await endedRun(harness, status);
        const { admittedAtMs } = await headerOf(harness, runId);
        const rows = only(await store.readEvents({ tenant, after: 0, limit: 99 }, call), "events").events;
        const owned = await deliverAndOwn(harness, runId, retryOf(harness, jobId), {
          records: ["input/run"],
        });
        const { header } = owned;
        assert.deepEqual([header.status, header.version, header.endedAtMs], ["running", 2, undefined]);
        assert.equal(header.admittedAtMs, admittedAtMs);
        assert.equal(owned.records.length, 1);
        assert.equal(owned.entries.length, 1);
        assert.deepEqual(await activeRuns(harness), [runId]);
        const after = rows.length;
        const [row, ...more] = only(
          await store.readEvents({ tenant, after, limit: 9 }, call),
          "events",
        ).events;
        assert.deepEqual(more, []);
        const { type, subject, actor, detail } = row as NonNullable<typeof row>;
        assert.deepEqual([type, subject, actor, detail], ["run_reopened", runId, "dora", jobId]);
        const guard = owned.guard;
        const job = jobOf(runId, { attempt: 2, claim: harness.claim() });
        const going = { consumed: 1, expectedVersion: 2, change: { jobs: [job] } };
        const next = only(await commit(harness, runId, guard, going), "committed");
        assert.deepEqual([next.version, next.claims.length], [3, 1]);
        await harness.end(runId);
        const end = await headerOf(harness, runId);
        assert.deepEqual([end.status, end.version, end.endedAtMs !== undefined], ["succeeded", 4, true]);
        assert.deepEqual(await activeRuns(harness), []);
      }
    },
  },
  {
    name: "reopened runs hold their slots in the order of their admission",
    async check(harness) {
      const { runId, jobId } = await endedRun(harness);
      await harness.untilAfter(await harness.now());
      const younger = await harness.admit();
      await deliverAndOwn(harness, runId, retryOf(harness, jobId));
      assert.deepEqual(await activeRuns(harness), [runId, younger]);
    },
  },
  {
    name: "the commit that ended a run is still recognised after the run was opened again",
    async check(harness) {
      const runId = await harness.admit();
      const { jobId } = jobOf(runId);
      const guard = await harness.acquire(runLock(runId), 60_000);
      const change = { status: "failed", deadLetters: [letterOf(jobId)] } as const;
      const request = commitOf(harness, runId, guard, { change });
      only(await harness.store.commit(request, call), "committed");
      await deliverAndOwn(harness, runId, retryOf(harness, jobId));
      const before = await picture(harness, runId);
      const again = { kind: "committed", version: 2, entries: [], claims: [] };
      assertOutcome(await harness.store.commit(request, call), again);
      assert.deepEqual(await picture(harness, runId), before);
    },
  },
  {
    name: "a run that succeeded, was denied or cancelled, or that somebody wanted cancelled is not opened again",
    async check(harness) {
      for (const status of ["succeeded", "denied", "cancelled"] as const) {
        const { runId, jobId } = await endedRun(harness, status);
        const before = await picture(harness, runId);
        assert.equal(
          await refusal(deliver(harness, runId, retryOf(harness, jobId))),
          "dead_letter_not_retryable",
          status,
        );
        assert.deepEqual(await picture(harness, runId), before);
      }
      const { runId, jobId } = await openRun(harness);
      const { guard } = await deliverAndOwn(harness, runId, cancelOf(harness));
      const end = { expectedVersion: 2, consumed: 1, change: { status: "failed" } } as const;
      only(await commit(harness, runId, guard, end), "committed");
      assert.equal(
        await refusal(deliver(harness, runId, retryOf(harness, jobId))),
        "dead_letter_not_retryable",
      );
      assert.equal(await letterRevision(harness, jobId), 1);
    },
  },
  {
    name: "a run is opened again only with a free slot: refused at the limit without effect, and accepted later",
    async check(harness) {
      const { runId, jobId } = await endedRun(harness);
      await harness.set({ maxConcurrentRuns: 1 });
      const other = await harness.admit();
      const request = deliveryOf(harness, runId, retryOf(harness, jobId));
      const before = await picture(harness, runId);
      for (let times = 0; times < 2; times += 1)
        assert.equal(await refusal(harness.store.deliver(request, call)), "max_concurrent_runs_reached");
      assert.deepEqual(await picture(harness, runId), before);
      await harness.end(other);
      only(only(await harness.store.deliver(request, call), "delivered").run, "owned");
      const full = await harness.store.admit({ tenant: harness.tenant, run: harness.newRun() }, call);
      assertOutcome(full, { kind: "max_concurrent_runs_reached", limit: 1, active: 1 });
    },
  },
  {
    name: "a run of a stopped tenant is not opened again; one that goes on takes the entry",
    async check(harness) {
      const ended = await endedRun(harness);
      const open = await openRun(harness);
      await harness.set({ stopped: true });
      const before = await picture(harness, ended.runId);
      const stopped = deliver(harness, ended.runId, retryOf(harness, ended.jobId));
      assert.equal(await refusal(stopped), "tenant_stopped");
      assert.deepEqual(await picture(harness, ended.runId), before);
      await deliverAndOwn(harness, open.runId, retryOf(harness, open.jobId));
    },
  },
  {
    name: "a run opened again keeps its key: the key is bound to a run that has not ended, and replays it",
    async check(harness) {
      const { store, tenant } = harness;
      const asked = key("reopened");
      const { runId, jobId } = await endedRun(harness, "failed", { key: asked });
      const bound = { kind: "bound", runId };
      const { digest } = asked;
      assertOutcome(await store.inspectReservation({ tenant, digest }, call), {
        ...bound,
        finalStatus: "failed",
      });
      const { header } = await deliverAndOwn(harness, runId, retryOf(harness, jobId));
      assert.equal(header.reservation, digest);
      assertOutcome(await store.inspectReservation({ tenant, digest }, call), bound);
      const replay = await store.admit({ tenant, run: harness.newRun({ key: asked }) }, call);
      assertOutcome(replay, { kind: "replayed", runId, status: "running" });
    },
  },
  {
    name: "a proposal with a retry is applied to a run that goes on, and ignored for one that has ended",
    async check(harness) {
      const proposal = { expectedVersion: 2, commitId: "proposed", change: changeOf({ status: "waiting" }) };
      const open = await openRun(harness);
      const request = deliveryOf(harness, open.runId, retryOf(harness, open.jobId), { proposal });
      for (let times = 0; times < 2; times += 1) {
        const answer = await harness.store.deliver(request, call);
        assertOutcome(answer, { kind: "applied", version: 3, status: "waiting", claims: [] });
      }
      assert.equal(await letterRevision(harness, open.jobId), 2);
      const { runId, jobId } = await endedRun(harness);
      const owned = await deliverAndOwn(harness, runId, retryOf(harness, jobId), { proposal });
      assert.deepEqual([owned.header.status, owned.header.version], ["running", 2]);
      assert.equal(owned.entries.length, 1);
    },
  },
  {
    name: "a retry for a busy run is handed over, or with whenBusy refuse has no effect, also when the run has ended",
    async check(harness) {
      for (const failed of [await openRun(harness), await endedRun(harness)]) {
        const { runId, jobId } = failed;
        const guard = await harness.acquire(runLock(runId), 60_000);
        const before = await picture(harness, runId);
        const busy = await deliver(harness, runId, retryOf(harness, jobId), { whenBusy: "refuse" });
        assert.equal(only(busy, "run_busy").instance, "host:1");
        assert.deepEqual(await picture(harness, runId), before);
        const retry = only(await deliver(harness, runId, retryOf(harness, jobId)), "delivered");
        assert.equal(retry.run.kind, "handed_over");
        const request = commitOf(harness, runId, guard, { expectedVersion: 2 });
        const { entries } = only(await harness.store.commit(request, call), "committed");
        assert.deepEqual(
          entries.map(({ kind }) => kind),
          ["retry"],
        );
      }
    },
  },
  {
    name: "a letter that is written again can be retried again",
    async check(harness) {
      const { runId, jobId } = await openRun(harness);
      const { guard } = await deliverAndOwn(harness, runId, retryOf(harness, jobId));
      const change = { deadLetters: [letterOf(jobId)] };
      only(await commit(harness, runId, guard, { consumed: 1, expectedVersion: 2, change }), "committed");
      assert.equal(await letterRevision(harness, jobId), 1);
      assert.equal((await deliverAndOwn(harness, runId, retryOf(harness, jobId))).entries.length, 1);
    },
  },
  {
    name: "a run that is deleted, or part of which is gone, is not opened again",
    async check(harness) {
      const { store, tenant } = harness;
      const records = Array.from({ length: 600 }, (_, index) => ({ key: `step/${index}`, body: "{}" }));
      const { runId, jobId } = await endedRun(harness, "failed", { records });
      const removal = { tenant, runId, actor: "tester" };
      assertOutcome(await store.deleteRun(removal, call), { kind: "more" });
      assert.equal(await refusal(deliver(harness, runId, retryOf(harness, jobId))), "run_not_found");
      assertOutcome(await store.deleteRun(removal, call), { kind: "deleted" });
      assert.equal(await refusal(deliver(harness, runId, retryOf(harness, jobId))), "run_not_found");
      assert.deepEqual(await activeRuns(harness), []);
      assert.equal(await letterRevision(harness, jobId), 1);
    },
  },
];

/** For a store that keeps the keys of ended runs for 60 ms. */
export const retryKeyCases: readonly ConformanceCase[] = [
  {
    name: "the key of a run that was opened again does not expire while it is open",
    async check(harness) {
      const { store, tenant } = harness;
      const asked = key("open");
      const { runId, jobId } = await endedRun(harness, "failed", { key: asked });
      await deliverAndOwn(harness, runId, retryOf(harness, jobId));
      await harness.untilAfter((await harness.now()) + 80);
      const replay = await store.admit({ tenant, run: harness.newRun({ key: asked }) }, call);
      assertOutcome(replay, { kind: "replayed", runId, status: "running" });
    },
  },
  {
    name: "a key that has expired stays lost to the run that is opened again: it may be another run's",
    async check(harness) {
      const { store, tenant } = harness;
      const asked = key("lost");
      const { runId, jobId } = await endedRun(harness, "failed", { key: asked });
      await harness.untilAfter((await harness.now()) + 80);
      const other = await harness.admit(harness.newRun({ key: asked }));
      const { header } = await deliverAndOwn(harness, runId, retryOf(harness, jobId));
      assert.equal(header.reservation, undefined);
      const bound = await store.inspectReservation({ tenant, digest: asked.digest }, call);
      assertOutcome(bound, { kind: "bound", runId: other });
    },
  },
];
