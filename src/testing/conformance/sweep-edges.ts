// The edges of what a sweep does in its time: visits, publications, entries set aside, retention and graves.
import { admissionLock } from "../../domain/lock.ts";
import { makeRunId, type RunId } from "../../domain/run.ts";
import type { Edge, SetTime } from "./edge.ts";
import { call, type Harness, key, only } from "./harness.ts";
import { entryKinds, family, jobOf } from "./run-steps.ts";
import { dueFrom, nothingFound, swept } from "./time-edges.ts";

async function letterIn({ store, tenant }: Harness, id: string): Promise<string> {
  return (await store.getDocument({ tenant, collection: "deadLetter", id }, call)).kind;
}

/** Sweeps at the edge: what a visit found before it is another look's. */
async function sweptAt(harness: Harness, time: SetTime, afterMs: number): Promise<string> {
  await time.pass(afterMs);
  return swept(harness);
}

const attention = "1 waiting, 0 unclaimed, 0 lost";
const again = "0 waiting, 1 unclaimed, 0 lost";

const visitEdges: readonly Edge[] = [
  {
    name: "a run whose entries wait is visited after its time",
    decidedBy: [dueFrom],
    ...{ below: nothingFound, at: attention, above: attention },
    async look(harness, offset, time) {
      await harness.admit(harness.newRun({ start: "inbox" }));
      return sweptAt(harness, time, 2_000 + offset);
    },
  },
  {
    name: "a child run is visited after the same time",
    decidedBy: [dueFrom],
    ...{ below: nothingFound, at: attention, above: attention },
    async look(harness, offset, time) {
      await family(harness);
      return sweptAt(harness, time, 2_000 + offset);
    },
  },
  {
    name: "and visited again as long after the visit",
    decidedBy: [dueFrom],
    ...{ below: nothingFound, at: attention, above: attention },
    async look(harness, offset, time) {
      await harness.admit(harness.newRun({ start: "inbox" }));
      await sweptAt(harness, time, 2_700);
      return sweptAt(harness, time, 2_000 + offset);
    },
  },
  {
    name: "an owner that does not come back is followed by a visit",
    decidedBy: [dueFrom],
    ...{ below: nothingFound, at: attention, above: attention },
    async look(harness, offset, time) {
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      await time.pass(700);
      const { tenant } = harness;
      const take = harness.take(1_000);
      only(await harness.store.takeRun({ tenant, runId, take, records: [] }, call), "owned");
      return sweptAt(harness, time, 2_000 + offset);
    },
  },
  ...[1, 2, 3, 4].map(
    (publication): Edge => ({
      name: `a job is published a ${publication + 1}. time after its backoff, which has a cap`,
      decidedBy: [dueFrom],
      ...{ below: nothingFound, at: again, above: again },
      async look(harness, offset, time) {
        const runId = harness.runId();
        await harness.admit(harness.newRun({ runId, change: { jobs: [jobOf(runId)] } }));
        const backoffsMs = [1_000, 2_000, 3_000, 3_000].slice(0, publication);
        for (const waitMs of backoffsMs.slice(0, -1)) await sweptAt(harness, time, waitMs);
        return sweptAt(harness, time, (backoffsMs.at(-1) ?? 0) + offset);
      },
    }),
  ),
  ...[4, 5, 6].map(
    (owners): Edge => ({
      name: `after ${owners} owners in vain the head entry is set aside when its time is over`,
      decidedBy: ["ownership.ts state.drains >= drainsMax && now - sinceMs >= setAsideAfterMs"],
      ...(owners < 5
        ? { below: "started", at: "started", above: "started" }
        : { below: "started", at: "poisoned", above: "poisoned" }),
      async look(harness, offset, time) {
        const { store, tenant } = harness;
        const runId = await harness.admit(harness.newRun({ start: "inbox" }));
        const beganMs = await harness.now();
        for (let owner = 1; owner <= owners; owner += 1) {
          const take = harness.take(1_000);
          only(await store.takeRun({ tenant, runId, take, records: [] }, call), "owned");
          await time.pass(1_001);
        }
        await time.pass(beganMs + 120_000 + offset - (await harness.now()));
        return (await entryKinds(harness, runId)).join();
      },
    }),
  ),
];

async function endedRun(harness: Harness, options: { readonly key?: string } = {}): Promise<RunId> {
  const own = options.key === undefined ? {} : { key: key(options.key) };
  const runId = await harness.admit(harness.newRun(own));
  await harness.end(runId);
  return runId;
}

async function startWith({ store, tenant, newRun }: Harness, run: ReturnType<typeof newRun>) {
  return store.admit({ tenant, run }, call);
}

const kept = "reservations.ts nowMs(context) > reservation.expiresAtMs";

