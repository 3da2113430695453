// The demonstration: a burst of starts, an idempotent replay and a lost lease being fenced, told to a newcomer.
import { type StartAnswer, startErrorCode, startHttpStatus } from "../control/admission/start-answer.ts";
import type { LeaseTerms } from "../control/locks/lease-terms.ts";
import { withLease } from "../control/locks/with-lease.ts";
import type { ControlPlane } from "../control-plane.ts";
import { type FingerprintedRequest, fingerprintOf } from "../domain/fingerprint.ts";
import type { Guard } from "../domain/lock.ts";
import type { RunId } from "../domain/run.ts";
import type { TenantId } from "../domain/tenant.ts";
import { errors, InterlockError } from "../errors.ts";

/** Where the story is told, line by line. */
export type Say = (line: string) => void;

const tenant = "acme" as TenantId;
const call = { deadlineMs: 5_000 };

/** Tells the whole story; throws when anything did not happen as it is told. */
export async function demonstrate(plane: ControlPlane, say: Say): Promise<void> {
  const { admitted, refused } = await burst(plane, say);
  await replay(plane, say, admitted[0], refused);
  await lostLease(plane, say, admitted[1]);
  await summary(plane, say);
}

/** Two runs that were admitted, and the number of a start that was not. */
type Burst = { readonly admitted: readonly [Started, Started]; readonly refused: number };
type Started = { readonly runId: RunId; readonly order: number };

async function burst(plane: ControlPlane, say: Say): Promise<Burst> {
  say("1. A burst of starts on one tenant");
  say(
    "   Tenant acme may have 2 runs at once (max_concurrent_runs = 2). Ten starts arrive at the same moment:",
  );
  await setLimit(plane, 2);
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, order) => start(plane, `order-${order}`, order)),
  );
  for (const [index, answer] of answers.entries()) say(`     start ${index}  ${describe(answer)}`);
  const admitted = answers.flatMap((answer, order) =>
    answer.kind === "admitted" ? [{ runId: answer.runId, order }] : [],
  );
  const refused = answers.flatMap((answer, order) => (answer.kind === "limit_reached" ? [order] : []));
  const [first, second] = admitted;
  must(admitted.length === 2 && refused.length === 8, "exactly 2 of 10 are admitted");
  say("   Exactly 2 were admitted, 8 were told to come back, and none of their keys is used up.");
  say("");
  return { admitted: [first as Started, second as Started], refused: refused[0] as number };
}

async function replay(plane: ControlPlane, say: Say, first: Started, refused: number): Promise<void> {
  say("2. A retry that must not start a second run");
  const { runId, order } = first;
  say(`   The client of ${runId} never saw its answer and sends the same request with the same key again:`);
  const again = await start(plane, `order-${order}`, order);
  say(`     same key, same request    ${describe(again)}`);
  must(again.kind === "replayed" && again.runId === runId, "the replay names the first run");
  const other = await start(plane, `order-${order}`, 999);
  say(`     same key, other request   ${describe(other)}`);
  must(other.kind === "key_reused", "another request with the same key is refused");
  const ended = await plane.endRun({
    tenant,
    runId,
    status: "succeeded",
    actor: "demo",
    risk: "standard",
  });
  must(ended.kind === "ended", "the run ends");
  say(
    `   ${runId} ends, which frees its slot in the same operation. Start ${refused} tries again with its own key:`,
  );
  const later = await start(plane, `order-${refused}`, refused);
  say(`     after a slot was freed    ${describe(later)}`);
  must(later.kind === "admitted", "the freed slot is given to the next start");
  say("");
}

/** A second without renewal: long enough to read, short enough to watch it run out. */
const shortTerms: LeaseTerms = {
  ttlMs: 1_000,
  waitMs: 2_000,
  wait: "jitter",
  poll: { kind: "around", baseMs: 50, jitterFraction: 0.3 },
  callTimeoutMs: 125,
  releaseTimeoutMs: 1_000,
  rule: { policy: "fence", failuresMax: 1 },
};

