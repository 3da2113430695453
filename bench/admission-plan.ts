// What the admission benchmark measures, in which order, and how: bursts, sustained load, and the floors beside it.
import type { StartAnswer } from "../src/control/admission/start-run.ts";
import type { ControlPlane } from "../src/control-plane.ts";
import type { TenantId } from "../src/domain/tenant.ts";
import type { Store } from "../src/ports/store.ts";
import { fsyncMs, type RedisFloor, redisFloor, type SqliteFloor, sqliteRowFloor } from "./floors.ts";
import { burst, type ClosedLoop, closedLoop } from "./load.ts";
import type { Measurement } from "./slices.ts";
import { freshTenants, startRequest } from "./start-requests.ts";
import { percentile } from "./statistics.ts";
import { type StoreKind, type Strategy, storeKinds, strategies, type Target } from "./targets.ts";

/** What every round opens anew. */
export type AdmissionRound = Readonly<Record<StoreKind, Target>> & {
  readonly redisFloor: RedisFloor;
  readonly sqliteFloor: SqliteFloor;
};

export type Scale = {
  readonly burstSizes: readonly number[];
  readonly slices: number;
  /** The lock strategies are the baseline: slow to measure, and far from every bar. */
  readonly lockSlices: number;
  readonly sustainedMs: number;
};

export const scales: Readonly<Record<"warmUp" | "quick" | "full", Scale>> = {
  warmUp: { burstSizes: [20], slices: 1, lockSlices: 1, sustainedMs: 100 },
  quick: { burstSizes: [100, 1000], slices: 3, lockSlices: 1, sustainedMs: 300 },
  full: { burstSizes: [100, 1000], slices: 5, lockSlices: 5, sustainedMs: 1000 },
};

export const limits = ["2", "none"] as const;
export type Limit = (typeof limits)[number];
export const tenantCounts = [1, 1000] as const;
export const inFlight = 100;

export function tenantsInWords(count: number): string {
  return count === 1 ? "1 tenant" : `${count} tenants`;
}

type Cell = { readonly kind: StoreKind; readonly strategy: Strategy };

export const burstName = ({ kind, strategy }: Cell, size: number, limit: Limit) =>
  `admission.${kind}.${strategy}.n${size}.limit${limit}`;
export const sustainedName = ({ kind, strategy }: Cell, tenants: number) =>
  `admission.${kind}.${strategy}.sustained.tenants${tenants}`;

/** Sustained load stands right after the floor that it is compared with, so that both meet the same machine. */
export function admissionPlan(scale: Scale): ReadonlyArray<Measurement<AdmissionRound>> {
  const bursts = scale.burstSizes.flatMap((size) =>
    limits.flatMap((limit) => cells(storeKinds).map((cell) => burstMeasurement(scale, cell, size, limit))),
  );
  const sustained = (kind: StoreKind) =>
    cells([kind]).flatMap((cell) =>
      tenantCounts.map((tenants) => sustainedMeasurement(scale, cell, tenants)),
    );
  return [
    ...bursts,
    ...redisFloorMeasurements(scale),
    ...sustained("redis"),
    ...sqliteFloorMeasurements(scale),
    ...sustained("sqlite"),
  ];
}

function cells(kinds: readonly StoreKind[]): readonly Cell[] {
  // Atomic first: it is the one that the floors, measured just before, are for.
  return kinds.flatMap((kind) => [...strategies].reverse().map((strategy) => ({ kind, strategy })));
}

function slicesOf(scale: Scale, { strategy }: Cell): number {
  return strategy === "atomic" ? scale.slices : scale.lockSlices;
}

function burstMeasurement(scale: Scale, cell: Cell, size: number, limit: Limit): Measurement<AdmissionRound> {
  return {
    name: burstName(cell, size, limit),
    slices: slicesOf(scale, cell),
    fields: {
      p50_ms: { unit: "ms", over: "median" },
      p95_ms: { unit: "ms", over: "median" },
      p99_ms: { unit: "ms", over: "median" },
      share_503: { unit: "fraction", over: "mean" },
      admitted: { unit: "runs", over: "median" },
      commands_per_decision: { unit: cell.kind === "redis" ? "commands" : "calls", over: "mean" },
      loop_busy_share: { unit: "fraction", over: "median" },
    },
    async measure(round) {
      const target = round[cell.kind];
      const [tenant] = freshTenants(1) as [TenantId];
      await target.clear();
      if (limit !== "none") await setLimit(target.store, tenant, Number(limit));
      const requests = Array.from({ length: size }, () => startRequest(tenant));
      const plane = target.planes[cell.strategy];
      const { result, commands } = await target.countCommands(() =>
        burst(requests, (request) => plane.startRun(request)),
      );
      const times = result.answers.map(({ ms }) => ms);
      const answers = result.answers.map(({ answer }) => answer);
      return {
        p50_ms: percentile(times, 50),
        p95_ms: percentile(times, 95),
        p99_ms: percentile(times, 99),
        ...judge(answers, limit),
        commands_per_decision: commands / size,
        loop_busy_share: result.loopBusyShare,
      };
    },
  };
}

