// One process of the product: its engine, what may be asked of it, and what it does by itself according to its roles, as the sweep.
import type { Config } from "../config.ts";
import { allPartitions, type Partition } from "../domain/tenant.ts";
import type { Bus, Consumer } from "../ports/bus.ts";
import type { DispatchCheck, Ports } from "../ports/ports.ts";
import { startSealer } from "./audit/sealer.ts";
import { watchCanaries } from "./canaries/watch-canaries.ts";
import { type ControlApi, createApi } from "./create-api.ts";
import { drainRun } from "./engine/drain-run.ts";
import { createEngine, type Engine } from "./engine/engine.ts";
import { hearChanges } from "./events/wakes.ts";
import { hearHints } from "./jobs/claim-jobs.ts";
import { hearNotices, hearResults } from "./jobs/hear-results.ts";
import { publishJob } from "./jobs/hints.ts";
import { startScheduler } from "./jobs/scheduler.ts";
import { hearHandovers } from "./locks/lock-waiters.ts";
import { hearPlaces } from "./pools/places.ts";

export type ControlProcess = {
  readonly engine: Engine;
  readonly api: ControlApi;
  /** In good order: what was begun is finished. The bus and the store are still open then. */
  stop(): Promise<void>;
};

type ControlProcessOptions = {
  readonly roles: ReadonlySet<Role>;
  readonly check: DispatchCheck | undefined;
  /** Those that an engine sweeps; all by default. */
  readonly partitions?: readonly Partition[];
};

export function startControlProcess(
  { ports, bus, config }: { readonly ports: Ports; readonly bus: Bus; readonly config: Config },
  { roles, ...parts }: ControlProcessOptions,
): ControlProcess {
  const engine = createEngine(ports, bus, config);
  const running = startRoles(engine, parts, roles);
  return {
    engine,
    api: createApi(engine),
    async stop() {
      engine.alarms.close();
      await engine.feeds.close();
      await Promise.all(running.map((part) => part.stop()));
      await engine.background.idle();
      engine.announcer.close();
      engine.pendingPublications.close();
    },
  };
}

export const roles = ["gateway", "engine", "scheduler"] as const;
export type Role = (typeof roles)[number];

export function rolesOf(config: Config): ReadonlySet<Role> {
  return new Set(config["process.roles"].split(",") as Role[]);
}

type RoleParts = {
  readonly check: DispatchCheck | undefined;
  readonly partitions?: readonly Partition[];
};

function startRoles(
  engine: Engine,
  { check, partitions }: RoleParts,
  wanted: ReadonlySet<Role>,
): readonly Consumer[] {
  const { bus, wakes, lockWaiters, sharedWorkers } = engine;
  const parts: Readonly<Record<Role, () => readonly Consumer[]>> = {
    gateway: () => [
      hearHints(engine),
      hearChanges(bus, wakes),
      hearHandovers(bus, lockWaiters),
      hearPlaces(engine),
      sharedWorkers.start(),
    ],
    engine: () => [startSweeper(engine, partitions), hearResults(engine), hearNotices(engine)],
    // Without a check no job is held.
    scheduler: () => (check === undefined ? [] : [startScheduler(engine, check)]),
  };
  // A process that handles starts or results measures them; one process may have both roles.
  const measures = wanted.has("gateway") || wanted.has("engine");
  const watching = measures ? [watchCanaries(engine, { judges: wanted.has("engine") })] : [];
  // Who adds audit records seals them.
  const sealer = measures ? startSealer(engine) : undefined;
  if (sealer !== undefined) watching.push(sealer);
  return [...roles.filter((role) => wanted.has(role)).flatMap((role) => parts[role]()), ...watching];
}

type Sweeper = { stop(): Promise<void> };

/** Every engine process sweeps: there is no leader. Each partition by itself: one whose server does not answer must not make the others late. */
export function startSweeper(engine: Engine, partitions: readonly Partition[] = allPartitions): Sweeper {
  const sweepers = partitions.map((partition) => sweepAgainAndAgain(engine, partition));
  return {
    async stop() {
      await Promise.all(sweepers.map((sweeper) => sweeper.stop()));
    },
  };
}

function sweepAgainAndAgain(engine: Engine, partition: Partition): Sweeper {
  // One signal each: Node warns of a leak when more than ten listen to the same one.
  const stopped = new AbortController();
  const { clock, log, random } = engine.ports;
  const everyMs = engine.config["sweep.everyMs"];
  async function loop(): Promise<void> {
    // Neither partitions nor processes that started together sweep together.
    await clock.sleep(everyMs * random.fraction(), stopped.signal);
    while (!stopped.signal.aborted) {
      try {
        await sweepPartition(engine, partition);
      } catch (error) {
        const cause = error instanceof Error ? error.message : String(error);
        log.error("a sweep failed", { partition, cause });
      }
      await clock.sleep(everyMs, stopped.signal);
    }
  }
  const running = loop();
  return {
    async stop() {
      stopped.abort();
      await running;
    },
  };
}

export async function sweepPartition(engine: Engine, partition: Partition): Promise<void> {
  const { ports, config } = engine;
  const answer = await ports.store.sweep({ partition }, { deadlineMs: config["store.callTimeoutMs"] });
  // Without an answer nothing is lost: what was due still is, or waits in an inbox until its visit is due.
  if (answer.kind !== "swept") return;
  for (const { tenant, runId } of answer.waiting) {
    engine.background.run("draining a run", () => drainRun(engine, tenant, runId));
  }
  for (const { tenant, job } of answer.unclaimed) {
    ports.metrics.count("jobs_published_total", { cause: "sweep" });
    publishJob(engine, tenant, job);
  }
  for (const { tenant, repair, runId } of answer.repairs) {
    ports.metrics.count("sweep_repairs_total", { kind: repair });
    ports.log.warn("sweep repaired what must always hold", { tenant, repair, run: runId });
  }
  for (let lost = 0; lost < answer.lostClaims; lost += 1) ports.metrics.count("job_claims_lost_total", {});
}
