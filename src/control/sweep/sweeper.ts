// Sweeps all partitions at an interval, in every engine process: there is no leader, and a later sweep finds nothing left.
import { allPartitions, type Partition } from "../../domain/partition.ts";
import type { Engine } from "../engine/engine.ts";
import { sweepPartition } from "./sweep-partition.ts";

type Sweeper = { stop(): Promise<void> };

/** Each partition by itself: one whose server does not answer must not make the others late. */
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
