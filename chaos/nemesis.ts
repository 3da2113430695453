// Strikes one fault after the other, in an order and at targets that the seed draws, and records when each began and ended.
import { setTimeout as sleep } from "node:timers/promises";
import type { SeededRandom } from "../src/testing/seeded-random.ts";
import type { Fault } from "./fault.ts";
import type { Recorder } from "./recorder.ts";
import type { System } from "./system.ts";

export type Nemesis = {
  /** By name: how often it hit. */
  readonly hits: ReadonlyMap<string, number>;
  /** Faults that broke themselves: the run shows nothing of what they were to show. */
  readonly troubles: readonly string[];
  /** What is under way now. */
  current(): readonly string[];
  /** No fault begins any more; resolves when all are healed. */
  stop(): Promise<void>;
};

export type NemesisOptions = {
  readonly system: System;
  readonly recorder: Recorder;
  readonly random: SeededRandom;
  readonly faults: readonly Fault[];
};

const pauseMs = { min: 2_500, max: 4_500 };
/** More would leave nobody to talk to. */
const atOnceMax = 3;

export function startNemesis({ system, recorder, random, faults }: NemesisOptions): Nemesis {
  const hits = new Map(faults.map(({ name }) => [name, 0]));
  const troubles: string[] = [];
  const underWay = new Map<string, Promise<void>>();
  const stopping = new AbortController();
  const draw = drawer(random.stream("order"), faults);

  async function strike(fault: Fault, target: string): Promise<void> {
    const { name } = fault;
    recorder.now({ type: "fault", name, target, phase: "begin" });
    try {
      const result = await fault.strike({ system, target, random: random.stream(name) });
      if (result === "hit") hits.set(name, (hits.get(name) ?? 0) + 1);
    } catch (error) {
      troubles.push(`${name} of ${target}: ${error instanceof Error ? error.message : String(error)}`);
    }
    recorder.now({ type: "fault", name, target, phase: "end" });
  }

  async function begin(): Promise<void> {
    while (!stopping.signal.aborted) {
      const gapMs = random.integer(pauseMs.min, pauseMs.max);
      await sleep(gapMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) break;
      if (underWay.size >= atOnceMax) continue;
      const chosen = draw(system, (need) => underWay.has(need));
      if (chosen === undefined) continue;
      const { fault, target } = chosen;
      const need = fault.needs(target);
      underWay.set(
        need,
        strike(fault, target).finally(() => underWay.delete(need)),
      );
    }
  }

  const striking = begin();
  return {
    hits,
    troubles,
    current: () => [...underWay.keys()],
    async stop() {
      stopping.abort();
      await striking;
      await Promise.all(underWay.values());
    },
  };
}

type Chosen = { readonly fault: Fault; readonly target: string };

/** Every fault once, in an order that the seed draws, then every fault once more: none is left out by chance. */
function drawer(random: SeededRandom, faults: readonly Fault[]) {
  let bag: Fault[] = [];
  return (system: System, isTaken: (need: string) => boolean): Chosen | undefined => {
    if (bag.length === 0) bag = shuffled(random, faults);
    for (const fault of bag) {
      const target = random.pick(fault.targets(system));
      if (isTaken(fault.needs(target))) continue;
      bag = bag.filter((other) => other !== fault);
      return { fault, target };
    }
    return undefined;
  };
}

function shuffled(random: SeededRandom, faults: readonly Fault[]): Fault[] {
  const rest = [...faults];
  return faults.map(() => rest.splice(random.integer(0, rest.length - 1), 1)[0] as Fault);
}
