// The mutations of a TypeScript file: one small change each of a value, a condition, a call, a statement or an object.
import { lineFinder, type Mutation } from "./mutation.ts";
import { isDirective, type Node, nodesOf, type Place, parse, walk } from "./typescript-syntax.ts";

/** In the order in which survivors are looked at: what a removed statement breaks is seldom harmless. */
export const typescriptKinds = [
  "statement removed",
  "condition decided",
  "negation dropped",
  "comparison changed",
  "sides of a logical operator",
  "result dropped",
  "boolean swapped",
  "array method changed",
  "property dropped",
  "spread dropped",
  "arguments swapped",
  "arithmetic changed",
  "constant changed",
  "optional chain",
  "text changed",
] as const;
type Kind = (typeof typescriptKinds)[number];

/** Replaces what stands at `at`, or what stands from there to the end of another node. */
type Edit = { readonly kind: Kind; readonly from: number; readonly to: number; readonly text: string };

type Context = { readonly source: string; readonly place: Place; of(node: unknown): string };

export function typescriptMutations(file: string, source: string): readonly Mutation[] {
  const lineAt = lineFinder(source);
  const found: Mutation[] = [];
  const of = (node: unknown) => source.slice((node as Node).start, (node as Node).end);
  walk(parse(file, source), (place) => {
    if (isForPeople(place.node, of)) return "past";
    const context = { source, place, of };
    for (const mutator of mutators[place.node.type] ?? []) {
      for (const edit of mutator(place.node, context)) {
        found.push({ file, line: lineAt(edit.from), ...edit });
      }
    }
    return "into";
  });
  return found;
}

/** What is logged, and the messages of errors: nobody's decision depends on them. */
function isForPeople(node: Node, of: Context["of"]): boolean {
  if (node.type === "CallExpression") {
    return /(^|[.?])(log|console)(\??\.(debug|info|warn|error|log))?$/.test(of(node.callee));
  }
  return node.type === "NewExpression" && /Error$/.test(of(node.callee));
}

const replace = (kind: Kind, node: unknown, text: string): Edit => ({
  kind,
  from: (node as Node).start,
  to: (node as Node).end,
  text,
});

type Mutator = (node: Node, context: Context) => readonly Edit[];

const comparisons: Readonly<Record<string, readonly string[]>> = {
  "<": ["<=", ">="],
  "<=": ["<", ">"],
  ">": [">=", "<="],
  ">=": [">", "<"],
  "===": ["!=="],
  "!==": ["==="],
};

const arithmetic: Readonly<Record<string, string>> = {
  "+": "-",
  "-": "+",
  "*": "/",
  "/": "*",
  "%": "*",
  "+=": "-=",
  "-=": "+=",
  "++": "--",
  "--": "++",
};

/** The operator between two operands, whatever space or comment is around it. */
function operatorEdit(kind: Kind, node: Node, { source }: Context, text: string): Edit {
  const operator = String(node.operator);
  const from = source.indexOf(operator, (node.left as Node).end);
  return { kind, from, to: from + operator.length, text };
}

const isText = (node: unknown) => {
  const { type, value } = node as Node;
  return type === "TemplateLiteral" || (type === "Literal" && typeof value === "string");
};

const binary: Mutator = (node, context) => {
  const operator = String(node.operator);
  const sum = arithmetic[operator];
  const joinsTexts = operator === "+" && (isText(node.left) || isText(node.right));
  return [
    ...(comparisons[operator] ?? []).map((text) => operatorEdit("comparison changed", node, context, text)),
    ...(sum === undefined || joinsTexts ? [] : [operatorEdit("arithmetic changed", node, context, sum)]),
  ];
};

const logical: Mutator = (node, context) => {
  const kind = "sides of a logical operator";
  const swapped = { "&&": "||", "||": "&&" }[String(node.operator)];
  return [
    replace(kind, node, context.of(node.left)),
    replace(kind, node, context.of(node.right)),
    ...(swapped === undefined ? [] : [operatorEdit(kind, node, context, swapped)]),
  ];
};

const assignment: Mutator = (node, context) => {
  const text = arithmetic[String(node.operator)];
  return text === undefined ? [] : [operatorEdit("arithmetic changed", node, context, text)];
};

const unary: Mutator = (node, { of }) => {
  if (node.operator === "!") return [replace("negation dropped", node, of(node.argument))];
  return node.operator === "-" ? [replace("arithmetic changed", node, of(node.argument))] : [];
};

const decided =
  (...values: readonly string[]): Mutator =>
  (node) => {
    const test = node.test;
    return nodesOf(test).flatMap((each) => values.map((text) => replace("condition decided", each, text)));
  };

const literal: Mutator = (node, context) => {
  const { value } = node;
  if (typeof value === "boolean") return [replace("boolean swapped", node, String(!value))];
  if (typeof value === "number" || typeof value === "bigint") {
    const number = typeof value === "number" ? value : Number(value);
    const suffix = typeof value === "bigint" ? "n" : "";
    const others = number > 0 ? [number + 1, number - 1] : [number + 1];
    return others.map((other) => replace("constant changed", node, `${other}${suffix}`));
  }
  if (typeof value !== "string" || !isValue(context)) return [];
  return [replace("text changed", node, value === "" ? '"mutated"' : '""')];
};

