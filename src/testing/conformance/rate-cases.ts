// What every store must do with rates: a start counts in them or waits for them, and a claim takes its units of its topic's.
import assert from "node:assert/strict";
import { namedGate, tenantGate } from "../../domain/gates.ts";
import type { JobId } from "../../domain/job.ts";
import type { TopicRate } from "../../domain/rates.ts";
import {
  claimSaid,
  held,
  hourMs,
  jobWith,
  perHour,
  ratedRun,
  readyJobs,
  report,
  runOf,
  startRun,
  startSaid,
  usd,
} from "./budget-steps.ts";
import { planOf } from "./gate-steps.ts";
import { type ConformanceCase, call, type Harness, key, only } from "./harness.ts";
import { activeRuns, cancelOf, claim, deliver, entryKinds, headerOf, jobState } from "./run-steps.ts";

/** What is left of a wait on a real clock: nearly all of it. */
function assertNearly(actual: number | undefined, expected: number): void {
  assert.ok(actual !== undefined && actual <= expected && actual > expected - 60_000, `${actual}`);
}

async function runStates(harness: Harness, runs: ReadonlyArray<Parameters<typeof headerOf>[1]>) {
  return Promise.all(runs.map(async (runId) => (await headerOf(harness, runId)).status));
}

const startCases: readonly ConformanceCase[] = [
  {
    name: "as many start as a rate lets through; the next one is refused, is told how long, and has counted nowhere",
    async check(harness) {
      const rates = [perHour(10, { of: "deploy" }), perHour(2)];
      for (let index = 0; index < 2; index += 1)
        assert.equal(await startSaid(harness, ratedRun(harness, rates)), "admitted");
      for (let time = 0; time < 3; time += 1) {
        const run = ratedRun(harness, rates, { key: key("k") });
        const refused = only(await startRun(harness, run), "start_rate_exceeded");
        assert.equal(refused.rate, rates[1]?.rate);
        assertNearly(refused.retryAfterMs, hourMs / 2);
      }
      const left = only(await startRun(harness, ratedRun(harness, rates.slice(0, 1))), "admitted").rateLeft;
      assert.equal(left?.remaining, 7);
      assert.equal((await activeRuns(harness)).length, 3);
    },
  },
  {
    name: "an admitted start is told the rate with the least left, and a repeated one what is left then",
    async check(harness) {
      const rates = [perHour(5), perHour(3, { of: "deploy" })];
      const run = ratedRun(harness, rates);
      const { rateLeft } = only(await startRun(harness, run), "admitted");
      assert.deepEqual([rateLeft?.limit, rateLeft?.perMs, rateLeft?.remaining], [3, hourMs, 2]);
      assertNearly(rateLeft?.resetMs, hourMs / 3);
      await startRun(harness, ratedRun(harness, rates));
      assert.equal(only(await startRun(harness, run), "admitted").rateLeft?.remaining, 1);
      assert.equal(only(await startRun(harness, harness.newRun()), "admitted").rateLeft, undefined);
    },
  },
  {
    name: "rates of the same span, but of another workflow or tenant, count apart",
    async check(harness) {
      const run = () => ratedRun(harness, [perHour(1, { of: "deploy" })]);
      assert.equal(await startSaid(harness, run()), "admitted");
      assert.equal((await startRun(harness, run())).kind, "start_rate_exceeded");
      assert.equal(await startSaid(harness, ratedRun(harness, [perHour(1, { of: "deplo" })])), "admitted");
      assert.equal(await startSaid(harness, ratedRun(harness, [perHour(1)])), "admitted");
      const other = { tenant: harness.otherTenant(), run: ratedRun(harness, [perHour(1, { of: "deploy" })]) };
      assert.equal((await harness.store.admit(other, call)).kind, "admitted");
    },
  },
  {
    name: "a stopped tenant comes before rates, rates before gates, and the first rate in order before the others",
    async check(harness) {
      const rates = [perHour(1, { of: "b" }), perHour(1, { of: "a" })];
      assert.equal(await startSaid(harness, ratedRun(harness, rates)), "admitted");
      await harness.set({ maxConcurrentRuns: 1 });
      const rejecting = { gates: planOf([[tenantGate, "reject"]]) };
      const refused = await startRun(harness, ratedRun(harness, rates, rejecting));
      assert.equal(only(refused, "start_rate_exceeded").rate, rates[0]?.rate);
      await harness.set({ stopped: true });
      assert.equal((await startRun(harness, ratedRun(harness, rates))).kind, "tenant_stopped");
    },
  },
  {
    name: "a start that a gate refuses has counted in no rate",
    async check(harness) {
      await harness.set({ gates: { crm: { max: 0 } } });
      const closed = { gates: planOf([[namedGate("crm"), "reject"]]) };
      const run = ratedRun(harness, [perHour(1)], closed);
      assert.equal((await startRun(harness, run)).kind, "max_concurrent_runs_reached");
      assert.equal(await startSaid(harness, ratedRun(harness, [perHour(1)])), "admitted");
    },
  },
  {
    name: "a start that may wait for its rate is queued until then, and is answered the same when it is repeated",
    async check(harness) {
      const rates = [perHour(60, { burst: 1, atLimit: "queue" })];
      await startRun(harness, ratedRun(harness, rates));
      const now = await harness.now();
      const [first, second] = [ratedRun(harness, rates, { key: key("k") }), ratedRun(harness, rates)];
      const waits = only(await startRun(harness, first), "queued");
      const later = only(await startRun(harness, second), "queued");
      assert.ok("rate" in waits && "rate" in later);
      assert.deepEqual([waits.rate, waits.position, later.position], [rates[0]?.rate, 1, 2]);
      assertNearly(waits.startsAtMs - now, 60_000 + 5_000);
      assert.equal(later.startsAtMs - waits.startsAtMs, 60_000);
      assert.equal(waits.rateLeft?.remaining, 0);
      const {
        storeTimeMs: _time,
        rateLeft: _left,
        ...again
      } = only(await startRun(harness, first), "queued");
      const { storeTimeMs: _before, rateLeft: _was, ...told } = waits;
      assert.deepEqual(again, told);
      const header = await headerOf(harness, first.runId);
      assert.deepEqual([header.status, header.gates?.held, header.gates?.waits], ["queued", 0, undefined]);
      assert.deepEqual([header.gates?.startsAtMs, header.gates?.rate], [waits.startsAtMs, waits.rate]);
      assert.equal((await activeRuns(harness)).length, 1);
      const usage = await harness.store.countUsage({ tenant: harness.tenant }, call);
      assert.equal(only(usage, "counted").used.active_runs, 3);
      const { events } = only(
        await harness.store.readEvents({ tenant: harness.tenant, after: 0, limit: 9 }, call),
        "events",
      );
      assert.deepEqual(
        events.filter(({ type }) => type === "run_queued").map(({ detail }) => detail),
        [first, second].map(() => `deploy ${waits.rate}`),
      );
    },
  },
  {
    name: "one that begins with its own operation, or under a lock, does not wait for its rate",
    async check(harness) {
      const rates = [perHour(60, { burst: 1, atLimit: "queue" })];
      await startRun(harness, ratedRun(harness, rates));
      for (const run of [
        ratedRun(harness, rates, { start: "applied" }),
        harness.newRun({ start: "inbox", rates }),
      ]) {
        const refused = only(await startRun(harness, run), "start_rate_exceeded");
        assertNearly(refused.retryAfterMs, 60_000);
      }
      const { tenant, store } = harness;
      const guard = await harness.acquire({ namespace: "admission", name: "slots" }, 60_000);
      const refused = await store.createRun({ tenant, guard, run: ratedRun(harness, rates) }, call);
      assertNearly(only(refused, "start_rate_exceeded").retryAfterMs, 60_000);
      const created = await store.createRun(
        { tenant, guard, run: ratedRun(harness, [perHour(3, { of: "x" })]) },
        call,
      );
      assert.equal(only(created, "admitted").rateLeft?.remaining, 2);
    },
  },
  {
    name: "a run that waits for its rate is cancelled at once, begins no more, and its place in the rate is not given back",
    async check(harness) {
      const rates = [perHour(60, { burst: 1, atLimit: "queue" })];
      await startRun(harness, ratedRun(harness, rates));
      const run = ratedRun(harness, rates);
      const before = only(await startRun(harness, run), "queued");
      const { tenant, store } = harness;
      const move = { tenant, runId: run.runId, to: "head", moveId: "move", actor: "ops" } as const;
      const moved = await store.moveQueued(move, call);
      assert.equal(moved.kind, "run_not_queued");
      assert.equal(only(await deliver(harness, run.runId, cancelOf(harness)), "applied").status, "cancelled");
      assert.deepEqual(await runStates(harness, [run.runId]), ["cancelled"]);
      assert.equal((await headerOf(harness, run.runId)).gates?.startsAtMs, undefined);
      const usage = await store.countUsage({ tenant }, call);
      assert.equal(only(usage, "counted").used.active_runs, 1);
      const next = only(await startRun(harness, ratedRun(harness, rates)), "queued");
      assert.ok("rate" in before && "rate" in next);
      assert.equal(next.startsAtMs - before.startsAtMs, 60_000);
    },
  },
  {
    name: "a run that waits for its rate takes no entry of another kind, and nobody owns it",
    async check(harness) {
      const rates = [perHour(60, { burst: 1, atLimit: "queue" })];
      await startRun(harness, ratedRun(harness, rates));
      const { runId } = ratedRun(harness, rates);
      await startRun(harness, { ...ratedRun(harness, rates), runId });
      const { tenant, store } = harness;
      const taken = await store.takeRun({ tenant, runId, take: harness.take(), records: [] }, call);
      assert.equal(taken.kind, "empty");
      assert.deepEqual(
        only(await store.listGates({ tenant, after: "", limit: 9 }, call), "listed").gates,
        [],
      );
    },
  },
];

