// Separate duties between persons, over HTTP: second keys, keys made for others, keys of two people that one admin made.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { platformTenant } from "../../src/domain/tenant.ts";
import { expectProblem } from "../support/gateway-requests.ts";
import {
  acme,
  type GatewayWorld,
  guardedWorkflow,
  makeKey,
  openGatewayWorld,
  type Received,
} from "../support/gateway-world.ts";

let world: GatewayWorld;

beforeAll(async () => {
  world = await openGatewayWorld();
  await world.ask("PATCH", "/api/v1/tenants/acme", { key: world.platform, body: { separate_duties: true } });
  await world.ask("POST", "/api/v1/workflows", { key: world.acme.admin, body: guardedWorkflow });
});

afterAll(() => world.close());

type Made = { readonly text: string; readonly id: string };

async function keyBy(maker: string, body: { role: string; name: string; owner?: string }): Promise<Made> {
  const { status, json } = await world.ask("POST", "/api/v1/keys", { key: maker, body });
  expect(status).toBe(201);
  return { text: String(json.key), id: String(json.id) };
}

/** Starts a run and decides on its approval. */
async function decide(starter: string, approver: string, decision = "approve"): Promise<Received> {
  const started = await world.ask("POST", "/api/v1/workflows/guarded/runs", { key: starter, body: {} });
  expect(started.status).toBe(200);
  return world.ask("POST", `/api/v1/approvals/${String(started.json.run_id)}:ok@1/${decision}`, {
    key: approver,
    body: {},
  });
}

describe("with separate duties, an approval", () => {
  test("is refused from a second key of the same owner, whatever it is called", async () => {
    const root = world.acme.admin.text;
    const mine = await keyBy(root, { role: "operator", name: "laptop", owner: "ada" });
    const second = await keyBy(root, { role: "approver", name: "phone", owner: "Ada" });
    const answer = await decide(mine.text, second.text);
    expectProblem(undefined, answer, "self_approval");
    expect(answer.json.detail).toContain("same owner");
    // The person who asked may take it back.
    expect((await decide(mine.text, second.text, "reject")).status).toBe(200);
  });

  test("is refused from a key that the requester made, for whomever, and through however many", async () => {
    const admin = world.acme.admin.text;
    const made = await keyBy(admin, { role: "admin", name: "for ben", owner: "ben" });
    const through = await keyBy(made.text, { role: "approver", name: "for cy", owner: "cy" });
    for (const approver of [made, through]) {
      const answer = await decide(admin, approver.text);
      expectProblem(undefined, answer, "self_approval");
      expect(answer.json.detail).toContain("your key was made by the owner of the key that asked");
    }
    const answer = await decide(made.text, admin);
    expectProblem(undefined, answer, "self_approval");
    expect(answer.json.detail).toContain("made by you");
  });

  test("is refused although the requester's key was revoked meanwhile", async () => {
    const mine = await keyBy(world.acme.admin.text, { role: "operator", name: "dan" });
    const started = await world.ask("POST", "/api/v1/workflows/guarded/runs", { key: mine.text, body: {} });
    await world.ask("DELETE", `/api/v1/keys/${mine.id}`, { key: world.acme.admin });
    const again = await keyBy(world.acme.admin.text, { role: "approver", name: "dan" });
    const path = `/api/v1/approvals/${String(started.json.run_id)}:ok@1/approve`;
    expectProblem(undefined, await world.ask("POST", path, { key: again.text, body: {} }), "self_approval");
  });

  test("of two people whose keys one admin made is accepted, and the audit row names all three", async () => {
    const root = await makeKey(world.plane, acme, "admin");
    const eve = await keyBy(root.text, { role: "operator", name: "key of eve", owner: "eve" });
    const fay = await keyBy(root.text, { role: "approver", name: "key of fay", owner: "fay" });
    const answer = await decide(eve.text, fay.text);
    expect(answer.status).toBe(200);
    expect(answer.json).toMatchObject({
      decided_by: fay.id,
      decided_by_name: "fay",
      decided_by_role: "approver",
    });
    const trail = await world.ask("GET", `/api/v1/audit?type=approval_decided&actor=${fay.id}`, {
      key: world.acme.viewer,
    });
    const [row] = trail.json.items as Array<Record<string, string>>;
    expect(row).toMatchObject({ actor: fay.id, actor_name: "fay", actor_role: "approver" });
    expect(row?.detail).toMatch(/^approved [0-9a-f]{64} by=fay role=approver made_by="admin of acme"$/);
    const listed = await world.ask("GET", "/api/v1/keys", { key: root.text });
    const shown = (listed.json.items as Array<{ id: string }>).find(({ id }) => id === fay.id);
    expect(shown).toMatchObject({
      ...{ owner: "fay", role: "approver", name: "key of fay" },
      ...{ made_through: ["admin of acme"], created_by: root.key.keyId },
    });
    const verified = await world.ask("GET", "/api/v1/audit/verify", { key: world.acme.viewer });
    expect(verified.json).toMatchObject({ status: "intact" });
  });
});

describe("a key of role", () => {
  test("approver decides and sees what it is about, and nothing else", async () => {
    const { approver, operator } = world.acme;
    const started = await world.ask("POST", "/api/v1/workflows/guarded/runs", { key: operator, body: {} });
    const run = `/api/v1/workflow-runs/${String(started.json.run_id)}`;
    const approval = `/api/v1/approvals/${String(started.json.run_id)}:ok@1`;
    const seen = ["/api/v1/approvals", `${approval}/context`, run, `${run}/why`, `${run}/timeline`];
    for (const path of [...seen, "/api/v1/workflows/guarded", "/api/v1/status"]) {
      expect((await world.ask("GET", path, { key: approver })).status).toBe(200);
    }
    for (const path of ["/api/v1/workflow-runs", "/api/v1/keys", "/api/v1/audit", "/api/v1/workflows"]) {
      expectProblem(undefined, await world.ask("GET", path, { key: approver }), "forbidden");
    }
    expect((await world.ask("POST", `${approval}/approve`, { key: approver, body: {} })).status).toBe(200);
  });

  test("metrics reads the metrics and its own status, is the platform's, and only the platform makes it", async () => {
    expect(world.metrics.key.tenant).toBe(platformTenant);
    for (const path of ["/metrics", "/api/v1/status"]) {
      expect((await world.ask("GET", path, { key: world.metrics })).status).toBe(200);
    }
    for (const path of ["/api/v1/tenants", "/api/v1/keys", "/api/v1/events", "/api/v1/audit"]) {
      expectProblem(undefined, await world.ask("GET", path, { key: world.metrics }), "forbidden");
    }
    const create = (key: string, body: object) => world.ask("POST", "/api/v1/keys", { key, body });
    const named = { role: "metrics", name: "prometheus" };
    expect((await create(world.platform.text, named)).status).toBe(201);
    expectProblem(undefined, await create(world.acme.admin.text, named), "forbidden");
    const ofAcme = { ...named, tenant: "acme" };
    expectProblem(undefined, await create(world.platform.text, ofAcme), "invalid_request");
  });
});
