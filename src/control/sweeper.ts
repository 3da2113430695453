// The sweep of an engine: one look finds the partitions in which something is due, and only these are swept.
import type { GateId } from "../domain/gates.ts";
import { allPartitions, type Partition, type TenantId } from "../domain/tenant.ts";
import type { Consumer } from "../ports/bus.ts";
import type { CancelTimer, Shard } from "../ports/ports.ts";
import type { Answer } from "../ports/store.ts";
import { ask } from "./ask-until-known.ts";
import { drainRun } from "./engine/drain-run.ts";
import type { Engine } from "./engine/engine.ts";
import { publishJob } from "./jobs/hints.ts";

/** Every engine sweeps: there is no leader. `partitions` are those that it sweeps. */
export function startSweeper(engine: Engine, partitions: readonly Partition[] = allPartitions): Consumer {
  const { ports, config } = engine;
  const { clock, random } = ports;
  const everyMs = config["sweep.everyMs"];
  const stopped = new AbortController();
  const sweeps = createSweeps(engine);
  const shards = (): readonly Shard[] => {
    if (ports.storeShards === undefined) return [partitions];
    return ports.storeShards().map((shard) => shard.filter((partition) => partitions.includes(partition)));
  };
  async function loop(): Promise<void> {
    // Processes that started together do not look together.
    await clock.sleep(everyMs * random.fraction(), stopped.signal);
    while (!stopped.signal.aborted) {
      for (const shard of shards()) sweeps.lookAt(shard);
      await clock.sleep(everyMs, stopped.signal);
    }
  }
  const looking = loop();
  return {
    async stop() {
      stopped.abort();
      await looking;
      await sweeps.stop();
    },
  };
}

type Sweeps = {
  /** Sweeps those of the partitions in which something is due; returns at once. */
  lookAt(shard: Shard): void;
  /** Waits for what is under way. */
  stop(): Promise<void>;
};

/** Servers are looked at and partitions are swept each by itself: one that does not answer must not make the others late. */
function createSweeps(engine: Engine): Sweeps {
  const { clock } = engine.ports;
  /** Being looked at or swept, or waiting until it may be swept again: neither looks nor sweeps of one pile up. */
  const busy = new Set<Partition>();
  const waiting = new Map<Partition, CancelTimer>();
  const underWay = new Set<Promise<void>>();
  let isStopped = false;

  const begin = (work: Promise<void>) => {
    underWay.add(work);
    void work.then(() => underWay.delete(work));
  };
  async function look(looked: Shard): Promise<void> {
    const due = new Set(await findDue(engine, looked));
    for (const partition of looked) {
      if (due.has(partition)) begin(sweep(partition));
      else busy.delete(partition);
    }
  }
  async function sweep(partition: Partition): Promise<void> {
    const againInMs = await trySweep(engine, partition);
    if (againInMs === undefined || isStopped) {
      busy.delete(partition);
      return;
    }
    // Not left to the next look: it may come just before that time, and the one after it would be half a second late.
    const again = () => {
      waiting.delete(partition);
      begin(sweep(partition));
    };
    waiting.set(partition, clock.timer(againInMs, again));
  }
  return {
    lookAt(shard) {
      const free = shard.filter((partition) => !busy.has(partition));
      if (free.length === 0) return;
      for (const partition of free) busy.add(partition);
      begin(look(free));
    },
    async stop() {
      isStopped = true;
      for (const cancel of waiting.values()) cancel();
      while (underWay.size > 0) await Promise.all(underWay);
    },
  };
}

/** Without an answer nothing is lost: what was due still is when the next look comes. */
async function findDue({ ports, config }: Engine, partitions: Shard): Promise<readonly Partition[]> {
  try {
    const answer = await ports.store.findDue({ partitions }, { deadlineMs: config["store.callTimeoutMs"] });
    return answer.kind === "found" ? answer.partitions : [];
  } catch (error) {
    ports.log.error("a look for what is due failed", { cause: causeOf(error) });
    return [];
  }
}

/** When it may be swept again, if another process has just swept it. */
async function trySweep(engine: Engine, partition: Partition): Promise<number | undefined> {
  try {
    const answer = await sweepPartition(engine, partition);
    return answer.kind === "not_due" ? answer.againInMs : undefined;
  } catch (error) {
    engine.ports.log.error("a sweep failed", { partition, cause: causeOf(error) });
    return undefined;
  }
}

function causeOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Until no more can be let through. A call that gets no answer leaves the rest to the next sweep. */
async function handOnAll(engine: Engine, tenant: TenantId, gate: GateId): Promise<void> {
  for (;;) {
    const answer = await ask(engine, "handOn", { tenant, gate });
    if (answer.kind !== "handed_on" || !answer.more) return;
  }
}

export async function sweepPartition(engine: Engine, partition: Partition): Promise<Answer<"sweep">> {
  const { ports, config } = engine;
  const answer = await ports.store.sweep({ partition }, { deadlineMs: config["store.callTimeoutMs"] });
  // Without an answer nothing is lost: what was due still is, or waits in an inbox until its visit is due.
  if (answer.kind !== "swept") return answer;
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
  for (const { tenant, gate } of answer.gates) {
    engine.queueGauges.heard(tenant);
    engine.background.run("handing on the places of a gate", () => handOnAll(engine, tenant, gate));
  }
  for (let ended = 0; ended < answer.queueDeadlines; ended += 1) {
    ports.metrics.count("queue_deadlines_total", {});
    ports.metrics.count("runs_ended_total", { status: "timed_out" });
  }
  for (let lost = 0; lost < answer.lostClaims; lost += 1) ports.metrics.count("job_claims_lost_total", {});
  return answer;
}
