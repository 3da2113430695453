// A call from one simulated process to another over a network that loses requests and answers: what workers have of a gateway.
import type { SimulatedProcess } from "../../../src/testing/simulated-process.ts";
import type { World } from "../world.ts";

type NoAnswer = { readonly kind: "no_answer" };

/** The work happens in the process that is called, or not at all, or without its caller hearing of it. */
export function callRemotely<Answer>(
  { kernel, swarm, peace }: World,
  from: SimulatedProcess,
  to: { readonly process: SimulatedProcess },
  timeoutMs: number,
  work: () => Promise<Answer>,
): Promise<Answer | NoAnswer> {
  const random = from.random.stream("network");
  const { travelMsMax, requestLostRate, replyLostRate } = swarm.faults;
  const travelMs = () => random.fraction() * travelMsMax;
  const lost = (rate: number) => !peace.begun && random.chance(rate);
  return new Promise((resolve) => {
    let waiting = true;
    const settle = (answer: Answer | NoAnswer) => {
      if (!waiting) return;
      waiting = false;
      cancel();
      resolve(answer);
    };
    const cancel = from.clock.timer(timeoutMs, () => settle({ kind: "no_answer" }));
    if (lost(requestLostRate)) return;
    to.process.deliver(travelMs(), () => {
      work().then(
        (answer) => {
          if (to.process.state() === "crashed" || lost(replyLostRate)) return;
          from.deliver(travelMs(), () => settle(answer));
        },
        (error) => kernel.fail(error),
      );
    });
  });
}
