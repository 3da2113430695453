// One tenant's day twice, alone and beside another that floods the same processes at ten times its rate: its answers are the same (INV-5).

import { isTerminal } from "../../src/domain/run.ts";
import { partitionOf, platformTenant, type TenantId } from "../../src/domain/tenant.ts";
import { type Answer, executeOn, type Store, type StoreSettings, storeFrom } from "../../src/ports/store.ts";
import type { SimulatedProcess } from "../../src/testing/simulated-process.ts";
import { createSimulatedStore } from "../../src/testing/simulated-store.ts";
import { noStoreFaults } from "../../src/testing/store-link.ts";
import { noBusFaults } from "./bus/simulated-bus.ts";
import { allRoles, startEngine } from "./engine-node.ts";
import { again } from "./faults/again.ts";
import { mustHold, Violation } from "./invariants/violation.ts";
import { type Gateway, startTenant } from "./isolated-tenants.ts";
import type { BrokenInvariant, SeedReport } from "./simulate.ts";
import { createSplitKernel, nobody, type SplitKernel } from "./split-kernel.ts";
import type { Swarm } from "./swarm.ts";
import { createWorld, startNode, type World, type WorldOptions } from "./world.ts";

/** What is different in the second run of a seed. */
export type Difference = "flood" | "wall_clocks";

type IsolationReport = {
  /** Answers that were compared, and those that the tenant that floods got meanwhile. */
  readonly answers: number;
  readonly foreignAnswers: number;
  readonly report: SeedReport;
};

/** Runs a seed without and with the difference and compares what the first tenant was answered. */
export async function simulateIsolation(
  seed: number,
  difference: Difference,
  options: WorldOptions = {},
): Promise<IsolationReport> {
  const alone = await runDay(seed, options, undefined);
  const beside = await runDay(seed, options, difference);
  const { kernel, world } = beside;
  const found = { atMs: kernel.nowMs(), event: alone.kernel.events() + kernel.events() };
  const violation = alone.violation ?? judge(alone, beside, difference);
  const report = {
    seed,
    hash: `${alone.kernel.traceHash()} ${kernel.traceHash()}`,
    events: found.event,
    virtualMs: alone.kernel.nowMs() + kernel.nowMs(),
    operations: alone.world.operations() + world.operations(),
    faults: world.faults.byKind(),
    marks: world.marks.counts(),
  };
  return {
    answers: alone.answers.length,
    foreignAnswers: beside.foreign,
    report: violation === undefined ? report : { ...report, violation: { ...violation, ...found } },
  };
}

type Day = {
  readonly kernel: SplitKernel;
  readonly world: World;
  readonly answers: readonly string[];
  readonly foreign: number;
  readonly violation?: Pick<BrokenInvariant, "invariant" | "what">;
};

const own = "tenant-1" as TenantId;

/** What is still under way when the callers stop is waited for. */
const tailMs = 20_000;
const eventsMax = 2_000_000;

async function runDay(seed: number, options: WorldOptions, difference: Difference | undefined): Promise<Day> {
  const answers: string[] = [];
  let foreign = 0;
  const kernel = createSplitKernel(seed, options, (tenant, line) => {
    if (line.startsWith("store ")) return;
    if (tenant === own) answers.push(line);
    else if (tenant !== nobody) foreign += 1;
  });
  const world = createIsolatedWorld(seed, kernel, options);
  const works = world.swarm.workflows !== undefined;
  try {
    const gateways = startGateways(world);
    for (const tenant of world.tenants) {
      if (tenant === own || difference === "flood") startTenant(world, kernel, gateways, { tenant, own });
    }
    if (difference === "wall_clocks") startWallJumps(world, gateways);
    const untilMs = world.swarm.chaosMs + tailMs;
    const until = () => works && kernel.nowMs() > world.swarm.chaosMs && goingOn(world) === 0;
    const end = await kernel.run({
      untilMs: works ? untilMs : world.swarm.chaosMs + 1_000,
      until,
      eventsMax,
    });
    mustHold(end.kind !== "events_spent", "liveness", () => "the day has no end");
    const named = byName(world, answers);
    return { kernel, world, answers: works ? outcomesOf(world, named) : named, foreign };
  } catch (error) {
    const invariant = error instanceof Violation ? error.invariant : "no exception";
    const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { kernel, world, answers, foreign, violation: { invariant, what } };
  }
}

