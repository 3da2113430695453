// Every method of the client, by a table: the request that it sends, what it gives, and that it heeds its caller's options.
import { describe, expect, test } from "vitest";
import type { Client } from "../../src/sdk/client.ts";
import { answered, pathOfId as at, type Common, id, pathOf, recorded } from "../support/sdk-recorded.ts";
import { walks } from "../support/sdk-walks.ts";

type Row = {
  readonly call: (client: Client, options: Common) => unknown;
  /** Method and path with its query. */
  readonly sends: string;
  /** Undefined: the request has none. */
  readonly body?: unknown;
  readonly gives: "the answer" | "its items" | "nothing" | "a started run";
};

const calls: Readonly<Record<string, Row>> = {
  status: {
    call: (client, options) => client.status(options),
    sends: "GET /api/v1/status",
    gives: "the answer",
  },
  lookUpKey: {
    call: (client, options) => client.lookUpKey(id, options),
    sends: `GET /api/v1/idempotency-keys/${at}`,
    gives: "the answer",
  },
  "workflows.save": {
    call: (client, options) => client.workflows.save({ id: "w", steps: {} }, options),
    ...{ sends: "POST /api/v1/workflows", body: { id: "w", steps: {} }, gives: "the answer" },
  },
  "workflows.validate": {
    call: (client, options) => client.workflows.validate({ id: "w" }, options),
    ...{ sends: "POST /api/v1/workflows/validate", body: { id: "w" }, gives: "the answer" },
  },
  "workflows.get": {
    call: (client, options) => client.workflows.get(id, options),
    ...{ sends: `GET /api/v1/workflows/${at}`, gives: "the answer" },
  },
  "workflows.remove": {
    call: (client, options) => client.workflows.remove(id, options),
    ...{ sends: `DELETE /api/v1/workflows/${at}`, gives: "nothing" },
  },
  "runs.start": {
    call: (client, options) => client.runs.start(id, { n: 1 }, options),
    ...{ sends: `POST /api/v1/workflows/${at}/runs`, body: { n: 1 }, gives: "a started run" },
  },
  "runs.start of a definition": {
    call: (client, options) => client.runs.start({ id }, { n: 1 }, options),
    ...{ sends: `POST /api/v1/workflows/${at}/runs`, body: { n: 1 }, gives: "a started run" },
  },
  "runs.dryRun": {
    call: (client, options) => client.runs.dryRun(id, { input: { n: 1 }, outputs: { one: 2 } }, options),
    sends: `POST /api/v1/workflows/${at}/dry-run`,
    ...{ body: { input: { n: 1 }, outputs: { one: 2 } }, gives: "the answer" },
  },
  "runs.dryRun of a definition, with nothing": {
    call: (client, options) => client.runs.dryRun({ id }, undefined, options),
    ...{ sends: `POST /api/v1/workflows/${at}/dry-run`, body: {}, gives: "the answer" },
  },
  "runs.get": {
    call: (client, options) => client.runs.get(id, options),
    ...{ sends: `GET /api/v1/workflow-runs/${at}`, gives: "the answer" },
  },
  "runs.cancel": {
    call: (client, options) => client.runs.cancel(id, options),
    ...{ sends: `POST /api/v1/workflow-runs/${at}/cancel`, body: {}, gives: "nothing" },
  },
  "runs.cancel for a reason": {
    call: (client, options) => client.runs.cancel(id, { reason: "why not", ...options }),
    ...{ sends: `POST /api/v1/workflow-runs/${at}/cancel`, body: { reason: "why not" }, gives: "nothing" },
  },
  "runs.why": {
    call: (client, options) => client.runs.why(id, options),
    ...{ sends: `GET /api/v1/workflow-runs/${at}/why`, gives: "the answer" },
  },
  "runs.rerun": {
    call: (client, options) => client.runs.rerun(id, { fromStep: "two", ...options }),
    sends: `POST /api/v1/workflow-runs/${at}/rerun`,
    ...{ body: { from_step: "two" }, gives: "a started run" },
  },
  "runs.planRerun": {
    call: (client, options) => client.runs.planRerun(id, { fromStep: "two", ...options }),
    sends: `POST /api/v1/workflow-runs/${at}/rerun`,
    ...{ body: { from_step: "two", dry_run: true }, gives: "the answer" },
  },
  "runs.remove": {
    call: (client, options) => client.runs.remove(id, options),
    ...{ sends: `DELETE /api/v1/workflow-runs/${at}`, gives: "nothing" },
  },
  "approvals.context": {
    call: (client, options) => client.approvals.context(id, options),
    ...{ sends: `GET /api/v1/approvals/${at}/context`, gives: "the answer" },
  },
  "approvals.approve": {
    call: (client, options) => client.approvals.approve(id, { reason: "fine" }, options),
    ...{ sends: `POST /api/v1/approvals/${at}/approve`, body: { reason: "fine" }, gives: "the answer" },
  },
  "approvals.approve without a word": {
    call: (client, options) => client.approvals.approve(id, undefined, options),
    ...{ sends: `POST /api/v1/approvals/${at}/approve`, body: {}, gives: "the answer" },
  },
  "approvals.reject": {
    call: (client, options) => client.approvals.reject(id, { reason: "no" }, options),
    ...{ sends: `POST /api/v1/approvals/${at}/reject`, body: { reason: "no" }, gives: "the answer" },
  },
  "deadLetters.get": {
    call: (client, options) => client.deadLetters.get(id, options),
    ...{ sends: `GET /api/v1/dlq/${at}`, gives: "the answer" },
  },
  "deadLetters.retry": {
    call: (client, options) => client.deadLetters.retry(id, options),
    ...{ sends: `POST /api/v1/dlq/${at}/retry`, body: {}, gives: "the answer" },
  },
  "deadLetters.remove": {
    call: (client, options) => client.deadLetters.remove(id, options),
    ...{ sends: `DELETE /api/v1/dlq/${at}`, gives: "nothing" },
  },
  "deadLetters.purge": {
    call: (client, options) => client.deadLetters.purge({ state: "open" }, options),
    ...{ sends: "POST /api/v1/dlq/purge", body: { state: "open" }, gives: "the answer" },
  },
  "tenants.create": {
    call: (client, options) => client.tenants.create({ id: "acme" }, options),
    ...{ sends: "POST /api/v1/tenants", body: { id: "acme" }, gives: "the answer" },
  },
  "tenants.get": {
    call: (client, options) => client.tenants.get(id, options),
    ...{ sends: `GET /api/v1/tenants/${at}`, gives: "the answer" },
  },
  "tenants.change": {
    call: (client, options) => client.tenants.change(id, { stopped: true }, options),
    ...{ sends: `PATCH /api/v1/tenants/${at}`, body: { stopped: true }, gives: "the answer" },
  },
  "tenants.remove": {
    call: (client, options) => client.tenants.remove(id, options),
    ...{ sends: `DELETE /api/v1/tenants/${at}`, gives: "nothing" },
  },
  "keys.list": {
    call: (client, options) => client.keys.list({ tenant: "acme", ...options }),
    ...{ sends: "GET /api/v1/keys?tenant=acme", gives: "its items" },
  },
  "keys.create": {
    call: (client, options) => client.keys.create({ role: "viewer", name: "n" }, options),
    ...{ sends: "POST /api/v1/keys", body: { role: "viewer", name: "n" }, gives: "the answer" },
  },
  "keys.get": {
    call: (client, options) => client.keys.get(id, { tenant: "acme", ...options }),
    ...{ sends: `GET /api/v1/keys/${at}?tenant=acme`, gives: "the answer" },
  },
  "keys.revoke": {
    call: (client, options) => client.keys.revoke(id, { tenant: "acme", ...options }),
    ...{ sends: `DELETE /api/v1/keys/${at}?tenant=acme`, gives: "nothing" },
  },
  "events.page": {
    call: (client, options) => client.events.page({ limit: 3, tenant: "acme", ...options }),
    ...{ sends: "GET /api/v1/events?limit=3&tenant=acme", gives: "the answer" },
  },
  "audit.verify": {
    call: (client, options) => client.audit.verify({ tenant: "acme", ...options }),
    ...{ sends: "GET /api/v1/audit/verify?tenant=acme", gives: "the answer" },
  },
  "jobs.get": {
    call: (client, options) => client.jobs.get(id, options),
    ...{ sends: `GET /api/v1/jobs/${at}`, gives: "the answer" },
  },
  "jobs.ready": {
    call: (client, options) => client.jobs.ready("t", { limit: 5, ...options }),
    ...{ sends: "GET /api/v1/jobs?limit=5&topic=t", gives: "its items" },
  },
  "jobs.workers": {
    call: (client, options) => client.jobs.workers(options),
    ...{ sends: "GET /api/v1/workers", gives: "its items" },
  },
  "pools.list": {
    call: (client, options) => client.pools.list(options),
    ...{ sends: "GET /api/v1/pools", gives: "its items" },
  },
  "pools.get": {
    call: (client, options) => client.pools.get(id, options),
    ...{ sends: `GET /api/v1/pools/${at}`, gives: "the answer" },
  },
  "pools.set": {
    call: (client, options) => client.pools.set(id, { max_running: 2 } as object, options),
    ...{ sends: `PUT /api/v1/pools/${at}`, body: { max_running: 2 }, gives: "the answer" },
  },
  "pools.change": {
    call: (client, options) => client.pools.change(id, { max_running: 3 } as object, options),
    ...{ sends: `PATCH /api/v1/pools/${at}`, body: { max_running: 3 }, gives: "the answer" },
  },
  "pools.remove": {
    call: (client, options) => client.pools.remove(id, options),
    ...{ sends: `DELETE /api/v1/pools/${at}`, gives: "nothing" },
  },
  "pools.drain": {
    call: (client, options) => client.pools.drain(id, options),
    ...{ sends: `POST /api/v1/pools/${at}/drain`, body: { draining: true }, gives: "the answer" },
  },
  "pools.undrain": {
    call: (client, options) => client.pools.undrain(id, options),
    ...{ sends: `POST /api/v1/pools/${at}/drain`, body: { draining: false }, gives: "the answer" },
  },
  "pools.addTopic": {
    call: (client, options) => client.pools.addTopic(id, "t", options),
    ...{ sends: `PUT /api/v1/pools/${at}/topics/t`, gives: "the answer" },
  },
  "pools.removeTopic": {
    call: (client, options) => client.pools.removeTopic(id, "t", options),
    ...{ sends: `DELETE /api/v1/pools/${at}/topics/t`, gives: "nothing" },
  },
  "queues.show": {
    call: (client, options) => client.queues.show(id, { limit: 7, ...options }),
    ...{ sends: `GET /api/v1/gates/${at}?limit=7`, gives: "the answer" },
  },
  "queues.move": {
    call: (client, options) => client.queues.move(id, "head", options),
    sends: `POST /api/v1/workflow-runs/${at}/queue`,
    ...{ body: { to: "head", move_id: expect.any(String) }, gives: "nothing" },
  },
  "topics.list": {
    call: (client, options) => client.topics.list(options),
    ...{ sends: "GET /api/v1/topics", gives: "its items" },
  },
  "topics.limit": {
    call: (client, options) => client.topics.limit(id, { max_running: 2 } as never, options),
    ...{ sends: `PUT /api/v1/topics/${at}`, body: { max_running: 2 }, gives: "the answer" },
  },
  "topics.removeLimit": {
    call: (client, options) => client.topics.removeLimit(id, options),
    ...{ sends: `DELETE /api/v1/topics/${at}`, gives: "nothing" },
  },
  "policies.get": {
    call: (client, options) => client.policies.get({ tenant: "acme" }, options),
    ...{ sends: "GET /api/v1/policies?tenant=acme", gives: "the answer" },
  },
  "policies.get of the platform": {
    call: (client, options) => client.policies.get(undefined, options),
    ...{ sends: "GET /api/v1/policies", gives: "the answer" },
  },
  "policies.set": {
    call: (client, options) => client.policies.set({ tenant: "acme" } as never, options),
    ...{ sends: "PUT /api/v1/policies", body: { tenant: "acme" }, gives: "the answer" },
  },
  "policies.rollBack": {
    call: (client, options) => client.policies.rollBack({ tenant: "acme" }, options),
    ...{ sends: "DELETE /api/v1/policies/rollout?tenant=acme", gives: "the answer" },
  },
  "canaries.list": {
    call: (client, options) => client.canaries.list(options),
    ...{ sends: "GET /api/v1/canaries", gives: "its items" },
  },
  "canaries.start": {
    call: (client, options) => client.canaries.start({ n: 1 } as never, options),
    ...{ sends: "POST /api/v1/canaries", body: { n: 1 }, gives: "the answer" },
  },
  "canaries.get": {
    call: (client, options) => client.canaries.get(id, options),
    ...{ sends: `GET /api/v1/canaries/${at}`, gives: "the answer" },
  },
  "canaries.rollBack": {
    call: (client, options) => client.canaries.rollBack(id, { reason: "slow" } as object, options),
    ...{ sends: `POST /api/v1/canaries/${at}/rollback`, body: { reason: "slow" }, gives: "the answer" },
  },
  "canaries.keep": {
    call: (client, options) => client.canaries.keep(id, undefined, options),
    ...{ sends: `POST /api/v1/canaries/${at}/keep`, body: {}, gives: "the answer" },
  },
  "locks.acquire": {
    call: (client, options) => client.locks.acquire({ resource: "r", token: "mine-mine-mine-mine" }, options),
    sends: "POST /api/v1/locks/acquire",
    ...{ body: { resource: "r", token: "mine-mine-mine-mine" }, gives: "the answer" },
  },
  "locks.renew": {
    call: (client, options) => client.locks.renew({ resource: "r", token: "t" }, options),
    ...{ sends: "POST /api/v1/locks/renew", body: { resource: "r", token: "t" }, gives: "the answer" },
  },
  "locks.release": {
    call: (client, options) => client.locks.release({ resource: "r", token: "t" }, options),
    ...{ sends: "POST /api/v1/locks/release", body: { resource: "r", token: "t" }, gives: "the answer" },
  },
  "locks.get": {
    call: (client, options) => client.locks.get("r/1", options),
    ...{ sends: "GET /api/v1/locks?resource=r%2F1", gives: "the answer" },
  },
  "locks.break": {
    call: (client, options) => client.locks.break({ key: "k" } as never, options),
    ...{ sends: "POST /api/v1/admin/locks/force-release", body: { key: "k" }, gives: "the answer" },
  },
};

