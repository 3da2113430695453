// Takes one step after the other, with all promise chains run to their next wait in between: the only real scheduling in a simulation.

/**
 * Steps that are queued as macrotasks at once. Between two of them Node runs all promise chains, as after a turn of its
 * event loop, but without the turn, which asks the system for input each time: 21 % of the time of a simulation.
 */
const burstSteps = 64;

/** Until a step gives an end, or throws. Awaiting a resolved promise instead would not do: chains may be of any depth. */
export function runInBursts<End>(step: () => End | undefined): Promise<End> {
  return new Promise((resolve, reject) => {
    let ended = false;
    const turn = () => {
      if (ended) return;
      try {
        const end = step();
        if (end === undefined) return;
        ended = true;
        resolve(end);
      } catch (error) {
        ended = true;
        reject(error);
      }
    };
    const burst = () => {
      if (ended) return;
      for (let steps = 0; steps < burstSteps; steps += 1) setImmediate(turn);
      setImmediate(burst);
    };
    setImmediate(burst);
  });
}
