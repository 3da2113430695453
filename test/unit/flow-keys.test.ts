// API keys and tenants: who is let in, who no longer is although somebody still remembers them, and settings that act at once.
import { describe, expect, test } from "vitest";
import type { Caller } from "../../src/control/caller.ts";
import type { NewKey } from "../../src/control/keys/api-keys.ts";
import { makeKeyText, readKeyText } from "../../src/domain/api-key.ts";
import { platformTenant, type TenantId } from "../../src/domain/tenant.ts";
import {
  acme,
  ann,
  ben,
  type FlowPlane,
  FlowWorld,
  only,
  pollOf,
  single,
  work,
} from "../support/flow-world.ts";

type Scene = { readonly flow: FlowWorld; readonly plane: FlowPlane; readonly other: FlowPlane };

async function setUp(): Promise<Scene> {
  const flow = new FlowWorld();
  const plane = await flow.open("p", { engine: "stopped" });
  const other = await flow.open("q", { engine: "stopped" });
  return { flow, plane, other };
}

async function newKey({ flow, plane }: Scene, more: { readonly expiresAtMs?: number } = {}): Promise<NewKey> {
  const options = { role: "admin", name: "ci", ...more } as const;
  return only(await flow.finish(plane.api.createKey({ by: "root", tenant: acme, ...options })), "created");
}

const authenticate = ({ flow }: Scene, plane: FlowPlane, text: string) =>
  flow.finish(Promise.resolve(plane.api.authenticate({ text })));

