// Compiles many mutants into one text, of which at most one is chosen while it runs: `__mutant(7)` says whether it is the seventh.
import type { Mutation } from "./mutation.ts";
import { isDirective, type Node, nodesOf, type Place, parse, walk } from "./typescript-syntax.ts";

/** A mutation by the number that chooses it. */
export type Numbered = { readonly number: number; readonly mutation: Mutation };

/** What is wrapped: an expression, or a statement that is removed. */
type Host = {
  readonly from: number;
  readonly to: number;
  readonly isStatement: boolean;
  readonly mutants: Numbered[];
};

type Insertion = { readonly at: number; readonly width: number; readonly text: string };

/** The text with its mutants, and a call in every loop and function, which notices those that never end. */
export function withSwitches(path: string, source: string, mutants: readonly Numbered[]): string {
  const hosts = new Map<string, Host>();
  const ticks: Insertion[] = [];
  const waiting = [...mutants].sort((left, right) => left.mutation.from - right.mutation.from);
  const best = new Map<Numbered, Place>();
  const spine = new Set<Node>();
  walk(parse(path, source), (place) => {
    const { node } = place;
    noteSpine(node, spine);
    ticks.push(...ticksOf(node));
    if (!isHost(place, spine)) return "into";
    for (const mutant of between(waiting, node)) {
      const isRemoval = mutant.mutation.kind === "statement removed";
      if (node.type !== "ExpressionStatement" || isRemoval) {
        if (isRemoval === (node.type === "ExpressionStatement")) best.set(mutant, place);
      }
    }
    return "into";
  });
  for (const [mutant, { node }] of best) {
    const key = `${node.start} ${node.end}`;
    const host = hosts.get(key) ?? {
      ...{ from: node.start, to: node.end },
      isStatement: node.type === "ExpressionStatement",
      mutants: [],
    };
    host.mutants.push(mutant);
    hosts.set(key, host);
  }
  return inserted(source, [...ticks, ...[...hosts.values()].flatMap((host) => wrapping(source, host))]);
}

/** In what is entered again and again. A loop whose body is no block gets one. */
function ticksOf(node: Node): readonly Insertion[] {
  const [body] = nodesOf(node.body);
  if (body === undefined || !/Function|^For|^While|^DoWhile/.test(node.type)) return [];
  if (body.type === "BlockStatement") return [{ at: body.start + 1, width: 0, text: "__tick();" }];
  if (/Function/.test(node.type)) return [];
  // Around whatever else begins and ends there.
  const width = body.end - body.start + 0.5;
  return [
    { at: body.start, width, text: "{__tick();" },
    { at: body.end, width: -width, text: "}" },
  ];
}

/** Those whose text is inside the node; they come in the order of their places. */
function between(waiting: readonly Numbered[], node: Node): readonly Numbered[] {
  let [low, high] = [0, waiting.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((waiting[middle] as Numbered).mutation.from < node.start) low = middle + 1;
    else high = middle;
  }
  const found: Numbered[] = [];
  for (let at = low; at < waiting.length; at += 1) {
    const mutant = waiting[at] as Numbered;
    if (mutant.mutation.from > node.end) break;
    if (mutant.mutation.to <= node.end) found.push(mutant);
  }
  return found;
}

/** The links of an optional chain: it ends early as a whole, so none of them can be wrapped alone. */
function noteSpine(node: Node, spine: Set<Node>): void {
  if (node.type !== "ChainExpression") return;
  let link = node.expression as Node | undefined;
  while (link !== undefined && /^(MemberExpression|CallExpression|TSNonNullExpression)$/.test(link.type)) {
    spine.add(link);
    link = (link.object ?? link.callee ?? link.expression) as Node | undefined;
  }
}

const hostTypes = /(Expression|Literal|Identifier|ExpressionStatement)$/;
/** Where no expression may stand, or where one in brackets means something else: `this` of a call, what is assigned to. */
const otherKeys =
  /^(callee|tag|left|id|params|label|local|imported|exported|superClass|meta|property|key|argument|param|specifiers)$/;

function isHost({ node, key, above }: Place, spine: ReadonlySet<Node>): boolean {
  const parent = above?.node;
  if (parent === undefined || !hostTypes.test(node.type) || spine.has(node)) return false;
  // Also the value of a method, which is no expression.
  if (node.type === "FunctionExpression") return false;
  if (node.type === "ExpressionStatement") return true;
  if (isDirective(parent) || /Pattern$|^RestElement$/.test(parent.type)) {
    return parent.type === "AssignmentPattern" && key === "right";
  }
  // `{ name }`: the key and the value are one text. In a pattern neither is a value.
  if (parent.type === "Property") {
    const isPattern = above?.above?.node.type === "ObjectPattern";
    return !isPattern && parent.shorthand !== true && (key === "value" || parent.computed === true);
  }
  if (!otherKeys.test(key)) return true;
  if (key === "left") return /^(BinaryExpression|LogicalExpression)$/.test(parent.type);
  if (key === "property") return parent.computed === true;
  return key === "argument" && parent.type !== "UpdateExpression" && parent.operator !== "delete";
}

function wrapping(source: string, { from, to, isStatement, mutants }: Host): readonly Insertion[] {
  const width = to - from;
  // In brackets of its own: an `else` that follows belongs to another condition.
  const before = isStatement
    ? `{if(${mutants.map(({ number }) => `!__mutant(${number})`).join("&&")}){`
    : `(${mutants
        .map(({ number, mutation }) => {
          const raw = source.slice(from, mutation.from) + mutation.text + source.slice(mutation.to, to);
          return `__mutant(${number})?(${raw}):`;
        })
        .join("")}(`;
  const after = isStatement ? "}}" : "))";
  return [
    { at: from, width, text: before },
    { at: to, width: -width, text: after },
  ];
}

/** What ends at a place goes before what begins there; of those that begin the widest first, of those that end the narrowest. */
function inserted(source: string, insertions: readonly Insertion[]): string {
  const rank = ({ width }: Insertion) => (width < 0 ? 0 : 1);
  const inOrder = [...insertions].sort(
    (left, right) => left.at - right.at || rank(left) - rank(right) || right.width - left.width,
  );
  let text = "";
  let done = 0;
  for (const insertion of inOrder) {
    text += source.slice(done, insertion.at) + insertion.text;
    done = insertion.at;
  }
  return text + source.slice(done);
}
