// Sweeps all partitions again and again, in every process: nobody leads, and whoever is late finds nothing to do.
import { type Partition, partitionCount } from "../../domain/partition.ts";
import type { Engine } from "../engine/engine.ts";
import { sweepPartition } from "./sweep-partition.ts";

export type Sweeper = { stop(): Promise<void> };

export function startSweeper(engine: Engine): Sweeper {
  const stopped = new AbortController();
  const { clock, log, random } = engine.ports;
  async function sweepAll(): Promise<void> {
    for (let partition = 0; partition < partitionCount && !stopped.signal.aborted; partition += 1) {
      try {
        await sweepPartition(engine, partition as Partition);
      } catch (error) {
        log.error("a sweep failed", {
          partition,
          cause: error instanceof Error ? error.message : String(error),
        });
      }
    }
  }
  async function loop(): Promise<void> {
    // Processes started together do not sweep together.
    await clock.sleep(engine.config["sweep.everyMs"] * random.fraction(), stopped.signal);
    while (!stopped.signal.aborted) {
      await sweepAll();
      await clock.sleep(engine.config["sweep.everyMs"], stopped.signal);
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