const given = {
  "the answer": answered,
  "its items": answered.items,
  nothing: undefined,
  "a started run": { ...answered, replayed: false },
};

const leaving = AbortSignal.abort(new Error("leaving"));

describe("calls", () => {
  test.each(Object.entries(calls))("%s", async (_, { call, sends, body, gives }) => {
    const { client, sent } = recorded();
    expect(await call(client, { headers: { "x-note": "n" } })).toEqual(given[gives]);
    expect(sent.map(pathOf)).toEqual([sends]);
    const [request] = sent as [Request];
    const text = await request.text();
    expect(text === "" ? undefined : JSON.parse(text)).toEqual(body);
    expect(request.headers.get("content-type")).toBe(body === undefined ? null : "application/json");
    expect(request.headers.get("x-note")).toBe("n");
    await expect(call(client, { signal: leaving })).rejects.toThrow("leaving");
    expect(sent).toHaveLength(1);
  });
});

describe("lists", () => {
  test.each(Object.entries(walks))("%s", async (_, { list, sends, cursor }) => {
    const pages = [
      { items: ["a", "b"], next_cursor: "c2" },
      { items: ["c"], next_cursor: null },
    ];
    const { client, sent } = recorded(pages);
    const seen: unknown[] = [];
    for await (const item of list(client, { headers: { "x-note": "n" } })) seen.push(item);
    expect(seen).toEqual(["a", "b", "c"]);
    expect(sent.map(pathOf)).toEqual([sends, `${sends}${cursor}`]);
    expect(sent.map(({ headers }) => headers.get("x-note"))).toEqual(["n", "n"]);
    const stopped = list(client, { signal: leaving })[Symbol.asyncIterator]();
    await expect(stopped.next()).rejects.toThrow("leaving");
    expect(sent).toHaveLength(2);
  });

  test("of the audit trail begin after a place, and go on by their cursors alone", async () => {
    const { client, sent } = recorded([
      { items: [1], next_cursor: "c2" },
      { items: [2], next_cursor: null },
    ]);
    expect(await client.audit.list({ after: 7, tenant: "acme" }).take(9)).toEqual([1, 2]);
    expect(sent.map(pathOf)).toEqual([
      "GET /api/v1/audit?tenant=acme&after=7",
      "GET /api/v1/audit?tenant=acme&cursor=c2",
    ]);
  });

  test("give one page, page after page, or so many items, and read no page that is not needed", async () => {
    const pages = [
      { items: ["a", "b"], next_cursor: "c2" },
      { items: ["c", "d"], next_cursor: null },
    ];
    const page = recorded(pages);
    expect(await page.client.tenants.list().page()).toEqual(pages[0]);
    expect(page.sent).toHaveLength(1);
    const seen: unknown[] = [];
    for await (const each of recorded(pages).client.tenants.list().pages()) seen.push(each);
    expect(seen).toEqual(pages);
    for (const [count, items, asked] of [
      [0, [], 0],
      [1, ["a"], 1],
      [2, ["a", "b"], 1],
      [3, ["a", "b", "c"], 2],
      [9, ["a", "b", "c", "d"], 2],
    ] as const) {
      const taking = recorded(pages);
      expect(await taking.client.tenants.list().take(count)).toEqual(items);
      expect(taking.sent).toHaveLength(asked);
    }
  });
});

test("every method of the client has its row above", () => {
  const { client } = recorded();
  const named = new Set([...Object.keys(calls), ...Object.keys(walks)].map((name) => name.split(" ")[0]));
  const elsewhere = ["call", "callWithResponse", "stream", "runs.wait", "events.follow"];
  const methods = Object.entries(client).flatMap(([name, value]) => {
    if (typeof value === "string") return [];
    return typeof value === "function" ? [name] : Object.keys(value).map((method) => `${name}.${method}`);
  });
  expect([...named, ...elsewhere].sort()).toEqual(methods.sort());
});
