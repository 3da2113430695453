// Which label each event is counted under, for the metrics whose labels no flow looks at: from the table to the emission.
import { describe, expect, test } from "vitest";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import { createRefusals } from "../../src/adapters/nats/messages.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { noteEnd } from "../../src/control/canaries/advance-canary.ts";
import { createCollectedSamples } from "../../src/control/canaries/collected-samples.ts";
import { createCanarySamples } from "../../src/control/canaries/samples.ts";
import type { Canary } from "../../src/domain/canary.ts";
import { type BothArms, noSamples } from "../../src/domain/canary-guard.ts";
import type { Rollout } from "../../src/domain/tenant.ts";
import { type CounterName, type MetricRow, metrics as rows } from "../../src/metrics.ts";
import { silentLog } from "../support/silent-log.ts";

/** Every series of a counter that is above nothing, as `label=value` with commas between: what it counts. */
function counted(metrics: MemoryMetrics, name: CounterName): Readonly<Record<string, number>> {
  const { labels, values = {} } = rows[name] as MetricRow;
  const combinations = labels.reduce<string[][]>(
    (all, label) => all.flatMap((chosen) => (values[label] ?? []).map((value) => [...chosen, value])),
    [[]],
  );
  const totals = combinations.map((chosen) => {
    const given = Object.fromEntries(labels.map((label, index) => [label, chosen[index]]));
    return [chosen.join(), metrics.total(name, given as never)] as const;
  });
  return Object.fromEntries(totals.filter(([, total]) => total > 0));
}

describe("canaries", () => {
  const states = [
    "starting",
    "running",
    "keeping",
    "rolling_back",
    "kept",
    "rolled_back",
    "inconclusive",
    "stopped",
  ];

  test.each(states)("one that is %s is counted as that, once it is over", (state) => {
    const metrics = new MemoryMetrics(10);
    noteEnd({ ports: { metrics, log: silentLog } as never }, { id: "c", state } as Canary);
    const isOver = ["kept", "rolled_back", "inconclusive", "stopped"].includes(state);
    expect(counted(metrics, "canary_verdicts_total")).toEqual(isOver ? { [state]: 1 } : {});
  });

  const rolloutOf = (id: string, startedAtMs: number): Rollout =>
    ({ id, percent: 50, policies: {}, canary: { startedAtMs, windowMs: 1_000 } }) as Rollout;

  test("samples are counted by side and kind, and each side has its own numbers", () => {
    let nowMs = 10_000;
    const metrics = new MemoryMetrics(10);
    const samples = createCanarySamples({ nowMs: () => nowMs }, metrics);
    const of = (arm: "canary" | "control", id = "c", startedAtMs = 10_000) => ({
      rollout: rolloutOf(id, startedAtMs),
      arm,
    });
    for (const [arm, amount] of [
      ["canary", 1],
      ["control", 2],
    ] as const) {
      for (let index = 0; index < amount; index += 1) {
        const result = samples.ofResult(of(arm), { ageMs: 0 });
        result?.arrived();
        result?.foundBusy(3);
        result?.durable({ latencyMs: 5, lockWaitMs: 1, busyTries: index + 1 });
        const start = samples.ofStart(of(arm));
        start?.foundBusy();
        start?.decided({ waitMs: 2, isUnavailable: arm === "control" });
        start?.decided({ waitMs: 2, isUnavailable: false });
      }
    }
    expect(counted(metrics, "canary_samples_total")).toEqual({
      ...{ "canary,result": 1, "canary,start": 2, "control,result": 2, "control,start": 4 },
    });
    nowMs = 11_000;
    const [window] = samples.takeEnded(nowMs);
    expect(window?.arms).toMatchObject({
      canary: {
        results: 1,
        busyRetries: 3,
        acquired: [0, 1, 0],
        starts: 2,
        startBusyRetries: 1,
        startsUnavailable: 0,
      },
      control: {
        results: 2,
        busyRetries: 6,
        acquired: [0, 1, 1],
        starts: 4,
        startBusyRetries: 2,
        startsUnavailable: 2,
      },
    });
    expect(samples.takeEnded(nowMs)).toEqual([]);
  });

  test("a second one with the same window counts from nothing, and what the first still measures stays the first's", () => {
    let nowMs = 10_000;
    const samples = createCanarySamples({ nowMs: () => nowMs }, new MemoryMetrics(10));
    const note = (id: string, startedAtMs: number) =>
      samples.ofResult({ rollout: rolloutOf(id, startedAtMs), arm: "canary" }, { ageMs: 0 });
    const early = note("first", 10_000);
    early?.arrived();
    nowMs = 10_500;
    note("second", 10_500)?.arrived();
    early?.durable({ latencyMs: 5, lockWaitMs: 1, busyTries: 0 });
    nowMs = 12_000;
    const ended = samples
      .takeEnded(nowMs)
      .map(({ canary, window, arms }) => [canary, window, arms.canary.results, arms.canary.acquired]);
    expect(ended).toEqual([
      ["first", 0, 1, [1, 0, 0]],
      ["second", 0, 1, [0, 0, 0]],
    ]);
    // What has met it under the first one's policies says nothing about the second.
    expect(
      samples.ofResult({ rollout: rolloutOf("second", 10_500), arm: "canary" }, { ageMs: 1_500 }),
    ).toBeDefined();
    expect(
      samples.ofResult({ rollout: rolloutOf("second", 10_500), arm: "canary" }, { ageMs: 1_501 }),
    ).toBeUndefined();
  });
});

