// Dead letters through the whole control plane: listing, looking into one, retrying it, and removing them.
import { describe, expect, test } from "vitest";
import type { JobId } from "../../src/domain/job.ts";
import type { RunId } from "../../src/domain/run.ts";
import {
  acme,
  ann,
  type FlowPlane,
  FlowWorld,
  only,
  type Steps,
  sendOverBus,
  single,
  work,
} from "../support/flow-world.ts";
import type { Fates } from "../support/simulated-ports.ts";

async function scene(steps: Steps = { a: work() }, overrides = {}) {
  const flow = new FlowWorld();
  const plane = await flow.open("p", { overrides });
  await plane.save("w", steps);
  return { flow, plane };
}

/** A run that failed for good; its letter's id is the job's. */
async function failedRun(flow: FlowWorld, plane: FlowPlane): Promise<{ runId: RunId; id: JobId }> {
  const runId = await plane.start("w", { part: 7 });
  const job = single(await plane.poll());
  await plane.fail(job, "failed_retryable");
  expect(await flow.ended(runId)).toBe("failed");
  return { runId, id: job.job.jobId };
}

async function stored(flow: FlowWorld, id: string) {
  const request = { tenant: acme, collection: "deadLetter", id } as const;
  return flow.world.store.getDocument(request, { deadlineMs: 100 });
}

describe("a dead letter", () => {
  test("shows the worker's error, the job's input, the run, and that it can be retried", async () => {
    const { flow, plane } = await scene({ a: work({ input: { part: "${input.part}" } }) });
    const { runId, id } = await failedRun(flow, plane);
    const found = only(await flow.finish(plane.api.inspectDeadLetter({ tenant: acme, id })), "letter");
    expect(found).toMatchObject({
      letter: {
        id,
        reason: "retries_exhausted",
        state: "open",
        runId,
        step: "a",
        attempt: 1,
        topic: "work",
        workflow: "w",
      },
      error: { message: "it broke" },
      header: { status: "failed" },
      verdict: { kind: "retryable" },
    });
    expect(JSON.parse(found.input ?? "")).toEqual({ part: 7 });
  });

  test("of a run that was deleted is still shown, and cannot be retried", async () => {
    const { flow, plane } = await scene();
    const { runId, id } = await failedRun(flow, plane);
    expect((await flow.finish(plane.api.deleteRun({ caller: ann, runId }))).kind).toBe("deleted");
    const found = only(await flow.finish(plane.api.inspectDeadLetter({ tenant: acme, id })), "letter");
    expect(found.verdict).toEqual({ kind: "not_retryable", because: "its run is gone" });
    expect(await flow.finish(plane.api.retryDeadLetter({ caller: ann, id }))).toEqual({
      kind: "dead_letter_not_retryable",
      detail: "its run is gone",
    });
  });

  test("about a result that could not be delivered does not show its claim token", async () => {
    const { flow, plane } = await scene(
      { a: work() },
      { "results.strategy": "retry", "results.deliveriesMax": 2, "jobs.leaseMs": 600_000 },
    );
    const runId = await plane.start("w");
    const job = single(await plane.poll());
    await flow.occupy(runId);
    await sendOverBus(plane, job, { found: 42 });
    await flow.until(() => plane.metrics.total("dead_letters_total") === 1);
    const found = only(
      await flow.finish(plane.api.inspectDeadLetter({ tenant: acme, id: job.job.jobId })),
      "letter",
    );
    expect(found.letter).toMatchObject({
      reason: "deliveries_exhausted",
      runId,
      jobId: job.job.jobId,
      because: "deliveries_exhausted",
    });
    expect(found.letter.content).toMatchObject({ output: { found: 42 } });
    expect(JSON.stringify(found)).not.toContain(job.token);
    expect(found.verdict).toEqual({ kind: "deliverable" });
  });

  test("of another tenant, or none at all, is not found", async () => {
    const { flow, plane } = await scene();
    const { id } = await failedRun(flow, plane);
    const globex = { tenant: "globex" as typeof acme, actor: "eve" };
    const answers = [
      plane.api.inspectDeadLetter({ tenant: globex.tenant, id }),
      plane.api.retryDeadLetter({ caller: globex, id }),
      plane.api.removeDeadLetter({ caller: globex, id }),
      plane.api.retryDeadLetter({ caller: ann, id: "x" }),
    ];
    for (const answer of answers)
      expect(await flow.finish<unknown>(answer)).toEqual({ kind: "dead_letter_not_found" });
    expect((await stored(flow, id)).kind).toBe("document");
  });
});

type Page = Extract<Awaited<ReturnType<FlowPlane["api"]["listDeadLetters"]>>, { kind: "listed" }>;