describe("a key", () => {
  test("lets in who shows its text, in any process, and only its hash is stored", async () => {
    const scene = await setUp();
    const { text, key } = await newKey(scene);
    for (const plane of [scene.plane, scene.other]) {
      const answer = only(await authenticate(scene, plane, text), "authenticated");
      expect(answer.key).toMatchObject({
        keyId: key.keyId,
        tenant: acme,
        role: "admin",
        name: "ci",
        createdBy: "root",
      });
    }
    const stored = scene.flow.world.records.scan("document", `${acme}/apiKey`, "", 10);
    expect(stored).toHaveLength(1);
    expect(JSON.stringify(stored)).not.toContain(readKeyText(text)?.secret as string);
  });

  test("is remembered, so that most requests cost no call", async () => {
    const scene = await setUp();
    const { text } = await newKey(scene);
    await authenticate(scene, scene.plane, text);
    const before = scene.plane.member.callsOf("getDocument").length;
    for (let index = 0; index < 5; index += 1) await authenticate(scene, scene.plane, text);
    expect(scene.plane.member.callsOf("getDocument")).toHaveLength(before);
    await scene.flow.pass(4_000);
    await authenticate(scene, scene.plane, text);
    expect(scene.plane.member.callsOf("getDocument")).toHaveLength(before + 1);
  });

  test("that another process revoked stops working within 5 s, however often it is used meanwhile", async () => {
    const scene = await setUp();
    const { text, key } = await newKey(scene);
    expect((await authenticate(scene, scene.other, text)).kind).toBe("authenticated");
    await scene.flow.finish(scene.plane.api.revokeKey({ by: "root", tenant: acme, keyId: key.keyId }));
    const kinds: string[] = [];
    for (let waitedMs = 0; waitedMs < 5_000; waitedMs += 500) {
      kinds.push((await authenticate(scene, scene.other, text)).kind);
      await scene.flow.pass(500);
    }
    kinds.push((await authenticate(scene, scene.other, text)).kind);
    expect(kinds[0]).toBe("authenticated");
    expect(kinds.at(-1)).toBe("unauthenticated");
  });

  test("that this process revoked stops working here at once, although its text was right a moment ago", async () => {
    const scene = await setUp();
    const { text, key } = await newKey(scene);
    for (let use = 0; use < 2; use += 1)
      expect((await authenticate(scene, scene.plane, text)).kind).toBe("authenticated");
    await scene.flow.finish(scene.plane.api.revokeKey({ by: "root", tenant: acme, keyId: key.keyId }));
    expect((await authenticate(scene, scene.plane, text)).kind).toBe("unauthenticated");
  });

  test("that is unknown, mistyped, or has another secret is refused, also while the right one is remembered", async () => {
    const scene = await setUp();
    const { text, key } = await newKey(scene);
    await authenticate(scene, scene.plane, text);
    const wrong = makeKeyText({ keyId: key.keyId, secret: "0".repeat(64) });
    const unknown = makeKeyText({ keyId: `${acme}.0000000000000000`, secret: "0".repeat(64) });
    const moved = makeKeyText({
      keyId: `beta.${key.keyId.slice(5)}`,
      secret: readKeyText(text)?.secret as string,
    });
    for (const bad of [
      wrong,
      unknown,
      moved,
      "",
      "ilk_",
      `${text}0`,
      text.slice(0, -1),
      text.toUpperCase(),
    ]) {
      expect(await authenticate(scene, scene.plane, bad)).toEqual({ kind: "unauthenticated" });
    }
    expect((await authenticate(scene, scene.plane, text)).kind).toBe("authenticated");
  });

  test("that is mistyped is refused without a call", async () => {
    const scene = await setUp();
    const { text } = await newKey(scene);
    const before = scene.plane.member.calls.length;
    const at = text.length - 20;
    const mistyped = `${text.slice(0, at)}${text[at] === "a" ? "b" : "a"}${text.slice(at + 1)}`;
    expect(await authenticate(scene, scene.plane, mistyped)).toEqual({ kind: "unauthenticated" });
    expect(scene.plane.member.calls).toHaveLength(before);
  });

  test("is refused once it has expired, also while it is remembered", async () => {
    const scene = await setUp();
    const { text } = await newKey(scene, { expiresAtMs: scene.flow.world.server.timeMs() + 2_000 });
    expect((await authenticate(scene, scene.plane, text)).kind).toBe("authenticated");
    await scene.flow.pass(2_001);
    expect(await authenticate(scene, scene.plane, text)).toEqual({ kind: "unauthenticated" });
    expect(await authenticate(scene, scene.other, text)).toEqual({ kind: "unauthenticated" });
  });

  test("that nobody can look up is trouble, never a yes or a no", async () => {
    const scene = await setUp();
    const { text } = await newKey(scene);
    scene.other.member.fail({ getDocument: "request_lost" });
    expect((await authenticate(scene, scene.other, text)).kind).toBe("unknown");
    scene.other.member.fail({ getDocument: "unavailable" });
    expect((await authenticate(scene, scene.other, text)).kind).toBe("unavailable");
  });

  test("of the platform belongs to no customer", async () => {
    const { flow, plane } = await setUp();
    const options = { role: "platform", name: "root" } as const;
    const { text } = only(
      await flow.finish(plane.api.createKey({ by: "root", tenant: platformTenant, ...options })),
      "created",
    );
    const answer = only(
      await flow.finish(Promise.resolve(plane.api.authenticate({ text }))),
      "authenticated",
    );
    expect(answer.key.tenant).toBe(platformTenant);
  });
});

