// Limits on running jobs as whole flows: never more than there are places, each place used again at once, and no claim for nothing.
import { describe, expect, test } from "vitest";
import type { JobHandler } from "../../src/control/jobs/in-process-worker.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { PollAnswer, PollRequest } from "../../src/control/jobs/poll-jobs.ts";
import type { JobId } from "../../src/domain/job.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import type { RequestOf } from "../../src/ports/store.ts";
import {
  acme,
  ann,
  type FlowPlane,
  FlowWorld,
  only,
  type PlaneOptions,
  pollOf,
  sideBySide,
  single,
  work,
} from "../support/flow-world.ts";

async function setUp(settings: TenantSettings, options: PlaneOptions = {}) {
  const flow = new FlowWorld();
  await flow.tenant(settings);
  const plane = await flow.open("p", options);
  return { flow, plane };
}

/** Starts a worker that works for so long on each job and counts how many run at once. */
function startCounting(
  { plane, member }: FlowPlane,
  options: { readonly topics?: readonly string[]; readonly pool?: string; readonly workMs?: number } = {},
) {
  const seen = { running: 0, most: 0, done: 0, order: [] as JobId[] };
  const handler: JobHandler = async ({ jobId }) => {
    seen.order.push(jobId);
    seen.running += 1;
    seen.most = Math.max(seen.most, seen.running);
    await member.ports.clock.sleep(options.workMs ?? 100);
    seen.running -= 1;
    seen.done += 1;
    return {};
  };
  const { topics = ["work"], pool } = options;
  const worker = plane.startWorker({
    ...{ tenant: acme, name: `w ${pool ?? ""} ${topics.join()}`, topics, concurrency: 50, handler },
    ...(pool === undefined ? {} : { pool }),
  });
  return { seen, worker };
}

const waiting = (plane: FlowPlane, worker: string, request: Partial<PollRequest> = {}) =>
  plane.api.pollJobs(pollOf({ worker, waitMs: 20_000, ...request }));
const jobsOf = (answer: PollAnswer) => only(answer, "jobs").jobs;
const claimsSent = ({ member }: FlowPlane) =>
  member
    .callsOf("claimJobs")
    .reduce((sum, { request }) => sum + (request as RequestOf<"claimJobs">).claims.length, 0);

