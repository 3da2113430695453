// The OpenAPI document may only grow: what a client of an older version sends is still taken, and what it reads is still there.
import { expect, test } from "vitest";
import { openApiDocument } from "../../src/api/openapi.ts";
import { takenAway } from "./compare-documents.ts";
import { frozenDocument } from "./frozen-version.ts";

test("the document takes nothing away from that of version 0.1.0", () => {
  expect(takenAway(frozenDocument("0.1.0"), openApiDocument())).toEqual([]);
});

/** What a change might do to the document, and how it is told. */
const changes: ReadonlyArray<{
  readonly what: string;
  readonly told: string;
  change(document: Changeable): void;
}> = [
  {
    what: "removes an operation",
    told: "GET /api/v1/keys: gone",
    change: ({ paths }) => delete paths["/api/v1/keys"]?.get,
  },
  {
    what: "renames a field of a reply",
    told: "POST /api/v1/tenants 201.active_runs: gone",
    change: ({ components: { schemas } }) => delete schemas.Tenant?.properties?.active_runs,
  },
  {
    what: "asks for one more field",
    told: "POST /api/v1/keys body.owner: is required now",
    change: ({ components: { schemas } }) => schemas.NewApiKeyRequest?.required?.push("owner"),
  },
  {
    what: "stops promising a field",
    told: "POST /api/v1/tenants 201.version: may be absent now",
    change: ({ components: { schemas } }) => {
      const { Tenant } = schemas;
      if (Tenant?.required !== undefined)
        Tenant.required = Tenant.required.filter((name) => name !== "version");
    },
  },
  {
    what: "refuses a role that it took",
    told: 'POST /api/v1/keys body.role: does not take "viewer" any more',
    change: ({ components: { schemas } }) => {
      const role = schemas.NewApiKeyRequest?.properties?.role;
      if (role?.enum !== undefined) role.enum = role.enum.filter((name) => name !== "viewer");
    },
  },
  {
    what: "takes shorter texts only",
    told: "POST /api/v1/keys body.name: maxLength is 8 now",
    change: ({ components: { schemas } }) =>
      Object.assign(schemas.NewApiKeyRequest?.properties?.name ?? {}, { maxLength: 8 }),
  },
  {
    what: "removes an error code",
    told: "DELETE /api/v1/tenants/{id} 409: no code tenant_active any more",
    change: ({ paths }) => {
      const conflict = paths["/api/v1/tenants/{id}"]?.delete?.responses["409"];
      if (conflict !== undefined) conflict["x-codes"] = [];
    },
  },
];

type Schema = { properties?: Record<string, Schema>; required?: string[]; enum?: string[] };
type Changeable = {
  paths: Record<string, Record<string, { responses: Record<string, { "x-codes"?: string[] }> }>>;
  components: { schemas: Record<string, Schema> };
};

test.each(changes)("a change that $what is told", ({ change, told }) => {
  const changed = structuredClone(frozenDocument("0.1.0")) as Changeable;
  change(changed);
  expect(takenAway(frozenDocument("0.1.0"), changed)).toContain(told);
});
