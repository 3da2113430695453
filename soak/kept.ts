// What a store still keeps at the end of a soak, read from the file or the server itself: beside what was made it says what was trimmed.
import { loadDriver } from "../src/adapters/sqlite/driver.ts";
import type { RecordKind } from "./tally.ts";

export type Kept = {
  /** Records still there. */
  readonly kept: Readonly<Partial<Record<RecordKind, number>>>;
  /** For those that number themselves: how many there ever were. */
  readonly numbered: Readonly<Partial<Record<RecordKind, number>>>;
};

const counts = {
  "ended runs": "SELECT COUNT(*) FROM run",
  "idempotency keys": "SELECT COUNT(*) FROM reservation",
  approvals: "SELECT COUNT(*) FROM approval",
  "dead letters": "SELECT COUNT(*) FROM document WHERE scope LIKE '%/deadLetter'",
  "event rows": "SELECT COUNT(*) FROM event",
  "audit records": "SELECT COUNT(*) FROM trail",
  locks: "SELECT COUNT(*) FROM lock WHERE member LIKE 'public/%'",
  // Each has a row by its name and one by its time.
  "lock endings": "SELECT COUNT(*) / 2 FROM ending",
  "revoked keys":
    "SELECT COALESCE(SUM(json_array_length(value, '$.settings.revokedKeyIds')), 0) FROM tenant WHERE scope LIKE 'soak-%'",
} satisfies Partial<Record<RecordKind, string>>;

const sequences = {
  "event rows":
    "SELECT SUM(newest) FROM (SELECT MAX(CAST(member AS INTEGER)) AS newest FROM event GROUP BY scope)",
  "audit records":
    "SELECT SUM(newest) FROM (SELECT MAX(CAST(member AS INTEGER)) AS newest FROM trail GROUP BY scope)",
} satisfies Partial<Record<RecordKind, string>>;

export async function keptInSqlite(file: string): Promise<Kept> {
  const open = await loadDriver();
  const database = open(file, { readOnly: true });
  const read = (queries: Readonly<Record<string, string>>) =>
    Object.fromEntries(
      Object.entries(queries).map(([kind, query]) => {
        const row = database.prepare(query).get() as object;
        return [kind, Number(Object.values(row)[0])];
      }),
    );
  const kept = read(counts);
  const numbered = read(sequences);
  database.close();
  return { kept, numbered };
}

type Command = <Reply>(...words: string[]) => Promise<Reply>;

/** `<prefix>:{pNN}:<kind>:...`: which kind of record a key holds, or whose order it is, and how its members are counted. */
const redisKinds: ReadonlyArray<readonly [name: RegExp, kind: RecordKind, count: "key" | "ZCARD" | "XLEN"]> =
  [
    [/^runs:/, "ended runs", "ZCARD"],
    [/^keyed:/, "idempotency keys", "ZCARD"],
    [/^approval-record:/, "approvals", "key"],
    [/^events:/, "event rows", "XLEN"],
    [/^trail:/, "audit records", "XLEN"],
    [/^grant:public:/, "locks", "key"],
    [/^endings:/, "lock endings", "ZCARD"],
  ];

export async function keptInRedis(command: Command): Promise<Kept> {
  const kept: Partial<Record<RecordKind, number>> = {};
  const numbered: Partial<Record<RecordKind, number>> = {};
  const add = (sums: typeof kept, kind: RecordKind, count: number) => {
    sums[kind] = (sums[kind] ?? 0) + count;
  };
  for (const key of await keysOf(command)) {
    const name = key.replace(/^[^:]+:\{p\d+\}:/, "");
    const row = redisKinds.find(([start]) => start.test(name));
    if (row !== undefined) {
      const [, kind, count] = row;
      add(kept, kind, count === "key" ? 1 : Number(await command(count, key)));
      if (count === "XLEN") add(numbered, kind, newestOf(await command("XINFO", "STREAM", key)));
    }
    if (/^documents:[^:]+:deadLetter$/.test(name))
      add(kept, "dead letters", Number(await command("HLEN", key)));
    if (name.startsWith("tenant:soak-")) {
      const revoked = await command<string | null>("HGET", key, "revoked");
      add(kept, "revoked keys", (revoked ?? "").split(" ").filter((id) => id !== "").length);
    }
  }
  return { kept, numbered };
}

async function keysOf(command: Command): Promise<readonly string[]> {
  const keys = new Set<string>();
  let cursor = "0";
  do {
    const [next, page] = await command<[string, string[]]>("SCAN", cursor, "COUNT", "1000");
    for (const key of page) keys.add(key);
    cursor = next;
  } while (cursor !== "0");
  return [...keys];
}

/** The ids of a stream are `0-<number>`. */
function newestOf(information: unknown): number {
  const words = Array.isArray(information) ? information : Object.entries(information as object).flat();
  const id = String(words[words.indexOf("last-generated-id") + 1]);
  return Number(id.split("-")[1]);
}
