// Three-step runs over HTTP from a process of its own, which is all their clients and all their workers.
import { join } from "node:path";
import { startChildProgram } from "../test/support/child-program.ts";

export type ClusterLoad = {
  /** Gateways on this machine; clients and workers are spread over them evenly. */
  readonly ports: readonly number[];
  readonly keys: { readonly client: string; readonly worker: string };
  readonly workflow: string;
  readonly topic: string;
  /** Whose result ends a run. */
  readonly lastStep: string;
  readonly how:
    | {
        readonly kind: "saturated";
        /** Runs under way at once. */
        readonly inFlight: number;
        readonly warmUpMs: number;
        readonly durationMs: number;
      }
    | { readonly kind: "one_by_one"; readonly runs: number };
};

export type ClusterLoadResult = {
  /** Runs that ended in the time that counts, per second. */
  readonly perSecond: number;
  /** From asking for a run to the answer to its last result. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** With the warm-up, and with what was under way at the end. */
  readonly runs: number;
};

export type ClusterLoadAnswer =
  | { readonly kind: "measured"; readonly result: ClusterLoadResult }
  | { readonly kind: "broken"; readonly cause: string };

export type ClusterLoader = { run(load: ClusterLoad): Promise<ClusterLoadResult>; stop(): Promise<void> };

const longestMs = 120_000;

export function startClusterLoader(): ClusterLoader {
  const child = startChildProgram(join(import.meta.dirname, "cluster-load-program.ts"), {});
  return {
    async run(load) {
      child.say(JSON.stringify(load));
      const answer = await child.next<ClusterLoadAnswer>(longestMs);
      if (answer.kind === "measured") return answer.result;
      throw new Error(`the three-step runs broke off: ${answer.cause}`);
    },
    stop: () => child.stop(),
  };
}
