// Makes a seed smaller on purpose: fewer kinds of faults, tenants, callers and less time, by names that a command can be given.
import type { Swarm } from "../swarm.ts";

/** `no-faults`, `no-pause`, `no-store-reply-lost`, `tenants=1`, `starters=0`, `chaos=3000`: what follows from the fields of a swarm. */
export type Reduction = string;

/** Those that do not concern this swarm change nothing: a kept seed outlives the fault that it once did without. */
export function reduceSwarm(swarm: Swarm, reductions: readonly Reduction[]): Swarm {
  return reductions.reduce(reduceOnce, swarm);
}

/** A swarm that gets smaller by nothing more than this, or undefined when it does not. */
export function reducesTo(swarm: Swarm, reduction: Reduction): Swarm | undefined {
  const reduced = reduceOnce(swarm, reduction);
  return reduced === swarm ? undefined : reduced;
}

/** Everything that can be left out of this swarm, what explains the most first; the time is for `chaos=`. */
export function reductionsOf(swarm: Swarm): readonly Reduction[] {
  const faults = faultNames(swarm).map((name) => `no-${name}`);
  const sizes = Object.entries(sizesOf(swarm)).flatMap(([name, { now, min }]) =>
    Array.from({ length: Math.max(0, Math.min(now - min, 2)) }, (_, more) => `${name}=${min + more}`),
  );
  return [...(faults.length > 1 ? ["no-faults"] : []), ...faults, ...sizes];
}

function reduceOnce(swarm: Swarm, reduction: Reduction): Swarm {
  if (reduction.startsWith("no-")) return withoutFault(swarm, reduction.slice("no-".length));
  const [name = "", text = ""] = reduction.split("=");
  if (!/^\d+$/.test(text)) return swarm;
  return withSize(swarm, name, Number(text));
}

type FaultGroup = "faults" | "busFaults" | "processFaults";

const prefixes: Readonly<Record<FaultGroup, string>> = {
  faults: "store-",
  busFaults: "bus-",
  processFaults: "",
};

/** Faults that a swarm has or has not as a whole. */
const wholeGroups = ["losses", "callFaults", "rolling", "embedded"] as const;

type FaultField = { readonly name: string; readonly group: FaultGroup; readonly field: string };

/** A fault exists where its rate, its mean distance or its bound is more than nothing. */
function faultFields(swarm: Swarm): readonly FaultField[] {
  return (Object.keys(prefixes) as FaultGroup[]).flatMap((group) =>
    Object.entries(swarm[group])
      .filter(([field, value]) => field === "tail" || (isStrength(field) && Number(value) > 0))
      .map(([field]) => ({
        name: `${prefixes[group]}${inWords(field.replace(/(Rate|EveryMs|Max)$/, ""))}`,
        group,
        field,
      })),
  );
}

function isStrength(field: string): boolean {
  return /(Rate|EveryMs|SkewMax)$/.test(field);
}

function faultNames(swarm: Swarm): readonly string[] {
  const whole = wholeGroups.filter((group) => swarm[group] !== undefined);
  return [...faultFields(swarm).map(({ name }) => name), ...whole.map(inWords)];
}

function withoutFault(swarm: Swarm, name: string): Swarm {
  if (name === "faults") return faultNames(swarm).reduce(withoutFault, swarm);
  const whole = wholeGroups.find((group) => inWords(group) === name && swarm[group] !== undefined);
  if (whole !== undefined) {
    const { [whole]: _without, ...rest } = swarm;
    return rest;
  }
  const found = faultFields(swarm).find((fault) => fault.name === name);
  if (found === undefined) return swarm;
  const { [found.field]: _dropped, ...rest } = swarm[found.group] as Readonly<Record<string, unknown>>;
  // A rate becomes zero; a mean distance and the tail are left out.
  const left = /(Rate|Max)$/.test(found.field) ? { ...rest, [found.field]: 0 } : rest;
  return { ...swarm, [found.group]: left };
}

type Size = { readonly now: number; readonly min: number };

function sizesOf(swarm: Swarm): Readonly<Record<string, Size>> {
  const crowd = Object.entries(swarm.workflows ?? {}).filter(([, count]) => typeof count === "number");
  return {
    tenants: { now: swarm.tenants, min: 1 },
    gateways: { now: swarm.gateways.length, min: 1 },
    engines: { now: swarm.engines, min: 0 },
    // Without any, what is held would wait for ever; without engines gateways do it all.
    schedulers: { now: swarm.schedulers, min: 1 },
    clients: { now: swarm.clientsPerGateway, min: 0 },
    enders: { now: swarm.endersPerGateway, min: 0 },
    "lock-users": { now: swarm.lockUsersPerGateway, min: 0 },
    // Without workers no run would end.
    ...Object.fromEntries(
      crowd.map(([kind, count]) => [inWords(kind), { now: count, min: kind === "workers" ? 1 : 0 }]),
    ),
  };
}

function withSize(swarm: Swarm, name: string, size: number): Swarm {
  if (name === "chaos") return size < swarm.chaosMs ? { ...swarm, chaosMs: size } : swarm;
  const known = Object.hasOwn(sizesOf(swarm), name) ? sizesOf(swarm)[name] : undefined;
  if (known === undefined || size >= known.now || size < known.min) return swarm;
  switch (name) {
    case "tenants":
      return { ...swarm, tenants: size };
    case "gateways":
      return { ...swarm, gateways: swarm.gateways.slice(0, size) };
    case "engines":
      return { ...swarm, engines: size, schedulers: size === 0 ? 0 : swarm.schedulers };
    case "schedulers":
      return { ...swarm, schedulers: size };
    case "clients":
      return { ...swarm, clientsPerGateway: size };
    case "enders":
      return { ...swarm, endersPerGateway: size };
    case "lock-users":
      return { ...swarm, lockUsersPerGateway: size };
    default:
      return withCrowd(swarm, name, size);
  }
}

function withCrowd(swarm: Swarm, name: string, size: number): Swarm {
  const { workflows } = swarm;
  if (workflows === undefined) return swarm;
  const kind = Object.keys(workflows).find((key) => inWords(key) === name);
  return kind === undefined ? swarm : { ...swarm, workflows: { ...workflows, [kind]: size } };
}

/** `replyLost` is `reply-lost`. */
function inWords(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
