// Faults of processes: killed, stopped in order, paused for longer than their leases; and all gateways restarted in turn.
import { setTimeout as sleep } from "node:timers/promises";
import type { Fault } from "./fault.ts";
import type { Member, MemberKind } from "./member.ts";
import { leaseMs, type System } from "./system.ts";

const kinds: readonly MemberKind[] = ["gateway", "engine", "scheduler", "worker"];

export const processFaults: readonly Fault[] = [
  ...kinds.map((kind) => ({ ...of(kind), name: `kill ${kind}`, strike: kill })),
  ...kinds.map((kind) => ({ ...of(kind), name: `stop ${kind}`, strike: terminate })),
  ...kinds.map((kind) => ({ ...of(kind), name: `pause ${kind}`, strike: pause })),
  {
    name: "rolling restart",
    targets: () => ["gateways"],
    needs: () => "gateways",
    async strike({ system }) {
      for (const member of membersOf(system).filter(({ kind }) => kind === "gateway")) {
        await member.terminate();
        await member.startAgain();
      }
      return "hit";
    },
  },
];

/** A gateway that is restarted with the others must not be killed meanwhile. */
function of(kind: MemberKind): Pick<Fault, "targets" | "needs"> {
  return {
    targets: (system) =>
      membersOf(system)
        .filter((member) => member.kind === kind)
        .map(({ name }) => name),
    needs: (target) => (kind === "gateway" ? "gateways" : target),
  };
}

export function membersOf({ processes, workers }: System): readonly Member[] {
  return [...processes.map(({ member }) => member), ...workers];
}

type Target = Parameters<Fault["strike"]>[0];

function memberOf({ system, target }: Target): Member | undefined {
  return membersOf(system).find(({ name, isUp }) => name === target && isUp());
}

async function kill(at: Target): Promise<"hit" | "missed"> {
  const member = memberOf(at);
  if (member === undefined) return "missed";
  await member.kill();
  await sleep(at.random.integer(0, 2_000));
  await member.startAgain();
  return "hit";
}

async function terminate(at: Target): Promise<"hit" | "missed"> {
  const member = memberOf(at);
  if (member === undefined) return "missed";
  await member.terminate();
  await member.startAgain();
  return "hit";
}

async function pause(at: Target): Promise<"hit" | "missed"> {
  const member = memberOf(at);
  if (member === undefined) return "missed";
  member.pause();
  try {
    await sleep(leaseMs + at.random.integer(300, 2_000));
  } finally {
    member.resume();
  }
  return "hit";
}
