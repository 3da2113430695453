// The hash chain by itself: what a hash depends on, how rows become seals, and what is found when something was changed.
import { describe, expect, test } from "vitest";
import {
  beginOf,
  describeChange,
  describeRefusals,
  type EventRow,
  headOf,
  linkRow,
  type Seal,
  sealedRowsMax,
  sealRows,
  secretIdOf,
} from "../../src/domain/audit.ts";
import {
  judgeSeal,
  readSeal,
  type StoredSeal,
  type TrailTerms,
  unreadableSeal,
  writeSeal,
} from "../../src/domain/audit-verdict.ts";
import type { TenantId } from "../../src/domain/tenant.ts";

const tenant = "acme" as TenantId;
const open = { tenant, secret: "" };
const keyed = { tenant, secret: "a secret of some length" };

const row = (sequence: number): EventRow => ({
  sequence,
  atMs: 1_000_000 + sequence,
  type: "document_saved",
  subject: `workflow/w${sequence}`,
  actor: "ann",
  detail: `change ${sequence}`,
});

const rows = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => row(from + index));

type Options = { readonly chain?: typeof open; readonly newest?: Seal; readonly rowsKept?: number };

function seal(events: readonly EventRow[], { chain = open, newest, rowsKept = 10_000 }: Options = {}) {
  const reading = { events, first: events[0]?.sequence ?? 1, last: events.at(-1)?.sequence ?? 0 };
  const state = newest === undefined ? undefined : ({ seal: newest, state: "open" } as const);
  return sealRows({ chain, newest: state, rowsKept }, reading);
}

/** Judges all seals against the rows, as they follow each other, and tells the first break. */
function judge(
  stored: readonly StoredSeal[],
  events: readonly EventRow[],
  { keptFrom = 1, secrets = [""] }: { readonly keptFrom?: number; readonly secrets?: readonly string[] } = {},
) {
  const terms: TrailTerms = { tenant, secrets };
  let before: Seal | undefined;
  for (const each of stored) {
    const found = judgeSeal(terms, { stored: each, before, rows: events, keptFrom });
    if (found !== undefined) return `${found.sequence} ${found.why}`;
    before = each.seal;
  }
  return "intact";
}

const storedOf = (seals: readonly Seal[], chain = open): StoredSeal[] =>
  seals.map((each) => readSeal(writeSeal(chain, each)) as StoredSeal);

describe("a hash", () => {
  test("depends on the hash before it, on the tenant, on every field of the row, and on the secret", () => {
    const plain = linkRow(open, "before", row(7));
    expect(linkRow(open, "before", row(7))).toBe(plain);
    const others = [
      linkRow(open, "Before", row(7)),
      linkRow({ ...open, tenant: "acme2" as TenantId }, "before", row(7)),
      linkRow(keyed, "before", row(7)),
      linkRow(open, "before", { ...row(7), sequence: 8 }),
      linkRow(open, "before", { ...row(7), atMs: 7 }),
      linkRow(open, "before", { ...row(7), type: "document_removed" }),
      linkRow(open, "before", { ...row(7), subject: "workflow/w8" }),
      linkRow(open, "before", { ...row(7), actor: "ben" }),
      linkRow(open, "before", { ...row(7), detail: "change 8" }),
      // Fields cannot be moved into each other.
      linkRow(open, "before", { ...row(7), actor: 'ann","change 7', detail: "" }),
    ];
    expect(new Set([plain, ...others]).size).toBe(others.length + 1);
  });

  test("the id of a secret does not tell it, and there is none without one", () => {
    expect(secretIdOf("")).toBe("");
    expect(secretIdOf(keyed.secret)).toMatch(/^[A-Za-z0-9_-]{12}$/);
    expect(secretIdOf(keyed.secret)).not.toBe(secretIdOf(`${keyed.secret}.`));
  });
});

