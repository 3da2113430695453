// Sealing and verifying whole trails in virtual time: several at once, restarts, gaps, and hands in the store.
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openAnchorsFile } from "../../src/adapters/system/anchors-file.ts";
import { asked, changeSeal, headText, sealId, seals, tamper, verify, write } from "../support/audit-world.ts";
import { acme, type FlowPlane, FlowWorld, only } from "../support/flow-world.ts";
import { silentLog } from "../support/silent-log.ts";
import type { WorldOptions } from "../support/simulated-ports.ts";

/** A store, and a process that knows it, with room for 10,000 records of a tenant. */
const few: WorldOptions = { settings: { auditRecordsPerTenantMax: 10_000 } };
const fewAsked = { ...asked, overrides: { "audit.recordsPerTenantMax": 10_000 } } as const;

describe("sealing", () => {
  test("by several processes at once gives one chain: the slower reads again", async () => {
    const flow = new FlowWorld({ travelMsMax: 20, seed: 7 });
    const planes = await Promise.all(["a", "b", "c"].map((name) => flow.open(name, asked)));
    for (let round = 0; round < 12; round += 1) {
      await write(flow, 80);
      // Those who read before and after it bring different seals.
      flow.kernel.after(15, () => void write(flow, 10));
      const verdicts = await flow.finish(
        Promise.all(planes.map(({ api }) => api.verifyTrail({ tenant: acme }))),
      );
      expect(verdicts.map((verdict) => only(verdict, "verified").status)).toEqual([
        "intact",
        "intact",
        "intact",
      ]);
    }
    const conflicts = planes.map(({ metrics }) =>
      metrics.total("audit_seals_total", { outcome: "conflict" }),
    );
    expect(conflicts.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(0);
    expect(await verify(flow, planes[0] as FlowPlane)).toMatchObject({
      status: "intact",
      compared: 1_080,
      gaps: [],
    });
    expect((await seals(flow)).map(({ id }) => Number(id.slice(1)))).toEqual([1, 251, 501, 751, 1_001]);
  });

  test("that is cut off after it took effect is not done twice", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", {
      ...asked,
      failing: { putDocument: ["reply_lost", "ok", "reply_lost"] },
    });
    await write(flow, 300);
    expect(await verify(flow, plane)).toMatchObject({ status: "intact", compared: 300 });
    expect((await seals(flow)).map(({ revision }) => revision)).toEqual([1, 1]);
  });

  test("goes on from the head after a restart", async () => {
    const flow = new FlowWorld();
    const first = await flow.open("first", asked);
    await write(flow, 260);
    const noted = headText(await verify(flow, first));
    const second = await flow.open("second", asked);
    await write(flow, 10);
    const later = await verify(flow, second, noted);
    expect(later).toMatchObject({ status: "intact", expected: "same", sealedTo: 270 });
    expect(headText(later)).not.toBe(noted);
  });

  test("that is outrun records the gap, drops the seals of what is gone, and still knows the hash before the oldest record", async () => {
    const flow = new FlowWorld(few);
    const plane = await flow.open("p", fewAsked);
    await write(flow, 400);
    expect((await verify(flow, plane)).status).toBe("intact");
    const { metrics } = plane;
    const saved = metrics.total("audit_seals_total", { outcome: "saved" });
    expect(saved).toBeGreaterThan(0);
    expect(metrics.total("audit_verifications_total", { status: "intact" })).toBe(1);
    await write(flow, 10_500);
    const outrun = await verify(flow, plane);
    expect(metrics.total("audit_verifications_total", { status: "incomplete" })).toBe(1);
    expect(metrics.total("audit_gaps_total", { why: "dropped" })).toBe(1);
    expect(metrics.total("audit_gaps_total")).toBe(1);
    expect(metrics.total("audit_seals_total", { outcome: "saved" })).toBeGreaterThan(saved);
    expect(outrun).toMatchObject({
      status: "incomplete",
      gaps: [{ from: 401, to: 900, why: "dropped" }],
      keptFrom: 901,
      sealedTo: 10_900,
      compared: 10_000,
    });
    expect(plane.member.lines.map(({ message }) => message)).toContain(
      "audit records were dropped before they were sealed",
    );
    expect((await seals(flow))[0]?.id).toBe(sealId(901));
    await write(flow, 5_000);
    const later = await verify(flow, plane);
    expect(later).toMatchObject({ status: "intact", gaps: [], keptFrom: 5_901, compared: 10_000 });
    expect((await seals(flow)).length).toBeLessThan(45);
  });
});

