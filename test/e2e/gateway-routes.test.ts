// Walks every route of the table against a real server: who may, what is refused and how, and that nothing leaks.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { keyRoles } from "../../src/domain/api-key.ts";
import type { ErrorCode } from "../../src/errors.ts";
import {
  examples,
  expectProblem,
  expectSuccess,
  keyFor,
  keyOf,
  pathOf,
  type Row,
  rows,
  withQuery,
} from "../support/gateway-requests.ts";
import {
  type GatewayWorld,
  makeThings,
  openGatewayWorld,
  type Received,
  type Sent,
  type Things,
} from "../support/gateway-world.ts";

let world: GatewayWorld;
let things: Things;
const answers: Received[] = [];

beforeAll(async () => {
  world = await openGatewayWorld({ "gateway.failedAuthenticationsPerMinute": 100_000 });
  things = await makeThings(world);
});

afterAll(() => world.close());

/** Asks for a route's example, or for something near it. */
async function ask(row: Row, sent: Sent & { readonly path?: string } = {}): Promise<Received> {
  const { body } = examples[row.operation](things);
  const answer = await world.ask(row.method, sent.path ?? pathOf(row, things), {
    ...(row.access === "open" ? {} : { key: keyFor(row, world) }),
    ...(body === undefined || sent.text !== undefined ? {} : { body }),
    ...sent,
  });
  answers.push(answer);
  return answer;
}

const keyed = rows.filter(({ access }) => access !== "open");
const withRoles = rows.filter(({ access }) => typeof access !== "string");
const withBody = rows.filter(({ body }) => body !== undefined);
/** A start takes any input, and a definition that is wrong is what the check of definitions is there for. */
const strict = withBody.filter(
  ({ operation }) => operation !== "startRun" && operation !== "validateWorkflow",
);
/** A PUT makes what it names. */
const withParams = rows.filter(({ path, method }) => path.includes("{") && method !== "PUT");
const makers = rows.filter(({ path, method }) => path.includes("{") && method === "PUT");
const paged = rows.filter(({ query }) => query !== undefined && "cursor" in query.shape);

describe("a key", () => {
  test.each(keyed)("is asked for by $operation", async (row) => {
    const answer = await ask(row, { key: undefined });
    expectProblem(row, answer, "unauthenticated");
    expect(answer.headers.get("www-authenticate")).toContain("Bearer");
  });

  test.each(keyed)(
    "that is mistyped, made up, sent twice or sent otherwise is refused by $operation",
    async (row) => {
      const good = keyFor(row, world)?.text ?? "";
      const broken = `${good.slice(0, -1)}${good.endsWith("0") ? "1" : "0"}`;
      for (const key of [broken, "x", "ilk_", good.toUpperCase(), `${good} `.repeat(2).trim()]) {
        expectProblem(row, await ask(row, { key }), "unauthenticated");
      }
      for (const authorization of [`Basic ${good}`, "Bearer", `Bearer ${broken}`, `Bearer ${good} ${good}`]) {
        expectProblem(row, await ask(row, { key: undefined, headers: { authorization } }), "unauthenticated");
      }
      const two = { "x-api-key": good, authorization: `Bearer ${broken}` };
      expectProblem(row, await ask(row, { key: undefined, headers: two }), "unauthenticated");
    },
  );

  test.each(withRoles)("of another role may not use $operation", async (row) => {
    for (const role of keyRoles.filter((one) => !row.access.includes(one))) {
      expectProblem(row, await ask(row, { key: keyOf(role, world) }), "forbidden");
    }
  });

  test("may be sent as a bearer token", async () => {
    const authorization = `Bearer ${world.acme.viewer.text}`;
    const answer = await world.ask("GET", "/api/v1/status", { headers: { authorization } });
    expect(answer.json).toMatchObject({ tenant: "acme", role: "viewer", version: "test" });
  });
});

describe("the tenant", () => {
  const ofTenants = withRoles.filter(({ access }) => access.includes("admin"));

  test.each(ofTenants)("is the key's in $operation, whatever else is named", async (row) => {
    const path = pathOf(row, things);
    const own = { path: withQuery(path, "org_id=acme&tenant_id=acme"), headers: { "x-tenant-id": "acme" } };
    for (const query of ["tenant=globex", "tenant_id=globex", "org_id=globex", "org_id=acme&org_id=globex"]) {
      expectProblem(row, await ask(row, { path: withQuery(path, query) }), "tenant_mismatch");
    }
    for (const name of ["X-Tenant-ID", "X-Org-Id"]) {
      expectProblem(row, await ask(row, { headers: { [name]: "globex" } }), "tenant_mismatch");
    }
    const { body } = examples[row.operation](things);
    if (row.body !== undefined) {
      for (const name of ["tenant", "tenant_id", "org_id"]) {
        for (const value of ["globex", "", null, ["acme"], { toString: "acme" }]) {
          expectProblem(row, await ask(row, { body: { ...body, [name]: value } }), "tenant_mismatch");
        }
      }
    }
    if (row.method === "GET") expectSuccess(row, await ask(row, own));
  });
});