describe("sealing", () => {
  test("gives the same hashes however the rows come, in seals of a bounded length", () => {
    const all = rows(1, 620);
    const whole = seal(all);
    expect(whole.map(({ from, hashes }) => [from, hashes.length])).toEqual([
      [1, sealedRowsMax],
      [251, sealedRowsMax],
      [501, 120],
    ]);
    for (const size of [1, 7, 250, 251, 400]) {
      const byFrom = new Map<number, Seal>();
      let newest: Seal | undefined;
      for (let at = 0; at < all.length; at += size) {
        const part = seal(all.slice(at, at + size), newest === undefined ? {} : { newest });
        for (const each of part) byFrom.set(each.from, each);
        newest = part.at(-1) ?? newest;
      }
      expect([...byFrom.values()]).toEqual(whole);
    }
    expect(judge(storedOf(whole), all)).toBe("intact");
    expect(seal([], { newest: whole[2] as Seal })).toEqual([]);
  });

  test("records what was dropped and what is missing as gaps that the chain goes over", () => {
    // Of 1,300 rows 200 are kept; 1 to 100 were sealed, and 1,150 to 1,159 have disappeared.
    const [first] = seal(rows(1, 100));
    const left = [...rows(1_101, 1_149), ...rows(1_160, 1_300)];
    const later = seal(left, { newest: first as Seal, rowsKept: 200 });
    expect(later.map(({ from, gaps }) => ({ from, gaps }))).toEqual([
      { from: 1_101, gaps: [{ from: 101, to: 1_100, why: "dropped" }] },
      { from: 1_160, gaps: [{ from: 1_150, to: 1_159, why: "missing" }] },
    ]);
    expect(later.map(beginOf)).toEqual([101, 1_150]);
    const all = [first as Seal, ...later];
    expect(judge(storedOf(all), left, { keptFrom: 1_101 })).toBe("1150 row_missing");
    const hidden = all.map((each) => ({ ...each, gaps: each.gaps.filter(({ why }) => why === "dropped") }));
    expect(judge(storedOf(hidden), left, { keptFrom: 1_101 })).toBe("1150 seal_missing");
  });

  test("a trail that is first sealed when its beginning was dropped begins with that gap", () => {
    const [only] = seal(rows(51, 60));
    expect(only).toMatchObject({ from: 51, keptFrom: 51, gaps: [{ from: 1, to: 50, why: "dropped" }] });
    expect(judge(storedOf([only as Seal]), rows(51, 60), { keptFrom: 51 })).toBe("intact");
  });
});

describe("a verdict", () => {
  const all = rows(1, 620);
  const seals = seal(all);
  const changed = (sequence: number, change: Partial<EventRow>) =>
    all.map((each) => (each.sequence === sequence ? { ...each, ...change } : each));

  test.each([1, 2, 250, 251, 499, 620])("names record %i when its row was changed", (sequence) => {
    expect(judge(storedOf(seals), changed(sequence, { actor: "eve" }))).toBe(`${sequence} row_changed`);
    expect(judge(storedOf(seals), changed(sequence, { detail: "change" }))).toBe(`${sequence} row_changed`);
  });

  test.each([1, 250, 251, 620])("names record %i when its row is gone", (sequence) => {
    const left = all.filter((each) => each.sequence !== sequence);
    expect(judge(storedOf(seals), left)).toBe(`${sequence} row_missing`);
  });

  test.each([1, 130, 250, 251, 620])("names record %i when its hash was changed", (sequence) => {
    const stored = storedOf(seals).map(({ seal: each, check }) => {
      const hashes = each.hashes.map((hash, index) =>
        each.from + index === sequence ? `x${hash.slice(1)}` : hash,
      );
      return { seal: { ...each, hashes }, check };
    });
    expect(judge(stored, all)).toBe(`${sequence} hash_changed`);
  });

  test("a seal that is gone, that cannot be read, or of which anything else was changed is named by its first record", () => {
    const [one, two, three] = storedOf(seals) as [StoredSeal, StoredSeal, StoredSeal];
    expect(judge([one, three], all)).toBe("251 seal_missing");
    expect(judge([two, three], all)).toBe("1 seal_missing");
    expect(judge([two, three], all.slice(250), { keptFrom: 251 })).toBe("intact");
    const bodies = [
      "",
      "null",
      "7",
      "{}",
      JSON.stringify({ ...one.seal, check: 7 }),
      writeSeal(open, { ...one.seal, hashes: [] }),
    ];
    for (const body of bodies) expect(readSeal(body)).toBeUndefined();
    expect(headOf(unreadableSeal(251)).sequence).toBe(251);
    const raised = { ...three, seal: { ...three.seal, keptFrom: 600 } };
    expect(judge([one, two, raised], all)).toBe("501 seal_changed");
    const unbound = { ...one, seal: { ...one.seal, previous: "x" } };
    expect(judge([unbound, two, three], all)).toBe("1 hash_changed");
  });

  test("what the store has dropped since is not missed, and older rows than that are not looked at", () => {
    expect(judge(storedOf(seals), all.slice(300), { keptFrom: 301 })).toBe("intact");
    expect(judge(storedOf(seals), all.slice(301), { keptFrom: 301 })).toBe("301 row_missing");
    expect(judge(storedOf(seals), changed(300, { actor: "eve" }), { keptFrom: 301 })).toBe("intact");
  });

  test("with a secret nobody else can make a chain: neither by other hashes nor by leaving the secret out", () => {
    const secrets = [keyed.secret];
    const genuine = storedOf(seal(all, { chain: keyed }), keyed);
    expect(judge(genuine, all, { secrets })).toBe("intact");
    expect(judge(genuine, changed(7, { actor: "eve" }), { secrets })).toBe("7 row_changed");
    const forgedRows = changed(7, { actor: "eve" });
    const plain = seal(forgedRows);
    expect(judge(storedOf(plain), forgedRows)).toBe("intact");
    expect(judge(storedOf(plain), forgedRows, { secrets })).toBe("1 other_secret");
    const claimed = plain.map((each) => ({ ...each, secretId: secretIdOf(keyed.secret) }));
    expect(judge(storedOf(claimed), forgedRows, { secrets })).toBe("1 hash_changed");
    const other = { tenant, secret: "the secret of the forger" };
    expect(judge(storedOf(seal(forgedRows, { chain: other }), other), forgedRows, { secrets })).toBe(
      "1 other_secret",
    );
  });

  test("a secret that was replaced still verifies what it sealed, and one that came later follows what had none", () => {
    const [old, now] = ["", keyed.secret];
    const [before] = seal(rows(1, 100), { chain: { tenant, secret: old } });
    const after = sealRows(
      { chain: keyed, newest: { seal: before as Seal, state: "closed" }, rowsKept: 10_000 },
      { events: rows(101, 150), first: 1, last: 150 },
    );
    const stored = [...storedOf([before as Seal]), ...storedOf(after, keyed)];
    expect(judge(stored, rows(1, 150), { secrets: [now, old] })).toBe("intact");
    expect(judge(stored, rows(1, 150), { secrets: [now] })).toBe("1 other_secret");
  });
});