describe("a list of dead letters", () => {
  async function several() {
    const made = await scene();
    const ids: string[] = [];
    for (let index = 0; index < 5; index += 1) ids.push((await failedRun(made.flow, made.plane)).id);
    return { ...made, ids: ids.sort() };
  }

  test("is read page by page, each letter once", async () => {
    const { flow, plane, ids } = await several();
    const seen: string[] = [];
    let after: string | undefined = "";
    while (after !== undefined) {
      const page: Page = only(
        await flow.finish(plane.api.listDeadLetters({ tenant: acme, after, limit: 2 })),
        "listed",
      );
      seen.push(...page.letters.map(({ id }) => id));
      after = page.next;
    }
    expect(seen).toEqual(ids);
  });

  test("may be of one reason or state only", async () => {
    const { flow, plane, ids } = await several();
    const count = async (filter: object) =>
      only(
        await flow.finish(plane.api.listDeadLetters({ tenant: acme, after: "", limit: 50, ...filter })),
        "listed",
      ).letters.length;
    expect(await count({ reason: "retries_exhausted" })).toBe(5);
    expect(await count({ reason: "claims_lost" })).toBe(0);
    expect(await count({ state: "retried" })).toBe(0);
    await flow.finish(plane.api.retryDeadLetter({ caller: ann, id: ids[2] ?? "" }));
    expect([await count({ state: "retried" }), await count({ state: "open" })]).toEqual([1, 4]);
  });
});

