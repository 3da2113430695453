// What an attacker or a broken program would send: texts, bodies and cursors that have hurt servers before.
import { writeCursor } from "../../src/api/cursor.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";

/** For every place that takes a text. */
export const hostileTexts: readonly string[] = [
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "../../../../etc/passwd",
  "..\\..\\windows",
  "' OR '1'='1' --",
  "'; DROP TABLE runs; --",
  '"]]\nreturn redis.call("FLUSHALL")--',
  "]] .. redis.call('KEYS','*') .. [[",
  "\r\nINFO injected line",
  "a\r\nSet-Cookie: x=1",
  "\u0000",
  "a\u0000b",
  "\u001b[31mred",
  "\u202Etxt.exe",
  "\uFFFF",
  "\uFEFF",
  "\u2028",
  "%00",
  "%2e%2e%2f",
  "{{7*7}}",
  "${jndi:ldap://127.0.0.1/x}",
  "${steps.one.output}",
  "<script>alert(1)</script>",
  "*",
  "acme:*",
  "{p07}:*",
  "NaN",
  "Infinity",
  "-0",
  "1e400",
  "",
  " ",
  "x".repeat(1_025),
  "é".repeat(600),
  "😀".repeat(300),
];

/** Bodies as text: what a strict reader has to refuse, or take without harm. */
export function hostileBody(random: SeededRandom): { readonly how: string; readonly bytes: Buffer } {
  const bodies: ReadonlyArray<readonly [string, () => string | Buffer]> = [
    ["__proto__ as a name", () => '{"__proto__":{"polluted":true}}'],
    ["__proto__ inside", () => '{"a":{"b":[{"__proto__":{"polluted":true}}]}}'],
    ["__proto__ escaped", () => '{"\\u005f_proto__":{"polluted":true}}'],
    ["constructor.prototype", () => '{"constructor":{"prototype":{"polluted":true}}}'],
    ["objects nested 100,000 deep", () => `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`],
    ["arrays nested 100,000 deep", () => "[".repeat(100_000) + "]".repeat(100_000)],
    ["arrays that never close", () => "[".repeat(100_000)],
    ["100,000 items", () => `{"topics":[${"1,".repeat(99_999)}1]}`],
    ["100,000 objects", () => `[${"{},".repeat(99_999)}{}]`],
    ["100,000 names", () => `{${Array.from({ length: 100_000 }, (_, index) => `"n${index}":1`).join(",")}}`],
    ["a text of a million letters", () => JSON.stringify({ reason: "x".repeat(1_000_000) })],
    ["more than a body may be", () => JSON.stringify({ reason: "x".repeat(2_100_000) })],
    ["NaN", () => '{"max_running":NaN}'],
    ["Infinity", () => '{"max_running":Infinity}'],
    ["1e400", () => '{"max_running":1e400,"ttl_ms":1e400,"max_jobs":1e400}'],
    ["-1e400", () => '{"max_running":-1e400}'],
    ["a number of 10,000 digits", () => `{"max_running":${"9".repeat(10_000)}}`],
    ["a name twice", () => '{"reason":"a","reason":"b"}'],
    ["a lone surrogate", () => '{"reason":"\\ud800"}'],
    ["surrogates the wrong way round", () => '{"reason":"\\udc00\\ud800"}'],
    [
      "bytes that are no UTF-8",
      () => Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0xfe, 0x22, 0x7d]),
    ],
    ["an overlong form", () => Buffer.from([0x22, 0xc0, 0x80, 0x22])],
    ["a NUL byte", () => '{"reason":"a\u0000b"}'],
    ["UTF-16", () => Buffer.from('{"reason":"a"}', "utf16le")],
    ["a byte order mark", () => "\uFEFF{}"],
    ["half of it", () => '{"reason":'],
    ["nothing but white space", () => "   \n\t "],
    ["two values", () => "{}{}"],
    ["a comment", () => '{/* */"reason":"a"}'],
    ["a YAML bomb", () => yamlBomb],
  ];
  const [how, make] = random.pick(bodies);
  return { how, bytes: Buffer.from(make()) };
}

const yamlBomb = [
  "a: &a [x, x, x, x, x, x, x, x, x]",
  ..."bcdefghi".split("").map((name, index) => {
    const before = "abcdefgh"[index];
    return `${name}: &${name} [${Array.from({ length: 9 }, () => `*${before}`).join(", ")}]`;
  }),
].join("\n");

/** Places that no list has ever given out, some of them with a checksum that is right. */
export function hostileCursor(random: SeededRandom, operation: string): string {
  const after = random.pick([
    ...["", "0", "-1", "NaN", "1e400", "9".repeat(400), "undefined", "null", "[]"],
    ...hostileTexts,
  ]);
  const tenant = random.pick(["acme", "globex", "platform", ""]);
  const forged = writeCursor({ operation, tenant, after });
  const other = writeCursor({
    operation: random.pick(["listRuns", "readEvents", `${operation} acme`]),
    tenant,
    after,
  });
  const json = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return random.pick([
    forged,
    forged,
    other,
    forged.slice(0, -3),
    json([1, operation, tenant, { toString: "x" }, "0"]),
    json({ length: 5, 0: 1 }),
    json([[[[[[]]]]]]),
    "AAAA",
    "x".repeat(1_024),
    "x".repeat(1_025),
    "%ff%fe",
  ]);
}
