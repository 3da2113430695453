// What every store must do with documents: revisions, conflicts, repeats, their order, and the workflow that runs start by.
import assert from "node:assert/strict";
import { admissionLock } from "../../domain/lock.ts";
import type { Collection } from "../../domain/tenant.ts";
import type { RequestOf } from "../../ports/store.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, only } from "./harness.ts";

type Put = Partial<RequestOf<"putDocument">>;

function put(harness: Harness, id: string, options: Put = {}) {
  const { tenant } = harness;
  const base = { tenant, collection: "workflow", id, body: "{}", actor: "editor" } as const;
  return harness.store.putDocument({ ...base, changeId: harness.id("change"), ...options }, call);
}

async function get(harness: Harness, id: string, collection: Collection = "workflow") {
  const answer = await harness.store.getDocument({ tenant: harness.tenant, collection, id }, call);
  if (answer.kind !== "document") return answer.kind;
  return `${answer.document.revision} ${answer.document.body}`;
}

async function list(harness: Harness, after = "", limit = 100, collection: Collection = "workflow") {
  const request = { tenant: harness.tenant, collection, after, limit };
  return only(await harness.store.listDocuments(request, call), "listed").documents.map(({ id }) => id);
}

async function events(harness: Harness) {
  const request = { tenant: harness.tenant, after: 0, limit: 100 };
  const rows = only(await harness.store.readEvents(request, call), "events").events;
  return rows.map(({ type, subject, actor, detail }) => [type, subject, actor, detail]);
}

