// What counts as the same request, list, poll or lock, and what does not, where two spellings or two owners come close.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type GatewayWorld, makeThings, openGatewayWorld, type Things } from "../support/gateway-world.ts";

let world: GatewayWorld;
let things: Things;
beforeAll(async () => {
  world = await openGatewayWorld();
  things = await makeThings(world);
});
afterAll(() => world.close());

/** What came of it: the code of a refusal, `replayed`, or `new`. */
async function send(path: string, key: string, text: string | undefined): Promise<string> {
  const answer = await world.ask("POST", `/api/v1${path}`, {
    key: world.acme.operator,
    headers: { "idempotency-key": key },
    ...(text === undefined ? {} : { text }),
  });
  if (answer.status !== 200) return String(answer.json.code);
  if (answer.json.dry_run === true) return "dry run";
  return answer.headers.get("idempotent-replayed") === "true" ? "replayed" : "new";
}

describe("a start with a key", () => {
  const first = '{"a":1,"b":{"x":1.5,"y":"é"}}';
  const rows: ReadonlyArray<readonly [expected: string, path: string, text: string | undefined]> = [
    ["replayed", "", first],
    ["replayed", "", '{"b":{"y":"\\u00e9","x":15e-1},"a":1.0}'],
    ["replayed", "", ' { "a" : 1 , "b" : { "x" : 1.50 , "y" : "é" } } '],
    ["replayed", "", '{"a":1,"b":{"x":1.5,"y":"é"},"org_id":"acme"}'],
    ["replayed", "?dry_run=false", first],
    ["idempotency_key_reused", "", '{"a":1,"b":{"x":1.5,"y":"e\\u0301"}}'],
    ["idempotency_key_reused", "", '{"a":"1","b":{"x":1.5,"y":"é"}}'],
    ["idempotency_key_reused", "", '{"a":1,"b":{"x":1.5,"y":"é","org_id":"acme"}}'],
    ["idempotency_key_reused", "", '{"a":1,"b":{"x":1.5}}'],
    ["idempotency_key_reused", "", '{"a":1,"b":{"x":1.5,"y":"é"},"c":null}'],
    ["idempotency_key_reused", "", "{}"],
    ["idempotency_key_reused", "?team_id=t", first],
    ["dry run", "?dry_run=true", first],
  ];

  test("is the same whatever its spelling, and another with every value", async () => {
    expect(await send("/workflows/simple/runs", "k-start", first)).toBe("new");
    const found = [];
    for (const [, query, text] of rows)
      found.push(await send(`/workflows/simple/runs${query}`, "k-start", text));
    // A parameter that says what holds anyway is still another request: the fingerprint is of what was sent.
    const expected = rows.map(([each, query]) =>
      query === "?dry_run=false" ? "idempotency_key_reused" : each,
    );
    expect(found).toEqual(expected);
    expect(await send("/workflows/%73imple/runs", "k-start", first)).toBe("replayed");
    expect(await send("/workflows/list/runs", "k-start", first)).toBe("idempotency_key_reused");
  });

  test("is found under its key quoted, bare and trimmed, and under no other that is near", async () => {
    expect(await send("/workflows/simple/runs", "Near-1", "{}")).toBe("new");
    const same = ['"Near-1"', " Near-1 "];
    for (const key of same)
      expect([key, await send("/workflows/simple/runs", key, "{}")]).toEqual([key, "replayed"]);
    for (const key of ["near-1", "Near-1.", "Near-10", "Near%2D1", "'Near-1'"]) {
      expect([key, await send("/workflows/simple/runs", key, "{}")]).toEqual([key, "new"]);
    }
  });
});

