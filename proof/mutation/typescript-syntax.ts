// The syntax tree of a TypeScript file as the mutator walks it: values only, no types, each node with the way down to it.
import { parseSync } from "vite";

export type Node = {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [key: string]: unknown;
};

/** A node, the node above it, and under which key it stands there. */
export type Place = { readonly node: Node; readonly key: string; readonly above: Place | undefined };

export function parse(path: string, source: string): Node {
  const { program, errors } = parseSync(path, source);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  return program as unknown as Node;
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}

export function nodesOf(value: unknown): readonly Node[] {
  return Array.isArray(value) ? value.filter(isNode) : isNode(value) ? [value] : [];
}

/** What has no value at run time, or is no decision: names of modules. */
const typeKeys = ["typeAnnotation", "returnType", "typeParameters", "typeArguments", "superTypeArguments"];
const typeNodes =
  /^(TSTypeAliasDeclaration|TSInterfaceDeclaration|TSDeclareFunction|ImportDeclaration|ExportAllDeclaration)$/;

/** Every node that has a value, the outer ones first; `into` says whether to look inside. */
export function walk(
  node: Node,
  visit: (place: Place) => "into" | "past",
  above?: Place,
  key = "program",
): void {
  const place = { node, key, above };
  if (typeNodes.test(node.type) || node.declare === true || visit(place) === "past") return;
  for (const [name, value] of Object.entries(node)) {
    if (typeKeys.includes(name) || name === "implements" || name === "source") continue;
    for (const child of nodesOf(value)) walk(child, visit, place, name);
  }
}

export function isDirective(node: Node): boolean {
  return typeof node.directive === "string";
}
