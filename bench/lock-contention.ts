// Contention for one lock, measured the same way whatever the lock is made of: contenders that ask, work and give back.
import { createClient } from "@redis/client";
import { percentile } from "./statistics.ts";

export type Contention = {
  readonly contenders: number;
  readonly workMs: number;
  /**
   * What a contender does elsewhere between two uses. Without it the contender that has just released asks again before anybody else
   * does: with pauses of 100 ms between tries, p95 was then 0.3 ms, since most waits were those of the few that hogged the
   * lock, while others waited 12 s for nothing.
   */
  readonly elsewhereMs: number;
  /** Under load like the rest, but not counted. */
  readonly warmUpMs: number;
  readonly windowMs: number;
};

/** Gives the lock back, or says that waiting was given up: the contender asks again, and its wait goes on. */
export type Grant = { release(): Promise<unknown> } | "gave_up";

/** The commands that a lock's clients send, and those that its scripts call; anything else is not understood and an error. */
export type Commands = { readonly sent: readonly string[]; readonly insideScripts: readonly string[] };

export type ContentionResult = {
  readonly per_s: number;
  readonly p50_ms: number;
  readonly p95_ms: number;
  readonly max_ms: number;
  readonly jain: number;
  readonly commands_per_acquisition: number;
};

type Acquire = (contender: number) => Promise<Grant>;

/**
 * A wait lasts from asking to having, also across giving up. Waits that ended in the window count in full, however long
 * before it they began. Waits that are open at its end count with what they had waited by then: they cannot be left out,
 * since the longest are among them, and they cannot count for more than is known.
 */
export async function contend(
  url: string,
  contention: Contention,
  commands: Commands,
  acquire: Acquire,
): Promise<ContentionResult> {
  const { warmUpMs, windowMs } = contention;
  const observer = createClient({ url });
  await observer.connect();
  const crowd = new Crowd(contention, acquire);
  const running = crowd.run();
  // Whatever goes wrong after the window is not measured any more.
  running.catch(() => {});
  try {
    await Promise.race([sleep(warmUpMs), running]);
    await observer.sendCommand(["CONFIG", "RESETSTAT"]);
    crowd.phase = "window";
    const beginMs = performance.now();
    await Promise.race([sleep(windowMs), running]);
    const endMs = performance.now();
    crowd.phase = "over";
    const stats = String(await observer.sendCommand(["INFO", "commandstats"]));
    const acquisitions = crowd.counts.reduce((sum, count) => sum + count, 0);
    const waits = [...crowd.waits, ...crowd.openWaits(endMs)];
    return {
      per_s: (acquisitions / (endMs - beginMs)) * 1_000,
      p50_ms: percentile(waits, 50),
      p95_ms: percentile(waits, 95),
      max_ms: Math.max(...waits),
      jain: jainIndex(crowd.counts),
      commands_per_acquisition: sentCommands(stats, commands) / acquisitions,
    };
  } finally {
    crowd.phase = "over";
    observer.destroy();
  }
}

/** All contenders, and what was seen of them in the window. */
class Crowd {
  phase: "warm_up" | "window" | "over" = "warm_up";
  readonly counts: number[];
  readonly waits: number[] = [];
  readonly #contention: Contention;
  readonly #acquire: Acquire;
  readonly #askedAtMs = new Map<number, number>();
  #holders = 0;

  constructor(contention: Contention, acquire: Acquire) {
    this.#contention = contention;
    this.#acquire = acquire;
    this.counts = new Array<number>(contention.contenders).fill(0);
  }

  async run(): Promise<void> {
    await Promise.all(this.counts.map((_, contender) => this.#repeat(contender)));
  }

  openWaits(atMs: number): readonly number[] {
    return [...this.#askedAtMs.values()].filter((askedMs) => askedMs < atMs).map((askedMs) => atMs - askedMs);
  }

  async #repeat(contender: number): Promise<void> {
    const { workMs, elsewhereMs } = this.#contention;
    while (this.phase !== "over") {
      const askedMs = this.#askedAtMs.get(contender) ?? performance.now();
      this.#askedAtMs.set(contender, askedMs);
      const grant = await this.#acquire(contender);
      if (grant === "gave_up") continue;
      this.#has(contender, performance.now() - askedMs);
      await sleep(workMs);
      this.#holders -= 1;
      await grant.release();
      await sleep(elsewhereMs);
    }
  }

  #has(contender: number, waitedMs: number): void {
    this.#holders += 1;
    if (this.#holders !== 1) throw new Error("two contenders hold the lock");
    this.#askedAtMs.delete(contender);
    if (this.phase !== "window") return;
    this.counts[contender] = (this.counts[contender] ?? 0) + 1;
    this.waits.push(waitedMs);
  }
}

/** 1 when all have the same, 1/n when one has everything. */
export function jainIndex(counts: readonly number[]): number {
  const sum = counts.reduce((total, count) => total + count, 0);
  const squares = counts.reduce((total, count) => total + count * count, 0);
  return squares === 0 ? Number.NaN : (sum * sum) / (counts.length * squares);
}

/** The observer's own, and signs of life. */
const notCounted = ["config|resetstat", "info", "ping"];

/** The server counts what scripts call like what clients send, so the two are told apart by name. */
export function sentCommands(commandStats: string, { sent, insideScripts }: Commands): number {
  let total = 0;
  for (const [, name = "", calls] of commandStats.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
    if (sent.includes(name)) total += Number(calls);
    else if (!insideScripts.includes(name) && !notCounted.includes(name)) {
      throw new Error(`${name} was called ${calls} times, and nobody knows by whom`);
    }
  }
  return total;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
