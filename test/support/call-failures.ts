// Every way in which a call can fail between what was decided and what is stored, in words of its caller.
import type { OperationName } from "../../src/ports/store.ts";
import type { FlowPlane, FlowWorld } from "./flow-world.ts";
import { keepRecords } from "./lost-suffix.ts";
import type { Fate } from "./simulated-ports.ts";

/** What fails: the call of `p`, made by `act`; and what another process does meanwhile or after a failover. */
export type Failing = {
  readonly flow: FlowWorld;
  readonly p: FlowPlane;
  readonly call: OperationName;
  act(): Promise<unknown>;
  other(): Promise<unknown>;
};

export const callFailures: Readonly<Record<string, (failing: Failing) => Promise<unknown>>> = {
  "nothing fails": ({ flow, act }) => flow.finish(act()),
  "it is refused": by("unavailable"),
  "it is unknown, without effect": by("request_lost"),
  "it is unknown, with effect": by("reply_lost"),
  "it is unknown, and takes effect later": by({ resetAfterMs: 5, requestAfterMs: 300 }),
  "another process is faster": async ({ flow, p, call, act, other }) => {
    p.member.fail({ [call]: [{ requestAfterMs: 100 }] });
    const acting = act();
    await flow.pass(50);
    await flow.finish(other());
    return flow.finish(acting);
  },
  "a failover loses it": async ({ flow, act }) => {
    const lose = keepRecords(flow.world.records);
    await flow.finish(act());
    lose();
  },
  "a failover loses it, and another process changes something else": async ({ flow, act, other }) => {
    const lose = keepRecords(flow.world.records);
    await flow.finish(act());
    lose();
    await flow.finish(other());
  },
};

function by(fate: Fate) {
  return async ({ flow, p, call, act }: Failing) => {
    p.member.fail({ [call]: () => fate });
    await flow.finish(act());
    p.member.fail({});
  };
}
