// The whole system as real processes: Redis with a replica and a Sentinel, NATS, the product's processes, and the world outside.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RedisGroup, startRedisGroup } from "../src/drills/servers/redis-failover.ts";
import {
  freePort,
  type NatsServer,
  type RedisServer,
  startNatsServer,
} from "../src/drills/servers/start-servers.ts";
import { buildProduct } from "./build-product.ts";
import { type Child, startChild } from "./child.ts";
import { type Links, openLinks, type Ports } from "./links.ts";
import { type Member, type MemberKind, startMember } from "./member.ts";
import type { OutsideOptions } from "./outside-program.ts";
import { createTenants, type Tenants } from "./tenants.ts";
import type { WorkerProgramOptions } from "./worker-program.ts";
import { workTopic } from "./workflows.ts";

export type Durability = "process" | "replicated";

export type SystemOptions = {
  readonly seed: number;
  readonly durability: Durability;
  readonly gateways: number;
  readonly engines: number;
  readonly schedulers: number;
  readonly workers: number;
  readonly workTenants: number;
  readonly guard: OutsideOptions["guard"];
};

export type LinkedMember = { readonly member: Member; readonly links: Links };

export type System = {
  readonly urls: readonly string[];
  readonly processes: readonly LinkedMember[];
  readonly workers: readonly Member[];
  readonly redis: RedisGroup;
  readonly redisServers: readonly [RedisServer, RedisServer];
  readonly nats: NatsServer;
  readonly tenants: Tenants;
  readonly outsideUrl: string;
  /** Where processes write their parts of the history. */
  readonly folder: string;
  report(): string;
  stop(): Promise<void>;
};

/** Short leases, so that what was in somebody's hands comes back soon. */
export const leaseMs = 2_500;

const settings = {
  STORE: "redis",
  BUS: "nats",
  REDIS_MODE: "sentinel",
  JOBS_LEASE_MS: String(leaseMs),
  LOCK_JOB_TTL_MS: "4000",
  LOCK_JOB_RENEW_EVERY_MS: "1000",
  LOCK_JOB_CALL_TIMEOUT_MS: "500",
  DISPATCH_HOLD: "high",
  DISPATCH_HOLD_MS: "1000",
  GATEWAY_DRAIN_MS: "3000",
};

/** As in production; a killed server has in its file what it has answered, since the operating system goes on. */
const redisArgs = ["--appendonly", "yes", "--appendfsync", "everysec"];
const wantReplica = ["--min-replicas-to-write", "1"];

// Each process and server that is started wants to be killed when this one ends.
process.setMaxListeners(100);

