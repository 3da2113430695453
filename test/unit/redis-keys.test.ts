// The keys of the Redis store: no two names give the same key, and all keys of a tenant share one hash tag.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createKeys, type TenantKeys } from "../../src/adapters/redis/keys.ts";
import type { ReservationDigest } from "../../src/domain/fingerprint.ts";
import { type LockName, lockNamespaces } from "../../src/domain/lock.ts";
import type { RunId } from "../../src/domain/run.ts";
import { type Partition, partitionLabel, partitionOf, type TenantId } from "../../src/domain/tenant.ts";

const keys = createKeys("interlock");

/** Texts made of what could be mistaken for a separator, an escape or a hash tag, and of anything else. */
const awkward = fc.oneof(
  fc.string({
    unit: fc.constantFrom(":", "{", "}", "%", "%3A", "a", " ", "/", "é", "鍵", "💥"),
    maxLength: 6,
  }),
  fc.string({ unit: "grapheme", maxLength: 8 }),
);
const tenant = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,8}$/).map((text) => text as TenantId);
const plain = fc.stringMatching(/^[A-Za-z0-9_]{1,6}$/);

/** Anything that has a key: the parts of its name, and the key. */
type Named = { readonly name: readonly string[]; readonly tenant: TenantId; readonly key: string };

function named(kind: string, owner: TenantId, part: string, key: (own: TenantKeys) => string): Named {
  return { name: [kind, owner, part], tenant: owner, key: key(keys.forTenant(owner)) };
}

const anything: fc.Arbitrary<Named> = fc.oneof(
  fc
    .tuple(fc.constantFrom("tenant" as const, "active" as const, "events" as const), tenant)
    .map(([kind, owner]) => named(kind, owner, "", (own) => own[kind])),
  fc.tuple(tenant, plain).map(([owner, part]) => named("run", owner, part, (own) => own.run(part as RunId))),
  fc
    .tuple(tenant, plain)
    .map(([owner, part]) =>
      named("reservation", owner, part, (own) => own.reservation(part as ReservationDigest)),
    ),
  fc
    .tuple(
      fc.constantFrom("lock" as const, "grant" as const),
      fc.constantFrom(...lockNamespaces),
      tenant,
      awkward,
    )
    .map(([kind, namespace, owner, name]) =>
      named(`${kind} ${namespace}`, owner, name, (own) => own[kind]({ namespace, name })),
    ),
);

describe("keys", () => {
  test("two different names never give the same key", () => {
    fc.assert(
      fc.property(fc.array(anything, { minLength: 2, maxLength: 12 }), (many) => {
        const nameByKey = new Map<string, string>();
        for (const { name, key } of many) {
          const text = JSON.stringify(name);
          expect(nameByKey.get(key) ?? text).toBe(text);
          nameByKey.set(key, text);
        }
      }),
      { seed: 1, numRuns: 2_000 },
    );
  });

  test("a lock's name can be read back from its key", () => {
    fc.assert(
      fc.property(tenant, awkward, (owner, name) => {
        const key = keys.forTenant(owner).lock({ namespace: "public", name });
        const [, , , lockOwner, encoded = ""] = key.split(":");
        expect([lockOwner, decodeURIComponent(encoded)]).toEqual([owner, name]);
      }),
      { seed: 1, numRuns: 1_000 },
    );
  });

  test("all keys of a tenant hold its partition in braces, and no other brace", () => {
    fc.assert(
      fc.property(anything, ({ key: named, tenant: owner }) => {
        const own = keys.forTenant(owner);
        const tag = `interlock:{${partitionLabel(partitionOf(owner))}}:`;
        const all = [named, own.fence, own.runPrefix, own.reservationPrefix, own.admissionLock];
        for (const key of [...all, keys.schema(own.partition)]) {
          expect(key.startsWith(tag)).toBe(true);
          expect(key.slice(tag.length)).not.toMatch(/[{}]/);
        }
      }),
      { seed: 1, numRuns: 1_000 },
    );
  });

  test("an operator finds the locks under their old names", () => {
    const own = keys.forTenant("acme" as TenantId);
    const start = `interlock:{${partitionLabel(own.partition)}}`;
    const lock = (namespace: LockName["namespace"], name: string) => own.lock({ namespace, name });
    expect(lock("admission", "")).toBe(`${start}:wf:run:admission:acme`);
    expect(lock("run", "run_07_x")).toBe(`${start}:wf:run:lock:acme:run_07_x`);
    expect(lock("job", "run_07_x:step@1")).toBe(`${start}:scheduler:job:acme:run_07_x%3Astep%401`);
    expect(lock("approval", "j")).toBe(`${start}:approval:acme:j`);
    expect(lock("public", "a/b")).toBe(`${start}:lock:acme:a%2Fb`);
    expect(own.grant({ namespace: "admission", name: "" })).toBe(`${start}:grant:admission:acme:`);
    expect(own.reservation("ab12" as ReservationDigest)).toBe(`${start}:wf:run:idempotency:acme:ab12`);
    expect(own.run("run_07_x" as RunId)).toBe(`${start}:run:acme:run_07_x`);
    expect(keys.schema(7 as Partition)).toBe("interlock:{p07}:schema");
  });

  test("names that no key can hold are refused", () => {
    const own = keys.forTenant("acme" as TenantId);
    expect(() => own.lock({ namespace: "public", name: "half \ud83d" })).toThrow("surrogate pair");
    expect(() => own.run("run:1" as RunId)).toThrow("run id");
    expect(() => own.reservation("" as ReservationDigest)).toThrow("reservation digest");
  });
});
