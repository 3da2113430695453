// Drill: everything that ends a lock goes wrong at once, first in one client, then in a process that is paused behind a slow network.

import { fenceHeaders } from "../../sdk/fence.ts";
import { runtime } from "../../sdk/runtime.ts";
import { type Check, check, type Drill, type Outcome, type Plot, type Size, type Stage } from "../drill.ts";
import { quantile } from "../load/times.ts";
import {
  asked,
  describeOutcome,
  holdWithoutRenewals,
  isNotOwned,
  openFencedSink,
  type SinkWrite,
  writeTo,
} from "../locks/public-locks.ts";
import type { DrillTenant, Target } from "../target/target.ts";
import { type PauseResult, pauseHolder } from "./paused-holder.ts";

export const stagedFailure: Drill = {
  name: "staged-failure",
  question:
    "When a ttl runs out, renewals fail, a process stands still and the network is slow, all at once, do locks still exclude?",
  expectation:
    "At every stage the new owner keeps its lock; what the old owner renews, releases and writes is refused, and the resource accepts writes in the order of their fences.",
  steps: [
    "an owner whose renewals fail: its lock expires, another takes it, and the old owner renews, releases and writes",
    "a process behind a slow network holds a lock and writes; it is stopped (SIGSTOP) past the ttl",
    "another owner takes the lock and writes",
    "the process goes on (SIGCONT) with a write that it had ready; it renews, releases and writes once more",
    "who holds the lock, what was accepted and what was counted",
  ],
  locks: ["public"],
  instance: { kind: "processes", redis: "single" },
  run: runStagedFailure,
};

type Numbers = { readonly ttlMs: number; readonly pausedTtlMs: number; readonly delayMs: number };

/** A renewal has an eighth of the ttl for its way there and back. */
const numbersOf: Readonly<Record<Size, Numbers>> = {
  quick: { ttlMs: 1_500, pausedTtlMs: 2_400, delayMs: 100 },
  full: { ttlMs: 10_000, pausedTtlMs: 20_000, delayMs: 400 },
};

async function runStagedFailure(stage: Stage): Promise<Outcome> {
  const { target, size } = stage;
  const { ttlMs, pausedTtlMs, delayMs } = numbersOf[size];
  const tenant = await target.createTenant();
  const startedMs = runtime.now().monotonicMs;
  const before = await countNotOwned(target);
  stage.progress(`an owner whose renewals fail, and a process behind a network of ${delayMs} ms each way`);
  // At the same time, with locks of their own; both are waited for whatever happens, so that no process is left.
  const [three, paused] = await Promise.allSettled([
    failThreeWays(stage, { tenant, ttlMs, startedMs }),
    pauseHolder(stage, { tenant, ttlMs: pausedTtlMs, delayMs, startedMs }),
  ]);
  if (three.status === "rejected") throw three.reason;
  if (paused.status === "rejected") throw paused.reason;
  const refused = (await countNotOwned(target)) - before;
  return outcomeOf({ three: three.value, paused: paused.value, refused, numbers: numbersOf[size] });
}

async function countNotOwned(target: Target): Promise<number> {
  return (await target.readMetrics()).sum("lock_not_owned_total", { lock: "public" });
}

type Seen = {
  readonly three: StageResult;
  readonly paused: PauseResult;
  readonly refused: number;
  readonly numbers: Numbers;
};

function outcomeOf({ three, paused, refused, numbers }: Seen): Outcome {
  const { networkMs, pausedFromMs, pausedToMs } = paused;
  const named = (stage: string, checks: readonly Check[]) =>
    checks.map((one) => ({ ...one, what: `${stage}: ${one.what}` }));
  return {
    checks: [
      ...named("one client", three.checks),
      ...named("paused process", paused.checks),
      check(
        'lock_not_owned_total{lock="public"}',
        // A renewal of the SDK's own may leave the paused process as it goes on, before it knows.
        "up by 4 or more",
        `up by ${refused}`,
        refused >= 4,
      ),
    ],
    tables: [
      {
        title: "the paused process",
        columns: ["paused for ms", "its ttl ms", "requests over the slow network", "p50 ms", "p95 ms"],
        rows: [
          [
            Math.round(pausedToMs - pausedFromMs),
            numbers.pausedTtlMs,
            networkMs.length,
            Math.round(quantile(networkMs, 0.5) ?? 0),
            Math.round(quantile(networkMs, 0.95) ?? 0),
          ],
        ],
      },
      {
        title: "what the resource was asked to write",
        columns: ["at ms", "by", "fence", "accepted"],
        rows: paused.writes.map(({ atMs, by, fence, accepted }) => [
          Math.round(atMs),
          by,
          fence,
          accepted ? "yes" : "no",
        ]),
      },
    ],
    plots: [writesOf(paused)],
    data: { ...numbers, refusedCounted: refused, three: { writes: three.writes }, paused },
  };
}

