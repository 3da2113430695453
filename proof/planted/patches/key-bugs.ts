// The planted bugs about keys: how they end, and who is behind them.
import type { TextPatch } from "../planted-bug.ts";

const keys = "test/e2e/gateway-keys.test.ts";
const duties = "test/e2e/gateway-duties.test.ts";
const persons = "test/unit/person.test.ts";
const stores = "test/conformance/store.test.ts";

export const plantedKeyBugs: readonly TextPatch[] = [
  {
    name: "slow-body-outlives-key",
    what: "a request is not authenticated again when its body has arrived",
    edits: [
      {
        file: "src/gateway/responder.ts",
        find: "if (ended !== undefined) return fail(traffic, exchange, ended);",
        replace: "",
      },
    ],
    // Three failures end the run, and a test must have passed before them.
    tests: [persons, keys],
  },
  {
    name: "known-text-outlives-key",
    what: "a text that was right once is right for ever: a key that another process revoked goes on working here",
    edits: [
      {
        file: "src/control/keys/api-keys.ts",
        find: "recallText: (text) => fresh(byText.get(text)),",
        replace: "recallText: (text) => byText.get(text)?.key,",
      },
    ],
    tests: ["test/unit/flow-keys.test.ts"],
  },
  {
    name: "revoked-text-remembered",
    what: "a revocation forgets the key and not its text, which works for four more seconds",
    edits: [
      {
        file: "src/control/keys/api-keys.ts",
        find: "    if (text !== undefined) byText.delete(text);\n",
        replace: "",
      },
    ],
    tests: ["test/unit/flow-keys.test.ts"],
  },
  {
    name: "use-prolongs-a-key",
    what: "every use of a key prolongs the time for which it is believed: one that is used all the time is never looked up again",
    edits: [
      {
        file: "src/control/keys/api-keys.ts",
        find: "const fresh = (known: KnownKey | undefined) => {",
        replace: `const fresh = (known: KnownKey | undefined) => {
    if (known !== undefined && clock.monotonicMs() - known.atMs < keepMs)
      (known as { atMs: number }).atMs = clock.monotonicMs();`,
      },
    ],
    tests: ["test/unit/flow-keys.test.ts"],
  },
  {
    name: "platform-key-from-memory",
    what: "a platform key that another gateway revoked changes tenants for as long as it is remembered",
    edits: [
      {
        file: "src/gateway/authenticate-request.ts",
        find: `isPlatformKey(key) ? "stored" : "memory"`,
        replace: `"memory"`,
      },
    ],
    tests: [keys],
  },
  {
    name: "removed-tenant-takes-keys",
    what: "the store saves keys of a tenant that is removed",
    edits: [
      {
        file: "src/adapters/operations/documents.ts",
        find: `if (collection === "apiKey" && readTenant(context, tenant).settings.removed === true) {`,
        replace: `if (collection === "apiKey" && readTenant(context, tenant).settings.removed === undefined) {`,
      },
    ],
    tests: [stores],
  },
  {
    name: "first-page-of-keys-revoked",
    what: "the removal of a tenant ends the keys of the first page only",
    edits: [
      {
        file: "src/control/keys/api-keys.ts",
        find: `if (page.keys.length === 0) return { kind: "revoked" };`,
        replace: `if (page.keys.length < 1_000) return { kind: "revoked" };`,
      },
    ],
    tests: [keys],
  },
  {
    name: "revoked-list-by-number",
    what: "the list of revoked keys keeps the last hundred, however young the others are",
    edits: [{ file: "src/domain/api-key.ts", find: "revokedMax = 10_000", replace: "revokedMax = 100" }],
    tests: [persons],
  },
  {
    name: "made-key-approves",
    what: "a key that the requester made for somebody else approves its run",
    edits: [
      {
        file: "src/domain/api-key.ts",
        find: "if (has(approver, requester.owner))",
        replace: "if (has(requester, requester.owner))",
      },
    ],
    tests: [persons],
  },
  {
    name: "second-key-approves",
    what: "decisions do not ask who is behind the key: a second key of the requester approves",
    edits: [
      {
        file: "src/control/approvals/decide-approval.ts",
        find: `if (duties.kind !== "allowed") return duties;`,
        replace: "",
      },
    ],
    tests: [persons, duties],
  },
];