describe("a retry", () => {
  test("lets the same run and step go on with the next attempt, with the same input", async () => {
    const { flow, plane } = await scene({
      a: work({ input: { part: "${input.part}" } }),
      b: work({ depends_on: ["a"] }),
    });
    const { runId, id } = await failedRun(flow, plane);
    const answer = await flow.finish(plane.api.retryDeadLetter({ caller: ann, id }));
    expect(answer).toEqual({ kind: "retrying", jobId: id, runId, step: "a", already: false });
    const job = single(await plane.poll({ waitMs: 5_000 }));
    expect(job.job).toMatchObject({ runId, step: "a", attempt: 2 });
    expect(JSON.parse(job.input)).toEqual({ part: 7 });
    await plane.report(job);
    await plane.report(single(await plane.poll({ waitMs: 5_000 })));
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(plane.metrics.total("dead_letters_retried_total", { reason: "retries_exhausted" })).toBe(1);
  });

  test("that is repeated does nothing more, however often and from however many at once", async () => {
    const { flow, plane } = await scene();
    const { runId, id } = await failedRun(flow, plane);
    const many = Array.from({ length: 10 }, () => plane.api.retryDeadLetter({ caller: ann, id }));
    for (const answer of await flow.finish(Promise.all(many))) expect(answer.kind).toBe("retrying");
    expect(await flow.finish(plane.api.retryDeadLetter({ caller: ann, id }))).toMatchObject({
      kind: "retrying",
      already: true,
    });
    await flow.until(async () => (await flow.step(runId, "a")).attempt === 2);
    await plane.report(single(await plane.poll({ waitMs: 5_000 })));
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(await flow.finish(plane.api.retryDeadLetter({ caller: ann, id }))).toMatchObject({
      already: true,
    });
    expect(await flow.status(runId)).toBe("succeeded");
  });

  test("that fails again leaves a letter of its own, which can be retried in turn", async () => {
    const { flow, plane } = await scene();
    const { runId, id } = await failedRun(flow, plane);
    await flow.finish(plane.api.retryDeadLetter({ caller: ann, id }));
    await plane.fail(single(await plane.poll({ waitMs: 5_000 })), "failed_retryable");
    expect(await flow.ended(runId)).toBe("failed");
    const next = `${runId}:a@2`;
    expect((await flow.letters()).map((letter) => letter.id)).toEqual([id, next]);
    expect(await flow.finish(plane.api.retryDeadLetter({ caller: ann, id: next }))).toMatchObject({
      kind: "retrying",
      already: false,
    });
    await plane.report(single(await plane.poll({ waitMs: 5_000 })));
    expect(await flow.ended(runId)).toBe("succeeded");
  });

  test("whose answer is lost is made once, and found out by asking again", async () => {
    const { flow, plane } = await scene();
    const { runId, id } = await failedRun(flow, plane);
    plane.member.fail({ deliver: ["reply_lost", "ok"] });
    expect(await flow.finish(plane.api.retryDeadLetter({ caller: ann, id }))).toMatchObject({
      kind: "retrying",
    });
    await flow.until(async () => (await flow.step(runId, "a")).attempt === 2);
    expect(await stored(flow, id)).toMatchObject({ document: { revision: 2 } });
  });

  const troubles: ReadonlyArray<{ readonly fates: Fates; readonly kind: string }> = [
    { fates: { getDocument: "unavailable" }, kind: "unavailable" },
    { fates: { getDocument: "request_lost" }, kind: "unavailable" },
    { fates: { loadRun: "request_lost" }, kind: "unavailable" },
    { fates: { deliver: "unavailable" }, kind: "unavailable" },
    { fates: { deliver: "request_lost" }, kind: "unknown" },
  ];
  test.each(troubles)("that the store does not answer is $kind: $fates", async ({ fates, kind }) => {
    const { flow, plane } = await scene();
    const { runId, id } = await failedRun(flow, plane);
    plane.member.fail(fates);
    expect((await flow.finish(plane.api.retryDeadLetter({ caller: ann, id }))).kind).toBe(kind);
    expect(await flow.status(runId)).toBe("failed");
    expect(await stored(flow, id)).toMatchObject({ document: { revision: 1 } });
  });

  test("of an ended run needs a slot: at the limit it is refused with those who hold them", async () => {
    const { flow, plane } = await scene();
    const { id } = await failedRun(flow, plane);
    await flow.tenant({ maxConcurrentRuns: 1 });
    const holder = await plane.start("w");
    const answer = only(
      await flow.finish(plane.api.retryDeadLetter({ caller: ann, id })),
      "max_concurrent_runs_reached",
    );
    expect(answer).toMatchObject({ limit: 1, active: 1 });
    expect(answer.runs?.map(({ run_id }) => run_id)).toEqual([holder]);
    expect(await stored(flow, id)).toMatchObject({ document: { revision: 1 } });
  });

  test("is refused while the tenant is stopped", async () => {
    const { flow, plane } = await scene();
    const { id } = await failedRun(flow, plane);
    await flow.tenant({ stopped: true });
    expect(await flow.finish(plane.api.retryDeadLetter({ caller: ann, id }))).toEqual({
      kind: "tenant_stopped",
    });
  });

  test("of a step whose failure was handled by another is refused, and the letter stays open", async () => {
    const { flow, plane } = await scene({ a: work({ on_error: "mend" }), mend: work() });
    const runId = await plane.start("w");
    const job = single(await plane.poll());
    await plane.fail(job, "failed_retryable");
    await plane.report(single(await plane.poll({ waitMs: 5_000 })));
    await flow.ended(runId);
    const before = await flow.header(runId);
    const answer = await flow.finish(plane.api.retryDeadLetter({ caller: ann, id: job.job.jobId }));
    expect(answer.kind).toBe("dead_letter_not_retryable");
    expect(await stored(flow, job.job.jobId)).toMatchObject({ document: { revision: 1 } });
    expect(await flow.header(runId)).toEqual(before);
  });

  test("while the run still goes on with the handler of its failure is refused", async () => {
    const { flow, plane } = await scene({ a: work({ on_error: "mend" }), mend: work() });
    await plane.start("w");
    const job = single(await plane.poll());
    await plane.fail(job, "failed_retryable");
    await flow.pass(10);
    expect(await flow.finish(plane.api.retryDeadLetter({ caller: ann, id: job.job.jobId }))).toMatchObject({
      kind: "dead_letter_not_retryable",
      detail: expect.stringContaining("the failure was handled"),
    });
    expect(await stored(flow, job.job.jobId)).toMatchObject({ document: { revision: 1 } });
  });

  test("of one item of a list lets that item go on, and the step with it", async () => {
    const { flow, plane } = await scene({
      each: work({ for_each: "input.items", input: { item: "${item}" }, for_each_on_failure: "continue" }),
    });
    const runId = await plane.start("w", { items: ["x", "y", "z"] });
    await flow.until(async () => ((await flow.step(runId, "each")).children?.open ?? 0) === 3);
    for (const job of await plane.poll({ waitMs: 1_000 })) {
      if (job.job.step === "each[1]") await plane.fail(job, "failed_retryable");
      else await plane.report(job);
    }
    expect(await flow.ended(runId)).toBe("failed");
    const id = `${runId}:each[1]@1`;
    const found = only(await flow.finish(plane.api.inspectDeadLetter({ tenant: acme, id })), "letter");
    expect([found.letter.step, JSON.parse(found.input ?? "{}")]).toEqual(["each[1]", { item: "y" }]);
    expect(await flow.finish(plane.api.retryDeadLetter({ caller: ann, id }))).toMatchObject({
      step: "each[1]",
      already: false,
    });
    const job = single(await plane.poll({ waitMs: 5_000 }));
    expect(job.job).toMatchObject({ step: "each[1]", attempt: 2 });
    await plane.report(job);
    expect(await flow.ended(runId)).toBe("succeeded");
  });

  test("of one branch is taken up while another still runs", async () => {
    const { flow, plane } = await scene({ a: work(), b: work({ topic: "slow" }) });
    const runId = await plane.start("w");
    const slow = single(await plane.poll({ topics: ["slow"], leaseMs: 600_000 }));
    const job = single(await plane.poll());
    await plane.fail(job, "failed_retryable");
    await flow.pass(10);
    expect(await flow.finish(plane.api.retryDeadLetter({ caller: ann, id: job.job.jobId }))).toMatchObject({
      already: false,
    });
    await plane.report(single(await plane.poll({ waitMs: 5_000 })));
    await plane.report(slow);
    expect(await flow.ended(runId)).toBe("succeeded");
  });

  test("of a step that has gone on by itself is refused, and the letter stays open", async () => {
    const overrides = { "results.strategy": "retry", "results.deliveriesMax": 2 };
    const { flow, plane } = await scene({ a: work() }, overrides);
    const runId = await plane.start("w");
    const job = single(await plane.poll({ leaseMs: 5_000 }));
    const { release } = await flow.occupy(runId);
    await sendOverBus(plane, job);
    await flow.until(() => plane.metrics.total("dead_letters_total") === 1);
    await release();
    await flow.until(async () => (await flow.step(runId, "a")).attempt === 2);
    expect(await flow.finish(plane.api.retryDeadLetter({ caller: ann, id: job.job.jobId }))).toEqual({
      kind: "dead_letter_not_retryable",
      detail: "its step has gone on since: attempt 2 is running",
    });
    expect(await stored(flow, job.job.jobId)).toMatchObject({ document: { revision: 1 } });
  });
});

