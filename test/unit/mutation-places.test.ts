// The mutator of TypeScript: what it changes, what it leaves alone, and that a compiled mutant does what its text says.
import { describe, expect, test } from "vitest";
import { mutantsOf, mutate } from "../../proof/mutation/mutation.ts";
import { typescriptKinds, typescriptMutations } from "../../proof/mutation/typescript-mutations.ts";
import { withSwitches } from "../../proof/mutation/typescript-switch.ts";

const mutantsIn = (source: string) => mutantsOf(source, typescriptMutations("a.ts", source));
const changed = (kind: string, source: string) =>
  mutantsIn(source)
    .filter(({ mutation }) => mutation.kind === kind)
    .map(({ mutation }) => mutate(source, mutation));

type Kind = (typeof typescriptKinds)[number];
const table: { readonly [Name in Kind]: ReadonlyArray<readonly [string, readonly string[]]> } = {
  "statement removed": [
    ["f(a);", [";"]],
    ["await f();", [";"]],
    ["a = b;", [";"]],
    ["if (a) b.c += 1; else d();", ["if (a) ; else d();", "if (a) b.c += 1; else ;"]],
  ],
  "condition decided": [
    ["if (a) b;", ["if (true) b;", "if (false) b;"]],
    ["f(a ? b : c);", ["f(true ? b : c);", "f(false ? b : c);"]],
    ["while (a) f();", ["while (false) f();"]],
    ["for (;a;) f();", ["for (;false;) f();"]],
  ],
  "negation dropped": [["f(!a);", ["f(a);"]]],
  "comparison changed": [
    ["f(a < b);", ["f(a <= b);", "f(a >= b);"]],
    ["f(a <= b);", ["f(a < b);", "f(a > b);"]],
    ["f(a > b);", ["f(a >= b);", "f(a <= b);"]],
    ["f(a >= b);", ["f(a > b);", "f(a < b);"]],
    ["f(a === b);", ["f(a !== b);"]],
    ["f(a !== b);", ["f(a === b);"]],
  ],
  "sides of a logical operator": [
    ["f(a && b);", ["f(a);", "f(b);", "f(a || b);"]],
    ["f(a || b);", ["f(a);", "f(b);", "f(a && b);"]],
    ["f(a ?? b);", ["f(a);", "f(b);"]],
  ],
  "result dropped": [
    ["function f() { return a; }", ["function f() { return undefined; }"]],
    ["g(() => a.b);", ["g(() => undefined);"]],
  ],
  "boolean swapped": [["f(true, false);", ["f(false, false);", "f(true, true);"]]],
  "array method changed": [
    ["f(a.filter(b));", ["f(a);"]],
    ["f(a.some(b));", ["f(a.every(b));"]],
    ["f(a.every(b));", ["f(a.some(b));"]],
    ["f(a.b.slice(1));", ["f(a.b);"]],
    ["f(a.sort());", ["f(a);"]],
    ["f(Math.min(a, a));", ["f(Math.max(a, a));"]],
  ],
  "property dropped": [["f({ a: 1, b });", ["f({  b });", "f({ a: 1 });"]]],
  "spread dropped": [
    ["f({ ...a, b });", ["f({  b });"]],
    ["f([b, ...a]);", ["f([b]);"]],
  ],
  "arguments swapped": [
    ["f(a, b, c);", ["f(b, a, c);"]],
    ["f(a, a);", []],
    ["f(a, () => b);", []],
  ],
  "arithmetic changed": [
    ["f(a + b);", ["f(a - b);"]],
    ["f(-a);", ["f(a);"]],
    ["a += b;", ["a -= b;"]],
    ['f(a + "b");', []],
  ],
  "constant changed": [
    ["f(1_000);", ["f(1001);", "f(999);"]],
    ["f(0);", ["f(1);"]],
    ["f(8n);", ["f(9n);", "f(7n);"]],
  ],
  "optional chain": [
    ["f(a?.b);", ["f(a.b);"]],
    ["f(a?.[b]);", ["f(a[b]);"]],
    ["f(a?.());", ["f(a());"]],
  ],
  "text changed": [
    ['f("a");', ['f("");']],
    ['f("");', ['f("mutated");']],
    ["f(`a${b}`);", ['f("");']],
  ],
};