function goingOn({ known }: World): number {
  return [...known.runs()].filter(({ tenant, status }) => tenant === own && !isTerminal(status)).length;
}

/** Runs by who asked for them: their ids tell the wall clock of the process that made them. */
function byName({ known }: World, answers: readonly string[]): readonly string[] {
  const nameOf = (word: string) => {
    const actor = known.run(word)?.actor;
    return actor === undefined ? word : `run of ${actor}`;
  };
  return answers.map((line) => line.split(" ").map(nameOf).join(" "));
}

/**
 * What every start was answered and how its run ended, in no order: what a process knows of the store's time is shared, so
 * that work done for another may move this tenant's by a millisecond.
 */
function outcomesOf({ known }: World, answers: readonly string[]): readonly string[] {
  const ends = [...known.runs()]
    .filter(({ tenant, parent }) => tenant === own && parent === undefined)
    // Not how: the delay before a retry is drawn from what its process shares, and a step's time may be over before the last.
    .map(({ actor, status }) => `run of ${actor} ${isTerminal(status) ? "has ended" : "goes on"}`);
  return [...answers.filter((line) => line.includes("/starter-")), ...ends].sort();
}

function judge(alone: Day, beside: Day, difference: Difference): Day["violation"] {
  const broken = beside.violation;
  if (difference === "flood" && broken !== undefined) return broken;
  const [invariant, because] =
    difference === "flood"
      ? (["INV-5", "another tenant floods"] as const)
      : (["INV-16", "wall clocks are set back"] as const);
  // With right clocks the same day broke nothing.
  if (broken !== undefined)
    return { invariant, what: `${broken.invariant} broke while ${because}: ${broken.what}` };
  // A lease ends by whichever clock says so first, which may be a millisecond later when only one can: orders then differ.
  if (difference === "wall_clocks" && alone.world.swarm.workflows === undefined) return undefined;
  const [expected, found] =
    alone.world.swarm.workflows === undefined
      ? [alone.answers, beside.answers]
      : askedInBoth(alone.answers, beside.answers);
  const length = Math.max(expected.length, found.length);
  const at = Array.from({ length }).findIndex((_, index) => expected[index] !== found[index]);
  if (at === -1) return undefined;
  return { invariant, what: `answer ${at} is "${expected[at]}", and "${found[at]}" while ${because}` };
}

/** The last start of a caller may come a moment before the callers stop on one day, and a moment after it on the other. */
function askedInBoth(
  alone: readonly string[],
  beside: readonly string[],
): readonly [readonly string[], readonly string[]] {
  const startOf = (line: string) => /[^ ]*\/starter-[^ ]* of [^ ]*/.exec(line)?.[0] ?? line;
  const of = (lines: readonly string[], others: readonly string[]) => {
    const asked = new Set(others.map(startOf));
    return lines.filter((line) => asked.has(startOf(line)));
  };
  return [of(alone, beside), of(beside, alone)];
}

function createIsolatedWorld(seed: number, kernel: SplitKernel, options: WorldOptions): World {
  const world = createWorld(seed, {
    ...options,
    parts: {
      kernel,
      swarm: (draw) => quietSwarm(draw()),
      createStore: (given, store) => {
        const server = createSimulatedStore(given, store);
        // The same records and checks behind connections on which nothing fails.
        const calm = createSimulatedStore(given, { ...store, faults: noStoreFaults });
        const connect = server.connect.bind(server);
        const linkOf = (process: SimulatedProcess, tenant: string) =>
          tenant === own && !isFaulty(world) ? calm.connect(process) : connect(process);
        return Object.assign(server, {
          connect: (process: SimulatedProcess) =>
            byTenant(kernel, server, (tenant) => linkOf(process, tenant)),
        });
      },
    },
  });
  const connect = world.bus.connect.bind(world.bus);
  const bus = Object.assign(world.bus, {
    connect: (process: SimulatedProcess) => {
      const connected = connect(process);
      const publish: typeof connected.publish = (stream, message) => {
        kernel.enter(message.subject.slice(0, message.subject.indexOf("/")));
        return connected.publish(stream, message);
      };
      return { ...connected, publish };
    },
  });
  return Object.assign(world, { tenants: [own, rivalOf(kernel)], bus });
}