async function lostLease(plane: ControlPlane, say: Say, { runId }: Started): Promise<void> {
  say("3. A worker that loses its lease while it is paused");
  const { ports } = plane;
  const lock = { namespace: "run", name: runId } as const;
  const target = { tenant, lock };
  const outcome = await withLease(ports, target, shortTerms, async (first) => {
    const guard: Guard = {
      lock,
      token: first.token,
      fence: first.fence,
      policy: "fence",
      ttlMs: shortTerms.ttlMs,
    };
    say(
      `   A holds the lock of ${runId} for 1 s (fence ${first.fence}) and is paused, as by a long garbage collection.`,
    );
    const taken = await withLease(ports, target, shortTerms, async (second) => {
      say(`   The lock runs out and B takes it (fence ${second.fence}). A wakes up and wants to write:`);
      must(
        refuses(() => first.check()),
        "A's own check refuses",
      );
      say("     A asks lease.check()      refused before anything is sent: the lease is over");
      const request = { tenant, guard, runId, status: "failed", actor: "A" } as const;
      const forced = await ports.store.endRun(request, call);
      must(forced.kind === "stale_fence", "the store refuses A's stale write");
      say(`     A writes all the same     refused by the store: stale_fence (${errors.stale_fence.message})`);
      const written = await second.write("endRun", { tenant, runId, status: "succeeded", actor: "B" });
      must(written.kind === "ended", "B ends the run");
      say("     B writes                  accepted: the run has succeeded");
    });
    must(taken.kind === "finished", "B got the lock");
    first.check();
  });
  must(outcome.kind === "abandoned", "A is told that its lease was abandoned");
  say("   A's work ended as `abandoned`, and A did not release the lock that was no longer its own.");
  say("");
}

async function summary(plane: ControlPlane, say: Say): Promise<void> {
  const active = await plane.ports.store.countActive({ tenant }, call);
  const rows = await plane.ports.store.readEvents({ tenant, after: 0, limit: 100 }, call);
  must(active.kind === "counted" && rows.kind === "events", "the store answers");
  if (active.kind !== "counted" || rows.kind !== "events") return;
  say(`Audit trail of acme (${rows.events.length} rows, ${active.active} run still active):`);
  for (const row of rows.events)
    say(`   ${String(row.sequence).padStart(3)}  ${row.type.padEnd(15)} ${row.subject}`);
  say("");
}

function start(plane: ControlPlane, keyText: string, order: number): Promise<StartAnswer> {
  const request: FingerprintedRequest = {
    method: "POST",
    path: "/api/v1/workflows/ship-order/runs",
    query: {},
    body: { order },
  };
  return plane.startRun({
    tenant,
    workflow: "ship-order",
    actor: "demo",
    key: { text: keyText, fingerprint: fingerprintOf(request) },
    records: [{ key: "input/run", body: JSON.stringify(request.body) }],
  });
}

async function setLimit(plane: ControlPlane, maxConcurrentRuns: number): Promise<void> {
  const request = {
    tenant,
    settings: { maxConcurrentRuns },
    expectedVersion: 0,
    changeId: "demo",
    actor: "demo",
  };
  const answer = await plane.ports.store.setTenant(request, call);
  must(answer.kind === "saved", "the limit is set");
}

function describe(answer: StartAnswer): string {
  const status = startHttpStatus(answer);
  const code = startErrorCode(answer);
  switch (answer.kind) {
    case "admitted":
      return `${status} admitted   ${answer.runId}`;
    case "replayed":
      return `${status} replayed   ${answer.runId}`;
    case "limit_reached":
      return `${status} ${errors.max_concurrent_runs_reached.message} (${answer.active} of ${answer.limit}), Retry-After ${answer.retryAfterSeconds} s`;
    case "key_reused":
    case "in_flight":
    case "tenant_stopped":
    case "gate_unavailable":
    case "outcome_unknown":
    case "cancelled":
      return `${status} ${code === undefined ? answer.kind : errors[code].message}`;
  }
}

function refuses(check: () => void): boolean {
  try {
    check();
    return false;
  } catch (error) {
    if (error instanceof InterlockError && error.code === "lock_abandoned") return true;
    throw error;
  }
}

/** The demonstration shows only what really happened: anything else ends it with an error. */
function must(condition: boolean, what: string): void {
  if (!condition) throw new InterlockError("internal", `the demonstration expected that ${what}`);
}