describe("the totals of a canary", () => {
  const results = (canary: number, control: number): BothArms => ({
    canary: { ...noSamples, results: canary },
    control: { ...noSamples, results: control },
  });
  const sums = ({ canary, control }: BothArms) => [canary.results, control.results];
  const known = (through: number, arms: BothArms) => ({
    ...{ id: "c", startedAtMs: 0, windowMs: 1_000 },
    totals: { arms, atMs: (through + 1) * 1_000, through },
  });

  test("add up what several processes tell of a window, and over two rounds of it", () => {
    const book = createCollectedSamples();
    for (let round = 0; round < 2; round += 1) {
      for (let window = 0; window < 70; window += 1) {
        book.add({ canary: "c", window, arms: results(1, 2) });
        book.add({ canary: "c", window, arms: results(10, 20) });
      }
      expect(sums(book.of("c").totals)).toEqual([770 * (round + 1), 1_540 * (round + 1)]);
    }
    expect(book.of("c").windows).toHaveLength(60);
    expect(sums(book.upTo("c", -1))[0]).toBeLessThan(1_540);
  });

  test("are those of a checkpoint with what came after it, and never both at once", () => {
    const book = createCollectedSamples();
    book.add({ canary: "c", window: 4, arms: results(1, 1) });
    book.learn(known(4, results(100, 200)) as never);
    expect(sums(book.of("c").totals)).toEqual([100, 200]);
    for (let window = 5; window < 5 + 70; window += 1) book.add({ canary: "c", window, arms: results(1, 2) });
    expect(sums(book.of("c").totals)).toEqual([170, 340]);
    // A later checkpoint replaces the first, with nothing of before counted again.
    book.learn(known(74, results(170, 340)) as never);
    book.add({ canary: "c", window: 75, arms: results(1, 2) });
    expect(sums(book.of("c").totals)).toEqual([171, 342]);
    // An older one, or a poorer one of the same place, is not listened to.
    book.learn(known(4, results(900, 900)) as never);
    book.learn(known(74, results(3, 3)) as never);
    expect(sums(book.of("c").totals)).toEqual([171, 342]);
    expect(sums(book.upTo("c", 74))).toEqual([170, 340]);
    book.forget("c");
    expect(sums(book.of("c").totals)).toEqual([0, 0]);
  });

  test("of one canary have nothing of another's", () => {
    const book = createCollectedSamples();
    book.add({ canary: "a", window: 0, arms: results(1, 1) });
    book.add({ canary: "b", window: 0, arms: results(5, 5) });
    expect([sums(book.of("a").totals), sums(book.of("b").totals)]).toEqual([
      [1, 1],
      [5, 5],
    ]);
  });
});

test("messages that were not believed are counted by why", () => {
  const metrics = new MemoryMetrics(10);
  const refusals = createRefusals({ clock: systemClock, log: silentLog, metrics });
  const reasons = [
    "unsigned",
    "forged",
    "expired",
    "wrong_version",
    "unknown_key",
    "foreign",
    "wrong_address",
    "overloaded",
  ] as const;
  for (const reason of reasons) refusals.report(reason, "subject");
  expect(counted(metrics, "bus_messages_refused_total")).toEqual(
    Object.fromEntries(reasons.map((reason) => [reason, 1])),
  );
});
