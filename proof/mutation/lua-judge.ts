// Says whether the tests notice a mutant: cases first, those that call its scripts and noticed its neighbours before; then test files.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { OperationName } from "../../src/ports/store.ts";
import { type LuaMutant, luaFolder, scriptsWith } from "./lua-files.ts";
import { type Case, cases, LuaWorld, type Verdict } from "./lua-world.ts";
import { type Judgement, mutate } from "./mutation.ts";

const root = dirname(dirname(import.meta.dirname));

/** What looks into Redis itself, which no case of the store port can: they take ten seconds, and only survivors meet them. */
const testFiles = [
  "test/conformance/redis-scripts.test.ts",
  "test/conformance/redis-sweep.test.ts",
  "test/conformance/redis-batches.test.ts",
  "test/conformance/redis-locks.test.ts",
  "test/conformance/redis-limits.test.ts",
  "test/conformance/due-index.test.ts",
];

type Known = { readonly each: Case; readonly tookMs: number; readonly called: ReadonlySet<OperationName> };

export class LuaJudge {
  #world: LuaWorld;
  readonly #known: readonly Known[];
  /** By case and file: what noticed one mutant of a file often notices the next. */
  readonly #kills = new Map<Case, Map<string, number>>();
  #copy: string | undefined;

  /** Runs every case on the scripts as they are, which must pass, and records what each calls. */
  static async open(): Promise<LuaJudge> {
    const world = await LuaWorld.start();
    await world.begin();
    const scripts = scriptsWith();
    const known: Known[] = [];
    for (const each of cases) {
      const verdict = await world.run(each, scripts);
      if (verdict.kind !== "passed") {
        await world.stop();
        throw new Error(`"${each.name}" fails without a mutation: ${JSON.stringify(verdict)}`);
      }
      known.push({ each, tookMs: verdict.tookMs, called: verdict.called });
    }
    return new LuaJudge(world, known);
  }

  private constructor(world: LuaWorld, known: readonly Known[]) {
    this.#world = world;
    this.#known = known;
  }

  get baseline(): { readonly cases: number; readonly tookMs: number } {
    return { cases: this.#known.length, tookMs: this.#known.reduce((sum, { tookMs }) => sum + tookMs, 0) };
  }

  async judge(mutant: LuaMutant, options: { readonly withTestFiles: boolean }): Promise<Judgement> {
    const scripts = scriptsWith(mutant);
    await this.#begin();
    if (!(await this.#world.compiles(scripts))) return { kind: "invalid" };
    for (const { each } of this.#inOrder(mutant)) {
      const verdict = await this.#world.run(each, scripts);
      if (verdict.kind === "passed") continue;
      // A call that ran out of time on a busy machine says nothing about the mutant.
      if (isTimeOut(verdict) && (await this.#world.run(each, scripts)).kind === "passed") continue;
      this.#noteKill(each, mutant);
      return { kind: "killed", by: each.name };
    }
    const by = options.withTestFiles ? this.#failingFile(mutant) : undefined;
    const reached = this.#inOrder(mutant).length;
    return by === undefined ? { kind: "survived", reached } : { kind: "killed", by };
  }

  async close(): Promise<void> {
    await this.#world.stop();
    if (this.#copy !== undefined) rmSync(this.#copy, { recursive: true, force: true });
  }

  #inOrder({ file }: LuaMutant): readonly Known[] {
    const reached = this.#known.filter(({ called }) => file.operations.some((name) => called.has(name)));
    const score = ({ each, tookMs }: Known) =>
      tookMs / (1 + 20 * (this.#kills.get(each)?.get(file.name) ?? 0));
    return reached.sort((left, right) => score(left) - score(right));
  }

  #noteKill(each: Case, { file }: LuaMutant): void {
    const kills = this.#kills.get(each) ?? new Map<string, number>();
    kills.set(file.name, (kills.get(file.name) ?? 0) + 1);
    this.#kills.set(each, kills);
  }

  /** A mutant that loops keeps its server busy: the next one gets another. */
  async #begin(): Promise<void> {
    try {
      await this.#world.begin();
    } catch {
      await this.#world.stop();
      this.#world = await LuaWorld.start();
      await this.#world.begin();
    }
  }

  /** In a copy of the tree, since these files open their stores themselves. */
  #failingFile({ file, mutation }: LuaMutant): string | undefined {
    this.#copy ??= copyTree();
    const path = join(this.#copy, luaFolder, `${file.name}.lua`);
    writeFileSync(path, mutate(file.text, mutation));
    try {
      const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
      const words = [vitest, "run", ...testFiles, "--bail=1", "--reporter=dot"];
      const { status } = spawnSync(process.execPath, words, {
        cwd: this.#copy,
        stdio: "ignore",
        timeout: 180_000,
      });
      return status === 0 ? undefined : "the test files on Redis itself";
    } finally {
      writeFileSync(path, file.text);
    }
  }
}

function isTimeOut(verdict: Verdict): boolean {
  return verdict.kind === "failed" && /unknown|unavailable|deadline/.test(verdict.cause);
}

/** Inside the checkout, so that it finds node_modules above it; ignored by git. */
function copyTree(): string {
  const workspace = join(root, ".setup");
  mkdirSync(workspace, { recursive: true });
  const copy = mkdtempSync(join(workspace, "mutation-lua-"));
  const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
    cwd: root,
    encoding: "utf8",
  });
  const needed = /^(src|test|proof|package\.json|tsconfig|vitest)/;
  for (const path of listed.split("\n").filter((line) => needed.test(line))) {
    cpSync(join(root, path), join(copy, path));
  }
  return copy;
}
