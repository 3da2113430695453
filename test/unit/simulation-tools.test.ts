// What the simulation's command is made of: reductions, shrinking, traces, progress, kept seeds.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { BatchTotals } from "../../proof/simulation/command/batch.ts";
import { progressLine } from "../../proof/simulation/command/progress.ts";
import { reduceSwarm, reducesTo, reductionsOf } from "../../proof/simulation/command/reductions.ts";
import { keepRegression, readRegressions } from "../../proof/simulation/command/regressions.ts";
import { simulateWork } from "../../proof/simulation/command/seed-work.ts";
import { shrink } from "../../proof/simulation/command/shrink.ts";
import { linesAbout } from "../../proof/simulation/command/trace.ts";
import { swarmOfSeed } from "../../proof/simulation/large-swarm.ts";

const seeds = Array.from({ length: 40 }, (_, index) => index + 1);

describe("a reduction", () => {
  test("makes the swarm that offers it smaller, and has no effect a second time", () => {
    for (const swarm of seeds.map((seed) => swarmOfSeed(seed))) {
      for (const reduction of reductionsOf(swarm)) {
        const reduced = reducesTo(swarm, reduction);
        expect(reduced, reduction).toBeDefined();
        if (reduced !== undefined) expect(reducesTo(reduced, reduction), reduction).toBeUndefined();
      }
    }
  });

  test("of all that is offered leaves one tenant, one gateway, nobody who calls and no fault", () => {
    for (const swarm of seeds.map((seed) => swarmOfSeed(seed))) {
      const least = reductionsOf(swarm).filter(
        (name) => !/=1$/.test(name) || /^(tenants|gateways|workers)=/.test(name),
      );
      const { tenants, gateways, clientsPerGateway, workflows, faults } = reduceSwarm(swarm, least);
      const { workers = 1, ...callers } = workflows ?? {};
      expect([tenants, gateways.length, clientsPerGateway]).toEqual([1, 1, 0]);
      expect([workers, ...Object.values(callers).filter((count) => count > 0)]).toEqual([1]);
      expect([faults.requestLostRate, faults.replyLostRate, faults.doubleExecutionRate]).toEqual([0, 0, 0]);
      expect(reductionsOf(reduceSwarm(swarm, ["no-faults"])).some((name) => name.startsWith("no-"))).toBe(
        false,
      );
    }
  });

  test("shortens the chaos, never lengthens it; one that means nothing changes nothing", () => {
    const swarm = swarmOfSeed(1);
    expect(reduceSwarm(swarm, ["chaos=7"]).chaosMs).toBe(7);
    expect(reduceSwarm(swarm, ["chaos=7000000", "no-such", "tenants=0", "cats=3", "constructor=1"])).toBe(
      swarm,
    );
  });

  test("is simulated: a seed without faults hits none", async () => {
    const whole = await simulateWork(3, {});
    const { faults, violation } = await simulateWork(3, { reduce: ["no-faults", "chaos=500"] });
    expect(Object.keys(whole.faults)).not.toEqual([]);
    expect([faults, violation]).toEqual([{}, undefined]);
  });
});

test("shrinking keeps the invariant, gives a work that breaks it again, and leaves something out", async () => {
  const work = { bug: "release_without_token" };
  for (let seed = 1; ; seed += 1) {
    const { violation, ...report } = await simulateWork(seed, work);
    if (violation === undefined) continue;
    const shrunk = await shrink({ ...report, violation }, work);
    const again = await simulateWork(seed, { ...work, reduce: shrunk.reduce });
    expect(again).toEqual(shrunk.broken);
    expect(again.violation?.invariant).toBe(violation.invariant);
    expect(shrunk.reduce.length).toBeGreaterThan(0);
    return;
  }
});

describe("the story of a violation", () => {
  const lines = [
    "1.000 gateway-1.1 started",
    "2.000 store gateway-1.1 createRun tenant-1 run_11_ab12 -> created",
    "3.000 store gateway-2.1 createRun tenant-2 run_12_cd34 -> created",
    "4.000 gateway-1.1 paused for 20",
    "5.000 gateway-2.1 crashed",
    "6.000 store unreachable for 9",
    "7.000 store gateway-1.1 acquireLock tenant-2 job/shared -> busy",
  ];

  test("is told of the run that it names, with the faults of those who touched it", () => {
    const told = linesAbout(lines, "run run_11_ab12 is denied, and it has a slot");
    expect(told).toEqual([lines[1], lines[3], lines[5]]);
  });

  test("is told of a lock, of a tenant when nothing else is named, of all when nothing is, and ends with the last lines", () => {
    expect(linesAbout(lines, "tenant-2 job/shared was granted")).toContain(lines[6]);
    expect(linesAbout(lines, "tenant-2 has 3 slots")).toEqual([
      lines[2],
      lines[3],
      lines[4],
      lines[5],
      lines[6],
    ]);
    expect(linesAbout(lines, "nothing ends")).toEqual(lines);
    expect(linesAbout(lines, "nothing ends", 2)).toEqual(lines.slice(-2));
  });
});

test("progress tells the rate and the time that is left", () => {
  const passed = { done: 50, broken: 1, passedMs: 10_000 };
  const bySeeds = progressLine(passed, { seeds: 1_000, minutes: undefined });
  expect(bySeeds).toBe("50 of 1000 seeds, 1 broken, 5.0 seeds/s, 4 min left");
  const seedless = { seeds: Number.POSITIVE_INFINITY };
  expect(progressLine(passed, { ...seedless, minutes: 1 })).toBe(
    "50 seeds, 1 broken, 5.0 seeds/s, 50 s left",
  );
  expect(progressLine(passed, { ...seedless, minutes: undefined })).toBe("50 seeds, 1 broken, 5.0 seeds/s");
});

describe("kept", () => {
  const held = { hash: "x", events: 1, virtualMs: 2, operations: 3, faults: { crash: 1 }, marks: {} };
  const violation = { invariant: "INV-2", what: "run r has a slot", atMs: 1, event: 1 } as const;

  test("a seed is added once, with its sentence and what was left out of it", () => {
    const folder = mkdtempSync(join(tmpdir(), "interlock-regressions-"));
    const path = join(folder, "regressions.json");
    writeFileSync(path, "[]\n");
    const broken = { seed: 7, ...held, violation };
    expect(keepRegression(broken, {}, path)).toBe("kept");
    expect(keepRegression(broken, {}, path)).toBe("there");
    expect(keepRegression(broken, { reduce: ["tenants=1"] }, path)).toBe("kept");
    expect(readRegressions(path)).toEqual([
      { seed: 7, why: expect.stringMatching(/^INV-2, The slots of a tenant .* run r has a slot$/) },
      { seed: 7, why: expect.any(String), reduce: ["tenants=1"] },
    ]);
    rmSync(folder, { recursive: true, force: true });
  });

  test("totals add up in the order of the seeds, and refuse another", () => {
    const totals = new BatchTotals(4, {});
    totals.add({ seed: 4, ...held });
    totals.add({ seed: 5, ...held, violation });
    expect(() => totals.add({ seed: 7, ...held })).toThrow("seed 7 is out of its order");
    const report = totals.report();
    expect(report).toMatchObject({ from: 4, seeds: 2, events: 2, operations: 6, faults: { crash: 2 } });
    expect([report.brokenSeeds, [...report.brokenBy], report.missing]).toEqual([1, [["INV-2", 1]], []]);
  });
});
