// Finds what an expression reads: `steps.<id>`, `ctx.steps.<id>`, paths into `ctx`, and the names that only some places know.
import type { ASTNode } from "@marcbachmann/cel-js";

/** Known only where somebody gives them a value. */
export const scopeNames = ["item", "index", "loop", "child"] as const;
export type ScopeName = (typeof scopeNames)[number];

export type Reference =
  | { readonly kind: "step"; readonly step: string }
  /** A place in `ctx`, as far as it is written out: some step's `output_path` may fill it. */
  | { readonly kind: "context"; readonly path: readonly string[] }
  | { readonly kind: "name"; readonly name: ScopeName }
  /** A step of the child run. */
  | { readonly kind: "child_step"; readonly step: string };

export const comprehensions: readonly string[] = ["map", "filter", "all", "exists", "exists_one"];

/** Which steps an expression reads must be known before it runs, so their names must be written out. */
export function referencesOf(node: ASTNode): Reference[] {
  const found: Reference[] = [];
  collect(node, [], found);
  return found;
}

/** One list for the whole expression: lists joined level by level took 17 ms for 400 terms. */
function collect(node: ASTNode, variables: readonly string[], found: Reference[]): void {
  const path = pathOf(node);
  if (path !== undefined) {
    if (!variables.includes(path.root)) found.push(...ownReferences(path, node));
    for (const key of path.keys) if (key.kind === "computed") collect(key.node, variables, found);
    return;
  }
  if (node.op === "rcall" && comprehensions.includes(node.args[0])) {
    const [, receiver, [declared, ...bodies]] = node.args;
    const inner = declared?.op === "id" ? [...variables, nameWritten(declared.args)] : variables;
    collect(receiver, variables, found);
    for (const body of bodies) collect(body, inner, found);
    return;
  }
  for (const child of childrenOf(node)) collect(child, variables, found);
}

function ownReferences(path: CelPath, node: ASTNode): Reference[] {
  const cut = path.keys.findIndex((key) => key.kind !== "name");
  const written = (cut === -1 ? path.keys : path.keys.slice(0, cut)).flatMap((key) =>
    key.kind === "name" ? [key.name] : [],
  );
  if (path.root === "steps" || path.root === "ctx") return [stepReference(path.root, written, node)];
  const name = scopeNames.find((known) => known === path.root);
  if (name === undefined) return [];
  return [{ kind: "name", name }, ...membersOf(name, written, { path, node })];
}

function stepReference(root: "steps" | "ctx", written: readonly string[], node: ASTNode): Reference {
  const [first, second] = written;
  if (root === "ctx" && first !== undefined && first !== "steps") return { kind: "context", path: written };
  const step = root === "steps" ? first : second;
  if (step !== undefined) return { kind: "step", step };
  const example =
    root === "steps" || first === "steps"
      ? 'a step, as steps.review or steps["my-step"]'
      : "a key, as ctx.result";
  return refuse(
    `"${root}" must be followed by the name of ${example}; computed names are not allowed here`,
    node,
  );
}

const loopMembers = ["iteration", "last_output"];
const childMembers = ["run_id", "status", "output", "steps"];

/** What a loop or a child has is fixed: another member could only be a slip. */
function membersOf(
  name: ScopeName,
  [first, second]: readonly string[],
  { path, node }: { readonly path: CelPath; readonly node: ASTNode },
): Reference[] {
  if (name === "loop" && path.keys.length > 0 && (first === undefined || !loopMembers.includes(first))) {
    return refuse(`"loop" has ${loopMembers.join(" and ")}`, node);
  }
  if (name !== "child") return [];
  if (first === undefined || !childMembers.includes(first)) {
    return refuse(`"child" must be followed by one of ${childMembers.join(", ")}`, node);
  }
  if (first !== "steps") return [];
  if (second !== undefined) return [{ kind: "child_step", step: second }];
  return refuse(
    '"child.steps" must be followed by the name of a step, as child.steps["my-step"]; computed names are not allowed here',
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
  if (node.op === "id") return { root: nameWritten(node.args), keys: [] };
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
function childrenOf(node: ASTNode): readonly ASTNode[] {
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

export class CelRefusal extends Error {}

export function refuse(why: string, node: ASTNode): never {
  throw new CelRefusal(`${why} (at character ${node.start + 1})`);
}

/** As long as the word itself, so that places in messages stay right. */
export const loopStandIn = "l__p";

/** Texts in quotes, comments, and names with the dot before them: only a name of its own is the variable. */
const lexemes =
  /"""(?:\\[\s\S]|[^\\])*?"""|'''(?:\\[\s\S]|[^\\])*?'''|"(?:\\[\s\S]|[^"\\])*"|'(?:\\[\s\S]|[^'\\])*'|\/\/[^\n]*|(?:\.\s*)?[A-Za-z_][A-Za-z0-9_]*/g;

/** The source as the parser takes it. Who writes the stand-in itself means nothing that exists. */
export function withStandIn(source: string): string {
  if (!source.includes("loop") && !source.includes(loopStandIn)) return source;
  return source.replace(lexemes, (lexeme) => {
    if (lexeme === "loop") return loopStandIn;
    return lexeme === loopStandIn ? unknownName : lexeme;
  });
}

/** Also four characters: registered nowhere, so it is refused like any other unknown name. */
const unknownName = "l_op";

/** A name of the syntax tree as its author wrote it. */
export function nameWritten(name: string): string {
  return name === loopStandIn ? "loop" : name;
}

export function textWritten(text: string): string {
  return text.replaceAll(loopStandIn, "loop");
}