const template: Mutator = (node, context) =>
  context.place.above?.node.type === "TaggedTemplateExpression" ? [] : [replace("text changed", node, '""')];

/** Names of properties and directives are no values, and what `typeof` gives is no choice. */
function isValue({ place: { key, above } }: Context): boolean {
  const parent = above?.node;
  if (parent === undefined || isDirective(parent)) return false;
  if (key === "key" && parent.computed !== true) return false;
  const isTypeof = (side: unknown) => nodesOf(side)[0]?.operator === "typeof";
  return !(parent.type === "BinaryExpression" && (isTypeof(parent.left) || isTypeof(parent.right)));
}

const statement: Mutator = (node, { of }) => {
  let expression = node.expression as Node;
  while (expression.type === "AwaitExpression" || expression.operator === "void") {
    expression = expression.argument as Node;
  }
  if (isDirective(node) || isForPeople(expression, of)) return [];
  if (expression.type === "CallExpression" && of(expression.callee) === "super") return [];
  return [replace("statement removed", node, ";")];
};

const returned: Mutator = (node) =>
  nodesOf(node.argument)
    .filter(
      ({ type, value, name }) => !(typeof value === "boolean" && type === "Literal") && name !== "undefined",
    )
    .map((argument) => replace("result dropped", argument, "undefined"));

/** Comparisons have mutations of their own. */
const arrow: Mutator = (node) =>
  nodesOf(node.body)
    .filter(({ type }) => !/^(BlockStatement|BinaryExpression|LogicalExpression|Literal)$/.test(type))
    .map((body) => replace("result dropped", body, "undefined"));

const otherMethods: Readonly<Record<string, string>> = {
  some: "every",
  every: "some",
  startsWith: "endsWith",
  endsWith: "startsWith",
  push: "unshift",
  find: "findLast",
  findLast: "find",
  min: "max",
  max: "min",
};
const droppedMethods =
  /^(filter|slice|subarray|sort|toSorted|reverse|toReversed|trim|toLowerCase|toUpperCase|concat)$/;

const call: Mutator = (node, { of }) => {
  const callee = node.callee as Node;
  const property = callee.type === "MemberExpression" ? (callee.property as Node) : undefined;
  const name = property === undefined || callee.computed === true ? "" : of(property);
  const other = Object.hasOwn(otherMethods, name) ? otherMethods[name] : undefined;
  const [first, second] = nodesOf(node.arguments);
  const areSwapped =
    first !== undefined &&
    second !== undefined &&
    // The smaller of two numbers is the same in either order.
    !/^Math\.(min|max)$/.test(of(callee)) &&
    [first, second].every(isPlainArgument) &&
    of(first) !== of(second);
  return [
    ...(other === undefined ? [] : [replace("array method changed", property, other)]),
    ...(droppedMethods.test(name) ? [replace("array method changed", node, of(callee.object))] : []),
    ...(areSwapped
      ? [
          {
            kind: "arguments swapped",
            from: first.start,
            to: second.end,
            text: `${of(second)}, ${of(first)}`,
          } as const,
        ]
      : []),
  ];
};

function isPlainArgument({ type }: Node): boolean {
  return type !== "SpreadElement" && !type.endsWith("FunctionExpression");
}

/** With the comma after it, or before it when it is the last. */
const members =
  (key: "properties" | "elements"): Mutator =>
  (node, { source }) => {
    const all = nodesOf(node[key]);
    return all.flatMap((each, index) => {
      if (each.type !== "SpreadElement" && key === "elements") return [];
      const next = all[index + 1];
      const before = all[index - 1];
      const from = next === undefined && before !== undefined ? before.end : each.start;
      const comma = /^\s*,/.exec(source.slice(each.end, each.end + 200))?.[0] ?? "";
      const to = each.end + (next === undefined && before !== undefined ? 0 : comma.length);
      const kind = each.type === "SpreadElement" ? "spread dropped" : "property dropped";
      return [{ kind, from, to, text: "" } as const];
    });
  };

/** `a?.b` is `a.b`, `a?.[b]` is `a[b]`. */
const chained: Mutator = (node, { source }) => {
  if (node.optional !== true) return [];
  const from = source.indexOf("?.", (nodesOf(node.object ?? node.callee)[0] as Node).end);
  const isNamed = node.type === "MemberExpression" && node.computed !== true;
  return [{ kind: "optional chain", from, to: from + 2, text: isNamed ? "." : "" }];
};

const mutators: Readonly<Record<string, readonly Mutator[]>> = {
  BinaryExpression: [binary],
  LogicalExpression: [logical],
  AssignmentExpression: [assignment],
  UnaryExpression: [unary],
  IfStatement: [decided("true", "false")],
  ConditionalExpression: [decided("true", "false")],
  // Without an end it is a mutant that every test notices, after its time is over.
  WhileStatement: [decided("false")],
  ForStatement: [decided("false")],
  Literal: [literal],
  TemplateLiteral: [template],
  ExpressionStatement: [statement],
  ReturnStatement: [returned],
  ArrowFunctionExpression: [arrow],
  CallExpression: [call, chained],
  MemberExpression: [chained],
  ObjectExpression: [members("properties")],
  ArrayExpression: [members("elements")],
};
