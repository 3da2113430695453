// Prints the progress of a long batch every few seconds.
import type { Clock } from "../../../src/ports/ports.ts";

type Progress = {
  seedDone(how: "held" | "broken"): void;
  done(): number;
  broken(): number;
  stop(): void;
};

/** `seeds` may be infinite; `minutes` is the end by time, if there is one. */
type Goal = { readonly seeds: number; readonly minutes: number | undefined };

const everyMs = 5_000;

export function startProgress(
  clock: Clock,
  goal: Goal,
  print: (line: string) => void = (line) => console.log(line),
): Progress {
  const startMs = clock.monotonicMs();
  let [done, broken] = [0, 0];
  let cancel = () => {};
  const tellAgain = () => {
    cancel = clock.timer(everyMs, () => {
      print(progressLine({ done, broken, passedMs: clock.monotonicMs() - startMs }, goal));
      tellAgain();
    });
  };
  tellAgain();
  return {
    seedDone: (how) => {
      done += 1;
      if (how === "broken") broken += 1;
    },
    done: () => done,
    broken: () => broken,
    stop: () => cancel(),
  };
}

type Passed = { readonly done: number; readonly broken: number; readonly passedMs: number };

export function progressLine({ done, broken, passedMs }: Passed, { seeds, minutes }: Goal): string {
  const perSecond = done / (passedMs / 1000);
  const leftMs = minutes === undefined ? ((seeds - done) / perSecond) * 1000 : minutes * 60_000 - passedMs;
  const left = Number.isFinite(leftMs) ? `, ${inMinutes(Math.max(0, leftMs))} left` : "";
  const all = Number.isFinite(seeds) ? ` of ${seeds}` : "";
  return `${done}${all} seeds, ${broken} broken, ${perSecond.toFixed(1)} seeds/s${left}`;
}

function inMinutes(ms: number): string {
  return ms < 90_000 ? `${Math.ceil(ms / 1000)} s` : `${Math.ceil(ms / 60_000)} min`;
}
