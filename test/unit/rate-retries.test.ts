// When claims that a rate refused are tried again: at the time that was said, once for each grant, and with pauses when it is not their turn.
import { expect, test } from "vitest";
import { createHintBook } from "../../src/control/jobs/hint-book.ts";
import { createFullLimits, createRateAlarms } from "../../src/control/pools/full-limits.ts";
import type { JobHint, JobId } from "../../src/domain/job.ts";
import type { RunId } from "../../src/domain/run.ts";
import { acme, FlowWorld } from "../support/flow-world.ts";

const place = { topic: "llm", pool: "default" };

function setUp() {
  let nowMs = 1_000;
  const limits = createFullLimits({ monotonicMs: () => nowMs });
  const refuse = (againInMs: number) =>
    limits.refused(acme, place, { because: "topic_rate", sentAt: limits.moment(), againInMs });
  return {
    limits,
    refuse,
    pass(ms: number) {
      nowMs += ms;
    },
  };
}

test("one claim is tried at the time that was said, and each that is granted lets the next be tried", () => {
  const { limits, refuse, pass } = setUp();
  expect(refuse(40)).toBe(40);
  pass(39);
  expect([limits.mayTry(acme, place), limits.rateWaitMs(acme, "llm")]).toEqual([false, 1]);
  pass(1);
  expect(limits.mayTry(acme, place)).toBe(true);
  limits.trying(acme, place);
  expect(limits.mayTry(acme, place)).toBe(false);
  limits.granted(acme, place);
  expect(limits.mayTry(acme, place)).toBe(true);
  pass(1_000);
  expect(limits.isTight(acme, place)).toBe(false);
});

test("of claims that were refused together the one that passes first counts", () => {
  const { refuse } = setUp();
  expect([refuse(40), refuse(70), refuse(20)]).toEqual([40, 40, 20]);
});

test("a place that is freed lets one be tried, whatever its pool was", () => {
  const { limits, refuse } = setUp();
  refuse(500);
  expect(limits.freed(acme, { topic: "llm", pool: "gpu" })).toEqual({ topic: true, pool: false });
  expect(limits.mayTry(acme, place)).toBe(true);
});

test("refusals one right after the other are tried again with growing pauses", () => {
  const { refuse, pass } = setUp();
  const pausesMs = Array.from({ length: 12 }, () => {
    const pauseMs = refuse(1) ?? 0;
    pass(pauseMs);
    return pauseMs;
  });
  expect(pausesMs).toEqual([1, 1, 1, 1, 2, 4, 8, 16, 32, 50, 50, 50]);
  expect(refuse(30)).toBe(30);
});

test("an alarm rings at the earliest time that was set, once, and not after the close", async () => {
  const flow = new FlowWorld();
  const { member } = await flow.open("p");
  const rung: string[] = [];
  const alarms = createRateAlarms(member.ports.clock, (tenant, topic) => {
    rung.push(`${tenant} ${topic} ${flow.nowMs()}`);
  });
  const startMs = flow.nowMs();
  for (const ms of [50, 20, 80]) alarms.set(acme, "llm", ms);
  await flow.pass(200);
  expect(rung).toEqual([`acme llm ${startMs + 20}`]);
  alarms.set(acme, "llm", 10);
  alarms.close();
  alarms.set(acme, "llm", 10);
  await flow.pass(200);
  expect(rung).toHaveLength(1);
});

test("a job that was learnt again while it was claimed comes first when it is put back", () => {
  const book = createHintBook(100);
  const hint = (name: string): JobHint => ({
    ...{ jobId: name as JobId, runId: "run_1" as RunId, topic: "llm", createdAtMs: 1 },
  });
  const [old, young] = [hint("old"), hint("young")];
  book.learn(acme, young);
  book.learn(acme, old);
  book.putBack(acme, old);
  expect(book.groups(acme, "llm").flatMap(({ hints }) => [...hints].map(({ jobId }) => jobId))).toEqual([
    "old",
    "young",
  ]);
});