describe("the words of a record", () => {
  test("say what a change of settings changed, and nothing else", () => {
    const before = {
      maxConcurrentRuns: 3,
      stopped: true,
      pools: { batch: { maxRunning: 2 } },
      revokedKeyIds: ["a", "b"],
    };
    const after = {
      maxConcurrentRuns: 5,
      admissionStrategy: "lock",
      pools: { batch: { maxRunning: 2 }, gpu: { maxRunning: 1 } },
      revokedKeyIds: ["b", "c"],
    };
    expect(describeChange(before, after, "token")).toBe(
      "admission_strategy=lock max_concurrent_runs=5 pools.gpu.max_running=1 revoked_key_ids=+c revoked_key_ids=-a stopped=unset token",
    );
    expect(describeChange(after, after, "token")).toBe("token");
    const numbers = { "results.retry.baseMs": 700 };
    const changed = { policyNumbers: numbers, rollout: { id: "r", percent: 30, policies: numbers } };
    expect(describeChange({}, changed, "token")).toBe(
      "policy_numbers.results.retry.baseMs=700 rollout.id=r rollout.percent=30 rollout.policies.results.retry.baseMs=700 token",
    );
    expect(describeChange({}, { name: "x role=platform", role: "viewer" }, "id")).toBe(
      'name="x role=platform" role=viewer id',
    );
  });

  test("are cut, but never their end", () => {
    const topics = Object.fromEntries(
      Array.from({ length: 50 }, (_, index) => [`topic-${index}`, { maxRunning: index }]),
    );
    const told = describeChange({}, { topics }, "token");
    expect([...told].length).toBeLessThanOrEqual(300);
    expect(told).toMatch(/^topics\.topic-0\.max_running=0 .*… token$/);
  });

  test("count the refusals of a minute, the most frequent first", () => {
    const counts = new Map([
      ["stale_fence", 1],
      ["max_concurrent_runs_reached", 12],
      ["forbidden", 1],
    ]);
    expect(describeRefusals(Date.UTC(2026, 10, 15, 21, 5), counts, "gateway-1")).toBe(
      "2026-11-15T21:05Z max_concurrent_runs_reached=12 forbidden=1 stale_fence=1 by gateway-1",
    );
  });
});
