// The client's lists, by a table: what each asks for its first page, and how it goes on.
import type { Client } from "../../src/sdk/client.ts";
import { pathOfId as at, type Common, id } from "./sdk-recorded.ts";

type Walk = {
  readonly list: (client: Client, options: Common) => AsyncIterable<unknown>;
  /** Of the first page and, with this after it, of the second. */
  readonly sends: string;
  readonly cursor: string;
};

export const walks: Readonly<Record<string, Walk>> = {
  "workflows.list": {
    list: (client, options) => client.workflows.list({ limit: 2, ...options }),
    ...{ sends: "GET /api/v1/workflows?limit=2", cursor: "&cursor=c2" },
  },
  "workflows.list with nothing asked": {
    list: (client, options) => client.workflows.list(options),
    ...{ sends: "GET /api/v1/workflows", cursor: "?cursor=c2" },
  },
  "runs.list": {
    list: (client, options) => client.runs.list({ status: "failed", ...options }),
    ...{ sends: "GET /api/v1/workflow-runs?status=failed", cursor: "&cursor=c2" },
  },
  "runs.timeline": {
    list: (client, options) => client.runs.timeline(id, { limit: 2, ...options }),
    ...{ sends: `GET /api/v1/workflow-runs/${at}/timeline?limit=2`, cursor: "&cursor=c2" },
  },
  "runs.items": {
    list: (client, options) => client.runs.items(id, "each", { limit: 2, ...options }),
    ...{ sends: `GET /api/v1/workflow-runs/${at}/steps/each/items?limit=2`, cursor: "&cursor=c2" },
  },
  "approvals.list": {
    list: (client, options) => client.approvals.list({ state: "pending", ...options }),
    ...{ sends: "GET /api/v1/approvals?state=pending", cursor: "&cursor=c2" },
  },
  "deadLetters.list": {
    list: (client, options) => client.deadLetters.list({ limit: 2, ...options }),
    ...{ sends: "GET /api/v1/dlq?limit=2", cursor: "&cursor=c2" },
  },
  "tenants.list": {
    list: (client, options) => client.tenants.list({ limit: 2, ...options }),
    ...{ sends: "GET /api/v1/tenants?limit=2", cursor: "&cursor=c2" },
  },
  "audit.list": {
    list: (client, options) => client.audit.list({ limit: 2, ...options }),
    ...{ sends: "GET /api/v1/audit?limit=2", cursor: "&cursor=c2" },
  },
  "queues.list": {
    list: (client, options) => client.queues.list({ limit: 2, ...options }),
    ...{ sends: "GET /api/v1/queues?limit=2", cursor: "&cursor=c2" },
  },
  "budgets.list": {
    list: (client, options) => client.budgets.list({ periods: "all", ...options }),
    ...{ sends: "GET /api/v1/budgets?periods=all", cursor: "&cursor=c2" },
  },
  "locks.list": {
    list: (client, options) => client.locks.list({ limit: 2, ...options }),
    ...{ sends: "GET /api/v1/locks?limit=2", cursor: "&cursor=c2" },
  },
  "locks.list with nothing asked": {
    list: (client, options) => client.locks.list(options),
    ...{ sends: "GET /api/v1/locks", cursor: "?cursor=c2" },
  },
  "locks.all": {
    list: (client, options) => client.locks.all({ limit: 2, ...options }),
    ...{ sends: "GET /api/v1/admin/locks?limit=2", cursor: "&cursor=c2" },
  },
};
