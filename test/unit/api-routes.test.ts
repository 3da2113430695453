// The HTTP contract as data: every row is complete, and the OpenAPI document made from it is valid and closed.
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { openApiDocument } from "../../src/api/openapi.ts";
import { errorsOf, type Route } from "../../src/api/route.ts";
import { operations, routes } from "../../src/api/routes.ts";
import { keyRoles } from "../../src/domain/api-key.ts";
import { type ErrorCode, errors } from "../../src/errors.ts";

const rows = operations.map((operation) => ({ operation, ...(routes[operation] as Route) }));

describe("routes", () => {
  test.each(rows)("$operation has a path, a summary, roles and replies", (row) => {
    expect(row.path).toMatch(/^\/(api\/v1\/)?[a-z][a-z._{}/-]*$/);
    expect(row.summary).toMatch(/^[A-Z].*\.$/);
    if (typeof row.access !== "string") expect(row.access.length).toBeGreaterThan(0);
    const statuses = Object.keys(row.replies).map(Number);
    expect(statuses.length).toBeGreaterThan(0);
    for (const status of statuses) expect([200, 201, 202, 204]).toContain(status);
    if (row.method === "GET") expect(row.body).toBeUndefined();
    if (row.method === "POST" || row.method === "PATCH") expect(row.body).toBeDefined();
  });

  test("no two operations share a method and a path", () => {
    expect(new Set(rows.map(({ method, path }) => `${method} ${path}`)).size).toBe(rows.length);
  });

  /** Every operation stands here once, under the roles that may do it. */
  const operationsByRoles: Readonly<Record<string, string>> = {
    "viewer operator admin":
      "listWorkflows validateWorkflow listRunsOfWorkflow listRuns listWorkers listPools getPool listTopics listQueues listBudgets getGate listDeadLetters listDeadLetterPage inspectDeadLetter streamRunEvents lookUpKey",
    admin:
      "saveWorkflow removeWorkflow deleteRun setPool changePool removePool drainPool addPoolTopic removePoolTopic setTopic removeTopic",
    "viewer operator admin approver":
      "getWorkflow getRun explainRun readTimeline listItems listApprovals approvalContext",
    "operator admin":
      "startRun dryRunWorkflow cancelRunOfWorkflow cancelRun rerunRun moveQueued retryDeadLetter removeDeadLetter purgeDeadLetters",
    "worker viewer operator admin": "listReadyJobs getJob listLocks",
    "worker admin": "pollJobs heartbeat reportResults",
    "operator admin approver": "approve reject",
    "worker operator admin": "acquireLock renewLock releaseLock",
    "platform admin": "listAllLocks breakLock listKeys createKey getKey revokeKey",
    platform:
      "listTenants createTenant getTenant changeTenant removeTenant getPolicies setPolicies removeRollout listCanaries startCanary getCanary rollBackCanary keepCanary",
    "platform viewer operator admin": "readEvents streamEvents readAudit verifyAudit",
    "platform worker viewer operator admin approver metrics": "getStatus",
    open: "openApi live ready",
    metrics: "metrics",
  };
  const permitted = Object.entries(operationsByRoles).flatMap(([roles, names]) =>
    names.split(" ").map((operation) => [operation, roles] as const),
  );

  test("every operation stands in the table of roles, once", () => {
    expect(permitted.map(([operation]) => operation).sort()).toEqual([...operations].sort());
  });

  test.each(permitted)("%s is for %s, and for no other role", (operation, roles) => {
    const { access } = routes[operation as keyof typeof routes] as Route;
    const expected = roles === "open" ? [] : roles.split(" ");
    const isOpen = access === "open";
    const may = keyRoles.filter((role) => (Array.isArray(access) ? access.includes(role) : access === role));
    // The platform's own key reads the metrics, too: `readsMetrics`.
    expect([isOpen, [...may].sort()]).toEqual([roles === "open", expected.sort()]);
  });

  test("a worker's key reaches jobs and locks and nothing else of a tenant", () => {
    const reached = rows.filter(({ access }) => access.includes("worker")).map(({ path }) => path);
    for (const path of reached) expect(path).toMatch(/^\/api\/v1\/(jobs|locks|status)/);
  });

  test("a platform's key neither starts runs nor approves", () => {
    const reached = rows.filter(({ access }) => access.includes("platform")).map(({ path }) => path);
    for (const path of reached)
      expect(path).toMatch(/^\/api\/v1\/(tenants|keys|status|events|audit|admin\/locks|policies|canaries)/);
  });

  test("viewers only read, and check definitions", () => {
    const reached = rows.filter(({ access }) => access.includes("viewer"));
    const changing = reached.filter(({ method }) => method !== "GET").map(({ operation }) => operation);
    expect(changing).toEqual(["validateWorkflow"]);
  });

  test("what is open without a key tells nothing of a tenant", () => {
    const open = rows.filter(({ access }) => access === "open").map(({ operation }) => operation);
    expect(open.sort()).toEqual(["live", "openApi", "ready"]);
  });

  test("every error that is not of the process itself is reachable from some route", () => {
    const reachable = new Set(rows.flatMap((row) => errorsOf(row)));
    const elsewhere = new Set([
      // Of the whole server, before a route is found.
      "route_not_found",
      "method_not_allowed",
      // Of locks as programs hold them.
      "lock_token_required",
      "lock_abandoned",
      "stale_fence",
    ]);
    const missing = (Object.keys(errors) as ErrorCode[])
      // 500 is the process's own, at its start or its end.
      .filter((code) => errors[code].status !== 500 && !elsewhere.has(code) && !reachable.has(code));
    expect(missing).toEqual([]);
  });
});

