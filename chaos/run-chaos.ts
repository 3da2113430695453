// One chaos run from its first process to its recorded history: load under faults, load without faults, then everything is read.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Final, HistoryRecord } from "../proof/history/record.ts";
import { createSeededRandom } from "../src/testing/seeded-random.ts";
import { type Asker, createAsker } from "./asking.ts";
import { type DeadLetterSeen, type Ending, explainOpen, readEverything, untilQuiet } from "./ending.ts";
import type { Fault } from "./fault.ts";
import { linkFaults } from "./link-faults.ts";
import { type Load, startLoad } from "./load.ts";
import { mergeHistory } from "./merge.ts";
import { type Nemesis, startNemesis } from "./nemesis.ts";
import type { ChaosOptions } from "./options.ts";
import { membersOf, processFaults } from "./process-faults.ts";
import { openRecorder, type Recorder } from "./recorder.ts";
import { mendRedis, serverFaults } from "./server-faults.ts";
import { type System, startSystem } from "./system.ts";
import { attemptsMax } from "./workflows.ts";

export const allFaults: readonly Fault[] = [...processFaults, ...linkFaults, ...serverFaults];

export type ChaosRun = {
  readonly records: readonly HistoryRecord[];
  readonly hits: ReadonlyMap<string, number>;
  /** Faults that went wrong. */
  readonly troubles: readonly string[];
  /** Processes that ended without being asked to, or not as they should. */
  readonly ownEnds: readonly string[];
  readonly deadLetters: readonly DeadLetterSeen[];
  /** Whether all that was begun had ended in time. */
  readonly isQuiet: boolean;
};

const topology = { gateways: 3, engines: 2, schedulers: 1, workers: 4, workTenants: 2 };

export async function runChaos(options: ChaosOptions, say: (line: string) => void): Promise<ChaosRun> {
  const { seed, durability, planted } = options;
  const startedAt = new Date().toISOString();
  const beganMs = performance.now();
  const guard = planted === "unfenced-sink" ? "none" : "fences";
  const system = await startSystem({ seed, durability, guard, ...topology });
  try {
    say(`all processes are up after ${seconds(performance.now() - beganMs)}`);
    const recorder = openRecorder(join(system.folder, "clients.jsonl"));
    const { load, nemesis, asker } = await strike(options, { system, recorder, say });
    say("the last fault is healed; waiting until nothing is left to do");
    const finals: Final[] = [];
    const ending = {
      system,
      asker,
      knowledge: load.knowledge,
      record: (final: Final) => void finals.push(final),
    };
    const isQuiet = await untilQuiet(ending);
    await load.rest();
    say(
      isQuiet ? "everything is quiet; reading it" : "not everything has ended in time; reading what there is",
    );
    const explained = isQuiet ? "" : await explainOpen(ending);
    const deadLetters = await readEverything(
      isQuiet || options.judged === "everything" ? ending : withoutOpen(ending),
    );
    recorder.close();
    const limits = Object.fromEntries(system.tenants.all().map(({ id, limit }) => [id, limit]));
    const setting = { format: 1, startedAt, seed, durability, limits, attemptsMax } as const;
    const records = mergeHistory({ folder: system.folder, setting, finals }, options.historyFile);
    writeFileSync(`${options.historyFile}.log`, `${explained}\n${system.report()}`);
    const ownEnds = membersOf(system).flatMap((member) => member.ownEnds());
    return { records, hits: nemesis.hits, troubles: nemesis.troubles, ownEnds, deadLetters, isQuiet };
  } finally {
    await system.stop();
  }
}

type Scene = { readonly system: System; readonly recorder: Recorder; say(line: string): void };
type Struck = { readonly load: Load; readonly nemesis: Nemesis; readonly asker: Asker };

const progressEveryMs = 5_000;
/** So that every kind of client has something to lose. */
const peaceMs = 2_000;

async function strike(options: ChaosOptions, { system, recorder, say }: Scene): Promise<Struck> {
  const random = createSeededRandom(options.seed);
  const asker = createAsker(recorder, "c");
  const load = startLoad({ system, asker, random: random.stream("load"), restFactor: options.restFactor });
  await sleep(peaceMs);
  const faults = allFaults.filter(({ name }) => options.only?.includes(name) ?? true);
  const nemesis = startNemesis({ system, recorder, random: random.stream("nemesis"), faults });
  const beganMs = performance.now();
  const endMs = beganMs + options.minutes * 60_000;
  for (let leftMs = endMs - beganMs; leftMs > 0; leftMs = endMs - performance.now()) {
    await sleep(Math.min(progressEveryMs, leftMs));
    say(progress(performance.now() - beganMs, asker, nemesis));
  }
  await nemesis.stop();
  for (const trouble of nemesis.troubles) say(`a fault went wrong: ${trouble}`);
  await mendRedis(system);
  await load.stop();
  return { load, nemesis, asker };
}

function progress(elapsedMs: number, { counts }: Asker, { hits, current }: Nemesis): string {
  const sum = (outcome: string) =>
    [...counts].reduce((total, [name, count]) => total + (name.endsWith(` ${outcome}`) ? count : 0), 0);
  const struck = [...hits.values()].reduce((total, count) => total + count, 0);
  const now = current();
  return (
    `${seconds(elapsedMs)}: clients had ${sum("ok")} ok, ${sum("fail")} refused, ${sum("unknown")} unknown; ` +
    `${struck} faults${now.length === 0 ? "" : `, now at ${now.join(", ")}`}`
  );
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(0)} s`;
}

/** What has not ended yet says nothing: it may only be late. */
function withoutOpen(ending: Ending): Ending {
  return {
    ...ending,
    record(final) {
      const isOpen = final.of === "run" && ["queued", "pending", "running", "waiting"].includes(final.status);
      if (!isOpen && final.of !== "tenant" && final.of !== "dead_letters") ending.record(final);
    },
  };
}
