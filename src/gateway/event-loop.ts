// Watches the event loop of this process: how late it is, what blocked it, and whose requests are shed when it is late.
import type { Config } from "../config.ts";
import type { Computing, Piece } from "../control/computing.ts";
import type { TenantId } from "../domain/tenant.ts";
import type { CancelTimer, Ports } from "../ports/ports.ts";

type EventLoop = {
  /** Looks from now on. */
  watch(): void;
  stop(): void;
  /** Whether a tenant's requests are to be refused: the loop is late, and this tenant has used at least its share of it. */
  sheds(tenant: TenantId): boolean;
};

type Dependencies = {
  readonly ports: Pick<Ports, "clock" | "metrics" | "log">;
  readonly config: Config;
  readonly computing: Computing;
};

/** A timer is due so often; fifty a second cost 0.02 % of a core. */
const tickMs = 20;
/** Shorter blocks are the loop's daily work. */
const noticedMs = 25;
/** The average forgets within about this time. */
const averageMs = 1_000;
/** One line tells what there is to know; a flood of them would block the loop once more. */
const logEveryMs = 10_000;

export function createEventLoop({ ports, config, computing }: Dependencies): EventLoop {
  const { clock, metrics, log } = ports;
  const blockMs = config["gateway.eventLoopBlockMs"];
  const delayMs = config["gateway.eventLoopDelayMs"];
  let cancel: CancelTimer | undefined;
  let tickedMs = 0;
  let lateMs = 0;
  let logAgainMs = 0;
  let unlogged = 0;

  const tick = () => {
    const nowMs = clock.monotonicMs();
    const elapsedMs = nowMs - tickedMs;
    const lateNowMs = Math.max(0, elapsedMs - tickMs);
    const kept = Math.exp(-elapsedMs / averageMs);
    lateMs = lateMs * kept + lateNowMs * (1 - kept);
    const longest = computing.takeLongest();
    // A piece that took less than half of it was not what the others waited for.
    const isKnown = longest !== undefined && longest.ms >= lateNowMs / 2;
    const block = isKnown ? longest : { what: "other", tenant: undefined, ms: lateNowMs };
    if (lateNowMs >= noticedMs) tell(block, nowMs);
    tickedMs = nowMs;
    cancel = clock.timer(tickMs, tick);
  };
  const tell = ({ what, tenant, ms }: Piece, nowMs: number) => {
    metrics.observe("event_loop_block_seconds", { operation: what }, ms / 1_000);
    if (ms < blockMs) return;
    metrics.count("event_loop_blocks_total", {});
    if (nowMs < logAgainMs) {
      unlogged += 1;
      return;
    }
    log.warn("the event loop was blocked", {
      operation: what,
      tenant,
      ms: Math.round(ms),
      ...(unlogged === 0 ? {} : { others: unlogged }),
    });
    logAgainMs = nowMs + logEveryMs;
    unlogged = 0;
  };
  return {
    watch() {
      if (cancel !== undefined) return;
      tickedMs = clock.monotonicMs();
      cancel = clock.timer(tickMs, tick);
    },
    stop() {
      cancel?.();
      cancel = undefined;
    },
    sheds: (tenant) => lateMs > delayMs && computing.isAboveShare(tenant),
  };
}