type Json = { readonly [name: string]: Json } & { readonly $ref?: string };

describe("the OpenAPI document", () => {
  const document = openApiDocument() as unknown as Json;

  /** The essential shape of OpenAPI 3.1. */
  const shape = {
    type: "object",
    required: ["openapi", "info", "paths", "components"],
    properties: {
      openapi: { const: "3.1.0" },
      info: { type: "object", required: ["title", "version"] },
      paths: {
        type: "object",
        propertyNames: { pattern: "^/" },
        additionalProperties: {
          type: "object",
          propertyNames: { enum: ["get", "post", "put", "patch", "delete"] },
          additionalProperties: { $ref: "#/$defs/operation" },
        },
      },
    },
    $defs: {
      operation: {
        type: "object",
        required: ["operationId", "summary", "responses", "tags"],
        properties: {
          operationId: { type: "string", pattern: "^[a-zA-Z]+$" },
          summary: { type: "string", minLength: 5 },
          parameters: {
            type: "array",
            items: {
              type: "object",
              required: ["name", "in", "required", "schema"],
              properties: { in: { enum: ["path", "query", "header"] }, required: { type: "boolean" } },
            },
          },
          requestBody: { $ref: "#/$defs/content" },
          responses: {
            type: "object",
            minProperties: 2,
            propertyNames: { pattern: "^[1-5][0-9]{2}$" },
            additionalProperties: { type: "object", required: ["description"] },
          },
        },
      },
      content: {
        type: "object",
        required: ["content"],
        properties: {
          content: {
            type: "object",
            minProperties: 1,
            additionalProperties: { type: "object", required: ["schema"] },
          },
        },
      },
    },
  };

  test("has the shape of OpenAPI 3.1", () => {
    const ajv = new Ajv2020({ allErrors: true, strict: false });
    const valid = ajv.compile(shape);
    valid(document);
    expect(valid.errors).toBeNull();
  });

  test("every reference resolves", () => {
    const text = JSON.stringify(document);
    const references = [...text.matchAll(/"\$ref":"([^"]+)"/g)].map(([, target]) => target ?? "");
    expect(references.length).toBeGreaterThan(50);
    for (const reference of references) {
      expect(reference).toMatch(/^#\/components\/schemas\//);
      expect(document.components?.schemas).toHaveProperty(reference.split("/")[3] ?? "");
    }
    expect(text).not.toContain("$defs");
  });

  test("every schema compiles", () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    ajv.addSchema({ $id: "document", ...document });
    for (const name of Object.keys(document.components?.schemas ?? {})) {
      expect(() => ajv.compile({ $ref: `document#/components/schemas/${name}` })).not.toThrow();
    }
  });

  test.each(rows)("$operation says who may, what is sent and what may go wrong", (row) => {
    const found = document.paths?.[row.path]?.[row.method.toLowerCase()] as Json;
    expect(found.operationId).toBe(row.operation);
    const roles = (found["x-roles"] ?? []) as unknown as readonly string[];
    expect(roles).toEqual(typeof row.access === "string" ? [] : row.access);
    for (const role of roles) expect(keyRoles).toContain(role);
    const inPath = [...row.path.matchAll(/\{([a-z_]+)\}/g)].map(([, name]) => name);
    const parameters = (found.parameters ?? []) as unknown as Array<{ in: string; name: string }>;
    expect(parameters.filter((one) => one.in === "path").map(({ name }) => name)).toEqual(inPath);
    const statuses = Object.keys(found.responses ?? {});
    for (const code of errorsOf(row)) {
      if (errors[code].status !== 499) expect(statuses).toContain(String(errors[code].status));
    }
    expect(found.requestBody === undefined).toBe(row.body === undefined);
  });
});
