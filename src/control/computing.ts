// Who computed on the main thread, and for how long: it is the one thing that all tenants of a process share.
import type { TenantId } from "../domain/tenant.ts";
import type { Clock } from "../ports/ports.ts";

/** Work that held up everything else while it ran. */
export type Piece = { readonly what: string; readonly tenant: TenantId | undefined; readonly ms: number };

export type Computing = {
  /** Does the work and notes how long its part before the first `await` took. Work inside it counts as its own. */
  time<Value>(what: string, tenant: TenantId | undefined, work: () => Value): Value;
  /** The time now, for the `end` of a piece that is not interrupted; cheaper than a function for every piece. */
  begin(): number;
  end(what: string, tenant: TenantId | undefined, startedMs: number): void;
  /** For work in slices: each of them is noted as a piece, the last when `end` is called. */
  paced(what: string, tenant: TenantId | undefined): Pace;
  /** The longest piece since this was asked last. */
  takeLongest(): Piece | undefined;
  /** Whether a tenant has lately computed at least as much as the average of those that did, and all of them enough to matter. */
  isAboveShare(tenant: TenantId): boolean;
};

type Pace = Pick<Clock, "yield"> & { end(): void };

/** What happened in the last one to two of these counts as lately. */
const windowMs = 5_000;
/** More tenants than that in one window are counted as one: the memory that a flood of them takes is bounded. */
const tenantsMax = 10_000;

/** When tenants took less of the time than this, something else made the process late: refusing them would not help. */
const shareThatMatters = 0.1;

type Use = { ms: number };
type Window = { readonly beganMs: number; totalMs: number; readonly byTenant: Map<TenantId, Use> };

export function createComputing(clock: Pick<Clock, "monotonicMs" | "yield">): Computing {
  let isTiming = false;
  let longest: Piece | undefined;
  let current = windowFrom(clock.monotonicMs());
  let previous = current;

  const turn = (nowMs: number) => {
    const ageMs = nowMs - current.beganMs;
    if (ageMs < windowMs) return;
    const next = windowFrom(nowMs);
    previous = ageMs < 2 * windowMs ? current : next;
    current = next;
  };
  const note = (what: string, tenant: TenantId | undefined, ms: number, nowMs: number) => {
    if (ms > (longest?.ms ?? 0)) longest = { what, tenant, ms };
    if (tenant === undefined) return;
    turn(nowMs);
    const use = current.byTenant.get(tenant) ?? added(current, tenant);
    if (use === undefined) return;
    use.ms += ms;
    current.totalMs += ms;
  };
  return {
    time(what, tenant, work) {
      if (isTiming) return work();
      isTiming = true;
      const startedMs = clock.monotonicMs();
      try {
        return work();
      } finally {
        isTiming = false;
        const nowMs = clock.monotonicMs();
        note(what, tenant, nowMs - startedMs, nowMs);
      }
    },
    begin: () => clock.monotonicMs(),
    end(what, tenant, startedMs) {
      const nowMs = clock.monotonicMs();
      note(what, tenant, nowMs - startedMs, nowMs);
    },
    paced(what, tenant) {
      let startedMs = clock.monotonicMs();
      const end = () => {
        const nowMs = clock.monotonicMs();
        note(what, tenant, nowMs - startedMs, nowMs);
      };
      const goOn = () => {
        startedMs = clock.monotonicMs();
      };
      return {
        end,
        yield() {
          end();
          return clock.yield().then(goOn);
        },
      };
    },
    takeLongest() {
      const taken = longest;
      longest = undefined;
      return taken;
    },
    isAboveShare(tenant) {
      const nowMs = clock.monotonicMs();
      turn(nowMs);
      const windows = previous === current ? [current] : [previous, current];
      const sum = (of: (window: Window) => number) => windows.reduce((total, each) => total + of(each), 0);
      const totalMs = sum((window) => window.totalMs);
      const usedMs = sum(({ byTenant }) => byTenant.get(tenant)?.ms ?? 0);
      const tenants = new Set(windows.flatMap(({ byTenant }) => [...byTenant.keys()])).size;
      const matters = totalMs >= shareThatMatters * (nowMs - previous.beganMs);
      // A sum of fractions is not exact: a single tenant has used all of it.
      return usedMs > 0 && matters && usedMs * tenants * 1.000_001 >= totalMs;
    },
  };
}

const windowFrom = (beganMs: number): Window => ({ beganMs, totalMs: 0, byTenant: new Map() });

function added({ byTenant }: Window, tenant: TenantId): Use | undefined {
  if (byTenant.size >= tenantsMax) return undefined;
  const use = { ms: 0 };
  byTenant.set(tenant, use);
  return use;
}
