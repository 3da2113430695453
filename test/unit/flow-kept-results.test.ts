// Results that were given up: the dead letter keeps them, and a retry delivers them while their claim stands.
import { describe, expect, test } from "vitest";
import { acme, ann, FlowWorld, only, sendOverBus, single, work } from "../support/flow-world.ts";

async function stored(flow: FlowWorld, id: string) {
  const request = { tenant: acme, collection: "deadLetter", id } as const;
  return flow.world.store.getDocument(request, { deadlineMs: 100 });
}

describe("a result that is in the dead letters", () => {
  const overrides = {
    "results.strategy": "retry",
    "results.retry.wait": "fixed",
    "results.deliveriesMax": 3,
    "sweep.everyMs": 10_000,
  } as const;

  /** Its run is still busy, and its worker still holds the job. */
  async function givenUp(path: "bus" | "gateway", leaseMs = 600_000) {
    const flow = new FlowWorld();
    const plane = await flow.open("p", { overrides });
    await plane.save("w", { a: work(), b: work({ depends_on: ["a"] }) });
    const runId = await plane.start("w");
    const job = single(await plane.poll({ leaseMs }));
    const { release } = await flow.occupy(runId);
    if (path === "bus") await sendOverBus(plane, job, { found: 42 });
    else while ((await plane.report(job, { found: 42 })).kind === "run_busy");
    await flow.until(() => plane.metrics.total("dead_letters_total") === 1, 120_000);
    const id = job.job.jobId;
    const retry = (on = plane) => flow.finish(on.api.retryDeadLetter({ caller: ann, id }));
    return { flow, plane, runId, job, id, release, retry };
  }

  test.each(["bus", "gateway"] as const)(
    "over the %s is delivered again by a retry, to the owner of a busy run, and the letter is retried",
    async (path) => {
      const { flow, plane, runId, job, id, release, retry } = await givenUp(path);
      const [letter] = await flow.letters();
      expect(letter?.body).toMatchObject({
        reason: "deliveries_exhausted",
        because: "deliveries_exhausted",
        job_id: id,
        run_id: runId,
        report: { jobId: id, outcome: "succeeded", output: { found: 42 } },
      });
      expect(await retry()).toEqual({ kind: "retrying", jobId: id, runId, step: "a", already: false });
      expect(await stored(flow, id)).toMatchObject({ document: { revision: 2 } });
      expect((await flow.job(id)).state).toBe("reported");
      expect(await flow.status(runId)).toBe("running");
      expect(await retry()).toMatchObject({ kind: "retrying", already: true });
      // The worker's own repeat is the same entry.
      expect(await plane.report(job, { found: 42 })).toEqual({ kind: "accepted" });
      await release();
      const next = single(await plane.poll({ waitMs: 20_000 }));
      expect(next.job.step).toBe("b");
      await plane.report(next);
      expect(await flow.ended(runId)).toBe("succeeded");
      expect((await flow.step(runId, "a")).attempt).toBe(1);
      expect(plane.metrics.total("dead_letters_retried_total", { reason: "deliveries_exhausted" })).toBe(1);
    },
  );

  test("is delivered once by two who retry at once, and by one whose answer was lost", async () => {
    const { flow, plane, runId, id, release, retry } = await givenUp("gateway");
    const other = await flow.open("q", { overrides });
    plane.member.fail({ deliver: ["reply_lost", "ok"] });
    const answers = await flow.finish(
      Promise.all([plane, other].map(({ api }) => api.retryDeadLetter({ caller: ann, id }))),
    );
    expect(answers.map(({ kind }) => kind)).toEqual(["retrying", "retrying"]);
    expect(await retry(other)).toMatchObject({ already: true });
    await release();
    await flow.until(async () => (await flow.step(runId, "a")).status === "succeeded");
    const trail = await flow.world.store.readEvents(
      { tenant: acme, after: 0, limit: 500 },
      { deadlineMs: 100 },
    );
    const rows = only(trail, "events").events.filter(({ type }) => type === "letter_retried");
    expect(rows.map(({ subject, actor, detail }) => [subject, actor, detail])).toEqual([[runId, "ann", id]]);
  });

  test("and arrived after all is not delivered again: the letter says so", async () => {
    const { flow, plane, job, id, release, retry } = await givenUp("bus");
    await release();
    expect(await plane.report(job, { found: 42 })).toEqual({ kind: "accepted" });
    expect(await retry()).toEqual({
      kind: "dead_letter_not_retryable",
      detail: "its result has arrived since",
    });
    expect(await stored(flow, id)).toMatchObject({ document: { revision: 1 } });
  });

  test("and was reported otherwise since is not delivered", async () => {
    const { plane, job, release, retry } = await givenUp("bus");
    await release();
    expect(await plane.report(job, { found: 43 })).toEqual({ kind: "accepted" });
    expect(await retry()).toMatchObject({ detail: "its job has another result since" });
  });

  test("whose claim was lost is not delivered", async () => {
    const { flow, runId, id, release, retry } = await givenUp("gateway", 15_000);
    await release();
    await flow.until(async () => (await flow.step(runId, "a")).attempt === 2, 60_000);
    expect(await retry()).toEqual({
      kind: "dead_letter_not_retryable",
      detail: "its step has gone on since: attempt 2 is running",
    });
    expect(await stored(flow, id)).toMatchObject({ document: { revision: 1 } });
  });
});