export async function startSystem(options: SystemOptions): Promise<System> {
  const undo: Array<() => Promise<unknown>> = [];
  const stop = async () => {
    await Promise.all(undo.splice(0).map((step) => step().catch(() => undefined)));
  };
  try {
    return { ...(await startAll(options, undo)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startAll(
  options: SystemOptions,
  undo: Array<() => Promise<unknown>>,
): Promise<Omit<System, "stop">> {
  const { seed, durability, guard } = options;
  const folder = mkdtempSync(join(tmpdir(), "interlock-chaos-"));
  const removeFolder = () => rmSync(folder, { recursive: true, force: true });
  undo.push(async () => removeFolder());
  process.once("exit", removeFolder);
  const product = buildProduct();
  undo.push(async () => product.remove());
  const redis = await startRedisGroup({
    sentinels: 1,
    args: [...redisArgs, ...(durability === "replicated" ? wantReplica : [])],
  });
  undo.push(() => redis.stop());
  const nats = await startNatsServer();
  undo.push(() => nats.stop());
  const redisServers = [await redis.master(), await redis.replica()] as const;
  const outside = startOutside({ file: join(folder, "outside.jsonl"), seed, guard });
  undo.push(() => outside.kill());
  const outsideUrl = `http://127.0.0.1:${wordsOf<{ port: number }>(await outside.says(readyLine)).port}`;
  const ports: Ports = {
    redis: redisServers.map(({ port }) => port),
    sentinel: (redis.sentinels[0] as RedisServer).port,
    nats: nats.port,
  };
  const common = {
    ...settings,
    REDIS_MASTER: redis.masterName,
    STORE_DURABILITY: durability,
    DATA_DIRECTORY: folder,
    DISPATCH_CHECK_URL: `${outsideUrl}/check`,
  };
  const launch = (kind: ProductKind, number: number) =>
    startProduct(kind, number, { command: product.command, ports, common, undo });
  const first = await launch("gateway", 1);
  const others = await Promise.all([
    ...numbers(2, options.gateways).map((number) => launch("gateway", number)),
    ...numbers(1, options.engines).map((number) => launch("engine", number)),
    ...numbers(1, options.schedulers).map((number) => launch("scheduler", number)),
  ]);
  const processes = [first, ...others];
  const urls = processes
    .filter(({ member }) => member.kind === "gateway")
    .map(({ member }) => wordsOf<{ url: string }>(member.firstWords).url);
  const { platform } = wordsOf<{ keys: { platform: string } }>(first.member.firstWords).keys;
  const tenants = await createTenants({ urls, platform, workTenants: options.workTenants });
  const workers = await startWorkers(options, { urls, ports, tenants, folder, undo });
  const report = () =>
    [...processes.map(({ member }) => member), ...workers].map((each) => each.output()).join("\n");
  return { urls, processes, workers, redis, redisServers, nats, tenants, outsideUrl, folder, report };
}

type ProductKind = Exclude<MemberKind, "worker">;

const readyLine = /^\{"(url|ready)".*\}$/m;

function wordsOf<Words>(line: string): Words {
  return JSON.parse(line) as Words;
}

function numbers(first: number, last: number): readonly number[] {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index);
}

function startOutside(options: OutsideOptions): Child {
  const file = join(import.meta.dirname, "outside-program.ts");
  return startChild({ name: "outside", args: [file, JSON.stringify(options)] });
}

type Around = {
  readonly command: string;
  readonly ports: Ports;
  readonly common: Readonly<Record<string, string>>;
  readonly undo: Array<() => Promise<unknown>>;
};

async function startProduct(kind: ProductKind, number: number, around: Around): Promise<LinkedMember> {
  const links = await openLinks(around.ports);
  around.undo.push(() => links.close());
  const port = String(await freePort());
  const member = await startMember({
    name: `${kind}-${number}`,
    kind,
    ready: readyLine,
    settings: {
      ...around.common,
      REDIS_URLS: links.sentinel.url,
      NATS_URLS: `nats://127.0.0.1:${links.nats.port}`,
    },
    // It comes back where its clients know it.
    argsFor: () => [around.command, "serve", "--roles", kind, "--port", port],
  });
  around.undo.push(() => member.stop());
  return { member, links };
}

type Workplace = {
  readonly urls: readonly string[];
  readonly ports: Ports;
  readonly tenants: Tenants;
  readonly folder: string;
  readonly undo: Array<() => Promise<unknown>>;
};

/** Every other one speaks NATS instead of HTTP. */
async function startWorkers(options: SystemOptions, { urls, ports, tenants, folder, undo }: Workplace) {
  const program = join(import.meta.dirname, "worker-program.ts");
  const start = async (number: number) => {
    const name = `worker-${number}`;
    const bus = number % 2 === 0 ? { bus: `nats://127.0.0.1:${ports.nats}` } : {};
    const member = await startMember({
      name,
      kind: "worker",
      ready: readyLine,
      argsFor: (life) => {
        const given: WorkerProgramOptions = {
          ...{ name, start: life, seed: options.seed, urls, topic: workTopic, ...bus },
          tenants: [...tenants.work, tenants.queued].map(({ id, worker }) => ({ id, worker })),
          file: join(folder, `${name}.jsonl`),
        };
        return [program, JSON.stringify(given)];
      },
    });
    undo.push(() => member.stop());
    return member;
  };
  return Promise.all(numbers(1, options.workers).map(start));
}
