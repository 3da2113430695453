// The planted bugs in quotas.
import type { TextPatch } from "../planted-bug.ts";

const conformance = "test/conformance/store.test.ts";

export const plantedQuotaBugs: readonly TextPatch[] = [
  {
    name: "keys-forgotten-before-their-time",
    what: "the default quota of idempotency keys is less than the documented load needs: from day 3 on a repeat makes a second run",
    edits: [{ file: "src/settings/admission.ts", find: "500_000", replace: "100_000" }],
    tests: ["test/unit/key-retention.test.ts"],
  },
  {
    name: "early-eviction-not-counted",
    what: "a key that gives way before its time is counted nowhere",
    edits: [
      {
        file: "src/adapters/redis/lua/parts/insert-run.lua",
        find: 'if tonumber(first[2]) >= nowMs then early = "1" end',
        replace: "",
      },
    ],
    tests: [conformance],
  },
  {
    name: "quota-counts-replaced-documents",
    what: "at the quota a document that exists cannot be replaced",
    edits: [
      {
        file: "src/adapters/redis/lua/put-document.lua",
        find: 'if not meta and ARGV[12] ~= "" then',
        replace: 'if ARGV[12] ~= "" then',
      },
    ],
    tests: [conformance],
  },
  {
    name: "quota-forgets-renewals",
    what: "a lock that is renewed leaves the quota at the end of its first time",
    edits: [
      {
        file: "src/adapters/redis/lua/renew-lock.lua",
        find: "if KEYS[3] then",
        replace: "if false then",
      },
    ],
    tests: [conformance],
  },
  {
    name: "quota-keeps-released-locks",
    what: "a lock that was given back still counts",
    edits: [
      {
        file: "src/adapters/redis/lua/release-lock.lua",
        find: 'if heldKey then redis.call("ZREM", heldKey, listed) end',
        replace: "",
      },
    ],
    tests: [conformance],
  },
];
