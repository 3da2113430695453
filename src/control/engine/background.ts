// Work that goes on after its caller has been answered: counted, so that a stop can wait for it.
import type { Log } from "../../ports/ports.ts";

export type Background = {
  /** A failure is logged: nobody is left to tell. */
  run(what: string, work: () => Promise<unknown>): void;
  /** Resolves when nothing is under way. */
  idle(): Promise<void>;
};

export function createBackground(log: Log): Background {
  const underWay = new Set<Promise<void>>();
  return {
    run(what, work) {
      const task = work().then(
        () => {},
        (error: unknown) => {
          log.error(`${what} failed`, {
            cause: error instanceof Error ? (error.stack ?? error.message) : String(error),
          });
        },
      );
      underWay.add(task);
      void task.then(() => underWay.delete(task));
    },
    async idle() {
      while (underWay.size > 0) await Promise.all(underWay);
    },
  };
}
