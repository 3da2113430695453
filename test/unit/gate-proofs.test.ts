// The proof of gates: whatever was lost or left over among places, queues and keys of runs that wait is repaired and reported.
import { expect, test } from "vitest";
import { createMemoryStore, MemoryRecords } from "../../src/adapters/memory-store.ts";
import { scopeOf } from "../../src/adapters/operations/gates.ts";
import type { RunId } from "../../src/domain/run.ts";
import { edgeSettings } from "../../src/testing/conformance/edge.ts";
import {
  assertSound,
  endRun,
  named,
  runAt,
  shown,
  start,
  startAt,
  statuses,
} from "../../src/testing/conformance/gate-steps.ts";
import { call, Harness, key, only } from "../../src/testing/conformance/harness.ts";
import { sweepOnce } from "../../src/testing/conformance/run-steps.ts";
import { SetClock } from "../support/set-clock.ts";

const crm = named("crm");

function openWorld() {
  const clock = new SetClock();
  const records = new MemoryRecords();
  const store = createMemoryStore({ clock, settings: { ...edgeSettings, queuedPerTenantMax: 500 }, records });
  const harness = new Harness(store, clock, "proof");
  const placeScope = scopeOf(harness.tenant, crm);

  async function prove() {
    await clock.pass(edgeSettings.proveEveryMs);
    return only(await sweepOnce(harness), "swept");
  }

  return { harness, records, placeScope, prove, clock };
}

type World = ReturnType<typeof openWorld>;

/** `active` holds the only place at crm, and the others wait there. */
async function waitingAt(world: World, count: number) {
  const { harness } = world;
  await harness.set({ gates: { crm: { max: 1 } } });
  const active = await startAt(harness, [[crm, "queue"]]);
  const waiting: RunId[] = [];
  for (let index = 0; index < count; index += 1) waiting.push(await startAt(harness, [[crm, "queue"]]));
  return { active, waiting };
}

function oneOf(records: MemoryRecords, kind: Parameters<MemoryRecords["all"]>[0], part: string) {
  const found = [...records.all(kind)].filter(({ member }) => member.includes(part));
  expect(found).toHaveLength(1);
  const { scope = "", member = "" } = found[0] ?? {};
  return { erase: () => records.erase(kind, scope, member) };
}

test("a place of a run that is gone is freed, and handed on at once", async () => {
  const world = openWorld();
  const { harness, records, prove } = world;
  const { active, waiting } = await waitingAt(world, 1);
  oneOf(records, "run", active).erase();
  const { repairs, waiting: woken } = await prove();
  const freed = { tenant: harness.tenant, repair: "slot_freed", runId: active };
  expect(repairs).toEqual([freed, freed]);
  expect(woken.map(({ runId }) => runId)).toContain(waiting[0]);
  await assertSound(harness);
});

test("a run has the place again that it holds, and nobody else takes it", async () => {
  const world = openWorld();
  const { harness, records, prove } = world;
  const { active } = await waitingAt(world, 0);
  oneOf(records, "place", active).erase();
  const { repairs } = await prove();
  expect(repairs).toEqual([{ tenant: harness.tenant, repair: "place_restored", runId: active }]);
  expect((await prove()).repairs).toEqual([]);
  await assertSound(harness);
});

test.each(["queuedRun", "gateQueue"] as const)(
  "a run that waits is in its queue again when its %s was lost, and gets its turn",
  async (kind) => {
    const world = openWorld();
    const { harness, records, prove } = world;
    const { active, waiting } = await waitingAt(world, 1);
    const [lost] = [...records.all(kind)];
    records.erase(kind, lost?.scope ?? "", lost?.member ?? "");
    const { repairs } = await prove();
    expect(repairs).toEqual([{ tenant: harness.tenant, repair: "queue_restored", runId: waiting[0] }]);
    expect((await prove()).repairs).toEqual([]);
    await assertSound(harness);
    expect(await endRun(harness, active)).toEqual(waiting);
  },
);

test("a run that does not wait is not among those that do", async () => {
  const world = openWorld();
  const { harness, records, prove } = world;
  const { active } = await waitingAt(world, 0);
  records.put("queued", harness.tenant, `0000000000000001 ${active}`, {});
  const { repairs } = await prove();
  expect(repairs).toEqual([{ tenant: harness.tenant, repair: "queue_left", runId: active }]);
  await assertSound(harness);
});

test("what is in a queue and does not wait there is passed over", async () => {
  const world = openWorld();
  const { harness, records } = world;
  const { active, waiting } = await waitingAt(world, 3);
  oneOf(records, "run", waiting[0] as RunId).erase();
  expect(await endRun(harness, active)).toEqual([waiting[1]]);
  expect((await shown(harness, crm)).queue).toEqual([waiting[2]]);
  expect(await statuses(harness, waiting.slice(1))).toEqual(["pending", "queued"]);
});

test("the key of a run that waits binds it again when it was lost", async () => {
  const world = openWorld();
  const { harness, records, prove } = world;
  await waitingAt(world, 0);
  const run = runAt(harness, [[crm, "queue"]], { key: key("k") });
  only(await start(harness, run), "queued");
  const { digest } = key("k");
  records.erase("reservation", harness.tenant, digest);
  const { repairs } = await prove();
  expect(repairs).toEqual([{ tenant: harness.tenant, repair: "reservation_restored", runId: run.runId }]);
  const bound = await harness.store.inspectReservation({ tenant: harness.tenant, digest }, call);
  expect(bound).toMatchObject({ kind: "bound", runId: run.runId });
});

test("one visit proves a hundred places, and the next ones the others", async () => {
  const { harness, records, placeScope, prove } = openWorld();
  for (let index = 0; index < 30; index += 1) await startAt(harness, [[crm, "queue"]]);
  const gone = Array.from({ length: 130 }, (_, index) => `run_00_gone${String(index).padStart(4, "0")}`);
  for (const runId of gone) records.put("place", placeScope, `0000000000000001 ${runId}`, {});
  const repaired: number[] = [];
  for (let visit = 0; visit < 4; visit += 1) repaired.push((await prove()).repairs.length);
  expect(repaired).toEqual([70, 60, 0, 0]);
  expect(records.size("place", placeScope)).toBe(30);
});

test("the proof goes on as long as a run waits, also while none is active", async () => {
  const world = openWorld();
  const { harness, records, clock } = world;
  await harness.set({ gates: { crm: { max: 0 } } });
  const waiting = await startAt(harness, [[crm, "queue"]]);
  for (let visit = 0; visit < 3; visit += 1) {
    await clock.pass(edgeSettings.proveEveryMs);
    only(await sweepOnce(harness), "swept");
    expect(records.size("proof", harness.tenant)).toBe(1);
  }
  expect(await statuses(harness, [waiting])).toEqual(["queued"]);
});

test("a key of which no run is left does not keep the others waiting, nor the queue in the list", async () => {
  const world = openWorld();
  const { harness, records } = world;
  const { active, waiting } = await waitingAt(world, 1);
  const other = await startAt(harness, [[crm, "queue"]], { fairnessKey: "other" });
  for (const kind of ["run", "queued", "queuedRun"] as const)
    oneOf(records, kind, waiting[0] as RunId).erase();
  expect(await endRun(harness, active)).toEqual([other]);
  await endRun(harness, other);
  await assertSound(harness);
  expect(records.size("gateQueue", harness.tenant)).toBe(0);
});
