// The workers that any process has seen lately: processes announce them to each other every few seconds.
import type { TenantId } from "../../domain/tenant.ts";
import type { Consumer } from "../../ports/bus.ts";
import type { WorkerInfo } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import type { Workers } from "./workers.ts";

export type WorkerViews = { list(tenant: TenantId): readonly WorkerInfo[] };

export type SharedWorkers = { readonly views: WorkerViews; start(): Consumer };

const announceEveryMs = 5_000;

/** An announcement counts for three intervals. */
const keepMs = 3 * announceEveryMs;

/** Of one announcement, about 100 KiB. */
const workersPerMessage = 200;

type Announcement = { readonly instance: string; readonly workers: readonly WorkerInfo[] };
type Heard = { readonly info: WorkerInfo; readonly atMs: number };

export function shareWorkers({ ports, bus }: Pick<Engine, "ports" | "bus">, workers: Workers): SharedWorkers {
  const { clock, instance } = ports;
  /** By the announcing process, the tenant and the worker. */
  const heard = new Map<string, Heard>();

  function forgetOld(): void {
    const nowMs = clock.monotonicMs();
    for (const [key, { atMs }] of heard) if (nowMs - atMs >= keepMs) heard.delete(key);
  }

  function announce(): void {
    const all = workers.list();
    for (let first = 0; first < all.length; first += workersPerMessage) {
      const announcement: Announcement = { instance, workers: all.slice(first, first + workersPerMessage) };
      bus.announce("workers", JSON.stringify(announcement));
    }
  }

  function hear(body: string): void {
    const { instance: sender, workers: seen } = JSON.parse(body) as Announcement;
    const atMs = clock.monotonicMs();
    for (const info of seen) heard.set(JSON.stringify([sender, info.tenant, info.worker]), { info, atMs });
  }

  return {
    views: {
      list(tenant) {
        forgetOld();
        const nowMs = clock.monotonicMs();
        const elsewhere = [...heard.values()]
          .filter(({ info }) => info.tenant === tenant)
          .map(({ info, atMs }) => ({ ...info, lastSeenMsAgo: info.lastSeenMsAgo + nowMs - atMs }));
        return mergeByWorker([...workers.list(tenant), ...elsewhere]);
      },
    },
    start() {
      const stopped = new AbortController();
      const listening = bus.listen("workers", hear);
      const telling = (async () => {
        while (!stopped.signal.aborted) {
          await clock.sleep(announceEveryMs, stopped.signal);
          forgetOld();
          announce();
        }
      })();
      return {
        async stop() {
          stopped.abort();
          await listening.stop();
          await telling;
        },
      };
    },
  };
}

/** One worker may speak to several processes: the one it spoke to last knows it best, and each counts what it knows of. */
function mergeByWorker(seen: readonly WorkerInfo[]): readonly WorkerInfo[] {
  const merged = new Map<string, WorkerInfo>();
  for (const info of seen) {
    const other = merged.get(info.worker);
    const [latest, earlier] =
      other === undefined || info.lastSeenMsAgo <= other.lastSeenMsAgo ? [info, other] : [other, info];
    const running = Math.max(latest.running, earlier?.running ?? 0);
    const jobs = latest.jobs.length > 0 ? latest.jobs : (earlier?.jobs ?? []);
    merged.set(info.worker, { ...latest, running, jobs });
  }
  return [...merged.values()];
}