describe("purging", () => {
  test("removes what matches, says how many, and leaves the rest", async () => {
    const { flow, plane } = await scene();
    const first = await failedRun(flow, plane);
    await flow.pass(10);
    const second = await failedRun(flow, plane);
    const purge = (request: object) => flow.finish(plane.api.purgeDeadLetters({ caller: ann, ...request }));
    expect(await purge({ reason: "claims_lost" })).toEqual({ kind: "purged", purged: 0, more: false });
    expect(await purge({ state: "retried" })).toEqual({ kind: "purged", purged: 0, more: false });
    const { letter } = only(
      await flow.finish(plane.api.inspectDeadLetter({ tenant: acme, id: second.id })),
      "letter",
    );
    expect(await purge({ beforeMs: letter.writtenAtMs })).toEqual({ kind: "purged", purged: 1, more: false });
    expect((await flow.letters()).map(({ id }) => id)).toEqual([second.id]);
    expect(await purge({})).toEqual({ kind: "purged", purged: 1, more: false });
    expect(await flow.letters()).toEqual([]);
    expect(await flow.status(first.runId)).toBe("failed");
    expect(plane.metrics.total("dead_letters_purged_total")).toBe(2);
  });

  test("removes a hundred at a time and says that there are more", async () => {
    const { flow, plane } = await scene();
    for (let index = 0; index < 250; index += 1) await putLetter(flow, `letter-${index}`);
    const purge = () => flow.finish(plane.api.purgeDeadLetters({ caller: ann, reason: "retries_exhausted" }));
    expect(await purge()).toEqual({ kind: "purged", purged: 100, more: true });
    expect(await purge()).toEqual({ kind: "purged", purged: 100, more: true });
    expect(await purge()).toEqual({ kind: "purged", purged: 50, more: false });
  });

  test("tells what it did before the store stopped answering", async () => {
    const { flow, plane } = await scene();
    for (let index = 0; index < 3; index += 1) await putLetter(flow, `letter-${index}`);
    plane.member.fail({ removeDocument: (nth) => (nth === 1 ? "ok" : "unavailable") });
    const purged = await flow.finish(plane.api.purgeDeadLetters({ caller: ann }));
    expect(purged).toEqual({ kind: "purged", purged: 1, more: true });
  });

  test("one letter whose answer is lost answers that it was removed, and its repeat that there is none", async () => {
    const { flow, plane } = await scene();
    await putLetter(flow, "letter");
    plane.member.fail({ removeDocument: ["reply_lost", "ok"] });
    const remove = () => flow.finish(plane.api.removeDeadLetter({ caller: ann, id: "letter" }));
    expect(await remove()).toEqual({ kind: "removed" });
    expect(await remove()).toEqual({ kind: "dead_letter_not_found" });
  });
});

async function putLetter(flow: FlowWorld, id: string): Promise<void> {
  const request = {
    tenant: acme,
    collection: "deadLetter",
    id,
    body: "{}",
    changeId: id,
    actor: "test",
  } as const;
  only(await flow.world.store.putDocument(request, { deadlineMs: 100 }), "saved");
}