describe("a revoked key", () => {
  async function revoked() {
    const scene = await setUp();
    const { text, key } = await newKey(scene);
    await authenticate(scene, scene.plane, text);
    await authenticate(scene, scene.other, text);
    only(
      await scene.flow.finish(scene.plane.api.revokeKey({ by: "root", tenant: acme, keyId: key.keyId })),
      "revoked",
    );
    return { scene, text, key };
  }

  test("is refused at once by the process that revoked it, and within four seconds by all", async () => {
    const { scene, text } = await revoked();
    expect(await authenticate(scene, scene.plane, text)).toEqual({ kind: "unauthenticated" });
    expect((await authenticate(scene, scene.other, text)).kind).toBe("authenticated");
    await scene.flow.pass(4_000);
    expect(await authenticate(scene, scene.other, text)).toEqual({ kind: "unauthenticated" });
  });

  test("starts, reports, decides, cancels and claims nothing from that moment, whatever is remembered elsewhere", async () => {
    const scene = await setUp();
    const { flow, other } = scene;
    const { key } = await newKey(scene);
    const caller: Caller = { tenant: acme, actor: "ci", credential: key.keyId };
    await other.save("w", { a: work(), ok: { type: "approval" }, late: work({ topic: "late" }) });
    const runId = await other.start("w");
    const { job, token } = single(await other.poll());
    only(
      await flow.finish(scene.plane.api.revokeKey({ by: "root", tenant: acme, keyId: key.keyId })),
      "revoked",
    );

    const started = await flow.finish(other.api.startWorkflow({ caller, workflow: "w", input: {} }));
    expect(started.kind).toBe("unauthenticated");
    const report = { jobId: job.jobId, token, outcome: "succeeded" } as const;
    const reported = await flow.finish(other.api.reportResult({ caller, ...report }));
    expect(reported).toEqual({ kind: "unauthenticated" });
    const approvalId = `${runId}:ok@1`;
    const decided = await flow.finish(other.api.decideApproval({ caller, approvalId, decision: "approved" }));
    expect(decided).toEqual({ kind: "unauthenticated" });
    expect((await flow.finish(other.api.cancelRun({ caller, runId, reason: "mine" }))).kind).not.toBe(
      "cancelling",
    );
    const polled = await flow.finish(other.api.pollJobs(pollOf({ caller, topics: ["late"] })));
    expect(polled).toEqual({ kind: "unauthenticated" });

    expect(await flow.status(runId)).toBe("running");
    expect((await flow.header(runId)).cancelRequested).toBeUndefined();
    expect((await flow.job(job.jobId)).state).toBe("claimed");
    const good = await flow.finish(
      other.api.reportResult({ caller: { tenant: acme, actor: "w" }, ...report }),
    );
    expect(good).toEqual({ kind: "accepted" });
  });

  test("replays nothing either: its holder learns of no run", async () => {
    const scene = await setUp();
    const { flow, other } = scene;
    const { key } = await newKey(scene);
    await other.save("w", { a: work() });
    const caller: Caller = { tenant: acme, actor: "ci", credential: key.keyId };
    const request = { caller, workflow: "w", input: {}, key: { text: "once", fingerprint: "v1:x" as never } };
    only(await flow.finish(other.api.startWorkflow(request)), "admitted");
    await flow.finish(scene.plane.api.revokeKey({ by: "root", tenant: acme, keyId: key.keyId }));
    expect((await flow.finish(other.api.startWorkflow(request))).kind).toBe("unauthenticated");
  });

  test("stays revoked when a hundred others are revoked after it", async () => {
    const { scene, text } = await revoked();
    for (let index = 0; index < 101; index += 1) {
      const { key } = await newKey(scene);
      only(
        await scene.flow.finish(scene.plane.api.revokeKey({ by: "root", tenant: acme, keyId: key.keyId })),
        "revoked",
      );
    }
    await scene.flow.pass(4_000);
    for (const plane of [scene.plane, scene.other]) {
      expect(await authenticate(scene, plane, text)).toEqual({ kind: "unauthenticated" });
    }
  });

  test("again is not found, an unknown one is not found, and neither changes the tenant", async () => {
    const { scene, key } = await revoked();
    const { api } = scene.plane;
    const before = await scene.flow.finish(api.readEvents({ tenant: acme, after: 0, limit: 100 }));
    for (const keyId of [key.keyId, `${acme}.unknown`, "*", ""]) {
      expect((await scene.flow.finish(api.revokeKey({ by: "root", tenant: acme, keyId }))).kind).toBe(
        "api_key_not_found",
      );
    }
    expect(await scene.flow.finish(api.readEvents({ tenant: acme, after: 0, limit: 100 }))).toEqual(before);
    const nobody = "nobody" as TenantId;
    await scene.flow.finish(api.revokeKey({ by: "root", tenant: nobody, keyId: "nobody.x" }));
    expect(await scene.flow.finish(api.readEvents({ tenant: nobody, after: 0, limit: 100 }))).toMatchObject({
      events: [],
    });
  });

  test("whose revocation has no answer is revoked when asked again", async () => {
    const scene = await setUp();
    const { text, key } = await newKey(scene);
    scene.plane.member.fail({ setTenant: "request_lost" });
    expect(
      (await scene.flow.finish(scene.plane.api.revokeKey({ by: "root", tenant: acme, keyId: key.keyId })))
        .kind,
    ).toBe("unknown");
    expect((await authenticate(scene, scene.other, text)).kind).toBe("authenticated");
    scene.plane.member.fail({});
    only(
      await scene.flow.finish(scene.plane.api.revokeKey({ by: "root", tenant: acme, keyId: key.keyId })),
      "revoked",
    );
  });
});

