// What a fault of the nemesis is.
import type { SeededRandom } from "../src/testing/seeded-random.ts";
import type { System } from "./system.ts";

export type Fault = {
  /** For the history and the report. */
  readonly name: string;
  /** Who may be hit, by names that never change. */
  targets(system: System): readonly string[];
  /** What no other fault may touch meanwhile. */
  needs(target: string): string;
  /** Harms and heals. `missed` when there was nothing to hit. */
  strike(at: Strike): Promise<"hit" | "missed">;
};

export type Strike = {
  readonly system: System;
  readonly target: string;
  readonly random: SeededRandom;
};