describe("the mutator", () => {
  const rows = typescriptKinds.flatMap((kind) =>
    table[kind].map(([source, texts]) => ({ kind, source, texts })),
  );
  test.each(rows)("$kind: $source", ({ kind, source, texts }) => {
    expect(changed(kind, source)).toEqual(texts);
  });

  test.each([
    ["types", 'type A = "a" | 1; interface B { c: true } const d: "e" | false = f as "g";'],
    ["names of modules", 'import a from "b"; export * from "c"; export { d } from "e";'],
    ["names of properties", "f(a.b);"],
    ["directives", '"use strict";'],
    ["what is logged", 'log.warn("a", { b: c === 1 }); engine.ports.log.error("d", {}); console.log(`e`);'],
    ["messages of errors", 'throw new TypeError(`a ${b + 1}` + "c");'],
    ["comments", "// if (a) return 1;\n/* true */"],
    ["what typeof gives", 'const a = typeof b === "string";'],
  ])("leaves %s alone", (_what, source) => {
    const kinds = [
      "text changed",
      "constant changed",
      "boolean swapped",
      "arithmetic changed",
      "statement removed",
    ];
    const found = mutantsIn(source).filter(({ mutation }) => kinds.includes(mutation.kind));
    expect(found.filter(({ was }) => was !== "f(a.b);")).toEqual([]);
  });

  test("an id stays when lines are added above, and two lines that look the same have two", () => {
    const source = "f(1);\ng();\nf(1);";
    const ids = mutantsIn(source).map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(mutantsIn(`// a line\n\n${source}`).map(({ id }) => id)).toEqual(ids);
    expect(mutantsIn("f(1);\nh();\nf(2);").map(({ id }) => id)).not.toEqual(ids);
  });
});

/** Every kind of place that can be wrapped, and those that cannot be. */
const program = `
const log = [];
class Counter {
  #count = 1;
  static first = 10 - 3;
  get count() { return this.#count; }
  add(by = 2, ...rest) { this.#count += by; rest.push(by); return { by, rest: [...rest, 0], ["k" + by]: true }; }
}
function walk(list, { deep = false, at: { x } = { x: 4 } } = {}) {
  let sum = 0;
  for (let index = 0; index < list.length; index++) { if (list[index] > 2 && !deep) sum += list[index]; else sum -= 1; }
  while (sum > 40) sum -= 7;
  for (const each of list.filter((one) => one !== 3)) sum += each ?? 1;
  switch (sum) { case 5 + x: return "five"; case 0: return \`none\${sum}\`; default: log.push(sum, deep); }
  return deep ? list?.at?.(0)?.toFixed(1).length : [sum, ...list.slice(1)].map((one) => ({ one }));
}
const later = async (value) => { await null; delete value.gone; return value.left?.[0] || (value.right ??= "r"); };
function run() {
  const counter = new Counter();
  const { by, ...others } = counter.add(3, 1);
  const walked = [[1, 2, 3], [3, 4, 50], []].map((list) => [walk(list), walk(list, { deep: true }), walk(list, { at: { x: 1 } })]);
  return { by, others, count: counter.count, walked, first: Counter.first, never: typeof walk === "function" && -by, log };
}
`;

describe("a compiled mutant", () => {
  const mutants = mutantsIn(program);
  const compiled = withSwitches(
    "a.ts",
    program,
    mutants.map(({ mutation }, number) => ({ number, mutation })),
  );

  test("is one of more than a hundred, and each is in the text", () => {
    expect(mutants.length).toBeGreaterThan(100);
    expect(mutants.filter((_mutant, number) => !compiled.includes(`__mutant(${number})`))).toEqual([]);
  });

  test("does what its text says, and without one the program is as it was", () => {
    const said = (text: string, active: number) => {
      let ticks = 0;
      const tick = () => {
        ticks += 1;
        if (ticks > 20_000) throw new Error("endless");
      };
      const make = new Function("__mutant", "__tick", `${text}; return { run, later };`);
      try {
        const { run } = make((number: number) => number === active, tick) as { run(): unknown };
        return JSON.stringify(run());
      } catch (error) {
        return error instanceof Error ? error.constructor.name : "thrown";
      }
    };
    const differing = mutants.filter(({ mutation }, number) => {
      const alone = withSwitches("a.ts", mutate(program, mutation), []);
      return said(alone, -1) !== said(compiled, number);
    });
    expect(differing.map(({ is }) => is)).toEqual([]);
    expect(said(compiled, -1)).toBe(said(program, -1));
  });
});
