// How long audit records are kept, in virtual time: dropped by age with a record that says so, never by a trick; heads that leave the store.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { openAnchorsFile } from "../../src/adapters/system/anchors-file.ts";
import { sealId, seals, tamper, verify, write } from "../support/audit-world.ts";
import { acme, type FlowPlane, FlowWorld, only } from "../support/flow-world.ts";
import { silentLog } from "../support/silent-log.ts";

const call = { deadlineMs: 5_000 };
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** A gateway alone seals and drops as all do, and sweeps nothing. */
const overrides = { "process.roles": "gateway", "audit.sealEveryMs": 600_000, "audit.keepDays": 1 } as const;

async function opened(): Promise<{ flow: FlowWorld; plane: FlowPlane }> {
  const flow = new FlowWorld();
  const plane = await flow.open("gateway", { overrides });
  await flow.finish(plane.api.createTenant({ actor: "root", tenant: acme, settings: {} }));
  await write(flow, 300);
  await flow.pass(1.1 * hourMs);
  expect((await seals(flow)).length).toBe(2);
  return { flow, plane };
}

async function trail(flow: FlowWorld) {
  const request = { tenant: acme, after: 0, limit: 1_000, of: "trail" } as const;
  return only(await flow.world.store.readEvents(request, call), "events");
}

describe("heads outside the store", () => {
  const folder = mkdtempSync(join(tmpdir(), "interlock-anchors-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("are written to the log every hour and at a stop, once for each that moved", async () => {
    const { flow, plane } = await opened();
    const heads = () => plane.member.lines.filter(({ message }) => message === "head of an audit trail");
    await flow.pass(1.1 * hourMs);
    const before = heads().length;
    expect(before).toBeGreaterThan(0);
    expect(heads().at(-1)).toMatchObject({
      level: "info",
      fields: { head: expect.stringMatching(/^\d+:.{43}$/) },
    });
    await flow.pass(3 * hourMs);
    expect(heads().length).toBe(before);
    await plane.save("one", { a: { type: "worker", topic: "work" } });
    await plane.close();
    expect(heads().length).toBe(before + 1);
  });

  test("of a process that shares its file are not written over: they are taken on", async () => {
    const path = join(folder, "shared.json");
    const head = (sequence: number) => ({ sequence, hash: String(sequence).repeat(4) });
    const [one, other] = [openAnchorsFile(path, silentLog), openAnchorsFile(path, silentLog)];
    one.note(acme, head(600));
    await one.close();
    // It started before: a trail that was rewritten meanwhile must not pass by it.
    other.note(acme, head(900));
    await other.close();
    expect(other.read(acme)).toEqual(head(600));
    other.note(acme, head(601));
    await other.close();
    expect(openAnchorsFile(path, silentLog).read(acme)).toEqual(head(601));
  });

  test("that cannot be written, since the file cannot be read, hold nobody up and are written when it can", async () => {
    const path = join(folder, "broken.json");
    const head = (sequence: number) => ({ sequence, hash: String(sequence).repeat(4) });
    const anchors = openAnchorsFile(path, silentLog);
    writeFileSync(path, "{ half of it");
    anchors.note(acme, head(1));
    await anchors.close();
    rmSync(path);
    anchors.note("globex" as typeof acme, head(2));
    await anchors.close();
    const read = openAnchorsFile(path, silentLog);
    expect([read.read(acme), read.read("globex" as typeof acme)]).toEqual([head(1), head(2)]);
  });

  test("of two in one process that write at the same time never leave half a file", async () => {
    const path = join(folder, "crowded.json");
    const all = [1, 2, 3, 4].map(() => openAnchorsFile(path, silentLog));
    for (let round = 1; round <= 25; round += 1) {
      for (const [index, anchors] of all.entries())
        anchors.note(`tenant-${index}` as typeof acme, { sequence: round, hash: "x".repeat(40 + round) });
      await Promise.all(all.map((anchors) => anchors.close()));
      expect(() => JSON.parse(readFileSync(path, "utf8"))).not.toThrow();
    }
  });

  test("of an earlier version, whose trail was the event feed, say nothing about this one", async () => {
    const path = join(folder, "former.json");
    writeFileSync(path, JSON.stringify({ [acme]: { sequence: 7, hash: "x".repeat(43) } }));
    expect(openAnchorsFile(path, silentLog).read(acme)).toBeUndefined();
  });
});

describe("records that are older than audit.keepDays", () => {
  test("are dropped by whole days, a record says which, and the trail stays intact", async () => {
    const { flow, plane } = await opened();
    await flow.pass(0.5 * dayMs);
    expect((await trail(flow)).first).toBe(1);
    await write(flow, 5);
    await flow.pass(1.5 * dayMs);
    const { events, first } = await trail(flow);
    expect(first).toBeGreaterThan(300);
    const drops = events.filter(({ type }) => type === "records_dropped").map(({ detail }) => detail);
    expect(drops[0]).toBe("1 to 250");
    expect(await verify(flow, plane)).toMatchObject({ status: "intact", keptFrom: first, gaps: [] });
    expect((await seals(flow)).map(({ id }) => id)).not.toContain(sealId(1));
    await plane.close();
  });

  test("are not dropped because somebody made them look old, and what is gone above keptFrom is missing", async () => {
    const { flow, plane } = await opened();
    tamper(flow, 7, { atMs: 0 });
    tamper(flow, 1, { atMs: 0 });
    await flow.pass(2 * hourMs);
    expect((await trail(flow)).first).toBe(1);
    expect(plane.member.lines.map(({ message }) => message)).toContain(
      "audit records are not as they were sealed: none is dropped",
    );
    expect(await verify(flow, plane)).toMatchObject({ status: "broken", firstBroken: { sequence: 1 } });
    const other = await opened();
    await other.flow.pass(2 * dayMs);
    const { last } = await trail(other.flow);
    await write(other.flow, 3);
    await other.flow.pass(1.1 * hourMs);
    tamper(other.flow, last + 1, "remove");
    expect(await verify(other.flow, other.plane)).toMatchObject({
      status: "broken",
      firstBroken: { sequence: last + 1, why: "row_missing" },
    });
    await other.plane.close();
    await plane.close();
  });

  test("are dropped later when the store fails in between, and verify calls none of it broken", async () => {
    const { flow, plane } = await opened();
    plane.member.fail({ dropTrail: "unavailable" });
    await flow.pass(2 * dayMs);
    expect((await trail(flow)).first).toBe(1);
    expect(await verify(flow, plane)).toMatchObject({ status: "intact", keptFrom: 251 });
    plane.member.fail({});
    await flow.pass(1.1 * hourMs);
    expect((await trail(flow)).first).toBe(301);
    expect(await verify(flow, plane)).toMatchObject({ status: "intact" });
    await plane.close();
  });

  test("stay with audit.keepDays=0, and the seals of earlier versions go", async () => {
    const flow = new FlowWorld();
    const former = { tenant: acme, collection: "seal", id: "000000000001", body: "{}" } as const;
    await flow.world.store.putDocument({ ...former, changeId: "old", actor: "old" }, call);
    const plane = await flow.open("gateway", { overrides: { ...overrides, "audit.keepDays": 0 } });
    await flow.finish(plane.api.createTenant({ actor: "root", tenant: acme, settings: {} }));
    await write(flow, 10);
    await flow.pass(2 * dayMs);
    expect((await trail(flow)).first).toBe(1);
    expect((await seals(flow)).map(({ id }) => id)).toEqual([sealId(1)]);
    expect(await verify(flow, plane)).toMatchObject({ status: "intact", keptFrom: 1 });
    await plane.close();
  });
});
