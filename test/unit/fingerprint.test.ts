// Fingerprints: the same for the same request however it is written, another for any change of what it asks for.
import { hash } from "node:crypto";
import canonicalize from "canonicalize";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type FingerprintedRequest,
  fingerprinting,
  fingerprintOf,
  type JsonValue,
} from "../../src/domain/fingerprint.ts";

// Fixed, so that a green change stays green.
fc.configureGlobal({ seed: 1 });

const base: FingerprintedRequest = {
  method: "POST",
  path: "/api/v1/workflows/deploy/runs",
  query: {},
  body: { input: { region: "eu", size: 3 }, tags: ["a", "b"], dry: false, note: null },
};
const withBody = (body: JsonValue) => fingerprintOf({ ...base, body });
const jsonObject = fc.dictionary(fc.string(), fc.jsonValue()) as fc.Arbitrary<Record<string, JsonValue>>;

/** The same value with all its objects' fields in the opposite order. */
function reversed(value: JsonValue): JsonValue {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(reversed);
  const entries = Object.entries(value as { readonly [name: string]: JsonValue }).reverse();
  return Object.fromEntries(entries.map(([name, field]) => [name, reversed(field)]));
}

/** Two values are the same JSON when this text is: an independent yardstick. */
function yardstick(value: JsonValue): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(yardstick).join()}]`;
  const entries = Object.entries(value as { readonly [name: string]: JsonValue });
  const fields = entries.map(([name, field]) => `${JSON.stringify(name)}:${yardstick(field)}`);
  return `{${fields.sort().join()}}`;
}

describe("a fingerprint", () => {
  test("is a version tag and a SHA-256, and never changes for a given request", () => {
    const sha256 = "97772c21aa381ba6efb7ce3f72c3e1e6cbe57884b0c5d278b41409cdf86cba45";
    expect(fingerprintOf(base)).toBe(`v1:${sha256}`);
  });

  test("is the hash of the request's canonical form as another writer of RFC 8785 gives it", () => {
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.string(),
      fc.constantFrom('"', "\\", "\u007f", "é", "😀"),
    );
    const keyed = fc.dictionary(
      fc.oneof(text, fc.constantFrom("10", "9", "a", "A", "", "é")),
      fc.jsonValue(),
    );
    const bodies = fc.oneof(
      fc.jsonValue({ stringUnit: "binary" }),
      keyed,
      fc.array(text),
    ) as fc.Arbitrary<JsonValue>;
    const query = fc.dictionary(fc.constantFrom("dry_run", "team_id", "trace"), text, {
      noNullPrototype: true,
    });
    fc.assert(
      fc.property(bodies, query, text, (body, asked, path) => {
        fc.pre(!hasOwnTenantAlias(body));
        const { trace: _trace, ...listed } = asked;
        const canonical = canonicalize({ method: "POST", path, query: listed, body }) as string;
        const request = { method: "post", path, query: asked, body };
        const expected = `v1:${hash("sha256", canonical)}`;
        expect(fingerprintOf(request)).toBe(expected);
        const pieces = [...fingerprinting(request)];
        expect(pieces).toHaveLength(0);
      }),
      { numRuns: 1_000 },
    );
  });

  test("of a body that is written in several pieces is that of the whole", () => {
    const body = Array.from({ length: 3_000 }, (_, index) => ({
      z: `é${index}`,
      a: [index / 7, null, true],
      "": "😀\n",
    }));
    const canonical = canonicalize({ method: "POST", path: "/", query: {}, body }) as string;
    const request = { method: "POST", path: "/", query: {}, body };
    expect([...fingerprinting(request)].length).toBeGreaterThan(2);
    expect(fingerprintOf(request)).toBe(`v1:${hash("sha256", canonical)}`);
  });

  test("does not change with the order of fields, at any depth", () => {
    fc.assert(
      fc.property(fc.jsonValue() as fc.Arbitrary<JsonValue>, (body) => {
        expect(withBody(reversed(body))).toBe(withBody(body));
      }),
    );
  });

  test("does not change with white space or the way numbers and strings are written", () => {
    const plain = JSON.parse('{"a":1.5,"b":"é","c":[1,2]}') as JsonValue;
    const written = JSON.parse('{ "c" : [ 1,\n 2.0 ], "b" : "\\u00e9", "a" : 15e-1 }') as JsonValue;
    expect(withBody(written)).toBe(withBody(plain));
    fc.assert(
      fc.property(fc.jsonValue(), (body) => {
        const spaced = JSON.parse(JSON.stringify(body, undefined, 3)) as JsonValue;
        expect(withBody(spaced)).toBe(withBody(body as JsonValue));
      }),
    );
  });

  test("is equal for two bodies exactly when they are the same JSON", () => {
    const bodies = fc.tuple(fc.jsonValue({ maxDepth: 2 }), fc.jsonValue({ maxDepth: 2 }));
    fc.assert(
      fc.property(bodies as fc.Arbitrary<[JsonValue, JsonValue]>, ([one, other]) => {
        fc.pre(!hasOwnTenantAlias(one) && !hasOwnTenantAlias(other));
        expect(withBody(one) === withBody(other)).toBe(yardstick(one) === yardstick(other));
      }),
    );
  });

  test("changes with every single field of the body", () => {
    fc.assert(
      fc.property(jsonObject, fc.string(), fc.jsonValue(), (body, name, value) => {
        fc.pre(name !== "org_id");
        const changed = { ...body, [name]: value as JsonValue };
        fc.pre(yardstick(changed) !== yardstick(body));
        expect(withBody(changed)).not.toBe(withBody(body));
      }),
    );
  });

  test.each([
    [
      "a number that becomes text",
      { input: { region: "eu", size: "3" } },
      { input: { region: "eu", size: 3 } },
    ],
    ["null that becomes absent", { note: null }, {}],
    ["an empty list that becomes an empty object", { tags: [] }, { tags: {} }],
    ["the order of a list", { tags: ["a", "b"] }, { tags: ["b", "a"] }],
    ["a field that moves into another", { a: { b: 1 } }, { a: {}, b: 1 }],
  ] as const)("changes with %s", (_title, one, other) => {
    expect(withBody(one)).not.toBe(withBody(other));
  });

  test("sees fields with the names that every object has", () => {
    for (const name of ["__proto__", "constructor", "toString"]) {
      const body = JSON.parse(`{"${name}":{"a":1}}`) as JsonValue;
      const other = JSON.parse(`{"${name}":{"a":2}}`) as JsonValue;
      expect(withBody(body)).not.toBe(withBody({}));
      expect(withBody(body)).not.toBe(withBody(other));
    }
  });

  test("changes with the path, so that one key on two workflows is two requests", () => {
    const other = { ...base, path: "/api/v1/workflows/rollback/runs" };
    expect(fingerprintOf(other)).not.toBe(fingerprintOf(base));
  });

  test("changes with the method, and not with its case", () => {
    expect(fingerprintOf({ ...base, method: "PUT" })).not.toBe(fingerprintOf(base));
    expect(fingerprintOf({ ...base, method: "post" })).toBe(fingerprintOf(base));
  });

  test.each(["dry_run", "team_id"])("changes with the listed parameter %s", (name) => {
    const one = fingerprintOf({ ...base, query: { [name]: "1" } });
    const other = fingerprintOf({ ...base, query: { [name]: "2" } });
    expect(new Set([one, other, fingerprintOf(base)]).size).toBe(3);
  });

  test("does not change with parameters that are not listed, such as those a proxy adds", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.string()), (added) => {
        const { dry_run: _dryRun, team_id: _teamId, ...query } = added;
        expect(fingerprintOf({ ...base, query })).toBe(fingerprintOf(base));
      }),
    );
  });

  test("does not mix the parts up: a parameter is not a field of the body", () => {
    const inQuery = fingerprintOf({ ...base, query: { dry_run: "1" }, body: {} });
    const inBody = fingerprintOf({ ...base, query: {}, body: { dry_run: "1" } });
    expect(inQuery).not.toBe(inBody);
  });

  test("ignores org_id in the body, which repeats the credential's tenant", () => {
    fc.assert(
      fc.property(jsonObject, fc.string(), (body, tenant) => {
        const { org_id: _alias, ...rest } = body;
        expect(withBody({ ...rest, org_id: tenant })).toBe(withBody(rest));
      }),
    );
  });

  test("does not ignore org_id anywhere else", () => {
    expect(withBody({ input: { org_id: "a" } })).not.toBe(withBody({ input: { org_id: "b" } }));
    expect(withBody([{ org_id: "a" }])).not.toBe(withBody([{ org_id: "b" }]));
  });
});

function hasOwnTenantAlias(value: JsonValue): boolean {
  return value !== null && typeof value === "object" && Object.hasOwn(value, "org_id");
}
