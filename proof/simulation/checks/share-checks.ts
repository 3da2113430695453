// The order in which places are granted: the highest level first, keys of one level by their weights, runs of one key in turn (INV-34).
import { headLevel, prioritiesMax } from "../../../src/domain/gates.ts";
import type { RunId } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import type { Move } from "./gate-checks.ts";
import type { GatePosition, Waiting } from "./gate-position.ts";

/** Since when both of two keys have waited without a break: how much was granted to each, by its weight. */
type Pair = { grants: number; readonly served: Map<string, number> };

/** Of one level of one gate. */
type Level = {
  /** The weight of each key that waits; 0 when its runs have different ones. */
  readonly weights: Map<string, number>;
  readonly pairs: Map<string, Pair>;
  /** Keys that have waited on with another weight than they came with. */
  readonly changed: ReadonlySet<string>;
};

type Runs = ReadonlyMap<RunId, GatePosition>;

/** After so many grants a comparison of two keys says something. */
const grantsCompared = 3;

export class ShareChecks {
  readonly #marks: Marks;
  readonly #levels = new Map<string, Level>();

  constructor(marks: Marks) {
    this.#marks = marks;
  }

  judge(execution: StoreExecution, tenant: TenantId, moves: readonly Move[], runs: Runs): void {
    const { name, storeTimeMs } = execution;
    const grants = moves.filter(isGrant);
    for (const { runId, before } of grants) {
      // It was granted from where it had been moved to.
      if (execution.name === "moveQueued" && execution.request.runId === runId) continue;
      const granted = (before as GatePosition).waiting as Waiting;
      const others = [...runs.entries()].filter(
        ([, { waiting }]) => waiting?.gate === granted.gate && !isNew(moves, waiting),
      );
      const level = agedLevel(granted, storeTimeMs);
      for (const [other, { waiting }] of others) {
        const at = waiting as Waiting;
        mustHold(
          at.level <= level,
          "INV-34",
          () =>
            `${name} granted ${runId} at level ${level} before ${other}, which waits at level ${at.level}`,
        );
        const isAhead = at.level === granted.level && at.key === granted.key && at.arrival < granted.arrival;
        mustHold(!isAhead, "INV-34", () => `${name} granted ${runId} before ${other}, which came first`);
      }
    }
    for (const { before } of grants) this.#serve(tenant, (before as GatePosition).waiting as Waiting);
    this.#forgetPassing(tenant, grants);
    this.#learn(name, tenant, moves, runs);
  }

  #serve(tenant: TenantId, { gate, level, key }: Waiting): void {
    const { pairs } = this.#levelOf(nameOf(tenant, gate, level));
    for (const [names, pair] of pairs) {
      if (!names.split(" ").includes(key)) continue;
      pair.grants += 1;
      pair.served.set(key, (pair.served.get(key) ?? 0) + 1);
    }
  }

  /** It may have waited for a moment at the gates that it has passed: who was served there is counted anew. */
  #forgetPassing(tenant: TenantId, grants: readonly Move[]): void {
    for (const { before, after } of grants) {
      const passed = after?.held.slice((before?.held.length ?? 0) + 1) ?? [];
      for (const gate of passed) {
        for (const name of [...this.#levels.keys()]) {
          if (name.startsWith(`${tenant} ${gate} `)) this.#levels.delete(name);
        }
      }
    }
  }

  #learn(name: string, tenant: TenantId, moves: readonly Move[], runs: Runs): void {
    const touched = new Set<string>();
    for (const { before, after } of moves) {
      for (const at of [before?.waiting, after?.waiting])
        if (at !== undefined && at.level !== headLevel) touched.add(nameOf(tenant, at.gate, at.level));
    }
    if (touched.size === 0) return;
    const waiting = new Map<string, Map<string, number>>();
    for (const { waiting: at } of runs.values()) {
      if (at === undefined) continue;
      const level = nameOf(tenant, at.gate, at.level);
      const weights = waiting.get(level) ?? new Map<string, number>();
      const weight = weights.get(at.key) ?? at.weight;
      waiting.set(level, weights.set(at.key, weight === at.weight ? weight : 0));
    }
    for (const level of touched) this.#compare(name, level, waiting.get(level) ?? new Map());
  }

  /** Pairs of which both still wait, each at the weight that it had; all others begin anew. */
  #compare(name: string, levelName: string, weights: Map<string, number>): void {
    const was = this.#levelOf(levelName);
    const pairs = new Map<string, Pair>();
    // A key's turn was counted by the weight of a run that came before it with another: its share is of neither.
    const changed = new Set(
      [...weights].flatMap(([key, weight]) =>
        was.changed.has(key) || (was.weights.get(key) ?? weight) !== weight ? [key] : [],
      ),
    );
    const keys = [...weights.keys()].filter((key) => !changed.has(key)).sort();
    for (const [index, one] of keys.entries()) {
      for (const other of keys.slice(index + 1)) {
        const [w1 = 0, w2 = 0] = [weights.get(one), weights.get(other)];
        if (w1 === 0 || w2 === 0) continue;
        const same = was.weights.get(one) === w1 && was.weights.get(other) === w2;
        const pair = (same ? was.pairs.get(`${one} ${other}`) : undefined) ?? {
          grants: 0,
          served: new Map(),
        };
        pairs.set(`${one} ${other}`, pair);
        if (pair.grants >= grantsCompared) this.#marks.hit("shares_compared");
        const [first, second] = [(pair.served.get(one) ?? 0) / w1, (pair.served.get(other) ?? 0) / w2];
        mustHold(
          Math.abs(first - second) <= 1 / w1 + 1 / w2 + 1e-9,
          "INV-34",
          () =>
            `${name} left ${one} with ${first} and ${other} with ${second} at ${levelName}, by weights ${w1} and ${w2}`,
        );
      }
    }
    this.#levels.set(levelName, { weights, pairs, changed });
  }

  #levelOf(name: string): Level {
    return this.#levels.get(name) ?? { weights: new Map(), pairs: new Map(), changed: new Set() };
  }
}

/** It waited, and has the place that it waited for. */
function isGrant({ before, after }: Move): boolean {
  return before?.waiting !== undefined && after?.held.includes(before.waiting.gate) === true;
}

/** It came to this place of this queue in the operation under way. */
function isNew(moves: readonly Move[], waiting: Waiting | undefined): boolean {
  return moves.some(
    ({ before, after }) => after?.waiting === waiting && before?.waiting?.arrival !== waiting?.arrival,
  );
}

function agedLevel({ level, sinceMs, agingMs }: Waiting, nowMs: number): number {
  if (level >= prioritiesMax) return level;
  return Math.min(prioritiesMax, level + Math.floor(Math.max(0, nowMs - sinceMs) / agingMs));
}

function nameOf(tenant: TenantId, gate: string, level: number): string {
  return `${tenant} ${gate} ${level}`;
}