/** Where the order of answers is compared, its own faults are a part of the tenant's day. */
function isFaulty({ swarm }: Pick<World, "swarm">): boolean {
  return swarm.workflows === undefined;
}

/** A connection for each tenant, so that none learns the store's time from another's answers. */
function byTenant(
  kernel: SplitKernel,
  server: { timeMs(): number },
  connect: (tenant: string) => Store,
): Store {
  const links = new Map<string, ReturnType<typeof executeOn>>();
  return storeFrom(
    (name, request, options) => {
      const tenant = "tenant" in request ? request.tenant : nobody;
      if (name === "getTenant" && tenant === platformTenant)
        return Promise.resolve({ ...platformUnset, storeTimeMs: server.timeMs() } as Answer<typeof name>);
      kernel.enter(tenant);
      const execute = links.get(tenant) ?? executeOn(connect(tenant));
      links.set(tenant, execute);
      return execute(name, request, options);
    },
    async () => {},
  );
}

/** Nobody sets it here, and the first caller would be the only one to wait for it: that is shared, as the store's time is. */
const platformUnset = { kind: "tenant", record: { settings: {}, version: 0 } } as const;

/** In half of the seeds both tenants share a partition, with its fences, its sweeps and its order of what is due. */
function rivalOf(kernel: SplitKernel): TenantId {
  if (kernel.random.stream("rival").chance(0.5)) return "tenant-2" as TenantId;
  for (let number = 1; ; number += 1) {
    const name = `rival-${number}` as TenantId;
    if (partitionOf(name) === partitionOf(own)) return name;
  }
}

/** Without what happens to everybody at once: an outage or a jump of the store's clock is nobody's in particular. */
function quietSwarm(swarm: Swarm): Swarm {
  const { losses: _losses, callFaults: _callFaults, rolling: _rolling, tight: _tight, ...rest } = swarm;
  const { travelMsMax, forgottenRate, doubledRate } = swarm.busFaults;
  return {
    ...rest,
    tenants: 2,
    chaosMs: Math.min(swarm.chaosMs, 2_500),
    ...(swarm.workflows === undefined ? {} : { storeSettings: unhurried(swarm.storeSettings) }),
    gateways: swarm.gateways.slice(0, 3),
    faults: { ...swarm.faults, outageRate: 0, clockJumpRate: 0 },
    busFaults: { ...noBusFaults, travelMsMax, forgottenRate, doubledRate },
    config: { ...swarm.config, "dispatch.hold": "off" },
  };
}

/** Where moments are not compared, nothing may depend on them: no key makes room for another, no run goes before it was seen. */
function unhurried(settings: StoreSettings): StoreSettings {
  return { ...settings, keysPerTenantMax: 100_000, runRetentionMs: 86_400_000, republishAfterMs: 500 };
}

function startGateways(world: World): readonly Gateway[] {
  return world.swarm.gateways.map((settings, index) => {
    const node = startNode(world, `gateway-${index + 1}`, settings);
    if (world.swarm.workflows === undefined) return { node, engine: undefined };
    const engine = startEngine(world, node, allRoles);
    world.gateways[index] = engine;
    return { node, engine };
  });
}

/** Back only: a clock that jumps ahead looks like a process that slept, which ends its leases, as it should. */
function startWallJumps(world: World, gateways: readonly Gateway[]): void {
  const random = world.kernel.random.stream("wall jumps");
  for (const { node } of gateways) {
    again(world, random, 300, () => {
      node.process.jumpWall(random.pick([-3_600_000, -60_000, -2_000]));
    });
  }
}
