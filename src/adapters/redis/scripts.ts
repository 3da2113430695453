// Reads the Lua file of each operation once with the parts it includes, and knows each script by its SHA-1, as Redis does.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { type OperationName, operationNames } from "../../ports/store.ts";

export type Script = { readonly source: string; readonly sha1: string };

export type Scripts = { readonly [Name in OperationName]: Script };

/** Lua sources that replace an operation's own: tests plant bugs with them. */
export type ScriptOverrides = Partial<Readonly<Record<OperationName, string>>>;

export function loadScripts(overrides: ScriptOverrides = {}): Scripts {
  const scripts = operationNames.map((name) => {
    const source = overrides[name] ?? readOperationSource(name);
    return [name, scriptFrom(source)];
  });
  return Object.fromEntries(scripts) as Scripts;
}

/** The source behind an operation: `acquireLock` is in `lua/acquire-lock.lua`. */
export function readOperationSource(name: OperationName): string {
  return readSource(name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`));
}

/** A script that is no operation of the port: the ones that open and migrate a partition. */
export function loadScript(fileName: string): Script {
  return scriptFrom(readSource(fileName));
}

function readSource(fileName: string): string {
  const text = readFileSync(new URL(`./lua/${fileName}.lua`, import.meta.url), "utf8");
  return text.replaceAll(/^ *--@include ([a-z-]+)$/gm, (_line, part: string) => readPart(part));
}

/** Scripts share pieces by inclusion: the text takes the place of the line, without its own first line and header. */
function readPart(name: string): string {
  return readSource(`parts/${name}`).replace(/^#!lua\n--\[\[[\s\S]*?\]\]\n/, "");
}

function scriptFrom(source: string): Script {
  return { source, sha1: createHash("sha1").update(source).digest("hex") };
}
