// Who reaches the simulated bus: outages for one process or for all, and consumers that the server has forgotten.
import type { ConsumerTerms, Handlers } from "../../../src/ports/bus.ts";
import type { Kernel } from "../../../src/testing/kernel.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { SimulatedProcess } from "../../../src/testing/simulated-process.ts";

export type Member = {
  readonly process: SimulatedProcess;
  readonly terms: ConsumerTerms;
  readonly handlers: Handlers;
  /** The server does not know it: its consumer is gone, and not yet made again. */
  absent: boolean;
};

/** Until a consumer notices that it is cut off or gone, and until it is back after that, at most. */
export const noticeMsMax = 2_500;
export const againMsMax = 2_000;
/** How often one that is cut off says that messages may pass it by. */
const missedEveryMs = 1_000;

export class BusReach {
  readonly #kernel: Kernel;
  readonly #chance: SeededRandom;
  readonly #cutUntilMs = new Map<SimulatedProcess, number>();
  #unreachableUntilMs = 0;

  constructor(kernel: Kernel, chance: SeededRandom) {
    this.#kernel = kernel;
    this.#chance = chance;
  }

  cutOff(process: SimulatedProcess, ms: number, members: readonly Member[]): void {
    const untilMs = this.#kernel.nowMs() + ms;
    this.#cutUntilMs.set(process, Math.max(this.#cutUntilMs.get(process) ?? 0, untilMs));
    this.#tell(members.filter((member) => member.process === process));
  }

  cutOffAll(ms: number, members: readonly Member[]): void {
    this.#unreachableUntilMs = Math.max(this.#unreachableUntilMs, this.#kernel.nowMs() + ms);
    this.#tell(members);
  }

  heal(): void {
    this.#unreachableUntilMs = 0;
    this.#cutUntilMs.clear();
  }

  has(process: SimulatedProcess): boolean {
    const nowMs = this.#kernel.nowMs();
    return nowMs >= this.#unreachableUntilMs && nowMs >= (this.#cutUntilMs.get(process) ?? 0);
  }

  /** Each is told when it notices, and once more when it is back. */
  forget(members: readonly Member[]): void {
    for (const member of members) {
      const { process, handlers } = member;
      member.absent = true;
      const noticeMs = this.#chance.fraction() * noticeMsMax;
      const backMs = noticeMs + this.#chance.fraction() * againMsMax;
      process.deliver(noticeMs, () => handlers.missed?.());
      this.#kernel.after(backMs, () => {
        member.absent = false;
        process.deliver(0, () => handlers.missed?.());
      });
    }
  }

  /** About once a second while it lasts, and once when it is over. */
  #tell(members: readonly Member[]): void {
    for (const { process, handlers } of members) {
      const tell = () => {
        handlers.missed?.();
        if (this.has(process)) return;
        process.clock.timer(missedEveryMs * (0.75 + 0.5 * this.#chance.fraction()), tell);
      };
      process.deliver(this.#chance.pick([0, 1]) * noticeMsMax * this.#chance.fraction(), tell);
    }
  }
}
