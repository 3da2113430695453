// What is mutated: the areas of the product, the mutants of each, and who judges them.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type LuaMutant, luaFolder, luaMutants } from "./lua-files.ts";
import { LuaJudge } from "./lua-judge.ts";
import { luaKinds } from "./lua-mutations.ts";
import { type Judgement, type Mutant, mutantsOf } from "./mutation.ts";
import { judgeMutants } from "./typescript-judge.ts";
import { typescriptKinds, typescriptMutations } from "./typescript-mutations.ts";

const root = dirname(dirname(import.meta.dirname));

export const areaNames = ["domain", "operations", "control", "gateway", "sdk", "lua"] as const;
export type AreaName = (typeof areaNames)[number];

export type Area = {
  readonly name: AreaName;
  readonly folder: string;
  /** In the order in which survivors are looked at. */
  readonly kinds: readonly string[];
  mutants(): readonly Mutant[];
};

const folders = {
  domain: "src/domain",
  operations: "src/adapters/operations",
  control: "src/control",
  gateway: "src/gateway",
  sdk: "src/sdk",
} as const;

export function areaOf(name: AreaName): Area {
  return name === "lua"
    ? { name, folder: luaFolder, kinds: luaKinds, mutants: luaMutants }
    : typescript(name);
}

/** A test compares them with what they are made of. */
const generated = ["src/sdk/operations.ts"];

function typescript(name: keyof typeof folders): Area {
  const folder = folders[name];
  const mutants = () => {
    const files = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).sort();
    return files.flatMap((file) => {
      if (!file.endsWith(".ts") || generated.includes(`${folder}/${file}`)) return [];
      const source = readFileSync(join(root, folder, file), "utf8");
      return mutantsOf(source, typescriptMutations(`${folder}/${file}`, source));
    });
  };
  return { name, folder, kinds: typescriptKinds, mutants };
}

/** Judges the mutants of one or several areas. */
export type Judge = {
  readonly baseline: string;
  /** Judged together: what is prepared is shared by so many. */
  readonly batchSize: number;
  judge(mutants: readonly Mutant[]): Promise<ReadonlyMap<string, Judgement>>;
  close(): Promise<void>;
};

type JudgeOptions = {
  /** Lua: survivors meet the test files that look into Redis itself, too. */
  readonly withTestFiles: boolean;
  /** Goes on with what an ended process left. */
  readonly resume: boolean;
  /** By the id of each mutant the only test file that it meets. */
  readonly only?: Readonly<Record<string, string>> | undefined;
};

export async function openLuaJudge({ withTestFiles }: JudgeOptions): Promise<Judge> {
  const judge = await LuaJudge.open();
  const { cases, tookMs } = judge.baseline;
  return {
    baseline: `${cases} cases that take ${Math.round(tookMs)} ms`,
    batchSize: 1,
    async judge(mutants) {
      const judged = new Map<string, Judgement>();
      for (const mutant of mutants as readonly LuaMutant[]) {
        judged.set(mutant.id, await judge.judge(mutant, { withTestFiles }));
      }
      return judged;
    },
    close: () => judge.close(),
  };
}

const setupFiles = ["test/support/secret-check.ts", "test/support/metric-check.ts"];
const unitTests = "test/unit/**/*.test.ts";
const operationTests = "proof/mutation/memory-store.test.ts";
/** On a memory store in their own process. The walk over all routes takes a minute and says little that these do not. */
const gatewayTests = [
  "audit",
  "connections",
  "costly-bodies",
  "dead-letters",
  "definitions",
  "dispatch",
  "doors",
]
  .concat([
    "duties",
    "event-clients",
    "events",
    "flows",
    "keys",
    "locks",
    "pools",
    "protection",
    "quotas",
    "runs",
    "stop",
    "tenants",
    "tls",
    "why",
  ])
  .map((name) => `test/e2e/gateway-${name}.test.ts`);

/** Every operation with its whole answer, and with each call to the store that fails: what notices most, in whichever area. */
const answerTests = ["gateway-answers", "gateway-store-failures"].map((name) => `test/e2e/${name}.test.ts`);

/** All areas of TypeScript have one: to run every test once, so as to know what it reaches, takes a minute. */
export async function openTypescriptJudge(areas: readonly AreaName[], options: JudgeOptions): Promise<Judge> {
  const { only } = options;
  const all = [
    ...(areas.includes("operations") ? [operationTests] : []),
    ...(areas.includes("gateway") ? gatewayTests : []),
    ...answerTests,
    unitTests,
  ];
  const tests = only === undefined ? all : [...new Set(Object.values(only))];
  return {
    baseline: "the tests that reach them",
    batchSize: 1_500,
    async judge(mutants) {
      const digest = createHash("sha1").update(mutants.map(({ id }) => id).join(" "));
      const folder = join(root, ".setup", `mutation-${digest.digest("hex").slice(0, 10)}`);
      return await judgeMutants(mutants, { root, folder, resume: options.resume, tests, only, setupFiles });
    },
    async close() {},
  };
}