describe("a topic's limit", () => {
  test("is never passed, its places are used again at once, and about one claim is sent for each job", async () => {
    const { flow, plane } = await setUp({ topics: { work: { maxRunning: 3 } } });
    await plane.save("wide", sideBySide(60));
    const { seen, worker } = startCounting(plane);
    const startedMs = flow.nowMs();
    const runId = await plane.start("wide");
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(seen).toMatchObject({ most: 3, done: 60 });
    // Twenty rounds of 100 ms; what is beyond that is the time of the calls.
    expect(flow.nowMs() - startedMs).toBeLessThan(2_600);
    // One for each job, and the burst that found the limit.
    expect(claimsSent(plane)).toBeLessThan(60 + 64);
    await flow.finish(worker.stop());
    await plane.close();
  });

  test("holds for jobs that follow each other in the same run, and those that wait longer come first", async () => {
    const { flow, plane } = await setUp({ topics: { work: { maxRunning: 1 } } });
    await plane.save("chain", { a: work(), b: work({ depends_on: ["a"] }) });
    const { seen, worker } = startCounting(plane);
    const first = await plane.start("chain");
    const second = await plane.start("chain");
    await flow.ended(first);
    await flow.ended(second);
    expect(seen).toMatchObject({ most: 1, done: 4 });
    const order = [first, second].flatMap((runId) => [`${runId}:a@1`]);
    expect(seen.order.slice(0, 2)).toEqual(order);
    await flow.finish(worker.stop());
    await plane.close();
  });

  test("of one topic does not hold up another", async () => {
    const { flow, plane } = await setUp({ topics: { work: { maxRunning: 1 } } });
    await plane.save("wide", { ...sideBySide(5), other: { type: "worker", topic: "other" } });
    await plane.start("wide");
    const jobs = await plane.poll({ topics: ["work", "other"] });
    expect(jobs.map(({ job }) => job.topic).sort()).toEqual(["other", "work"]);
    expect(flow.nowMs()).toBeLessThan(5_000);
    await plane.close();
  });

  test("that is raised or removed lets waiting polls have jobs at once", async () => {
    const { flow, plane } = await setUp({ topics: { work: { maxRunning: 0 } } });
    await flow.finish(plane.api.createTenant({ actor: "ann", tenant: acme, settings: {} }));
    await plane.save("wide", sideBySide(3));
    await plane.start("wide");
    const poll = waiting(plane, "w");
    await flow.pass(100);
    const changedMs = flow.nowMs();
    await flow.finish(
      plane.api.changeTenant({
        actor: "ann",
        tenant: acme,
        changes: { topics: { work: { maxRunning: 2 } } },
      }),
    );
    expect(jobsOf(await flow.finish(poll))).toHaveLength(2);
    expect(flow.nowMs() - changedMs).toBeLessThan(500);
    await plane.close();
  });

  test("that somebody else raised is noticed within two seconds", async () => {
    const { flow, plane } = await setUp({ topics: { work: { maxRunning: 0 } } });
    await plane.save("wide", sideBySide(3));
    await plane.start("wide");
    const poll = waiting(plane, "w", { places: 1 });
    await flow.pass(100);
    await flow.tenant({});
    const changedMs = flow.nowMs();
    expect(jobsOf(await flow.finish(poll))).toHaveLength(1);
    expect(flow.nowMs() - changedMs).toBeLessThan(2_000);
    await plane.close();
  });

  test("that stays full costs a claim a second, however many jobs and workers wait", async () => {
    const { flow, plane } = await setUp({ topics: { work: { maxRunning: 1 } } });
    await plane.save("wide", sideBySide(100));
    await plane.start("wide");
    expect(await plane.poll({ worker: "first", places: 1 })).toHaveLength(1);
    const polls = Array.from({ length: 20 }, (_, index) => waiting(plane, `w${index}`, { waitMs: 10_500 }));
    await flow.pass(500);
    const before = claimsSent(plane);
    await flow.pass(10_000);
    expect(claimsSent(plane) - before).toBeLessThanOrEqual(11);
    await flow.finish(Promise.all(polls));
    await plane.close();
  });

  test("frees the place of a worker that died after its lease", async () => {
    const { flow, plane } = await setUp({ topics: { work: { maxRunning: 1 } } });
    await plane.save("wide", sideBySide(2));
    await plane.start("wide");
    const dead = single(await plane.poll({ worker: "dead", leaseMs: 3_000 }));
    const startedMs = flow.nowMs();
    const next = single(jobsOf(await flow.finish(waiting(plane, "alive", { waitMs: 30_000 }))));
    expect(next.job.jobId).not.toBe(dead.job.jobId);
    // The lease, the sweep that finds it, and the claim that is tried once a second.
    expect(flow.nowMs() - startedMs).toBeLessThan(3_000 + 500 + 1_600);
    await plane.close();
  });

  test("frees the places of a cancelled run", async () => {
    const { flow, plane } = await setUp({ topics: { work: { maxRunning: 1 } } });
    await plane.save("one", { a: work() });
    await plane.start("one");
    await plane.start("one");
    const { runId } = single(await plane.poll({ worker: "v", places: 1 })).job;
    const poll = waiting(plane, "w");
    await flow.pass(50);
    await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "over" }));
    expect(jobsOf(await flow.finish(poll))).toHaveLength(1);
    await plane.close();
  });
});

