// What a load balancer does in front of real gateways: the next one when one does not answer.

/** The SDK repeats what failed on the way, with the same idempotency key; this only chooses where the repetition goes. */
export function fetchOver(gateways: readonly string[]): typeof fetch {
  let chosen = 0;
  return async (input, init) => {
    const tried = chosen;
    const { pathname, search } = new URL(String(input));
    try {
      return await fetch(`${gateways[tried]}${pathname}${search}`, init);
    } catch (error) {
      if (chosen === tried && init?.signal?.aborted !== true) chosen = (tried + 1) % gateways.length;
      throw error;
    }
  };
}
