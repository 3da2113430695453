// The runs that hold a tenant's slots: ended one by one at a steady pace, so that there is something to get for those who ask again.
import { type Client, createClient } from "../../sdk/client.ts";
import { runtime } from "../../sdk/runtime.ts";
import { mostAtOnce } from "./times.ts";

export type SlotsOptions = {
  readonly url: string;
  readonly adminKey: string;
  nowMs(): number;
};

export class Slots {
  readonly #options: SlotsOptions;
  /** With retries: the drill's own calls must get through in the middle of the crowd. */
  readonly #admin: Client;
  /** Oldest first. */
  readonly #held: Array<{ readonly runId: string; readonly sinceMs: number }> = [];
  readonly #spans: Array<readonly [fromMs: number, toMs: number]> = [];
  readonly #stopped = new AbortController();

  constructor(options: SlotsOptions) {
    const { url, adminKey } = options;
    this.#options = options;
    this.#admin = createClient({ url, apiKey: adminKey });
  }

  taken(runId: string): void {
    this.#held.push({ runId, sinceMs: this.#options.nowMs() });
  }

  /** At multiples of the time, whatever ending a run takes: the pace is the same for every variant. */
  async freeEvery(everyMs: number): Promise<void> {
    const { nowMs } = this.#options;
    const { signal } = this.#stopped;
    for (let dueMs = nowMs() + everyMs; ; dueMs += everyMs) {
      await runtime.sleep(Math.max(0, dueMs - nowMs()), signal);
      if (signal.aborted) return;
      await this.#freeOldest();
    }
  }

  stop(): void {
    this.#stopped.abort();
  }

  /** Runs that are still held count as active until now. */
  atOnceMost(): number {
    const nowMs = this.#options.nowMs();
    return mostAtOnce([...this.#spans, ...this.#held.map(({ sinceMs }) => [sinceMs, nowMs] as const)]);
  }

  async #freeOldest(): Promise<void> {
    const oldest = this.#held.shift();
    if (oldest === undefined) return;
    this.#spans.push([oldest.sinceMs, this.#options.nowMs()]);
    await this.#admin.runs.cancel(oldest.runId);
  }
}