describe("somebody with his hands in the store", () => {
  async function sealed(secret = "", world: WorldOptions = {}) {
    const flow = new FlowWorld(world);
    const overrides = { ...(world === few ? fewAsked.overrides : {}), "audit.secret": secret };
    const plane = await flow.open("p", { ...asked, overrides });
    await write(flow, 600);
    const verdict = await verify(flow, plane);
    expect(verdict).toMatchObject({ status: "intact", compared: 600 });
    return { flow, plane, noted: headText(verdict) };
  }

  const broken = (sequence: number, why: string) => ({ status: "broken", firstBroken: { sequence, why } });

  test.each([1, 250, 333, 600])("who changes record %i is found at that record", async (sequence) => {
    const { flow, plane } = await sealed();
    tamper(flow, sequence, { actor: "nobody" });
    expect(await verify(flow, plane)).toMatchObject(broken(sequence, "row_changed"));
  });

  test.each([1, 333, 600])("who removes record %i is found at that record", async (sequence) => {
    const { flow, plane } = await sealed();
    tamper(flow, sequence, "remove");
    expect(await verify(flow, plane)).toMatchObject(broken(sequence, "row_missing"));
  });

  test("who removes the oldest records does not pass for the store, which drops them only when there are too many", async () => {
    const { flow, plane } = await sealed();
    for (let sequence = 1; sequence <= 300; sequence += 1) tamper(flow, sequence, "remove");
    expect(await verify(flow, plane)).toMatchObject(broken(1, "row_missing"));
    await write(flow, 300);
    expect(await verify(flow, plane)).toMatchObject(broken(1, "row_missing"));
    flow.world.records.erase("document", `${acme}/seal`, sealId(1));
    expect(await verify(flow, plane)).toMatchObject(broken(1, "seal_missing"));
  });

  test("who removes a record before it was sealed leaves a gap that says so", async () => {
    const { flow, plane } = await sealed();
    await write(flow, 10);
    tamper(flow, 605, "remove");
    expect(await verify(flow, plane)).toMatchObject({
      ...broken(605, "row_missing"),
      gaps: [{ from: 605, to: 605, why: "missing" }],
    });
    expect(plane.metrics.total("audit_gaps_total", { why: "missing" })).toBe(1);
    expect(plane.metrics.total("audit_gaps_total")).toBe(1);
    expect(plane.metrics.total("audit_verifications_total", { status: "broken" })).toBe(1);
    expect(plane.metrics.total("audit_verifications_total", { status: "intact" })).toBe(1);
    await write(flow, 10);
    expect(await verify(flow, plane)).toMatchObject(broken(605, "row_missing"));
  });

  test("who changes a hash, or anything else of a seal, is found there, also after more was sealed", async () => {
    const { flow, plane } = await sealed();
    changeSeal(flow, sealId(501), (body) => {
      const seal = JSON.parse(body) as { hashes: string[] };
      seal.hashes[9] = "x".repeat(43);
      return JSON.stringify(seal);
    });
    expect(await verify(flow, plane)).toMatchObject(broken(510, "hash_changed"));
    await write(flow, 10);
    expect(await verify(flow, plane)).toMatchObject(broken(510, "hash_changed"));
    expect((await seals(flow)).at(-1)?.id).toBe(sealId(601));
    expect(plane.member.lines.map(({ message }) => message)).toContain(
      "the newest seal of the audit trail was changed",
    );
  });

  test("who writes something else in the place of a seal stops nothing and hides nothing", async () => {
    const { flow, plane } = await sealed();
    changeSeal(flow, sealId(501), () => "gone");
    await write(flow, 10);
    expect(await verify(flow, plane)).toMatchObject({ ...broken(501, "seal_changed"), sealedTo: 610 });
  });

  test("a changed record whose seal was removed is found by anyone who knows a later head: the process itself, or a person who noted one", async () => {
    const { flow, plane, noted } = await sealed();
    tamper(flow, 590, { actor: "nobody" });
    flow.world.records.erase("document", `${acme}/seal`, sealId(501));
    expect(await verify(flow, plane)).toMatchObject({
      ...broken(600, "hash_changed"),
      anchored: { sequence: 600, state: "different" },
    });
    await write(flow, 20);
    expect(await verify(flow, plane)).toMatchObject(broken(600, "hash_changed"));
    expect(plane.member.lines).toContainEqual(
      expect.objectContaining({ message: "seals of the audit trail have disappeared", level: "error" }),
    );
    expect(await verify(flow, plane, noted)).toMatchObject({
      ...broken(600, "hash_changed"),
      expected: "different",
    });
  });

  test("who goes back to an older state is found by who noted a head, and a head that is too old says nothing", async () => {
    const { flow, plane, noted } = await sealed("", few);
    const later = `610:${noted.split(":")[1]}`;
    expect(await verify(flow, plane, later)).toMatchObject({
      ...broken(601, "row_missing"),
      expected: "gone",
    });
    await write(flow, 11_000);
    await verify(flow, plane);
    expect(await verify(flow, plane, noted)).toMatchObject({ expected: "not_kept" });
  });

  test("who recomputes the whole chain is believed by processes that know neither a secret nor a head", async () => {
    const forge = async (secret: string) => {
      const { flow } = await sealed(secret);
      const forger = await flow.open("forger", asked);
      tamper(flow, 42, { actor: "nobody" });
      for (const { id } of await seals(flow)) flow.world.records.erase("document", `${acme}/seal`, id);
      expect((await verify(flow, forger)).status).toBe("intact");
      const overrides = { "audit.secret": secret };
      const verdict = await verify(flow, await flow.open("later", { ...asked, overrides }));
      if (secret === "")
        expect(verdict.notRuledOut).toEqual(["rewritten_unanchored", "recomputed_without_secret"]);
      return verdict.firstBroken ?? verdict.status;
    };
    expect(await forge("")).toBe("intact");
    expect(await forge("the-secret-of-the-platform")).toEqual({ sequence: 1, why: "other_secret" });
  });

  test("heads that are kept outside the store outlive the process, and are not moved on to a rewritten trail", async () => {
    const folder = mkdtempSync(join(tmpdir(), "interlock-anchors-"));
    try {
      const path = join(folder, "heads", "audit-heads.json");
      const start = (flow: FlowWorld, name: string) =>
        flow.open(name, { ...asked, anchors: openAnchorsFile(path, silentLog) });
      const keepsHeads = ({ plane }: FlowPlane) => plane.ports.anchors?.close();
      const flow = new FlowWorld();
      const first = await start(flow, "first");
      await write(flow, 600);
      expect(await verify(flow, first)).toMatchObject({ status: "intact" });
      await write(flow, 300);
      expect(await verify(flow, first)).toMatchObject({
        status: "intact",
        anchored: { sequence: 600, state: "same" },
        notRuledOut: ["rewritten_after_anchor", "recomputed_without_secret"],
      });
      await keepsHeads(first);
      expect(statSync(path).mode & 0o777).toBe(0o600);
      tamper(flow, 42, { actor: "nobody" });
      for (const { id } of await seals(flow)) flow.world.records.erase("document", `${acme}/seal`, id);
      for (const name of ["second", "third"]) {
        const later = await start(flow, name);
        expect(await verify(flow, later)).toMatchObject({
          ...broken(900, "hash_changed"),
          anchored: { sequence: 900, state: "different" },
        });
        await write(flow, 10);
        expect((await verify(flow, later)).status).toBe("broken");
        await keepsHeads(later);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test("a file of heads that cannot be read is not taken for an empty one", () => {
    const folder = mkdtempSync(join(tmpdir(), "interlock-anchors-"));
    const path = join(folder, "audit-heads.json");
    writeFileSync(path, "{");
    expect(() => openAnchorsFile(path, silentLog)).toThrow(/audit\.anchorsFile .* cannot be read/);
    rmSync(folder, { recursive: true, force: true });
  });

  test("a secret may come later, or be replaced, as long as the former one is still named", async () => {
    const { flow } = await sealed();
    const verifiedWith = async (secret: string) => {
      const overrides = { "audit.secret": secret };
      return verify(flow, await flow.open(`with ${secret}`, { ...asked, overrides }));
    };
    const [first, second] = ["the-first-secret", "the-second-secret"];
    await write(flow, 5);
    expect(await verifiedWith(`${first},none`)).toMatchObject({ status: "intact", sealedTo: 605 });
    await write(flow, 5);
    expect(await verifiedWith(`${second},${first},none`)).toMatchObject({ status: "intact", sealedTo: 610 });
    expect((await seals(flow)).map(({ id }) => Number(id.slice(1)))).toEqual([1, 251, 501, 601, 606]);
    expect(await verifiedWith(`${second},${first}`)).toMatchObject(broken(1, "other_secret"));
    expect(await verifiedWith(`${second},none`)).toMatchObject(broken(601, "other_secret"));
  });
});

describe("reading", () => {
  test("shows each record with its hash, filters by type and actor, and goes on page by page", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", asked);
    await write(flow, 700);
    await flow.tenant({ maxConcurrentRuns: 3 });
    await verify(flow, plane);
    await write(flow, 1);
    const page = async (after: number, more: { readonly type?: string; readonly actor?: string } = {}) =>
      only(await flow.finish(plane.api.readTrail({ tenant: acme, after, limit: 300, ...more })), "records");
    const pages = [await page(0), await page(300), await page(600)];
    expect(pages.map(({ next, records }) => [next, records.length])).toEqual([
      [300, 300],
      [600, 300],
      [undefined, 102],
    ]);
    const hashes = pages.flatMap(({ records }) => records.map(({ hash }) => hash));
    expect(new Set(hashes.slice(0, 701)).size).toBe(701);
    expect([hashes[700]?.length, hashes[701]]).toEqual([43, undefined]);
    const filtered = await page(0, { type: "tenant_changed" });
    expect(filtered.records.map(({ row }) => row.sequence)).toEqual([701]);
    expect((await page(0, { actor: "test" })).records[0]?.hash).toBe(hashes[700]);
    expect((await page(0, { actor: "eve" })).records).toEqual([]);
  });
});
