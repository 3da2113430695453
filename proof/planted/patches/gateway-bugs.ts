// The planted bugs at the edge of the server: requests that are read in two ways, answers that say too much, secrets that get out.
import type { TextPatch } from "../planted-bug.ts";

const rawSockets = "test/e2e/raw-sockets.test.ts";
const tenantMatrix = "test/e2e/tenant-matrix.test.ts";
const fuzz = "test/e2e/fuzz.test.ts";

export const plantedGatewayBugs: readonly TextPatch[] = [
  {
    name: "start-deaf-to-its-client",
    what: "a start waits on for the admission lock although its client has gone",
    edits: [
      {
        file: "src/gateway/handlers/run-handlers.ts",
        find: `      signal(),
    );
    return replyTo(answer);
  },

  async dryRunWorkflow`,
        replace: `    );
    return replyTo(answer);
  },

  async dryRunWorkflow`,
      },
    ],
    tests: ["test/e2e/gateway-runs.test.ts"],
  },
  {
    name: "broken-bytes-answer-first",
    what: "bytes that are no request are answered before the start they came behind: a start that was made looks refused",
    edits: [
      {
        file: "src/gateway/connections.ts",
        find: "  if (whole === undefined) endWith",
        replace: "  if (whole === undefined || !whole.headersSent) endWith",
      },
    ],
    tests: [rawSockets],
  },
  {
    name: "second-authorization-ignored",
    what: "of two Authorization fields the first counts, whichever one a proxy has checked",
    edits: [
      {
        file: "src/gateway/http-requests.ts",
        find: `new Set(["host", "authorization", "content-type"])`,
        replace: `new Set(["host", "content-type"])`,
      },
    ],
    tests: [rawSockets],
  },
  {
    name: "packed-body-taken",
    what: "a body that says it is compressed is read as if it were not",
    edits: [
      {
        file: "src/gateway/responder.ts",
        find: "if (schemas.body !== undefined && isCompressed(exchange.head.headers))",
        replace: "if (schemas.query === null && isCompressed(exchange.head.headers))",
      },
    ],
    tests: [rawSockets],
  },
  {
    name: "fields-dropped",
    what: "fields after the first 2,000 are dropped: a start loses its Idempotency-Key",
    edits: [
      {
        file: "src/gateway/server.ts",
        find: "  server.maxHeadersCount = 0;\n",
        replace: "",
      },
    ],
    tests: [rawSockets],
  },
  {
    name: "admin-lists-all-locks",
    what: "an admin's list of locks has those of all tenants",
    edits: [
      {
        file: "src/gateway/handlers/lock-handlers.ts",
        find: "return isPlatformKey(key) ? (named as TenantId | undefined) : key.tenant;",
        replace: "return named as TenantId | undefined;",
      },
    ],
    tests: [tenantMatrix],
  },
  {
    name: "job-of-anybody",
    what: "a job is looked up by the tenant that its id names instead of the caller's",
    edits: [
      {
        file: "src/gateway/handlers/job-handlers.ts",
        find: "const answer = await api.getJob({ tenant: key.tenant, jobId: parts.jobId });",
        replace: `const answer = await api.getJob({ tenant: "acme" as typeof key.tenant, jobId: parts.jobId });`,
      },
    ],
    tests: [tenantMatrix],
  },
  {
    name: "key-of-anybody",
    what: "a key is looked for in the tenant that its id names, and not in the caller's own: an admin sees the keys of others",
    edits: [
      {
        file: "src/gateway/handlers/tenant-handlers.ts",
        find: "const answer = await api.getKey({ tenant, keyId: params.id });",
        replace:
          "const answer = await api.getKey({ tenant: tenantOfKey(params.id) ?? tenant, keyId: params.id });",
      },
    ],
    tests: [tenantMatrix],
  },
  {
    name: "revoking-nothing-writes",
    what: "revoking a key that does not exist is 404 and changes the tenant all the same",
    edits: [
      {
        file: "src/control/keys/api-keys.ts",
        find: `  if (found.kind === "not_found") return { kind: "api_key_not_found" };\n  if (found.kind !== "document")`,
        replace: `  if (found.kind !== "document" && found.kind !== "not_found")`,
      },
    ],
    tests: [fuzz, "test/unit/flow-keys.test.ts"],
  },
  {
    name: "undocumented-refusal",
    what: "the document does not say that an open operation may refuse a request",
    edits: [
      {
        file: "src/api/route.ts",
        find: `const everywhere = [\n  "invalid_request",\n`,
        replace: "const everywhere = [\n",
      },
      {
        file: "src/api/route.ts",
        find: `  "store_unavailable",\n] as const`,
        replace: `  "store_unavailable",\n  "invalid_request",\n] as const`,
      },
    ],
    tests: [fuzz],
  },
  {
    name: "undocumented-field",
    what: "an answer has a field that the document does not name",
    edits: [
      {
        file: "src/gateway/handlers/workflow-handlers.ts",
        find: "return { status: 201, body: { id: answer.id, revision: answer.revision } };",
        replace: "return { status: 201, body: { ...answer } };",
      },
    ],
    tests: [fuzz],
  },
  {
    name: "lock-token-logged",
    what: "the token of a lock gets into the log, where every reader can prove ownership with it",
    edits: [
      {
        file: "src/gateway/handlers/lock-handlers.ts",
        find: "    return acquireReply(service, body, answer);",
        replace: `    service.ports.log.info("a lock was asked for", { answer });\n    return acquireReply(service, body, answer);`,
      },
    ],
    // The second passes: every test of the first shares the log.
    tests: ["test/e2e/gateway-locks.test.ts", "test/unit/secret-watch.test.ts"],
  },
  {
    name: "number-of-any-length",
    what: "numbers have no length: a refusal of 60,000 digits is judged digit by digit and told by another rule",
    edits: [
      {
        file: "src/domain/strict-json.ts",
        find: "if (text.length > numberCharactersMax) {",
        replace: "if (text.length > 100 * numberCharactersMax) {",
      },
    ],
    tests: ["test/unit/strict-json.test.ts"],
  },
  {
    name: "name-given-twice",
    what: "only the last name of an object is compared with the next: a name that stands twice with another between gets through",
    edits: [
      {
        file: "src/domain/strict-json.ts",
        find: "isArray ? names.includes(name) : names.has(name)",
        replace: "isArray ? names.at(-1) === name : names.has(name)",
      },
    ],
    tests: ["test/unit/strict-json.test.ts"],
  },
  {
    name: "number-not-held",
    what: "numbers of up to 20 characters count as held: two that differ in their last digits are read as one",
    edits: [
      {
        file: "src/domain/strict-json.ts",
        find: "let isHeld = end - start <= 15;",
        replace: "let isHeld = end - start <= 20;",
      },
    ],
    tests: ["test/unit/strict-json.test.ts"],
  },
  {
    name: "prototype-in-a-body",
    what: "the reader of bodies takes the name __proto__",
    edits: [
      {
        file: "src/domain/strict-json.ts",
        find: `if (name === "__proto__" && this.#limits.prototypes === "refused")`,
        replace: `if (name === "" && this.#limits.prototypes === "refused")`,
      },
    ],
    tests: ["test/unit/strict-json.test.ts"],
  },
  {
    name: "fingerprint-of-seven-fields",
    what: "the fingerprint leaves out all fields of an object but the first seven: two requests look the same",
    edits: [
      {
        file: "src/domain/fingerprint.ts",
        find: "return { json, names, length: names.length, next: 0 };",
        replace: "return { json, names, length: Math.min(7, names.length), next: 0 };",
      },
    ],
    tests: ["test/unit/fingerprint.test.ts"],
  },
  {
    name: "body-kept-beyond-its-limit",
    what: "a body without a Content-Length may have any size",
    edits: [
      {
        file: "src/gateway/http-requests.ts",
        find: "if (received > bytesMax) {",
        replace: "if (received > 1_000 * bytesMax) {",
      },
    ],
    tests: [rawSockets],
  },
  {
    name: "one-reply-costs-others",
    what: "a reply that cannot be written takes those with it that became ready together with it: their clients wait for ever",
    edits: [
      {
        file: "src/gateway/http-requests.ts",
        find: "        response.destroy();\n      }",
        replace: "        response.destroy();\n        return;\n      }",
      },
    ],
    tests: ["test/unit/reply-queue.test.ts"],
  },
  {
    name: "body-read-at-once",
    what: "a large body is built in one piece, and nobody else is answered meanwhile",
    edits: [
      {
        file: "src/domain/strict-json.ts",
        find: "const pieceCharacters = 32_768;",
        replace: "const pieceCharacters = 32_768_000;",
      },
    ],
    tests: ["test/unit/reading-cost.test.ts"],
  },
];