function writesOf({ writes, pausedFromMs, pausedToMs }: PauseResult): Plot {
  const dots = (fits: (write: SinkWrite) => boolean, height: number) =>
    writes.filter(fits).map(({ atMs }) => [atMs, height] as const);
  return {
    title: "Writes of the paused process and of the new owner",
    kind: "dots",
    x: "ms since the drill began",
    y: "1 is the paused process, 2 the new owner",
    series: [
      { name: "paused: accepted", points: dots(({ by, accepted }) => by === "paused-owner" && accepted, 1) },
      { name: "paused: refused", points: dots(({ by, accepted }) => by === "paused-owner" && !accepted, 1) },
      { name: "new owner: accepted", points: dots(({ by, accepted }) => by === "new-owner" && accepted, 2) },
      {
        name: "the pause begins and ends",
        points: [
          [pausedFromMs, 1.5],
          [pausedToMs, 1.5],
        ],
      },
    ],
    note: "Nothing of the paused process is accepted after the pause.",
  };
}

type StageResult = { readonly checks: readonly Check[]; readonly writes: readonly SinkWrite[] };

const [oldOwner, newOwner] = ["old-owner", "new-owner"];

/** At least so long the new owner has the lock: everything is looked at while it does. */
const newTtlMs = 30_000;

async function failThreeWays(
  { target, signal }: Stage,
  {
    tenant,
    ttlMs,
    startedMs,
  }: { readonly tenant: DrillTenant; readonly ttlMs: number; readonly startedMs: number },
): Promise<StageResult> {
  const resource = "drill/staged-failure/three";
  const sink = await openFencedSink(startedMs);
  const other = tenant.clientAt(target.urls.at(-1) ?? tenant.client.url);
  try {
    const askedMs = runtime.now().monotonicMs;
    const old = await holdWithoutRenewals(tenant, { resource, owner: oldOwner, ttlMs, signal });
    const accepted = await writeTo(sink.url, oldOwner, fenceHeaders({ resource, fence: old.fence }));
    const next = await other.locks.acquire({
      ...{ resource, owner: newOwner, ttl_ms: newTtlMs, wait_ms: Math.min(60_000, 3 * ttlMs) },
    });
    const takenMs = runtime.now().monotonicMs - askedMs;
    const stoppedMs = (await old.lostMs) - askedMs;
    const taken = await writeTo(sink.url, newOwner, fenceHeaders({ resource, fence: next.fence }));
    const renewed = await asked(tenant.client.locks.renew({ resource, token: old.token, ttl_ms: ttlMs }));
    const released = await asked(tenant.client.locks.release({ resource, token: old.token }));
    const late = await writeTo(sink.url, oldOwner, fenceHeaders({ resource, fence: old.fence }));
    const held = await asked(other.locks.get(resource));
    const holder = held.kind === "answered" ? held.value.owner : undefined;
    const given = await asked(other.locks.release({ resource, token: next.token }));
    const checks = [
      check(
        "renew failure: the owner is told to stop before the lock can be another's",
        `before ${ttlMs} ms`,
        `after ${Math.round(stoppedMs)} ms, ${old.renewalsFailed()} renewals failed`,
        stoppedMs < ttlMs && old.renewalsFailed() > 0,
      ),
      check(
        "ttl expiry: the next owner gets the lock, with a higher fence",
        `after ${ttlMs} ms, above ${old.fence}`,
        `after ${Math.round(takenMs)} ms, ${next.fence}`,
        takenMs >= ttlMs && next.fence > old.fence,
      ),
      check("stale renew", "409 lock not owned", describeOutcome(renewed, "renewed"), isNotOwned(renewed)),
      check(
        "stale release",
        "409 lock not owned",
        describeOutcome(released, "released"),
        isNotOwned(released),
      ),
      check(
        "writes: old owner, new owner, old owner again",
        "204, 204, 412",
        [accepted, taken, late].join(", "),
        accepted === 204 && taken === 204 && late === 412,
      ),
      check(
        "the new owner holds the lock throughout, and gives it back",
        `${newOwner}, released`,
        `${holder ?? "nobody"}, ${describeOutcome(given, "released")}`,
        holder === newOwner && given.kind === "answered",
      ),
    ];
    return { checks, writes: sink.writes };
  } finally {
    await sink.close();
  }
}
