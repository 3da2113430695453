// The watch over secrets catches what it is there for: each kind of leak is planted and found, and what is right is let pass.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeKeyText } from "../../src/domain/api-key.ts";
import { createSecretWatch, type SecretWatch } from "../support/secret-watch.ts";

const secret = "0123456789abcdef".repeat(4);
const key = makeKeyText({ keyId: "acme.0011223344556677", secret });
let watch: SecretWatch;
let folder: string;

beforeEach(() => {
  watch = createSecretWatch();
  folder = mkdtempSync(join(tmpdir(), "interlock-secrets-"));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

test.each([
  ["a key", key, `request with ${key} failed`],
  ["a part of a key", key, `no such secret: ${secret}`],
  [
    "a claim token",
    '{"jobs":[{"claim_token":"tok_0123456789abcdef"}]}',
    'lost {"token":"tok_0123456789abcdef"}',
  ],
  ["a lock token", '{"resource":"r","token":"0123456789abcdef"}', "released 0123456789abcdef"],
])("%s that was handed out and stands in a log is a leak, told without the secret", (_what, answer, line) => {
  watch.noteAllIn(answer);
  let log = "started\n";
  watch.watchOutput("the log", () => log, "nothing");
  expect(watch.leaks()).toEqual([]);
  log += `${line}\n`;
  const [leak = "", ...others] = watch.leaks();
  expect(others).toEqual([]);
  expect(leak).toMatch(/^the log shows an? /);
  for (const hidden of [secret, "tok_0123456789abcdef", "0123456789abcdef"]) {
    if (line.includes(hidden) && answer.includes(hidden)) expect(leak).not.toContain(hidden);
  }
});

test("a password is a leak wherever it stands, also in what was said before it was known", () => {
  watch.watchOutput("the metrics", () => 'up{store="redis://:correct-horse@host"} 1', "nothing");
  expect(watch.leaks()).toEqual([]);
  watch.note("a password", "correct-horse");
  expect(watch.leaks()).toHaveLength(1);
});

test("a program may show a new key once, and not twice; anybody else not at all", () => {
  let said = `{"url":"http://x","keys":{"admin":"${key}"}}\n`;
  watch.watchOutput("serve", () => said, "new keys once");
  expect(watch.leaks()).toEqual([]);
  said += `using ${key}\n`;
  expect(watch.leaks()).toHaveLength(1);
  const other = createSecretWatch();
  other.watchOutput("the log", () => key, "nothing");
  expect(other.leaks()).toHaveLength(1);
});

test("a file with a key is a leak, except those that are there for keys, and those are read", () => {
  writeFileSync(join(folder, "keys.json"), JSON.stringify({ admin: key }));
  mkdirSync(join(folder, "data"));
  writeFileSync(join(folder, "data", "interlock.db"), "nothing");
  watch.inspectFolder(folder);
  watch.inspectFolder(join(folder, "nowhere"));
  expect(watch.leaks()).toEqual([]);
  writeFileSync(join(folder, "data", "interlock.db-wal"), Buffer.from(`\0\0${secret}\0`));
  watch.inspectFolder(folder);
  expect(watch.leaks()).toEqual([expect.stringMatching(/interlock\.db-wal holds an API key/)]);
});