const ofShell = (...rates: readonly TopicRate[]) => ({ topicRates: { shell: rates } });
const requests = (limit: number, burst = limit): TopicRate => ({ limit, perMs: hourMs, burst });
const tokens = (limit: number, burst = limit): TopicRate => ({ ...requests(limit, burst), unit: "tokens" });
const needs = (amount: number) => ({ estimate: { tokens: amount * usd } });

const claimCases: readonly ConformanceCase[] = [
  {
    name: "as many jobs of a topic are claimed as its rate lets through; another stays ready and is told when to come again",
    async check(harness) {
      await harness.set(ofShell(requests(2)));
      const { jobIds } = await runOf(harness, [{}, {}, {}, { topic: "other" }]);
      const [one, two, three, other] = jobIds as readonly [JobId, JobId, JobId, JobId];
      assert.equal(await claimSaid(harness, one), "claimed");
      assert.equal(await claimSaid(harness, two), "claimed");
      for (let time = 0; time < 2; time += 1) {
        const refused = only(await claim(harness, three), "refused");
        assert.equal(refused.because, "topic_rate");
        assertNearly(refused.againInMs, hourMs / 2);
      }
      assert.equal(await jobState(harness, three), "ready");
      assert.deepEqual(await readyJobs(harness), [three]);
      assert.equal(await claimSaid(harness, other), "claimed");
    },
  },
  {
    name: "a claim that has ended, however it ended, stays counted in a rate of claims",
    async check(harness) {
      await harness.set(ofShell(requests(2)));
      await report(harness, await held(harness));
      await report(harness, await held(harness), { outcome: "handed_back" });
      assert.equal(await claimSaid(harness, await jobWith(harness)), "topic_rate");
    },
  },
  {
    name: "units that are given back are first for the claim whose turn it is",
    async check(harness) {
      await harness.set(ofShell(tokens(10)));
      const [holder] = [await held(harness, needs(4)), await held(harness, needs(5))];
      const large = await jobWith(harness, needs(9));
      const young = await jobWith(harness, needs(2));
      assert.equal(await claimSaid(harness, large), "topic_rate");
      await report(harness, holder, { usage: { tokens: 0 } });
      assert.equal(await claimSaid(harness, young), "topic_rate");
    },
  },
  {
    name: "a repeated claim counts once, and a rate of units counts what is estimated, in whole units, rounded up",
    async check(harness) {
      await harness.set(ofShell(tokens(10)));
      const { jobIds } = await runOf(harness, [needs(4.000001), needs(5), needs(1), {}]);
      const [first, second, third, free] = jobIds as readonly [JobId, JobId, JobId, JobId];
      const terms = harness.claim();
      for (let time = 0; time < 3; time += 1) assert.equal(await claimSaid(harness, first, terms), "claimed");
      assert.equal(await claimSaid(harness, second), "claimed");
      assertNearly(only(await claim(harness, third), "refused").againInMs, hourMs / 10);
      // It needs nothing of what is used up, but a younger one does not pass the one that was refused.
      assert.equal(await claimSaid(harness, free), "topic_rate");
    },
  },
  {
    name: "one that needs more than the burst passes alone, and then nobody for long",
    async check(harness) {
      await harness.set(ofShell(tokens(10, 10)));
      const { jobIds } = await runOf(harness, [needs(1), needs(25)]);
      const [small, large] = jobIds as readonly [JobId, JobId];
      assert.equal(await claimSaid(harness, large), "claimed");
      assertNearly(only(await claim(harness, small), "refused").againInMs, 1.6 * hourMs);
    },
  },
  {
    name: "the oldest that was refused goes first: a younger one that would fit waits, an older one does not",
    async check(harness) {
      await harness.set(ofShell(tokens(10)));
      const first = await jobWith(harness, needs(6));
      const oldest = await jobWith(harness, needs(1));
      const large = await jobWith(harness, needs(9));
      const young = await jobWith(harness, needs(1));
      assert.equal(await claimSaid(harness, first), "claimed");
      assertNearly(only(await claim(harness, large), "refused").againInMs, hourMs / 2);
      assertNearly(only(await claim(harness, young), "refused").againInMs, hourMs / 2);
      assert.equal(await claimSaid(harness, oldest), "claimed");
      assert.equal(await claimSaid(harness, young), "topic_rate");
    },
  },
  {
    name: "all rates of a topic count, and one that refuses takes nothing of the others",
    async check(harness) {
      await harness.set(ofShell(requests(3), tokens(10)));
      const { jobIds } = await runOf(harness, [needs(9), needs(5), needs(5), needs(5), {}]);
      const [first, ...others] = jobIds;
      assert.equal(await claimSaid(harness, first as JobId), "claimed");
      for (const jobId of others.slice(0, 3)) assert.equal(await claimSaid(harness, jobId), "topic_rate");
      await harness.set(ofShell(requests(3)));
      const said: string[] = [];
      for (const jobId of others) said.push(await claimSaid(harness, jobId));
      assert.deepEqual(said, ["claimed", "claimed", "topic_rate", "topic_rate"]);
    },
  },
  {
    name: "a full place is named before the rate, and takes nothing of it",
    async check(harness) {
      await harness.set({ ...ofShell(requests(2)), topics: { shell: { maxRunning: 1 } } });
      const { jobIds } = await runOf(harness, [{}, {}, {}]);
      const [one, two, three] = jobIds as readonly [JobId, JobId, JobId];
      assert.equal(await claimSaid(harness, one), "claimed");
      assert.equal(await claimSaid(harness, two), "topic_full");
      await harness.set(ofShell(requests(2)));
      assert.equal(await claimSaid(harness, two), "claimed");
      assert.equal(await claimSaid(harness, three), "topic_rate");
    },
  },
  {
    name: "a job is born claimed only if its rate lets it through, and counts in it; else it is born ready and has no turn",
    async check(harness) {
      await harness.set(ofShell(requests(2)));
      const young = await jobWith(harness);
      const born = await runOf(
        harness,
        [0, 1, 2].map(() => ({ claim: harness.claim() })),
      );
      const states = await Promise.all(born.jobIds.map((jobId) => jobState(harness, jobId)));
      assert.deepEqual(states, ["claimed", "claimed", "ready"]);
      assert.equal(await claimSaid(harness, young), "topic_rate");
    },
  },
  {
    name: "topics with other names, also one that is a word of the language, have rates of their own",
    async check(harness) {
      const once = [requests(1)];
      await harness.set({ topicRates: { shell: once, constructor: once, "a~b": once } });
      for (const topic of ["shell", "constructor", "a~b"]) {
        const { jobIds } = await runOf(harness, [{ topic }, { topic }]);
        const said: string[] = [];
        for (const jobId of jobIds) said.push(await claimSaid(harness, jobId));
        assert.deepEqual(said, ["claimed", "topic_rate"], topic);
      }
      for (const topic of ["toString", "shel", "shell2", "a"]) {
        const { jobIds } = await runOf(harness, [{ topic }, { topic }]);
        for (const jobId of jobIds) assert.equal(await claimSaid(harness, jobId), "claimed", topic);
      }
    },
  },
];

