// A list of small numbers, all 0 at first, of which every change leaves the earlier list as it was. A change copies 32 numbers a level.

export type StatusVector = { readonly levels: number; readonly root: Node | undefined };

type Node = ReadonlyArray<Node | number | undefined>;

const bits = 5;
const width = 1 << bits;

export function emptyVector(length: number): StatusVector {
  let levels = 1;
  while (width ** levels < length) levels += 1;
  return { levels, root: undefined };
}

export function statusAt({ levels, root }: StatusVector, index: number): number {
  let node: Node | number | undefined = root;
  for (let level = levels - 1; level >= 0; level -= 1) {
    if (typeof node !== "object") return 0;
    node = node[(index >> (level * bits)) & (width - 1)];
  }
  return typeof node === "number" ? node : 0;
}

export function withStatus(vector: StatusVector, index: number, status: number): StatusVector {
  return { levels: vector.levels, root: changed(vector.root, vector.levels - 1, { index, status }) };
}

function changed(
  node: Node | undefined,
  level: number,
  change: { readonly index: number; readonly status: number },
): Node {
  const copy: Array<Node | number | undefined> = node === undefined ? new Array(width) : [...node];
  const place = (change.index >> (level * bits)) & (width - 1);
  const child = copy[place];
  copy[place] =
    level === 0 ? change.status : changed(typeof child === "object" ? child : undefined, level - 1, change);
  return copy;
}
