// Faults of the links of one process to Redis, the Sentinel or NATS: late, cut, silent, half deaf, and single replies lost.
import { setTimeout as sleep } from "node:timers/promises";
import type { FaultProxy } from "../test/support/fault-proxy.ts";
import type { Fault, Strike } from "./fault.ts";
import type { Links } from "./links.ts";
import type { LinkedMember } from "./system.ts";

type Harm = {
  readonly name: string;
  readonly proxies: (links: Links) => readonly FaultProxy[];
  readonly begin: (proxy: FaultProxy, at: Strike) => void;
  readonly lastsMs: { readonly min: number; readonly max: number };
};

const toRedis = ({ redis }: Links) => redis;
const toSentinel = ({ sentinel }: Links) => [sentinel];
const toNats = ({ nats }: Links) => [nats];

/** Calls wait 2 s for their answer: some of these are over before, some are not. */
const harms: readonly Harm[] = [
  {
    name: "delay redis",
    proxies: toRedis,
    begin: (proxy, { random }) => proxy.delay(random.integer(20, 400)),
    lastsMs: { min: 1_500, max: 4_000 },
  },
  {
    name: "cut redis",
    proxies: toRedis,
    begin: (proxy) => proxy.cut(),
    lastsMs: { min: 300, max: 2_500 },
  },
  {
    name: "silence redis",
    proxies: toRedis,
    begin: (proxy) => proxy.blackhole(),
    lastsMs: { min: 500, max: 3_500 },
  },
  {
    name: "mute redis",
    proxies: toRedis,
    begin: (proxy) => proxy.mute(),
    lastsMs: { min: 300, max: 2_500 },
  },
  {
    name: "cut sentinel",
    proxies: toSentinel,
    begin: (proxy) => proxy.cut(),
    lastsMs: { min: 1_000, max: 4_000 },
  },
  {
    name: "delay nats",
    proxies: toNats,
    begin: (proxy, { random }) => proxy.delay(random.integer(50, 800)),
    lastsMs: { min: 1_500, max: 4_000 },
  },
  {
    name: "cut nats",
    proxies: toNats,
    begin: (proxy) => proxy.cut(),
    lastsMs: { min: 500, max: 4_000 },
  },
  {
    name: "silence nats",
    proxies: toNats,
    begin: (proxy) => proxy.blackhole(),
    lastsMs: { min: 1_000, max: 4_000 },
  },
];

const ofProcesses = {
  targets: ({ processes }) => processes.map(({ member }) => member.name),
  needs: (target) => `links of ${target}`,
} as const satisfies Pick<Fault, "targets" | "needs">;

export const linkFaults: readonly Fault[] = [
  ...harms.map((harm): Fault => ({ ...ofProcesses, name: harm.name, strike: (at) => strike(harm, at) })),
  {
    ...ofProcesses,
    name: "lose redis reply",
    targets: (system) =>
      system.processes.filter(({ member }) => member.kind === "gateway").map(({ member }) => member.name),
    strike: loseReplies,
  },
];

function processOf({ system, target }: Strike): LinkedMember {
  return system.processes.find(({ member }) => member.name === target) as LinkedMember;
}

async function strike({ proxies, begin, lastsMs }: Harm, at: Strike): Promise<"hit" | "missed"> {
  const chosen = proxies(processOf(at).links);
  const before = touchedIn(chosen);
  for (const proxy of chosen) begin(proxy, at);
  try {
    await sleep(at.random.integer(lastsMs.min, lastsMs.max));
  } finally {
    for (const proxy of chosen) proxy.pass();
  }
  return touchedIn(chosen) > before ? "hit" : "missed";
}

function touchedIn(proxies: readonly FaultProxy[]): number {
  return proxies.reduce((sum, proxy) => sum + proxy.touched(), 0);
}

const repliesLost = 5;
const withinMs = 1_500;

/** Scripts that were executed, and of which nobody hears: each costs its connection. */
async function loseReplies(at: Strike): Promise<"hit" | "missed"> {
  const { redis } = processOf(at).links;
  let lost = 0;
  for (let reply = 0; reply < repliesLost; reply += 1) {
    const swallowed = redis.map((proxy) => proxy.swallowNextReply((request) => /EVALSHA/i.test(request)));
    const patience = new AbortController();
    const late = sleep(withinMs, false, { signal: patience.signal }).catch(() => false);
    if (await Promise.race([Promise.race(swallowed).then(() => true), late])) lost += 1;
    patience.abort();
    for (const proxy of redis) proxy.swallowNothing();
    await sleep(at.random.integer(50, 400));
  }
  return lost > 0 ? "hit" : "missed";
}