const notFoundCodes: readonly ErrorCode[] = [
  "workflow_not_found",
  "run_not_found",
  "job_not_found",
  "approval_not_found",
  "tenant_not_found",
  "api_key_not_found",
  "dead_letter_not_found",
  "idempotency_key_unbound",
  "pool_not_found",
  "topic_not_found",
  "canary_not_found",
  "gate_not_found",
];

const hostile = [
  "__proto__",
  "constructor",
  "../../etc/passwd",
  "' OR 1=1 --",
  '"; return redis.call("FLUSHALL") --',
  "\u0000",
  "a\r\nSet-Cookie: x=1",
  "\u202Etxt.exe",
  "%00",
  "{{7*7}}",
  "${jndi:ldap://x}",
  "\ud83d\ude00",
  "x".repeat(900),
  " ",
  "*",
  "acme:*",
];

describe("an id", () => {
  test.each(withParams)("that nobody knows is 404 in $operation, hostile or not", async (row) => {
    const names = [...row.path.matchAll(/\{([a-z_]+)\}/g)].map(([, name]) => name ?? "");
    for (const id of ["unknown", "run_01_0123456789abcdef", "run_01_0123456789abcdef:one@1", ...hostile]) {
      const params = Object.fromEntries(names.map((name) => [name, id]));
      const answer = await ask(row, { path: pathOf(row, things, params) });
      expectProblem(row, answer, notFoundCodes);
    }
  });

  test.each(makers)("that is hostile makes nothing in $operation", async (row) => {
    const names = [...row.path.matchAll(/\{([a-z_]+)\}/g)].map(([, name]) => name ?? "");
    const before = await world.ask("GET", "/api/v1/pools", { key: world.acme.admin });
    for (const id of hostile.filter((each) => each !== "constructor")) {
      const params = Object.fromEntries(names.map((name) => [name, id]));
      const answer = await ask(row, { path: pathOf(row, things, params) });
      expectProblem(undefined, answer, ["invalid_request", "route_not_found"]);
    }
    expect((await world.ask("GET", "/api/v1/pools", { key: world.acme.admin })).json).toEqual(before.json);
  });

  test.each(withParams)("that is not spelt correctly is refused in $operation", async (row) => {
    const path = pathOf(row, things).replace(/[^/?]+(?=(\/[a-z]+)?(\?|$))/, "%zz");
    const answer = await ask(row, { path });
    expect([400, 404]).toContain(answer.status);
    const longer = pathOf(row, things, {
      id: "x".repeat(3_000),
      job_id: "x".repeat(3_000),
      key: "x".repeat(3_000),
    });
    if (!row.path.includes("run_id")) expect((await ask(row, { path: longer })).status).toBe(404);
  });
});

describe("a body", () => {
  const deep = `${'{"a":'.repeat(40)}1${"}".repeat(40)}`;

  test.each(withBody)("that is not strict JSON is refused by $operation", async (row) => {
    const names = Array.from({ length: 1_001 }, (_, index) => `"n${index}":1`).join(",");
    const texts = [
      "{",
      "{'a':1}",
      '{"a":1,}',
      '{"a":1,"a":2}',
      '{"a":01}',
      '{"n":9007199254740993}',
      '{"s":"\\ud800"}',
      '{"s":"\t"}',
      "NaN",
      "{} {}",
      deep,
      `{${names}}`,
      '{"__proto__":{"polluted":true}}',
      '{"a":{"__proto__":1}}',
      "\uFEFF{}",
    ];
    for (const text of texts) expectProblem(row, await ask(row, { text }), "invalid_request");
    const notUtf8 = Uint8Array.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]);
    expectProblem(row, await ask(row, { text: notUtf8 }), "invalid_request");
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  test.each(withBody)("of the wrong kind is refused by $operation", async (row) => {
    for (const body of [[], "text", 7, null, true]) {
      const answer = await ask(row, { body });
      if (row.operation === "validateWorkflow") expect(answer.json).toMatchObject({ valid: false });
      else expectProblem(row, answer, ["invalid_request", "workflow_invalid"]);
    }
    for (const type of ["text/plain", "application/xml", "application/x-www-form-urlencoded", "x"]) {
      const answer = await ask(row, { text: "{}", headers: { "content-type": type } });
      expectProblem(row, answer, "unsupported_media_type");
    }
  });

  test.each(withBody)("that is too large is refused by $operation", async (row) => {
    const text = JSON.stringify({ filler: "x".repeat(2_097_152) });
    expectProblem(row, await ask(row, { text }), "payload_too_large");
  });

  test.each(withBody)("that is too large is not even read by $operation without a key", async (row) => {
    const text = JSON.stringify({ filler: "x".repeat(2_097_152) });
    expectProblem(row, await ask(row, { text, key: undefined }), "unauthenticated");
  });

  test.each(strict)(
    "with a field that is unknown or the server's own is refused by $operation",
    async (row) => {
      const { body } = examples[row.operation](things);
      for (const name of [
        "unknown",
        "state",
        "fence",
        "limit",
        "cost",
        "created_by",
        "role_override",
        "constructor",
      ]) {
        // Where an operator names the grant that is meant.
        if (body !== undefined && Object.hasOwn(body, name)) continue;
        const answer = await ask(row, { body: { ...body, [name]: 1 } });
        expectProblem(row, answer, ["invalid_request", "workflow_invalid"]);
        expect(answer.text).toContain(name);
      }
    },
  );

  test.each(strict)("with hostile strings anywhere harms nothing in $operation", async (row) => {
    const { body = {} } = examples[row.operation](things);
    for (const text of hostile) {
      for (const name of Object.keys(body)) {
        const answer = await ask(row, { body: { ...body, [name]: text } });
        expect(answer.status, answer.text).toBeLessThan(500);
      }
    }
  });
});