const retentionEdges: readonly Edge[] = [
  {
    name: "an ended run is removed when its retention ends",
    decidedBy: [dueFrom],
    ...{ below: "run", at: "not_found", above: "not_found" },
    async look(harness, offset, time) {
      const { store, tenant } = harness;
      const runId = await endedRun(harness);
      await sweptAt(harness, time, 10_000 + offset);
      return (await store.loadRun({ tenant, runId }, call)).kind;
    },
  },
  {
    name: "a dead letter of a run is removed when its retention ends",
    decidedBy: [dueFrom, "documents.ts letterEndMs(context, found) <= nowMs(context)"],
    ...{ below: "document", at: "not_found", above: "not_found" },
    async look(harness, offset, time) {
      const runId = await harness.admit();
      await harness.commit(runId, { deadLetters: [{ id: "l", reason: "claims_lost", body: "{}" }] });
      await sweptAt(harness, time, 10_000 + offset);
      return letterIn(harness, "l");
    },
  },
  {
    name: "and so is one that was written as a document",
    decidedBy: [dueFrom, "documents.ts letterEndMs(context, found) <= nowMs(context)"],
    ...{ below: "document", at: "not_found", above: "not_found" },
    async look(harness, offset, time) {
      const { store, tenant } = harness;
      const letter = { tenant, collection: "deadLetter", id: "l", body: "{}", actor: "system" } as const;
      await store.putDocument({ ...letter, changeId: "1" }, call);
      await time.pass(400);
      await store.putDocument({ ...letter, changeId: "2" }, call);
      await sweptAt(harness, time, 10_000 + offset);
      return letterIn(harness, "l");
    },
  },
  {
    name: "a key replays to the end of the last millisecond of its retention",
    decidedBy: [kept],
    ...{ below: "bound replayed", at: "bound replayed", above: "idempotency_key_unbound admitted" },
    async look(harness, offset, time) {
      const { store, tenant } = harness;
      await endedRun(harness, { key: "k" });
      await time.pass(10_000 + offset);
      const { digest } = key("k");
      const found = await store.inspectReservation({ tenant, digest }, call);
      const started = await startWith(harness, harness.newRun({ key: key("k") }));
      return `${found.kind} ${started.kind}`;
    },
  },
  {
    name: "a key is counted until the proof after its last millisecond",
    decidedBy: ["reservations.ts expiryOf(member) >= nowMs(context)", "due.ts planned.atMs <= latestMs"],
    ...{ below: 1, at: 1, above: 0 },
    async look(harness, offset, time) {
      const { store, tenant } = harness;
      await endedRun(harness, { key: "k" });
      await sweptAt(harness, time, 4_000);
      await sweptAt(harness, time, 6_000 + offset);
      return only(await store.countUsage({ tenant }, call), "counted").used.idempotency_keys;
    },
  },
  {
    name: "a pending key is given up at twice the time of its lock, also when that is held on to",
    decidedBy: [kept],
    ...{ below: "pending", at: "pending", above: "idempotency_key_unbound" },
    async look(harness, offset, time) {
      const { store, tenant } = harness;
      const guard = await harness.acquire(admissionLock, 1_000);
      const reserved = { tenant, guard, runId: harness.runId(), key: key("k") };
      only(await store.reserve(reserved, call), "reserved");
      const renewal = { tenant, lock: admissionLock, token: guard.token, ttlMs: 9_000 };
      only(await store.renewLock(renewal, call), "renewed");
      await time.pass(2_000 + offset);
      return (await store.inspectReservation({ tenant, digest: key("k").digest }, call)).kind;
    },
  },
  ...(["admitted", "reserved"] as const).map(
    (how): Edge => ({
      name: `a key that gives way to one that is ${how} does so early up to its last millisecond`,
      decidedBy: ["reservations.ts expiryOf(oldest.member) >= nowMs(context)"],
      ...{ below: `${how} early`, at: `${how} early`, above: how },
      async look(harness, offset, time) {
        const { store, tenant } = harness;
        for (const live of ["a", "b"]) await harness.admit(harness.newRun({ key: key(live) }));
        await endedRun(harness, { key: "k" });
        const guard = await harness.acquire(admissionLock, 60_000);
        await time.pass(10_000 + offset);
        const next = key("next");
        const answer =
          how === "admitted"
            ? await startWith(harness, harness.newRun({ key: next }))
            : await store.reserve({ tenant, guard, runId: harness.runId(), key: next }, call);
        return "evictedEarly" in answer ? `${answer.kind} early` : answer.kind;
      },
    }),
  ),
  {
    name: "a run that is deleted leaves a grave within a minute of its admission",
    decidedBy: ["runs.ts nowMs(context) < graveUntilMs"],
    ...{ below: "not made again", at: "made again", above: "made again" },
    async look(harness, offset, time) {
      const { store, tenant } = harness;
      const run = harness.newRun();
      await harness.admit(run);
      await harness.end(run.runId);
      await time.pass(60_000 + offset);
      only(await store.deleteRun({ tenant, runId: run.runId, actor: "dora" }, call), "deleted");
      await startWith(harness, run);
      const found = await store.loadRun({ tenant, runId: run.runId }, call);
      return found.kind === "run" ? "made again" : "not made again";
    },
  },
  {
    name: "a grave is there for a minute from the admission, and goes in the millisecond after",
    decidedBy: [dueFrom],
    ...{ below: "not made again", at: "made again", above: "made again" },
    async look(harness, offset, time) {
      const { store, tenant } = harness;
      const run = { ...harness.newRun(), runId: makeRunId(tenant, harness.id("grave")) };
      await harness.admit(run);
      await harness.end(run.runId);
      await time.pass(30_000);
      only(await store.deleteRun({ tenant, runId: run.runId, actor: "dora" }, call), "deleted");
      // At its end itself a sweep may take it, and a key of Redis is still there: both are right.
      await sweptAt(harness, time, 30_000 + (offset < 0 ? offset : offset + 1));
      await startWith(harness, run);
      const found = await store.loadRun({ tenant, runId: run.runId }, call);
      return found.kind === "run" ? "made again" : "not made again";
    },
  },
];

export const sweepEdges: readonly Edge[] = [...visitEdges, ...retentionEdges];
