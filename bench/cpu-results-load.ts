// Results over HTTP from a process of its own: it claims jobs first, and reports them in batches when it is told to.
import { join } from "node:path";
import { startChildProgram } from "../test/support/child-program.ts";

export type ResultsOrder = { readonly port: number; readonly key: string } & (
  | { readonly kind: "claim"; readonly topic: string; readonly jobsMax: number }
  | { readonly kind: "report"; readonly results: number }
);

export type ResultsAnswer =
  | { readonly kind: "done"; readonly count: number }
  | { readonly kind: "broken"; readonly cause: string };

/** Gives how many jobs were claimed, or how many results were accepted. */
export type ResultsLoader = { run(order: ResultsOrder): Promise<number>; stop(): Promise<void> };

const longestMs = 120_000;

export function startResultsLoader(): ResultsLoader {
  const child = startChildProgram(join(import.meta.dirname, "cpu-results-program.ts"), {});
  return {
    async run(order) {
      child.say(JSON.stringify(order));
      const answer = await child.next<ResultsAnswer>(longestMs);
      if (answer.kind === "done") return answer.count;
      throw new Error(`the ${order.kind} of results broke off: ${answer.cause}`);
    },
    stop: () => child.stop(),
  };
}
