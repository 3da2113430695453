// Finds what an expression reads of other steps: `steps.<id>`, `ctx.steps.<id>` and paths into `ctx`.
import type { ASTNode } from "@marcbachmann/cel-js";
import { refuse } from "./cel-refusal.ts";

export type Reference =
  | { readonly kind: "step"; readonly step: string }
  /** A place in `ctx`, as far as it is written out: some step's `output_path` may fill it. */
  | { readonly kind: "context"; readonly path: readonly string[] };

/** Which steps an expression reads must be known before it runs, so their names must be written out. */
export function referencesOf(node: ASTNode): Reference[] {
  const path = pathOf(node);
  if (path === undefined) return childrenOf(node).flatMap(referencesOf);
  const computed = path.keys.flatMap((key) => (key.kind === "computed" ? referencesOf(key.node) : []));
  return [...ownReference(path, node), ...computed];
}

function ownReference({ root, keys }: CelPath, node: ASTNode): Reference[] {
  if (root !== "steps" && root !== "ctx") return [];
  const cut = keys.findIndex((key) => key.kind !== "name");
  const written = (cut === -1 ? keys : keys.slice(0, cut)).flatMap((key) =>
    key.kind === "name" ? [key.name] : [],
  );
  const [first, second] = written;
  if (root === "ctx" && first !== undefined && first !== "steps") return [{ kind: "context", path: written }];
  const step = root === "steps" ? first : second;
  if (step !== undefined) return [{ kind: "step", step }];
  const example =
    root === "steps" || first === "steps"
      ? 'a step, as steps.review or steps["my-step"]'
      : "a key, as ctx.result";
  return refuse(
    `"${root}" must be followed by the name of ${example}; computed names are not allowed here`,
    node,
  );
}

/** A chain of members from a name: `steps["my-step"].output.items[0]`. */
type CelPath = { readonly root: string; readonly keys: readonly CelKey[] };

type CelKey =
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "index" }
  | { readonly kind: "computed"; readonly node: ASTNode };

export function pathOf(node: ASTNode): CelPath | undefined {
  if (node.op === "id") return { root: node.args, keys: [] };
  if (node.op !== "." && node.op !== "[]") return undefined;
  const base = pathOf(node.args[0]);
  if (base === undefined) return undefined;
  const key: CelKey = node.op === "." ? { kind: "name", name: node.args[1] } : keyOf(node.args[1]);
  return { root: base.root, keys: [...base.keys, key] };
}

function keyOf(node: ASTNode): CelKey {
  if (node.op !== "value") return { kind: "computed", node };
  return typeof node.args === "string" ? { kind: "name", name: node.args } : { kind: "index" };
}

/** The nodes directly below this one. */
export function childrenOf(node: ASTNode): readonly ASTNode[] {
  if (node.op === "value" || node.op === "id") return [];
  if (node.op === "." || node.op === ".?") return [node.args[0]];
  if (node.op === "call") return node.args[1];
  if (node.op === "rcall") return [node.args[1], ...node.args[2]];
  if (node.op === "map") return node.args.flat();
  if (node.op === "!_" || node.op === "-_") return [node.args];
  return node.args;
}

export function nodeCount(node: ASTNode): number {
  return childrenOf(node).reduce((count, child) => count + nodeCount(child), 1);
}
