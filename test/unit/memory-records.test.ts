// The records in memory do what a plain sorted array does, and a large scope costs no more per member than a small one.
import fc from "fast-check";
import { expect, test } from "vitest";
import { MemoryRecords } from "../../src/adapters/memory-store.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";

type Row = { readonly member: string; readonly value: { readonly atMs: number } };

/** The same in the simplest way: all rows of one scope in a sorted array. */
class PlainRecords {
  rows: Row[] = [];

  put(member: string, atMs: number): void {
    this.erase(member);
    this.rows.push({ member, value: { atMs } });
    this.rows.sort((one, other) => (one.member < other.member ? -1 : 1));
  }

  erase(member: string): void {
    this.rows = this.rows.filter((row) => row.member !== member);
  }

  scan(after: string, limit: number): readonly Row[] {
    return this.rows.filter(({ member }) => member > after).slice(0, limit);
  }

  scanBack(before: string, limit: number): readonly Row[] {
    const less = this.rows.filter(({ member }) => member < before);
    return less.reverse().slice(0, limit);
  }
}

/** Few enough to be met again, and some with no place in the order of another locale. */
const members = fc.oneof(
  fc.integer({ min: 0, max: 40 }).map(String),
  fc.constantFrom("", "a", "A", "_", "z", "é", "\uffff"),
);
const steps = fc.array(
  fc.record({
    what: fc.constantFrom("put", "put", "erase", "scan", "scanBack", "size"),
    scope: fc.constantFrom("one", "other"),
    member: members,
    number: fc.integer({ min: 0, max: 50 }),
  }),
  { maxLength: 200 },
);

test("random steps on records in memory answer as a plain sorted array does", () => {
  fc.assert(
    fc.property(steps, (drawn) => {
      const records = new MemoryRecords();
      const plain = { one: new PlainRecords(), other: new PlainRecords() };
      for (const { what, scope, member, number } of drawn) {
        const model = plain[scope];
        if (what === "put") {
          records.put("sweepMark", scope, member, { atMs: number });
          model.put(member, number);
        }
        if (what === "erase") {
          records.erase("sweepMark", scope, member);
          model.erase(member);
        }
        if (what === "scan")
          expect(records.scan("sweepMark", scope, member, number)).toEqual(model.scan(member, number));
        if (what === "scanBack")
          expect(records.scanBack("sweepMark", scope, member, number)).toEqual(
            model.scanBack(member, number),
          );
        expect(records.size("sweepMark", scope)).toBe(model.rows.length);
      }
    }),
  );
});

test("a scope of many blocks stays in order while members come and go at random", () => {
  fc.assert(
    fc.property(fc.integer(), fc.integer({ min: 2, max: 4 }), (seed, oneIn) => {
      const records = new MemoryRecords();
      // A scope is in order from its first scan on.
      records.put("sweepMark", "scope", "", { atMs: 0 });
      records.scan("sweepMark", "scope", "", 1);
      const kept = new Set([""]);
      const names = shuffledNames(3_000, seed);
      for (const [index, name] of names.entries()) {
        records.put("sweepMark", "scope", name, { atMs: index });
        kept.add(name);
        if (index % oneIn !== 0) continue;
        const gone = names[Math.floor(index / 2)] as string;
        records.erase("sweepMark", "scope", gone);
        kept.delete(gone);
      }
      // Far fewer than a block per part, so that parts are joined again.
      for (const name of names.slice(0, 2_900)) {
        records.erase("sweepMark", "scope", name);
        kept.delete(name);
      }
      checkOrder(records, kept);
      for (const name of names) records.put("sweepMark", "scope", name, { atMs: 0 });
      checkOrder(records, new Set(["", ...names]));
    }),
    { numRuns: 10 },
  );
});

function checkOrder(records: MemoryRecords, kept: ReadonlySet<string>): void {
  const expected = [...kept].sort();
  const ascending = ["", ...records.scan("sweepMark", "scope", "", 10_000).map(({ member }) => member)];
  const descending = records.scanBack("sweepMark", "scope", "\uffff", 10_000).map(({ member }) => member);
  expect(ascending).toEqual(expected);
  expect(descending).toEqual(expected.toReversed());
  const middle = expected[expected.length >>> 1] as string;
  const at = expected.indexOf(middle);
  const next = records.scan("sweepMark", "scope", middle, 700).map(({ member }) => member);
  expect(next).toEqual(expected.slice(at + 1, at + 701));
  const last = records.scanBack("sweepMark", "scope", middle, 700).map(({ member }) => member);
  expect(last).toEqual(expected.slice(Math.max(0, at - 700), at).reverse());
}

/**
 * With one sorted array, 100,000 members took 97 times as long per member as 1,000 do. In blocks it is 3 times as long:
 * what is left is the processor's cache.
 */
test("a scope of 100,000 members costs little more per member than one of 1,000", () => {
  const small = Math.min(...[1, 2, 3].map(() => cpuUsPerMember(1_000, 20)));
  const large = cpuUsPerMember(100_000, 1);
  expect(large / small).toBeLessThan(12);
});

/** Inserted in random order, and taken from the front in pages, as a sweep does. */
function cpuUsPerMember(size: number, rounds: number): number {
  const names = shuffledNames(size, 1);
  const start = process.cpuUsage();
  for (let round = 0; round < rounds; round += 1) {
    const records = new MemoryRecords();
    for (const name of names) {
      records.put("due", "scope", name, {});
      if (records.size("due", "scope") === 1) records.scan("due", "scope", "", 1);
    }
    for (let taken = 0; taken < size; taken += 100) {
      for (const { member } of records.scan("due", "scope", "", 100)) records.erase("due", "scope", member);
    }
    expect(records.size("due", "scope")).toBe(0);
  }
  const { user, system } = process.cpuUsage(start);
  return (user + system) / rounds / size;
}

/** The same for a seed: every number below `count` once, in 16 digits. */
function shuffledNames(count: number, seed: number): readonly string[] {
  const random = createSeededRandom(seed);
  const names = Array.from({ length: count }, (_, index) => String(index).padStart(16, "0"));
  for (let index = count - 1; index > 0; index -= 1) {
    const other = random.integer(0, index);
    [names[index], names[other]] = [names[other] as string, names[index] as string];
  }
  return names;
}
