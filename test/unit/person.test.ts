// Persons behind keys: who may decide about whose run, how keys inherit their makers, and how long revoked keys stay listed.
import { describe, expect, test } from "vitest";
import {
  type ApiKeyRecord,
  lineageBelow,
  lineageMax,
  mayDecide,
  type Person,
  personOf,
  withRevoked,
} from "../../src/domain/api-key.ts";
import type { TenantId } from "../../src/domain/tenant.ts";

const person = (owner: string, ...lineage: string[]): Person => ({ owner, lineage });

describe("separate duties", () => {
  test.each([
    ["two people whose keys nobody of them made", person("ada"), person("ben"), "allowed"],
    ["two people whose keys one admin made", person("ada", "root"), person("ben", "root"), "allowed"],
    ["one person with two keys", person("ada"), person("ada", "root"), "same_owner"],
    ["one person, spelt otherwise", person("Ada  Lovelace"), person("ada lovelace "), "same_owner"],
    ["an admin and a key that it made", person("ada"), person("ben", "ada"), "made_by_requester"],
    ["a key and the admin that made it", person("ben", "ada"), person("ada"), "made_by_approver"],
    [
      "an admin and a key made through another",
      person("ada"),
      person("cy", "ben", "ada"),
      "made_by_requester",
    ],
    [
      "a key made through another and its admin",
      person("cy", "ben", "ADA"),
      person("ada"),
      "made_by_approver",
    ],
  ] as const)("%s", (_what, requester, approver, expected) => {
    const verdict = mayDecide(requester, approver);
    expect(verdict.kind === "refused" ? verdict.rule : verdict.kind).toBe(expected);
  });
});

describe("a key's lineage", () => {
  test("names its maker first, and everybody once", () => {
    expect(lineageBelow(person("ada"))).toEqual(["ada"]);
    expect(lineageBelow(person("ben", "ada", "root"))).toEqual(["ben", "ada", "root"]);
    expect(lineageBelow(person("Ada", "ben", "ada"))).toEqual(["Ada", "ben"]);
  });

  test("that would be too long is refused: nobody is ever dropped from it", () => {
    const makers = Array.from({ length: lineageMax }, (_, index) => `maker ${index}`);
    expect(lineageBelow(person("one more", ...makers.slice(1)))).toHaveLength(lineageMax);
    expect(lineageBelow(person("one more", ...makers))).toBeUndefined();
  });

  test("of an older key is empty, and its owner is its name", () => {
    const old: ApiKeyRecord = {
      ...{ keyId: "acme.1", tenant: "acme" as TenantId, role: "admin", name: "ci" },
      ...{ createdAtMs: 1, createdBy: "root", secretHash: "00" },
    };
    expect(personOf(old)).toEqual({ owner: "ci", lineage: [] });
  });
});

describe("the list of revoked keys", () => {
  const minuteMs = 60_000;

  test("keeps every key for three minutes, however many follow it", () => {
    let settings = withRevoked({}, ["first"], 0);
    for (let index = 0; index < 500; index += 1) {
      settings = withRevoked(settings, [`key ${index}`], Math.min(index, 3 * minuteMs - 1));
    }
    expect(settings.revokedKeyIds).toHaveLength(501);
    expect(settings.revokedKeyIds?.[0]).toBe("first");
  });

  test("forgets what is older than that, and nothing that is younger", () => {
    const atOnce = withRevoked({ revokedKeyIds: ["of an older version"] }, ["a"], 0);
    const later = withRevoked(atOnce, ["b"], 2 * minuteMs);
    expect(later.revokedKeyIds).toEqual(["of an older version", "a", "b"]);
    const third = withRevoked(later, ["c"], 3 * minuteMs);
    expect(third.revokedKeyIds).toEqual(["a", "b", "c"]);
    const again = withRevoked(third, ["b"], 5 * minuteMs);
    expect(again.revokedKeyIds).toEqual(["a", "b", "c"]);
    expect(withRevoked(again, ["d"], 6 * minuteMs).revokedKeyIds).toEqual(["c", "d"]);
  });

  test("keeps all of it when an older version has dropped the mark", () => {
    const marked = { revokedKeyIds: ["a", "b"], revokedSince: { atMs: 0, keyId: "gone" } };
    expect(withRevoked(marked, ["c"], 9 * minuteMs).revokedKeyIds).toEqual(["a", "b", "c"]);
  });
});