describe("a pool", () => {
  test("has places for all its topics together, and another pool takes what it has none for", async () => {
    const { flow, plane } = await setUp({ pools: { small: { maxRunning: 2 } } });
    await plane.save("wide", { ...sideBySide(10), other: { type: "worker", topic: "other" } });
    const small = startCounting(plane, { topics: ["work", "other"], pool: "small" });
    const large = startCounting(plane, { topics: ["work"], pool: "large" });
    expect(await flow.ended(await plane.start("wide"))).toBe("succeeded");
    expect(small.seen.most).toBeLessThanOrEqual(2);
    expect(small.seen.done).toBeGreaterThan(0);
    expect(small.seen.done + large.seen.done).toBe(11);
    for (const { worker } of [small, large]) await flow.finish(worker.stop());
    await plane.close();
  });

  test("that drains ends its polls, gets nothing new, finishes what it has, and gets jobs again when it is resumed", async () => {
    const { flow, plane } = await setUp({});
    await plane.save("wide", sideBySide(3));
    await flow.finish(plane.api.createTenant({ actor: "ann", tenant: acme, settings: {} }));
    await plane.start("wide");
    const [first] = await plane.poll({ worker: "b", pool: "blue", places: 1 });
    const open = waiting(plane, "b", { pool: "blue", topics: ["none"] });
    await flow.pass(100);
    const drain = (pools: TenantSettings["pools"]) =>
      flow.finish(plane.api.changeTenant({ actor: "ann", tenant: acme, changes: { pools } }));
    await drain({ blue: { draining: true } });
    expect(await flow.finish(open)).toEqual({ kind: "jobs", jobs: [], draining: true });
    const askedMs = flow.nowMs();
    const refused = await flow.finish(waiting(plane, "b", { pool: "blue" }));
    expect(refused).toEqual({ kind: "jobs", jobs: [], draining: true });
    expect(flow.nowMs() - askedMs).toBeLessThanOrEqual(1_100);
    expect(await plane.poll({ worker: "g", pool: "green", places: 1 })).toHaveLength(1);
    expect(await plane.report(first as ClaimedJob)).toEqual({ kind: "accepted" });
    await drain(undefined);
    expect(await plane.poll({ worker: "b", pool: "blue", places: 1 })).toHaveLength(1);
    await plane.close();
  });

  test("that drains by another process's word tells its workers so, with and without jobs that wait", async () => {
    const { flow, plane } = await setUp({ pools: { blue: { draining: true } } });
    await plane.save("wide", sideBySide(1));
    const idle = await flow.finish(waiting(plane, "b", { pool: "blue" }));
    expect(idle).toEqual({ kind: "jobs", jobs: [], draining: true });
    await plane.start("wide");
    const busy = await flow.finish(waiting(plane, "b", { pool: "blue" }));
    expect(busy).toEqual({ kind: "jobs", jobs: [], draining: true });
    await plane.close();
  });

  test("that is restricted to topics leaves the others to the other pools", async () => {
    const { flow, plane } = await setUp({ pools: { gpu: { topics: ["train"] } } });
    await plane.save("wide", { ...sideBySide(2), train: { type: "worker", topic: "train" } });
    await plane.start("wide");
    const jobs = await plane.poll({ worker: "g", pool: "gpu", topics: ["work", "train"] });
    expect(jobs.map(({ job }) => job.topic)).toEqual(["train"]);
    expect(await plane.poll({ worker: "w" })).toHaveLength(2);
    expect(flow.nowMs()).toBeLessThan(5_000);
    await plane.close();
  });
});

describe("jobs for workers that have some already", () => {
  test("fill up those that have fewer: all have equally many in the end", async () => {
    const flow = new FlowWorld();
    const bus = flow.bus();
    const plane = await flow.open("p", { bus });
    const other = await flow.open("q", { bus, engine: "stopped" });
    await other.save("ten", sideBySide(10));
    await other.save("wide", sideBySide(90));
    await other.start("ten");
    await flow.pass(100);
    expect(await plane.poll({ worker: "w0", places: 10 })).toHaveLength(10);
    const polls = [0, 1, 2, 3, 4].map((index) => waiting(plane, `w${index}`, { places: 40, waitMs: 1_000 }));
    await flow.pass(50);
    await other.start("wide");
    const batches = (await flow.finish(Promise.all(polls))).map(jobsOf);
    expect(batches.map((batch) => batch.length)).toEqual([10, 20, 20, 20, 20]);
  });
});
