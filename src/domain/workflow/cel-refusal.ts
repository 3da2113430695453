// Why an expression is not accepted, and where in it.
import type { ASTNode } from "@marcbachmann/cel-js";

export class CelRefusal extends Error {}

export function refuse(why: string, node: ASTNode): never {
  throw new CelRefusal(`${why} (at character ${node.start + 1})`);
}
