// The work that is under way, by process: what must come to an end once the faults are over.
import type { Kernel } from "../../src/testing/kernel.ts";
import type { SimulatedProcess } from "../../src/testing/simulated-process.ts";

export class Tasks {
  readonly #kernel: Kernel;
  readonly #pending = new Map<Promise<void>, { readonly process: SimulatedProcess; readonly name: string }>();

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
  }

  /** Starts work in a process; an error in it ends the simulation. */
  start(process: SimulatedProcess, name: string, work: () => Promise<void>): void {
    const task: Promise<void> = work().then(
      () => {
        this.#pending.delete(task);
      },
      (error) => this.#kernel.fail(error),
    );
    this.#pending.set(task, { process, name });
  }

  /** When everything that this process has begun so far has ended. */
  async ended(process: SimulatedProcess): Promise<void> {
    await Promise.all([...this.#pending].filter(([, of]) => of.process === process).map(([task]) => task));
  }

  isUnderWay(name: string): boolean {
    return [...this.#pending.values()].some((task) => task.name === name);
  }

  /** The names of what has not ended; a crashed process has nothing left to do. */
  unfinished(): readonly string[] {
    return [...this.#pending.values()]
      .filter(({ process }) => process.state() !== "crashed")
      .map(({ process, name }) => `${process.name} ${name}`);
  }
}
