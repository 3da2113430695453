// The Lua files that mutations are made in, which operations each is part of, and the scripts with one text changed.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { readOperationSource, type ScriptOverrides } from "../../src/adapters/redis/scripts.ts";
import { type OperationName, operationNames } from "../../src/ports/store.ts";
import { setClockScripts } from "../../test/support/set-clock-scripts.ts";
import { luaMutations } from "./lua-mutations.ts";
import { type Mutant, mutantsOf, mutate } from "./mutation.ts";

export const luaFolder = "src/adapters/redis/lua";
const root = dirname(dirname(import.meta.dirname));

/** Without their ending, as scripts name them; the parts among them are `parts/<name>`. */
type LuaFile = {
  readonly name: string;
  readonly text: string;
  readonly operations: readonly OperationName[];
};

export type LuaMutant = Mutant & { readonly file: LuaFile };

const textOf = (name: string) => readFileSync(join(root, luaFolder, `${name}.lua`), "utf8");

/** Those that open and migrate a partition are no operations: they are read elsewhere, and have tests of their own. */
function readLuaFiles(): readonly LuaFile[] {
  const partsOf = new Map<OperationName, Set<string>>();
  for (const name of operationNames) {
    const read = new Set<string>();
    readOperationSource(name, (file) => {
      read.add(file);
      return textOf(file);
    });
    partsOf.set(name, read);
  }
  const list = (folder: string, prefix: string) =>
    readdirSync(join(root, luaFolder, folder)).flatMap((name) =>
      name.endsWith(".lua") ? [prefix + name.slice(0, -4)] : [],
    );
  return [...list(".", ""), ...list("parts", "parts/")].flatMap((name) => {
    const operations = operationNames.filter((operation) => partsOf.get(operation)?.has(name));
    return operations.length === 0 ? [] : [{ name, text: textOf(name), operations }];
  });
}

export function luaMutants(): readonly LuaMutant[] {
  return readLuaFiles().flatMap((file) =>
    mutantsOf(file.text, luaMutations(`${luaFolder}/${file.name}.lua`, file.text)).map((mutant) => ({
      ...mutant,
      file,
    })),
  );
}

/** Every script with the set clock, and with this mutation where its file is part of it. */
export function scriptsWith(mutant?: LuaMutant): ScriptOverrides {
  const read = (name: string) =>
    mutant !== undefined && name === mutant.file.name
      ? mutate(mutant.file.text, mutant.mutation)
      : textOf(name);
  return setClockScripts((name) => readOperationSource(name, read));
}
