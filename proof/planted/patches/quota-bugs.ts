// The planted bugs in quotas.
import type { TextPatch } from "../planted-bug.ts";

const conformance = "test/conformance/store.test.ts";

export const plantedQuotaBugs: readonly TextPatch[] = [
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
