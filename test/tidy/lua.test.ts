// The headers of Lua scripts and parts say what the text below them does: names that come in, names that go out, fields.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { namesOf, readPart, readScope } from "../support/lua-scope.ts";

const folder = join(dirname(dirname(import.meta.dirname)), "src/adapters/redis/lua");
const textOf = (name: string) => readFileSync(join(folder, `${name}.lua`), "utf8");
const luaIn = (path: string) =>
  readdirSync(path).flatMap((name) => (name.endsWith(".lua") ? [name.slice(0, -4)] : []));
const scripts = luaIn(folder);
const parts = luaIn(join(folder, "parts"));
const partOf = (name: string) => readPart(textOf(`parts/${name}`));

describe("a part", () => {
  test.each(parts)("%s needs exactly the names that it says it reads", (name) => {
    const part = partOf(name);
    const { needed } = readScope(part.body, partOf);
    const declared = new Set([...namesOf(part.reads, partOf), ...part.sets.names]);
    expect({ undeclared: needed.filter((word) => !declared.has(word)) }).toEqual({ undeclared: [] });
    expect({ unused: part.reads.names.filter((word) => !needed.includes(word)) }).toEqual({ unused: [] });
  });

  test.each(parts)("%s sets every name that it says it sets", (name) => {
    const part = partOf(name);
    const { left } = readScope(part.body, partOf);
    // A name of the script around it may be given another value.
    const isSet = (word: string) => left.includes(word) || new RegExp(`\\b${word} = `).test(part.body);
    expect(part.sets.names.filter((word) => !isSet(word))).toEqual([]);
  });
});

test.each(scripts)(
  "%s has every name that its parts read, and uses none that they do not say they set",
  (name) => {
    expect(readScope(textOf(name), partOf).needed).toEqual([]);
  },
);

describe("a hash that a script is handed", () => {
  const hashes = scripts.flatMap((script) => {
    const [, header = ""] = /--\[\[([\s\S]*?)\]\]/.exec(textOf(script)) ?? [];
    const keys = header.matchAll(
      /KEYS\[(\d+)\] ([^:\n]+): hash with ([\s\S]*?)(?=\n +(?:KEYS|ARGV|Returns))/g,
    );
    return [...keys].map(([, key = "", name = "", fields = ""]) => ({ script, key, name, fields }));
  });

  test.each(hashes)("$script: the header names exactly the fields of $name that are used", (hash) => {
    const used = fieldsUsed(withParts(textOf(hash.script)), Number(hash.key));
    const named = hash.fields
      .replaceAll(/\([^()]*\)/g, "")
      .split(/,| and |"|one field|per job/)
      .map((name) => name.trim())
      .filter((name) => name !== "");
    expect({ missing: used.filter((field) => !named.includes(field)) }).toEqual({ missing: [] });
    // The rest of a name like quota:<name> comes from the caller.
    const stale = named.filter((field) => !field.includes("<") && !used.includes(field));
    expect({ stale }).toEqual({ stale: [] });
  });

  test("that holds a tenant's settings is described by the fields that are used", () => {
    expect(scripts.filter((script) => /tenant: hash (?!with)/.test(textOf(script)))).toEqual([]);
    expect(hashes.length).toBeGreaterThan(10);
  });
});

function withParts(text: string): string {
  return text.replaceAll(/^ *--@include ([a-z-]+)$/gm, (_line, part: string) => withParts(partOf(part).body));
}

/** The names that stand in the text where the script reads, writes or removes fields of this key. */
function fieldsUsed(text: string, key: number): string[] {
  const names = [`KEYS\\[${key}\\]`];
  for (const [, left = "", right = ""] of text.matchAll(/^ *local ([\w, ]+) = (KEYS\[.*)$/gm)) {
    const alias = left.split(", ")[right.split(", ").indexOf(`KEYS[${key}]`)];
    if (alias !== undefined) names.push(`${alias}\\b`);
  }
  const calls = text.matchAll(
    new RegExp(`"H(GET|MGET|SET|DEL|EXISTS)",\\s*(?:${names.join("|")}),([^)}]*)`, "g"),
  );
  const fields = [...calls].flatMap(([, command, list = ""]) =>
    [...list.matchAll(/(?:^|,)\s*(?:"([^"]*)"(\s*\.\.)?|[^,]*)/g)]
      .filter((_argument, index) => command !== "SET" || index % 2 === 0)
      .flatMap(([, field, goesOn]) => (field === undefined ? [] : [goesOn ? `${field}<id>` : field])),
  );
  return [...new Set(fields)].sort();
}