export const rateCases: readonly ConformanceCase[] = [...startCases, ...claimCases];

/** Swept in haste. */
export const hastyRateCases: readonly ConformanceCase[] = [
  {
    name: "a run goes on to its gates when its rate lets it through, begins by its inbox, and the proof finds nothing amiss",
    async check(harness) {
      const rates = [perHour(40, { perMs: 4_000, burst: 1, atLimit: "queue" })];
      await startRun(harness, ratedRun(harness, rates));
      const [first, second] = [ratedRun(harness, rates), ratedRun(harness, rates)];
      assert.deepEqual(
        [await startSaid(harness, first), await startSaid(harness, second)],
        ["queued", "queued"],
      );
      await harness.set({ maxConcurrentRuns: 2 });
      await harness.until(async () => {
        const answer = await harness.store.sweep({ partition: harness.partition }, call);
        if (answer.kind === "swept") assert.deepEqual(answer.repairs, []);
        const { gates } = await headerOf(harness, second.runId);
        return gates?.waits !== undefined;
      });
      assert.deepEqual(await runStates(harness, [first.runId, second.runId]), ["pending", "queued"]);
      assert.deepEqual(await entryKinds(harness, first.runId), ["started"]);
      const again = only(await startRun(harness, second), "queued");
      assert.ok("gate" in again && again.gate === "tenant");
    },
  },
];
