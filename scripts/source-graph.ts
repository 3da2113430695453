// Who imports what: read from the text of a checkout, for counts and checks of its code.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

export type SourceGraph = {
  /** The Lua and TypeScript files that users run: src/ without what only proves it. */
  readonly product: readonly string[];
  /** Every TypeScript file and script of the checkout. */
  readonly files: readonly string[];
  readonly imports: readonly Import[];
  textOf(path: string): string;
};

/** `names` is absent where everything is meant: `* as`, `export *`, a module loaded while running. */
type Import = { readonly from: string; readonly target: string; readonly names?: readonly string[] };

/** What proves the product lay in src/testing before it had a folder of its own. */
const proof = /^src\/testing\/(simulation|exhaustive|history|reference|servers|bugs)\//;

/** What the package offers, and its programs: nothing inside needs to import them. */
const entries = /^src\/(index|sdk\/index|testing\/index|cli\/(interlock|serve|start|backup|restore))\.ts$/;

export function readSourceGraph(checkout: string): SourceGraph {
  const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
    cwd: checkout,
    encoding: "utf8",
  }).split("\n");
  const known = listed.filter((path) => path !== "" && existsSync(join(checkout, path)));
  const texts = new Map<string, string>();
  const textOf = (path: string) => {
    const text = texts.get(path) ?? readFileSync(join(checkout, path), "utf8");
    texts.set(path, text);
    return text;
  };
  const files = known.filter((path) => /\.(ts|mjs)$/.test(path));
  const product = known.filter((path) => /^src\/.*\.(ts|lua)$/.test(path) && !proof.test(path));
  return { product, files, imports: files.flatMap((path) => importsOf(path, textOf(path))), textOf };
}

function importsOf(from: string, text: string): Import[] {
  const target = (name: string) => normalize(join(dirname(from), name));
  const statements = text.matchAll(/^(?:import|export)\s([^;"]*?)\sfrom\s+"(\.[^"]+)"/gm);
  const loads = text.matchAll(/\bimport(?:\(\s*|\s+)"(\.[^"]+)"\)?(?:\.(\w+))?/g);
  return [
    ...[...statements].map(([, clause = "", name = ""]) => {
      const names = /\{([^}]*)\}/.exec(clause)?.[1];
      if (names === undefined) return { from, target: target(name) };
      const words = names.split(",").map((word) => word.trim().replace(/^type\s+|\s+as\s+\w+$/g, ""));
      return { from, target: target(name), names: words.filter((word) => word !== "") };
    }),
    ...[...loads].map(([, name = "", member]) =>
      member === undefined || member === "then"
        ? { from, target: target(name) }
        : { from, target: target(name), names: [member] },
    ),
  ];
}

/** `file: name` of every export that no other file of the checkout uses; tests are users. */
export function unusedExports({ product, imports, textOf }: SourceGraph): string[] {
  const declarations =
    /^export (?:declare )?(?:abstract )?(?:async )?(?:function\*?|const|let|class|type) (\w+)/gm;
  return product
    .filter((path) => path.endsWith(".ts") && !entries.test(path))
    .flatMap((path) => {
      const uses = imports.filter(({ from, target }) => target === path && from !== path);
      if (uses.some(({ names }) => names === undefined)) return [];
      const used = new Set(uses.flatMap(({ names = [] }) => names));
      const exported = [...textOf(path).matchAll(declarations)].map(([, name = ""]) => name);
      return exported.filter((name) => !used.has(name)).map((name) => `${path}: ${name}`);
    });
}

/** Files with fewer than 40 lines and one importer in the product: a reader opens two files for one thought. */
export function smallSingleImporterFiles({ product, imports, textOf }: SourceGraph): string[] {
  const inside = new Set(product);
  return product
    .filter((path) => path.endsWith(".ts") && !entries.test(path))
    .filter((path) => textOf(path).split("\n").length - 1 < 40)
    .filter((path) => {
      const importers = imports.filter(({ from, target }) => target === path && inside.has(from));
      return new Set(importers.map(({ from }) => from)).size === 1;
    });
}
