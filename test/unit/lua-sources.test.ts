// Lua is never put together from data: scripts are files, one place sends them, and inside them commands are words of their own.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";

const root = dirname(dirname(import.meta.dirname));

function filesIn(folder: string, ending: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(ending))
    .map((path) => `${folder}/${path}`);
}

const textOf = (path: string) => readFileSync(join(root, path), "utf8");
const withoutComments = (text: string) =>
  text.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/(^|\s)\/\/.*$/gm, "");

describe("scripts", () => {
  const sources = filesIn("src", ".ts");

  test("are sent by one file, as they were read", () => {
    const senders = sources.filter((path) =>
      /"(EVAL|EVALSHA|SCRIPT|FCALL|FUNCTION)"/.test(withoutComments(textOf(path))),
    );
    expect(senders).toEqual(["src/adapters/redis/least-rights.ts", "src/adapters/redis/scripts.ts"]);
    const sender = withoutComments(textOf("src/adapters/redis/scripts.ts"));
    expect(sender.match(/\["EVAL(?:SHA)?", [^\]]*\](?:\.concat\([^)]*\))?/g)).toEqual([
      '["EVALSHA", run.script.sha1].concat(run.operands)',
      '["EVAL", run.script.source, ...run.operands]',
    ]);
  });

  test("are read from files of fixed names, and nothing is put into them but other files", () => {
    const reader = withoutComments(textOf("src/adapters/redis/scripts.ts"));
    expect(reader.match(/readFileSync\([^;]*;/g)).toEqual([
      'readFileSync(new URL(`./lua/${fileName}.lua`, import.meta.url), "utf8");',
    ]);
    const named = sources.flatMap((path) => textOf(path).match(/\bloadScript\([^)]*\)/g) ?? []);
    // The second takes its name from a table of migrations.
    expect(named.sort()).toEqual([
      'loadScript("open-partition")',
      "loadScript(fileName)",
      "loadScript(fileName: string)",
    ]);
    const opening = textOf("src/adapters/redis/opening.ts");
    expect(opening).toContain("const fileName = migrations[version];");
    expect(opening).toMatch(/const migrations: readonly string\[\] = \[("migrate-from-\d+"(, )?)+\];/);
  });
});

describe("Lua", () => {
  const scripts = filesIn("src/adapters/redis/lua", ".lua");
  const bodyOf = (path: string) =>
    textOf(path)
      .replaceAll(/--\[\[[\s\S]*?\]\]/g, "")
      .replaceAll(/--.*$/gm, "");

  test.each(scripts)("%s makes no code of data", (path) => {
    expect(bodyOf(path)).not.toMatch(
      /\b(loadstring|load|loadfile|dofile|setfenv|getfenv|require|rawset|setmetatable)\s*\(|\b_G\b/,
    );
  });

  test.each(scripts)("%s calls commands by words that stand in it, never by a value", (path) => {
    const calls = [...bodyOf(path).matchAll(/redis\.p?call\(\s*([^,)\s]+)/g)].map(([, first = ""]) => first);
    // A write that was put aside is a list that begins with its command, as the next test says.
    expect(calls.filter((first) => !/^(["'][A-Z]+["']|unpack\([a-z.]+)$/.test(first))).toEqual([]);
  });

  test("puts writes aside as lists that begin with their command", () => {
    const starts = scripts.flatMap((path) =>
      [
        ...bodyOf(path).matchAll(
          /(?:\bwrites\[[^\]]+\]\s*=|\breturn)\s*\{\s*(["'][A-Z]{2,}["']|[^,\s}]+, \w+Key)/g,
        ),
      ].map(([, first = ""]) => `${path}: ${first}`),
    );
    expect(starts.length).toBeGreaterThan(3);
    expect(starts.filter((line) => !/: ["'][A-Z]+["']$/.test(line))).toEqual([]);
  });
});