export const documentCases: readonly ConformanceCase[] = [
  {
    name: "a document is saved with a revision that grows, and read back byte for byte",
    async check(harness) {
      const bodies = ["{}", '{"n":12345678901234567890,"s":"ü\\u0000"}', "", "x".repeat(10_000)];
      for (const [index, body] of bodies.entries()) {
        assertOutcome(await put(harness, "deploy", { body }), { kind: "saved", revision: index + 1 });
        assert.equal(await get(harness, "deploy"), `${index + 1} ${body}`);
      }
      const request = { tenant: harness.tenant, collection: "workflow", id: "deploy" } as const;
      const read = only(await harness.store.getDocument(request, call), "document");
      assert.ok(Math.abs(read.document.savedAtMs - read.storeTimeMs) < 60_000);
    },
  },
  {
    name: "a document is replaced only by who saw its last revision, and revision 0 means that there is none",
    async check(harness) {
      const expecting = (expectedRevision: number) =>
        put(harness, "deploy", { expectedRevision, body: `"${expectedRevision}"` });
      assertOutcome(await expecting(1), { kind: "revision_conflict", revision: 0 });
      assertOutcome(await expecting(0), { kind: "saved", revision: 1 });
      assertOutcome(await expecting(0), { kind: "revision_conflict", revision: 1 });
      assertOutcome(await expecting(1), { kind: "saved", revision: 2 });
      assertOutcome(await expecting(1), { kind: "revision_conflict", revision: 2 });
      assert.equal(await get(harness, "deploy"), '2 "1"');
      assert.equal((await events(harness)).length, 2);
    },
  },
  {
    name: "a repeated change is recognised and saved once",
    async check(harness) {
      const options = { changeId: "change-1", expectedRevision: 0 };
      for (let times = 0; times < 2; times += 1) {
        assertOutcome(await put(harness, "deploy", options), { kind: "saved", revision: 1 });
      }
      assert.deepEqual(await events(harness), [["document_saved", "workflow/deploy", "editor", "change-1"]]);
    },
  },
  {
    name: "a removed document is gone, its removal is an event, and a repeat finds nothing",
    async check(harness) {
      await put(harness, "deploy", { changeId: "change-1" });
      const request = {
        ...{ tenant: harness.tenant, collection: "workflow" as const },
        ...{ id: "deploy", actor: "editor" },
      };
      assertOutcome(await harness.store.removeDocument(request, call), { kind: "removed" });
      assertOutcome(await harness.store.removeDocument(request, call), { kind: "not_found" });
      assert.equal(await get(harness, "deploy"), "not_found");
      assert.deepEqual(await list(harness), []);
      assert.deepEqual((await events(harness)).at(-1), [
        "document_removed",
        "workflow/deploy",
        "editor",
        "1",
      ]);
      assertOutcome(await put(harness, "deploy"), { kind: "saved", revision: 1 });
    },
  },
  {
    name: "a seal is saved, guarded by its revision and removed like any document, but is no event",
    async check(harness) {
      await put(harness, "deploy", { changeId: "change-1" });
      const collection = "seal" as const;
      const seal = (expectedRevision: number, changeId: string) =>
        put(harness, "000000000001", { collection, expectedRevision, changeId, body: changeId });
      assertOutcome(await seal(0, "1:a"), { kind: "saved", revision: 1 });
      assertOutcome(await seal(0, "1:a"), { kind: "saved", revision: 1 });
      assertOutcome(await seal(0, "1:b"), { kind: "revision_conflict", revision: 1 });
      assertOutcome(await seal(1, "2:b"), { kind: "saved", revision: 2 });
      assert.equal(await get(harness, "000000000001", collection), "2 2:b");
      const request = { tenant: harness.tenant, collection, id: "000000000001", actor: "sealer" };
      assertOutcome(await harness.store.removeDocument(request, call), { kind: "removed" });
      assert.deepEqual(await events(harness), [["document_saved", "workflow/deploy", "editor", "change-1"]]);
    },
  },
  {
    name: "a process writes and removes its record without an event: it does so every few seconds",
    async check(harness) {
      const collection = "process" as const;
      for (const changeId of ["1", "2"])
        await put(harness, "host:1", { collection, changeId, body: changeId });
      assert.equal(await get(harness, "host:1", collection), "2 2");
      const request = { tenant: harness.tenant, collection, id: "host:1", actor: "host:1" };
      assertOutcome(await harness.store.removeDocument(request, call), { kind: "removed" });
      assert.deepEqual(await events(harness), []);
    },
  },
  {
    name: "documents are listed in the order of their ids, page by page, per collection and tenant",
    async check(harness) {
      for (const id of ["b", "a", "a-1", "B", "a.1", "10", "2"]) await put(harness, id);
      await put(harness, "c", { collection: "definition" });
      await put(harness, "d", { tenant: harness.otherTenant() });
      const ids = ["10", "2", "B", "a", "a-1", "a.1", "b"];
      assert.deepEqual(await list(harness), ids);
      assert.deepEqual(await list(harness, "", 3), ids.slice(0, 3));
      assert.deepEqual(await list(harness, "B", 3), ids.slice(3, 6));
      assert.deepEqual(await list(harness, "a-0"), ids.slice(4));
      assert.deepEqual(await list(harness, "", 9, "definition"), ["c"]);
      assert.deepEqual(await list(harness, "", 9, "apiKey"), []);
    },
  },
  {
    name: "the same id in two collections is two documents",
    async check(harness) {
      for (const collection of ["workflow", "definition", "apiKey", "deadLetter", "tenant"] as const) {
        const saved = await put(harness, "same", { collection, body: collection });
        assertOutcome(saved, { kind: "saved", revision: 1 });
      }
      for (const collection of ["workflow", "definition", "apiKey", "deadLetter", "tenant"] as const)
        assert.equal(await get(harness, "same", collection), `1 ${collection}`);
    },
  },
  {
    name: "a dead letter is saved, replaced by a new one and removed",
    async check(harness) {
      const collection = "deadLetter" as const;
      for (const body of ["first", "second"]) {
        const saved = await put(harness, "run:x@1", { collection, body });
        assertOutcome(saved, { kind: "saved", revision: 1 });
        assert.equal(await get(harness, "run:x@1", collection), `1 ${body}`);
      }
      const request = { tenant: harness.tenant, collection, id: "run:x@1", actor: "editor" };
      assertOutcome(await harness.store.removeDocument(request, call), { kind: "removed" });
      assert.equal(await get(harness, "run:x@1", collection), "not_found");
    },
  },
  {
    name: "a revoked key changes no document, no setting, no run and no lock, and what it did before is answered as it was",
    async check(harness) {
      const { store, tenant } = harness;
      const revoked = { credential: "key_1" };
      const saved = { changeId: "change-1", ...revoked };
      assertOutcome(await put(harness, "deploy", saved), { kind: "saved", revision: 1 });
      const runId = await harness.admit();
      const lock = { namespace: "public", name: "gpu" } as const;
      const { fence } = await harness.acquire(lock, 60_000);
      const tenantChange = { tenant, settings: { revokedKeyIds: ["key_1"] }, actor: "root", ...revoked };
      const first = { ...tenantChange, expectedVersion: 0, changeId: "change-2" };
      assertOutcome(await store.setTenant(first, call), { kind: "saved", version: 1 });
      const before = (await events(harness)).length;

      const refused = { kind: "unauthenticated" } as const;
      assertOutcome(await put(harness, "deploy", saved), { kind: "saved", revision: 1 });
      assertOutcome(await store.setTenant(first, call), { kind: "saved", version: 1 });
      assertOutcome(await put(harness, "deploy", revoked), refused);
      const change = { ...tenantChange, expectedVersion: 1, changeId: "change-3", settings: {} };
      assertOutcome(await store.setTenant(change, call), refused);
      const place = { tenant, collection: "workflow", id: "deploy", actor: "editor" } as const;
      assertOutcome(await store.removeDocument({ ...place, ...revoked }, call), refused);
      assertOutcome(await store.deleteRun({ tenant, runId, actor: "editor", ...revoked }, call), refused);
      const broken = { tenant, lock, fence, actor: "editor", reason: "stuck" };
      assertOutcome(await store.breakLock({ ...broken, ...revoked }, call), refused);
      assert.equal((await events(harness)).length, before);
      assert.equal(await get(harness, "deploy"), "1 {}");
      assertOutcome(await store.breakLock({ ...broken, credential: "key" }, call), { kind: "broken" });
      assertOutcome(await store.removeDocument({ ...place, credential: "key_11" }, call), {
        kind: "removed",
      });
    },
  },
  {
    name: "a tenant that is removed gets no more keys until it is set up again, and everything else as before",
    async check(harness) {
      const { store, tenant } = harness;
      const key = (id: string) => put(harness, id, { collection: "apiKey", expectedRevision: 0 });
      assertOutcome(await key("k1"), { kind: "saved", revision: 1 });
      await harness.set({ removed: true });
      assertOutcome(await key("k2"), { kind: "tenant_removed" });
      assertOutcome(await put(harness, "deploy"), { kind: "saved", revision: 1 });
      const place = { tenant, collection: "apiKey", id: "k1", actor: "root" } as const;
      assertOutcome(await store.removeDocument(place, call), { kind: "removed" });
      assert.deepEqual(await list(harness, "", 9, "apiKey"), []);
      await harness.set({});
      assertOutcome(await key("k2"), { kind: "saved", revision: 1 });
    },
  },
  {
    name: "a run starts only by the revision of its workflow that its caller read",
    async check(harness) {
      const { store, tenant } = harness;
      const admit = (revision: number) => store.admit({ tenant, run: harness.newRun({ revision }) }, call);
      assertOutcome(await admit(1), { kind: "version_conflict" });
      const body = JSON.stringify({ hash: harness.newRun().definition });
      await put(harness, "deploy", { body });
      assert.equal((await admit(1)).kind, "admitted");
      await put(harness, "deploy", { body });
      assertOutcome(await admit(1), { kind: "version_conflict" });
      assert.equal((await admit(2)).kind, "admitted");
      const guard = await harness.acquire(admissionLock, 60_000);
      const create = (revision: number) =>
        store.createRun({ tenant, guard, run: harness.newRun({ revision }) }, call);
      assertOutcome(await create(1), { kind: "version_conflict" });
      assert.equal((await create(2)).kind, "admitted");
      assert.equal(only(await store.countActive({ tenant }, call), "counted").active, 3);
    },
  },
  {
    name: "a run starts by no definition but the one that its workflow names, whatever the revision",
    async check(harness) {
      const { store, tenant } = harness;
      await put(harness, "deploy", { body: JSON.stringify({ hash: "sha256:12" }) });
      const guard = await harness.acquire(admissionLock, 60_000);
      for (const definition of ["sha256:1", "sha256:2", ""]) {
        const run = harness.newRun({ revision: 1, definition });
        assertOutcome(await store.admit({ tenant, run }, call), { kind: "version_conflict" });
        assertOutcome(await store.createRun({ tenant, guard, run }, call), { kind: "version_conflict" });
      }
      const run = () => harness.newRun({ revision: 1, definition: "sha256:12" });
      assert.equal((await store.admit({ tenant, run: run() }, call)).kind, "admitted");
      assert.equal((await store.createRun({ tenant, guard, run: run() }, call)).kind, "admitted");
    },
  },
  {
    name: "a revoked key starts no run, and everybody else does",
    async check(harness) {
      const { store, tenant } = harness;
      await harness.set({ revokedKeyIds: ["key_1", "key_2"] });
      const run = harness.newRun();
      assertOutcome(await store.admit({ tenant, run, credential: "key_1" }, call), {
        kind: "unauthenticated",
      });
      const guard = await harness.acquire(admissionLock, 60_000);
      assertOutcome(await store.createRun({ tenant, guard, run, credential: "key_2" }, call), {
        kind: "unauthenticated",
      });
      assert.equal((await store.admit({ tenant, run, credential: "key" }, call)).kind, "admitted");
      assert.equal((await store.admit({ tenant, run, credential: "key_1" }, call)).kind, "admitted");
    },
  },
];