describe("a query", () => {
  test.each(rows.filter(({ operation }) => operation !== "startRun"))(
    "with a name that $operation does not know is refused",
    async (row) => {
      const answer = await ask(row, { path: withQuery(pathOf(row, things), "stauts=failed") });
      expectProblem(undefined, answer, "invalid_request");
    },
  );

  test.each(paged)("bounds the pages of $operation", async (row) => {
    for (const limit of ["0", "501", "-1", "1.5", "abc", "", "1e2", "99999999999"]) {
      const path = `${pathOf(row, things).split("?")[0]}?limit=${limit}`;
      expectProblem(row, await ask(row, { path }), "invalid_request");
    }
    const twice = `${pathOf(row, things).split("?")[0]}?limit=1&limit=2`;
    expectProblem(row, await ask(row, { path: twice }), "invalid_request");
  });

  test.each(paged)("with a cursor that is no cursor of this list is refused by $operation", async (row) => {
    const path = pathOf(row, things).split("?")[0];
    const other = Buffer.from(JSON.stringify([1, row.operation, "globex", "x", "0"])).toString("base64url");
    for (const cursor of ["x", other, encodeURIComponent(hostile.join("")).slice(0, 900)]) {
      expectProblem(row, await ask(row, { path: `${path}?cursor=${cursor}` }), "invalid_request");
    }
  });
});

describe("an example", () => {
  // The order of the table would remove what later ones need: each has a world of its own.
  test.each(rows)("of $operation is answered as the table says", async (row) => {
    const own = await openGatewayWorld();
    try {
      const its = await makeThings(own);
      const { body } = examples[row.operation](its);
      const key = keyFor(row, own);
      const sent = { ...(key === undefined ? {} : { key }), ...(body === undefined ? {} : { body }) };
      const answer = await own.ask(row.method, pathOf(row, its), sent);
      expectSuccess(row, answer);
    } finally {
      await own.close();
    }
  });
});

test("paths that do not exist are 404, methods that do not are 405 with those that do", async () => {
  for (const path of [
    "/",
    "/api",
    "/api/v1",
    "/api/v2/workflows",
    "/admin",
    "/metrics/",
    "/.env",
    "//livez",
  ]) {
    expectProblem(undefined, await world.ask("GET", path), "route_not_found");
  }
  for (const [method, path, allow] of [
    ["PUT", "/api/v1/workflows", "GET, HEAD, POST"],
    ["DELETE", "/livez", "GET, HEAD"],
    ["OPTIONS", "/api/v1/jobs/poll", "GET, HEAD, POST"],
    ["PATCH", "/api/v1/workflow-runs/x", "GET, HEAD, DELETE"],
  ] as const) {
    const answer = await world.ask(method, path);
    expectProblem(undefined, answer, "method_not_allowed");
    expect(answer.headers.get("allow")).toBe(allow);
  }
});

test("nothing secret was told or logged in all of this", () => {
  const said = [...answers.map(({ text }) => text), ...world.logged].join("\n");
  const keys = [world.platform, ...Object.values(world.acme), ...Object.values(world.globex)];
  for (const { text, key } of keys) {
    const secret = text.split("_").at(-2) ?? "";
    expect(secret.length).toBeGreaterThanOrEqual(48);
    expect(said).not.toContain(secret);
    expect(said).not.toContain(key.secretHash);
  }
  expect(said).not.toContain("secretHash");
  expect(said).not.toContain(things.claimToken);
  expect(said).not.toContain(things.lockToken);
  expect(said).not.toMatch(/node_modules|at .*\.ts:\d+/);
  expect(Object.keys(Object.prototype)).toEqual([]);
});