describe("a tenant", () => {
  test("is made once, listed, and read with its settings and its active runs", async () => {
    const { flow, plane } = await setUp();
    const make = () =>
      flow.finish(
        plane.api.createTenant({ actor: "root", tenant: acme, settings: { maxConcurrentRuns: 2 } }),
      );
    expect(await make()).toEqual({ kind: "created" });
    expect(await make()).toEqual({ kind: "tenant_exists" });
    const answer = only(await flow.finish(plane.api.getTenant({ tenant: acme })), "tenant");
    expect(answer).toMatchObject({ record: { settings: { maxConcurrentRuns: 2 } }, active: 0 });
    const listed = only(await flow.finish(plane.api.listTenants({ after: "", limit: 10 })), "listed");
    expect(listed.tenants).toEqual([acme]);
    expect((await flow.finish(plane.api.getTenant({ tenant: "beta" as TenantId }))).kind).toBe(
      "tenant_not_found",
    );
  });

  test("has single settings changed, and one of two changes by the same version refused", async () => {
    const { flow, plane, other } = await setUp();
    await flow.finish(
      plane.api.createTenant({
        actor: "root",
        tenant: acme,
        settings: { maxConcurrentRuns: 2, stopped: true },
      }),
    );
    const change = plane.api.changeTenant({
      actor: "root",
      tenant: acme,
      changes: { stopped: undefined, resultsStrategy: "retry" },
    });
    const saved = only(await flow.finish(change), "saved");
    expect(saved.record.settings).toEqual({ maxConcurrentRuns: 2, resultsStrategy: "retry" });
    const { version } = saved.record;
    only(
      await flow.finish(
        other.api.changeTenant({
          actor: "a",
          tenant: acme,
          changes: { maxConcurrentRuns: 3 },
          expectedVersion: version,
        }),
      ),
      "saved",
    );
    const second = await flow.finish(
      plane.api.changeTenant({
        actor: "b",
        tenant: acme,
        changes: { maxConcurrentRuns: 4 },
        expectedVersion: version,
      }),
    );
    expect(second).toEqual({ kind: "version_conflict", version: version + 1 });
  });

  test("changed by many at once without a version keeps every change", async () => {
    const { flow, plane, other } = await setUp();
    await flow.finish(plane.api.createTenant({ actor: "root", tenant: acme, settings: {} }));
    const changes = [
      plane.api.changeTenant({ actor: "a", tenant: acme, changes: { maxConcurrentRuns: 7 } }),
      other.api.changeTenant({ actor: "b", tenant: acme, changes: { resultsStrategy: "retry" } }),
      plane.api.changeTenant({ actor: "c", tenant: acme, changes: { separateDuties: true } }),
      other.api.changeTenant({ actor: "d", tenant: acme, changes: { approvalsStrategy: "lock" } }),
    ];
    const answers = await flow.finish(Promise.all(changes));
    expect(answers.map(({ kind }) => kind)).toEqual(["saved", "saved", "saved", "saved"]);
    const { record } = only(await flow.finish(plane.api.getTenant({ tenant: acme })), "tenant");
    expect(record.settings).toEqual({
      maxConcurrentRuns: 7,
      resultsStrategy: "retry",
      separateDuties: true,
      approvalsStrategy: "lock",
    });
  });

  test("that is stopped starts nothing from that moment, in any process, and goes on when told to", async () => {
    const { flow, plane, other } = await setUp();
    await flow.finish(plane.api.createTenant({ actor: "root", tenant: acme, settings: {} }));
    await other.save("w", { a: work() });
    await other.start("w");
    await flow.finish(plane.api.changeTenant({ actor: "root", tenant: acme, changes: { stopped: true } }));
    const request = { caller: ann, workflow: "w", input: {} };
    expect((await flow.finish(other.api.startWorkflow(request))).kind).toBe("tenant_stopped");
    await flow.finish(plane.api.changeTenant({ actor: "root", tenant: acme, changes: { stopped: false } }));
    await other.start("w", {}, ben);
  });
});
