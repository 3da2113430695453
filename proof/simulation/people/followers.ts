// A client that follows a tenant's events by number, from gateway to gateway: every row once and in order (INV-17).

import { orderedNumber } from "../../../src/adapters/operations/records.ts";
import type { Feed } from "../../../src/control/events/feed.ts";
import type { EventRow } from "../../../src/domain/audit.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { SimulatedProcess } from "../../../src/testing/simulated-process.ts";
import type { EngineNode } from "../engine-node.ts";
import { mustHold } from "../invariants/violation.ts";
import type { World } from "../world.ts";
import { callRemotely } from "./remote-call.ts";

/** A client that hears nothing for so long connects anew. */
const silenceMs = 1_200;
/** After the faults a row is seen by then: a poll, a reconnection, and what a paused gateway takes. */
const caughtUpWithinMs = 20_000;

type Follower = {
  readonly world: World;
  readonly process: SimulatedProcess;
  readonly random: SeededRandom;
  readonly tenant: TenantId;
  /** The last row that it has. */
  position: number;
};

/** Until the time of faults is over and it has everything. */
export async function runFollower(world: World, process: SimulatedProcess): Promise<void> {
  const random = process.random.stream("follows");
  const follower: Follower = { world, process, random, tenant: random.pick(world.tenants), position: 0 };
  const isDone = () => world.peace.begun && follower.position === lastOf(follower);
  let peaceMs: number | undefined;
  while (!isDone()) {
    if (world.peace.begun) peaceMs ??= world.kernel.nowMs();
    mustHold(
      peaceMs === undefined || world.kernel.nowMs() - peaceMs < caughtUpWithinMs,
      "INV-17",
      () =>
        `${process.name} has row ${follower.position} of ${follower.tenant}, and there are ${lastOf(follower)}`,
    );
    await process.clock.sleep(random.integer(1, 100));
    const gateway = random.pick(world.gateways);
    if (random.chance(0.3)) await readPage(follower, gateway);
    else await followFor(follower, gateway, isDone);
  }
}

/** By pages: what the list of events gives. */
async function readPage(follower: Follower, gateway: EngineNode): Promise<void> {
  const { world, process, tenant, position } = follower;
  const page = { after: position, limit: 20 };
  const answer = await callRemotely(world, process, gateway, silenceMs, () =>
    gateway.api.readEvents({ tenant, ...page }),
  );
  if (answer.kind !== "events") return;
  const [oldest] = answer.events;
  if (answer.last < position) reset(follower, answer.first, "ahead");
  if (oldest !== undefined && oldest.sequence > position + 1) reset(follower, oldest.sequence, "trimmed");
  take(follower, answer.events);
}

/** By a stream, for a while; a connection may break at any time, and what was on its way is asked for again. */
async function followFor(follower: Follower, gateway: EngineNode, isDone: () => boolean): Promise<void> {
  const { world, process, random, tenant, position } = follower;
  const start = { kind: "after", number: position } as const;
  const opened = await callRemotely(world, process, gateway, silenceMs, () =>
    gateway.api.followEvents({ tenant, start }),
  );
  if (opened.kind !== "open") return;
  const { feed } = opened;
  for (let portions = random.integer(1, 20); portions > 0 && !isDone(); portions -= 1) {
    if (!(await takePortion(follower, gateway, feed))) break;
  }
  gateway.process.deliver(0, () => feed.close());
}

async function takePortion(follower: Follower, gateway: EngineNode, feed: Feed<EventRow>): Promise<boolean> {
  const { world, process } = follower;
  const portion = await callRemotely(world, process, gateway, silenceMs, () => feed.next());
  switch (portion.kind) {
    case "rows":
      take(follower, portion.rows);
      return true;
    case "reset":
      reset(follower, portion.first, portion.reason);
      return true;
    case "end":
      mustHold(false, "INV-17", () => `the events of ${follower.tenant} ended`);
      return false;
    case "closed":
    case "no_answer":
      return false;
  }
}

/** Each number once and in order, and every row as it is stored. */
function take(follower: Follower, rows: readonly EventRow[]): void {
  const { world, process, tenant } = follower;
  for (const row of rows) {
    mustHold(
      row.sequence === follower.position + 1,
      "INV-17",
      () => `${process.name} got row ${row.sequence} of ${tenant} after ${follower.position}`,
    );
    follower.position = row.sequence;
    const stored = world.records.get("event", tenant, orderedNumber(row.sequence));
    mustHold(
      stored === undefined || mayHaveLost(world) || JSON.stringify(stored) === JSON.stringify(row),
      "INV-17",
      () => `${process.name} got ${JSON.stringify(row)}, stored is ${JSON.stringify(stored)}`,
    );
    world.marks.hit("events_followed");
  }
}

/** Only where rows are really gone: those before the oldest that is kept, or all after a loss, which may also bring trimmed ones back. */
function reset(follower: Follower, first: number, reason: "trimmed" | "ahead"): void {
  const { world, process, tenant, position } = follower;
  const isTrimmed =
    mayHaveLost(world) || world.records.get("event", tenant, orderedNumber(position + 1)) === undefined;
  mustHold(
    reason === "ahead" ? mayHaveLost(world) : isTrimmed && first > position + 1,
    "INV-17",
    () =>
      `${process.name} was told that the rows of ${tenant} begin with ${first} (${reason}); it has ${position}`,
  );
  world.marks.hit("events_reset");
  follower.position = first - 1;
}

/** What a store has lost is written anew under the same numbers. */
function mayHaveLost({ swarm }: World): boolean {
  return swarm.losses !== undefined;
}

function lastOf({ world, tenant }: Follower): number {
  return world.known.tenant(tenant).lastEvent;
}