/** The cache of tenant settings is cold: a burst on a tenant that this process has not served in the last seconds. */
async function setLimit(store: Store, tenant: TenantId, maxConcurrentRuns: number): Promise<void> {
  const change = { expectedVersion: 0, changeId: "limit", actor: "bench" };
  const answer = await store.setTenant(
    { tenant, settings: { maxConcurrentRuns }, ...change },
    { deadlineMs: 5_000 },
  );
  if (answer.kind !== "saved") throw new Error(`the limit of ${tenant} was not set: ${answer.kind}`);
}

/** A wrong decision makes every time meaningless, so it ends the benchmark whatever the median of the slices would say. */
function judge(answers: readonly StartAnswer[], limit: Limit) {
  const admitted = answers.filter(({ kind }) => kind === "admitted").length;
  if (limit !== "none" && admitted > Number(limit)) {
    throw new Error(`${admitted} runs were admitted although the limit is ${limit}`);
  }
  const expected: ReadonlyArray<StartAnswer["kind"]> = [
    "admitted",
    "max_concurrent_runs_reached",
    "concurrency_gate_unavailable",
    "outcome_unknown",
  ];
  const strange = answers.find(({ kind }) => !expected.includes(kind));
  if (strange !== undefined) throw new Error(`a start with a fresh key was answered ${strange.kind}`);
  const refused = answers.filter(
    (answer) => answer.kind === "concurrency_gate_unavailable" || answer.kind === "outcome_unknown",
  ).length;
  return { admitted, share_503: refused / answers.length };
}

function sustainedMeasurement(scale: Scale, cell: Cell, tenantCount: number): Measurement<AdmissionRound> {
  return {
    name: sustainedName(cell, tenantCount),
    slices: slicesOf(scale, cell),
    fields: { per_s: { unit: "per second", over: "median" } },
    async measure(round) {
      const target = round[cell.kind];
      const tenants = freshTenants(tenantCount);
      await target.clear();
      return { per_s: await sustain(target.planes[cell.strategy], tenants, load(scale)) };
    },
  };
}

/** Starts only, on tenants without a limit, one after the other; admitted runs per second. */
function sustain(plane: ControlPlane, tenants: readonly TenantId[], under: ClosedLoop): Promise<number> {
  let next = 0;
  return closedLoop(under, async (signal) => {
    const tenant = tenants[next % tenants.length] as TenantId;
    next += 1;
    const answer = await plane.startRun(startRequest(tenant), signal);
    return answer.kind === "admitted" ? "succeeded" : "failed";
  });
}

function load({ sustainedMs }: Scale): ClosedLoop {
  return { inFlight, durationMs: sustainedMs };
}

const perSecond = { per_s: { unit: "per second", over: "median" } } as const;

/** The first is the bare script call, which the bar is about; the second has the flow of a start around it, for information. */
function redisFloorMeasurements(scale: Scale): ReadonlyArray<Measurement<AdmissionRound>> {
  const { slices } = scale;
  return [
    {
      name: "floor.redis.evalsha",
      slices,
      fields: perSecond,
      async measure(round) {
        await round.redis.clear();
        return { per_s: await redisFloor(round.redisFloor.store, load(scale)) };
      },
    },
    {
      name: "floor.redis.start",
      slices,
      fields: perSecond,
      async measure(round) {
        await round.redis.clear();
        return { per_s: await sustain(round.redisFloor.plane, freshTenants(1), load(scale)) };
      },
    },
  ];
}

const fsyncsPerSlice = 50;

/** The first is the same start, one at a time, so that each has a commit of its own; the second writes one bare row per commit. */
function sqliteFloorMeasurements(scale: Scale): ReadonlyArray<Measurement<AdmissionRound>> {
  const { slices, sustainedMs } = scale;
  return [
    {
      name: "floor.sqlite",
      slices,
      fields: { fsync_ms: { unit: "ms", over: "median" } },
      measure: async (round) => ({ fsync_ms: fsyncMs(round.sqliteFloor, fsyncsPerSlice) }),
    },
    {
      name: "floor.sqlite.commit",
      slices,
      fields: perSecond,
      async measure(round) {
        const oneByOne = { inFlight: 1, durationMs: sustainedMs };
        return { per_s: await sustain(round.sqlite.planes.atomic, freshTenants(1), oneByOne) };
      },
    },
    {
      name: "floor.sqlite.row",
      slices,
      fields: { ...perSecond, p50_ms: { unit: "ms", over: "median" } },
      async measure(round) {
        const { perSecond: rows, medianMs } = sqliteRowFloor(round.sqliteFloor, sustainedMs);
        return { per_s: rows, p50_ms: medianMs };
      },
    },
  ];
}
