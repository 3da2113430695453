// Every tenth seed is large, and has everything that people do and clocks that are set; the others are small, with gates or without.
import { describe, expect, test } from "vitest";
import { isGatedSeed } from "../../proof/simulation/gated-swarm.ts";
import { swarmOfSeed } from "../../proof/simulation/large-swarm.ts";
import { drawSwarm } from "../../proof/simulation/swarm.ts";
import { loadConfig } from "../../src/load-config.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";

const seeds = Array.from({ length: 1_000 }, (_, index) => index + 1);
const large = seeds.filter((seed) => seed % 10 === 0).map((seed) => swarmOfSeed(seed));

describe("of a thousand seeds", () => {
  test("a hundred are large, half of these and a fifth of the others have gates, and the rest are drawn as if there were neither", () => {
    expect(large.every((swarm) => swarm.large)).toBe(true);
    expect(large.filter((swarm) => swarm.gates !== undefined)).toHaveLength(50);
    expect(seeds.filter(isGatedSeed)).toHaveLength(250);
    for (const seed of seeds.filter((one) => one % 10 !== 0 && !isGatedSeed(one))) {
      expect(swarmOfSeed(seed)).toEqual(drawSwarm(createSeededRandom(seed).stream("swarm")));
    }
  });

  test("the large ones have several tenants, faults, and people who repair, rerun, cancel, queue and follow", () => {
    for (const { calm, tenants, workflows, clientsPerGateway, config } of large) {
      expect(calm).toBe(false);
      expect(tenants).toBeGreaterThan(2);
      expect(clientsPerGateway).toBeGreaterThan(0);
      expect(() => loadConfig({ overrides: config })).not.toThrow();
      const {
        letterKeepers = 0,
        rerunners = 0,
        cancellers = 0,
        lockAgents = 0,
        followers = 0,
      } = workflows ?? {};
      expect(Math.min(letterKeepers, rerunners, cancellers, followers)).toBeGreaterThan(0);
      expect(lockAgents).toBeGreaterThan(1);
    }
  });

  test("in about half of the large ones an embedded store's clock is set by an hour, in the others a server's jumps", () => {
    const embedded = large.filter((swarm) => swarm.embedded !== undefined);
    expect(embedded.length).toBeGreaterThan(30);
    expect(embedded.length).toBeLessThan(70);
    for (const swarm of embedded) {
      expect(swarm.embedded?.stepsMs).toEqual(expect.arrayContaining([-3_600_000, 3_600_000]));
      // An embedded store loses nothing that it answered, and has no clock but its machine's.
      expect([swarm.losses, swarm.faults.clockJumpRate]).toEqual([undefined, 0]);
    }
    for (const swarm of large) {
      expect(swarm.embedded !== undefined || swarm.faults.clockJumpRate > 0).toBe(true);
    }
  });
});