describe("a rerun with a key", () => {
  /** Of a run whose first step is done. */
  async function rerunPath(): Promise<string> {
    const workflow = {
      id: "two",
      steps: {
        a: { type: "worker", topic: "two" },
        b: { type: "worker", topic: "never", depends_on: ["a"] },
      },
    };
    await world.ask("POST", "/api/v1/workflows", { key: world.acme.admin, body: workflow });
    const started = await world.ask("POST", "/api/v1/workflows/two/runs", {
      key: world.acme.operator,
      body: {},
    });
    const run = String(started.json.run_id);
    const polled = await world.ask("POST", "/api/v1/jobs/poll", {
      key: world.acme.worker,
      body: { worker_id: "w-2", topics: ["two"], poll_id: "two", max_jobs: 1, wait_ms: 5_000 },
    });
    const [job] = polled.json.jobs as Array<{ job_id: string; claim_token: string }>;
    const result = { job_id: job?.job_id, claim_token: job?.claim_token, status: "succeeded", output: 1 };
    await world.ask("POST", "/api/v1/jobs/results", {
      key: world.acme.worker,
      body: { worker_id: "w-2", results: [result] },
    });
    const path = `/workflow-runs/${run}/rerun`;
    const planned = () =>
      world.ask("POST", `/api/v1${path}`, {
        key: world.acme.operator,
        body: { from_step: "b", dry_run: true },
      });
    await expect.poll(async () => (await planned()).status).toBe(200);
    return path;
  }

  test("is the same with the same body only: another step or no body is another request", async () => {
    const path = await rerunPath();
    expect(await send(path, "k-rerun", '{"from_step":"b","dry_run":true}')).toBe("dry run");
    expect(await send(path, "k-rerun", '{"from_step":"b"}')).toBe("new");
    expect(await send(path, "k-rerun", '{ "from_step" : "\\u0062" }')).toBe("replayed");
    expect(await send(path.replace("run_", "%72un_"), "k-rerun", '{"from_step":"b"}')).toBe("replayed");
    expect(await send(path, "k-rerun", '{"from_step":"a"}')).toBe("idempotency_key_reused");
    expect(await send(path, "k-rerun", '{"from_step":"b","dry_run":false}')).toBe("idempotency_key_reused");
    for (const nothing of [undefined, "", "{}"])
      expect(await send(path, "k-rerun", nothing)).toBe("invalid_request");
    expect(await send("/workflows/two/runs", "k-rerun", '{"from_step":"b"}')).toBe("idempotency_key_reused");
  });
});

describe("of another one", () => {
  test("a lock's token opens nothing in another tenant or for another resource", async () => {
    const of = (key: "acme" | "globex", resource: string) =>
      Promise.all(
        ["renew", "release"].map(async (operation) => {
          const body = {
            resource,
            token: things.lockToken,
            ...(operation === "renew" ? { ttl_ms: 60_000 } : {}),
          };
          return (await world.ask("POST", `/api/v1/locks/${operation}`, { key: world[key].worker, body }))
            .json.code;
        }),
      );
    const none = ["lock_not_owned", "lock_not_owned"];
    expect(await of("globex", "invoice/7")).toEqual(none);
    for (const near of ["invoice%2F7", "Invoice/7", "invoice/70", "invoice:7"])
      expect(await of("acme", near)).toEqual(none);
    const held = await world.ask("GET", "/api/v1/locks?resource=invoice%2F7", { key: world.acme.viewer });
    expect(held.json.fence).toBe(things.lockFence);
  });

  test("an approval's hash and a claim's token are of one approval and one claim", async () => {
    const path = `/api/v1/approvals/${encodeURIComponent(things.approvalId)}/approve`;
    const wrong = await world.ask("POST", path, { key: world.acme.operator, body: { hash: "0".repeat(64) } });
    expect(wrong.json.code).toBe("approval_changed");
    const result = {
      job_id: things.jobId,
      claim_token: `${things.claimToken}x`,
      status: "succeeded",
      output: 1,
    };
    const report = await world.ask("POST", "/api/v1/jobs/results", {
      key: world.acme.worker,
      body: { worker_id: "w", results: [result] },
    });
    expect(report.json.results).toMatchObject([{ kind: "refused" }]);
  });

  test("tenants whose names are near have nothing in common", async () => {
    const names = ["near", "Near", "near.", "near-", "near_a", "near.a"];
    for (const id of names) {
      const made = await world.ask("POST", "/api/v1/tenants", {
        key: world.platform,
        body: { id, max_concurrent_runs: names.indexOf(id) + 1 },
      });
      expect([id, made.status]).toEqual([id, 201]);
    }
    for (const [index, id] of names.entries()) {
      const found = await world.ask("GET", `/api/v1/tenants/${id}`, { key: world.platform });
      expect([id, found.json.max_concurrent_runs]).toEqual([id, index + 1]);
    }
    for (const id of ["a:b", "a%3Ab", "é", "e\u0301", " near", "a/b", ""]) {
      const made = await world.ask("POST", "/api/v1/tenants", { key: world.platform, body: { id } });
      expect([id, made.json.code]).toEqual([id, "invalid_request"]);
    }
  });
});
