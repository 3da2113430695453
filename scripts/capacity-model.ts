// What a rate of three-step runs needs, and how tenants spread over partitions: plain arithmetic on measured numbers.
import { partitionCount } from "../src/domain/tenant.ts";

/** Measured by bench:cpu and bench:bytes, by the names that they have there. */
export const inputNames = [
  "cpu.embedded.run.gateway_us",
  "cpu.embedded.run.store_us",
  "cpu.cluster.run.gateway_us",
  "cpu.cluster.run.gc_us",
  "cpu.cluster.run.store_us",
  "cpu.cluster.run.engine_us",
  "cpu.cluster.run.bus_us",
  "bytes.run.embedded.disk_bytes",
  "bytes.run.redis.memory_bytes",
  "bytes.run.http.network_bytes",
  "bytes.run.redis.network_bytes",
  "bytes.run.nats.network_bytes",
] as const;
export type InputName = (typeof inputNames)[number];

export type CapacityInput = {
  /** On which Node the CPU time was measured. */
  readonly node: string;
  readonly numbers: Readonly<Record<InputName, number>>;
};

/** What is planned with; a reader with other servers changes these. */
export const plan = {
  /** The part of a core that a single-threaded part may be busy: above it, waiting grows faster than load. */
  busyShare: 0.6,
  retentionDays: 7,
  /** Of one Redis master: a larger one takes long to load, to copy and to fork. */
  masterGib: 32,
  /** For fragmentation, buffers and copies during a save. */
  memoryShareUsed: 0.75,
  /** Of the files of one master, by what it has in memory: the last append-only file and the one being written. */
  diskPerMemory: 2,
} as const;

const secondsOfRetention = plan.retentionDays * 86_400;
const gib = 1_073_741_824;

export type Needs = {
  readonly perSecond: number;
  readonly gateways: number;
  /** Busy with all threads of the gateways. */
  readonly gatewayCores: number;
  readonly engines: number;
  readonly mastersForCpu: number;
  readonly mastersForMemory: number;
  readonly redisGib: number;
  readonly redisDiskGib: number;
  readonly natsCores: number;
  readonly network: Readonly<Record<"http" | "redis" | "nats", number>>;
  /** How busy the busiest thread of one embedded server would be. */
  readonly embeddedBusyShare: number;
  readonly embeddedDiskGib: number;
};

export function needsOf({ numbers }: CapacityInput, perSecond: number): Needs {
  const busyCores = (name: InputName) => (perSecond * numbers[name]) / 1_000_000;
  const processes = (name: InputName, least: number) =>
    Math.max(least, Math.ceil(busyCores(name) / plan.busyShare));
  const megabits = (name: InputName) => (perSecond * numbers[name] * 8) / 1_000_000;
  const kept = (name: InputName) => (perSecond * secondsOfRetention * numbers[name]) / gib;
  const redisGib = kept("bytes.run.redis.memory_bytes") / plan.memoryShareUsed;
  return {
    perSecond,
    gateways: processes("cpu.cluster.run.gateway_us", 2),
    gatewayCores: busyCores("cpu.cluster.run.gateway_us") + busyCores("cpu.cluster.run.gc_us"),
    engines: processes("cpu.cluster.run.engine_us", 2),
    mastersForCpu: processes("cpu.cluster.run.store_us", 1),
    mastersForMemory: Math.ceil(redisGib / plan.masterGib),
    redisGib,
    redisDiskGib: kept("bytes.run.redis.memory_bytes") * plan.diskPerMemory,
    natsCores: busyCores("cpu.cluster.run.bus_us"),
    network: {
      http: megabits("bytes.run.http.network_bytes"),
      redis: megabits("bytes.run.redis.network_bytes"),
      nats: megabits("bytes.run.nats.network_bytes"),
    },
    embeddedBusyShare: Math.max(
      busyCores("cpu.embedded.run.gateway_us"),
      busyCores("cpu.embedded.run.store_us"),
    ),
    embeddedDiskGib: kept("bytes.run.embedded.disk_bytes"),
  };
}

/** Three-step runs a second that one thread takes at the planned share: one master, and so one partition and one tenant. */
export function perThread({ numbers }: CapacityInput, name: InputName): number {
  return (plan.busyShare * 1_000_000) / numbers[name];
}

/** Runs a second whose retention fits into so many masters. */
export function perMemory({ numbers }: CapacityInput, masters: number): number {
  const bytes = masters * plan.masterGib * gib * plan.memoryShareUsed;
  return bytes / numbers["bytes.run.redis.memory_bytes"] / secondsOfRetention;
}

/** Days that runs can be kept at a rate, with as many masters as there are partitions. */
export function retentionDaysAt(input: CapacityInput, perSecond: number): number {
  return (perMemory(input, partitionCount) * plan.retentionDays) / perSecond;
}

export type Spread = {
  /** The load of the busiest partition, the average being 1: the median of the draws, and the worst. */
  readonly busiest: number;
  readonly worst: number;
  /** The part of all load that the busiest partition has, median of the draws. */
  readonly busiestShare: number;
  readonly largestTenantShare: number;
};

export type SpreadOptions = {
  readonly tenants: number;
  /** Zipf's: the tenant of rank r has a load of 1 / r^exponent. */
  readonly exponent: number;
  readonly partitions: number;
  /** Each draws other names for the tenants. */
  readonly seeds: readonly number[];
};

export function spreadOf({ tenants, exponent, partitions, seeds }: SpreadOptions): Spread {
  const loads = Float64Array.from({ length: tenants }, (_, index) => (index + 1) ** -exponent);
  const total = loads.reduce((sum, load) => sum + load, 0);
  const busiestShares = seeds
    .map((seed) => {
      const byPartition = new Float64Array(partitions);
      const hashes = hashesOf(seed, tenants);
      for (let rank = 0; rank < tenants; rank += 1) {
        const partition = (hashes[rank] ?? 0) % partitions;
        byPartition[partition] = (byPartition[partition] ?? 0) + (loads[rank] ?? 0);
      }
      return Math.max(...byPartition) / total;
    })
    .sort((left, right) => left - right);
  const middle = busiestShares[Math.floor(busiestShares.length / 2)] ?? Number.NaN;
  const last = busiestShares.at(-1) ?? Number.NaN;
  return {
    busiest: middle * partitions,
    worst: last * partitions,
    busiestShare: middle,
    largestTenantShare: 1 / total,
  };
}

/** Remembered, since every exponent and number of partitions needs the same. */
const drawn = new Map<string, Uint32Array>();

function hashesOf(seed: number, tenants: number): Uint32Array {
  const draw = `${seed}/${tenants}`;
  const known = drawn.get(draw);
  if (known !== undefined) return known;
  const hashes = Uint32Array.from({ length: tenants }, (_, rank) => hashOf(`tenant-${seed}-${rank}`));
  drawn.set(draw, hashes);
  return hashes;
}

/** As `partitionOf` hashes, before the remainder: a model of more partitions needs the whole number. */
export function hashOf(tenant: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < tenant.length; index += 1) {
    hash = Math.imul(hash ^ tenant.charCodeAt(index), 0x01000193) >>> 0;
  }
  return hash;
}
