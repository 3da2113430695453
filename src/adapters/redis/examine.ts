// Examines the servers behind the store for `interlock doctor`: what is as it should be, what is not, and what to do.
import { InterlockError } from "../../errors.ts";
import type { Clock, Finding, Log } from "../../ports/ports.ts";
import { systemRandom } from "../system/system.ts";
import { accessOf, addressesOf, connect, type RedisPlace } from "./connect.ts";
import { Connection, type ConnectionPorts } from "./connection.ts";
import type { Durability } from "./durability.ts";
import { leastRights } from "./least-rights.ts";
import {
  describeDelivery,
  isTooOld,
  readInfo,
  type ServerInfo,
  type Topology,
  versionMin,
  wantReplicasCommand,
  wantsReplicas,
} from "./topology.ts";

export type ExamineOptions = RedisPlace & {
  readonly prefix: string;
  readonly durability: Durability;
  readonly clock: Clock;
};

/** Clocks that differ by more make leases end visibly early or late, and fences depend on them after a failover. */
const clockDifferenceMaxMs = 500;

/** Reads only. Works with the least rights, and says what they do not let it see. */
export async function examineRedis(options: ExamineOptions): Promise<readonly Finding[]> {
  const ports = { clock: options.clock, log: silent, random: systemRandom };
  let topology: Topology;
  try {
    topology = await connect(options, ports);
  } catch (error) {
    if (!(error instanceof InterlockError)) throw error;
    const remedy = "Check store.redisUrls, store.redisMode and the credentials, and that the server runs.";
    return [{ subject: "redis", level: "fail", message: error.detail, remedy }];
  }
  try {
    const learned = await Promise.all(topology.masters().map((server) => learnFacts(server, options.clock)));
    const facts = learned.filter((each) => typeof each !== "string");
    const unreachable = learned.filter((each) => typeof each === "string");
    return [
      ...(options.mode === "sentinel" ? await examineSentinels(options, ports) : []),
      ...unreachable.map(
        (message): Finding => ({
          subject: "redis",
          level: "fail",
          message,
          remedy: "Start the server, or wait for its replica to take its place.",
        }),
      ),
      ...facts.flatMap((each) => examineServer(each, options)),
      ...clocksAmong(facts),
    ];
  } finally {
    await topology.close();
  }
}

/** The master was found, so that one of them answers; the others are needed for the next failover. */
async function examineSentinels(options: ExamineOptions, ports: ConnectionPorts): Promise<Finding[]> {
  const addresses = addressesOf(options, accessOf(options));
  const masterName = options.masterName ?? "mymaster";
  return Promise.all(
    addresses.map(async (address): Promise<Finding> => {
      const subject = `sentinel ${address.name}`;
      const sentinel = new Connection(address, ports);
      await sentinel.untilTried(askSentinelMs);
      const delivery = await sentinel.send(["SENTINEL", "MASTER", masterName], askSentinelMs);
      await sentinel.close();
      if (delivery.kind !== "reply") {
        const remedy = "Start it, or take it out of store.redisUrls.";
        return { subject, level: "warn", message: describeDelivery(delivery), remedy };
      }
      const fields = delivery.reply as Readonly<Record<string, string>>;
      const known = Number(fields["num-other-sentinels"] ?? 0) + 1;
      const message = `knows ${known} Sentinels (quorum ${fields.quorum}) and ${fields["num-slaves"]} replicas`;
      if (known >= 3) return { subject, level: "ok", message };
      const remedy =
        "Run three Sentinels on three machines: with fewer, the loss of one can prevent a failover.";
      return { subject, level: "warn", message, remedy };
    }),
  );
}

const askSentinelMs = 2_000;

const silent: Log = { info: () => {}, warn: () => {}, error: () => {} };

/** What is said of a server, before its name is added. */
type Remark = Omit<Finding, "subject">;

function examineServer(facts: ServerFacts, options: ExamineOptions): Finding[] {
  const remarks = [
    ...aboutVersion(facts),
    ...aboutRole(facts),
    ...aboutMemory(facts),
    ...aboutPersistence(facts),
    ...aboutReplicas(facts, options),
    ...aboutSilentReplicas(facts, options),
    ...aboutClock(facts),
    ...aboutEncryption(facts),
    ...aboutRights(facts, options),
  ];
  return remarks.map((remark) => ({ subject: `redis ${facts.server.address.name}`, ...remark }));
}

function aboutVersion({ info }: ServerFacts): Remark[] {
  const version = info("valkey_version") ?? info("redis_version") ?? "unknown";
  if (isTooOld(info)) {
    const message = `version ${version} does not know script flags`;
    return [{ level: "fail", message, remedy: `Install Redis ${versionMin} or later.` }];
  }
  const flaw = knownFlaw(info);
  if (flaw === undefined) return [{ level: "ok", message: `version ${version}` }];
  const remedy = "Update the server, or make sure that your distribution has repaired its version.";
  return [{ level: "warn", message: `version ${version} may be open to ${flaw}`, remedy }];
}

function aboutRole({ info }: ServerFacts): Remark[] {
  const role = info("role") ?? "unknown";
  if (role === "master") return [{ level: "ok", message: "is a master" }];
  const remedy = "Give the address of the master, or of the Sentinels with store.redisMode sentinel.";
  return [{ level: "fail", message: `is a ${role}: it does not take writes`, remedy }];
}

function aboutMemory({ info }: ServerFacts): Remark[] {
  const policy = info("maxmemory_policy") ?? "unknown";
  if (policy !== "noeviction") {
    const message = `maxmemory-policy is ${policy}: locks and runs would be evicted when memory is short`;
    return [{ level: "fail", message, remedy: "CONFIG SET maxmemory-policy noeviction" }];
  }
  return [{ level: "ok", message: "maxmemory-policy is noeviction" }];
}

function aboutPersistence({ info, appendFsync }: ServerFacts): Remark[] {
  if (info("aof_enabled") !== "1") {
    const message = "appendonly is off: a restart of the server loses what changed since its last snapshot";
    return [{ level: "warn", message, remedy: "CONFIG SET appendonly yes" }];
  }
  if (info("aof_last_write_status") === "err") {
    const message = "the append-only file cannot be written: the server refuses changes";
    return [{ level: "fail", message, remedy: "Free space on the server's disk, and read its log." }];
  }
  if (appendFsync === undefined) {
    return [
      { level: "ok", message: "appendonly is on; this user may not see appendfsync (everysec by default)" },
    ];
  }
  if (appendFsync === "no") {
    const message = "appendfsync is no: a power cut loses what the operating system had not yet written";
    return [{ level: "warn", message, remedy: "CONFIG SET appendfsync everysec" }];
  }
  const lost = appendFsync === "always" ? "nothing" : "up to a second";
  return [
    { level: "ok", message: `appendonly is on, appendfsync ${appendFsync}: a power cut loses ${lost}` },
  ];
}

function aboutReplicas({ info, server }: ServerFacts, { durability, mode }: ExamineOptions): Remark[] {
  const replicas = Number(info("connected_slaves") ?? 0);
  const good = Number(info("min_slaves_good_slaves") ?? 0);
  if (durability === "process") {
    if (mode === "standalone")
      return [{ level: "ok", message: `${replicas} replicas; store.durability is process` }];
    const message = "store.durability is process: a failover loses what its replicas had not copied yet";
    return [{ level: "warn", message, remedy: "Set store.durability to auto or replicated." }];
  }
  if (!wantsReplicas(info)) {
    const message = "min-replicas-to-write is 0, and store.durability replicated needs 1";
    return [{ level: "fail", message, remedy: wantReplicasCommand(server) }];
  }
  if (good === 0) {
    const message = "no replica copies it: it refuses changes until one does (min-replicas-to-write)";
    return [{ level: "fail", message, remedy: "Start a replica." }];
  }
  if (good === 1) {
    const message = "one replica: while it is gone, or after it took over, changes are refused";
    return [{ level: "warn", message, remedy: "Run a second replica." }];
  }
  return [{ level: "ok", message: `${good} replicas copy it, and it wants them` }];
}

/** Replicas acknowledge every second. One that hangs stays connected for a minute, and counts as good for ten seconds. */
const silentAfterSeconds = 3;

function aboutSilentReplicas({ info }: ServerFacts, { durability }: ExamineOptions): Remark[] {
  const replicas = replicasIn(info);
  const silent = replicas.filter(({ lagSeconds }) => lagSeconds >= silentAfterSeconds);
  const isNeeded = durability === "replicated" && silent.length === replicas.length;
  return silent.map(({ name, lagSeconds }) => ({
    level: isNeeded ? "fail" : "warn",
    message: `replica ${name} is connected, but has acknowledged nothing for ${lagSeconds} s: ${
      isNeeded ? "changes are answered as unknown" : "a failover to it would lose changes"
    }`,
    remedy: `Look at the replica ${name}: whether its process runs, its log, its disk and the network to it; or restart it.`,
  }));
}

type Replica = { readonly name: string; readonly lagSeconds: number };

/** As `INFO replication` has them: `slave0:ip=10.0.0.6,port=6379,state=online,offset=4711,lag=0`. */
function replicasIn(info: ServerInfo): readonly Replica[] {
  const replicas: Replica[] = [];
  for (let line = info("slave0"); line !== undefined; line = info(`slave${replicas.length}`)) {
    const fields = new Map(line.split(",").map((field) => field.split("=", 2) as [string, string]));
    const lagSeconds = Number(fields.get("lag") ?? 0);
    replicas.push({ name: `${fields.get("ip")}:${fields.get("port")}`, lagSeconds });
  }
  return replicas;
}

function aboutClock({ aheadMs, uncertaintyMs }: ServerFacts): Remark[] {
  if (!Number.isFinite(uncertaintyMs)) return [{ level: "ok", message: "its clock could not be seen" }];
  const difference = `${Math.abs(Math.round(aheadMs))} ms ${aheadMs < 0 ? "behind" : "ahead of"} ours`;
  if (Math.abs(aheadMs) - uncertaintyMs <= clockDifferenceMaxMs) {
    return [{ level: "ok", message: `its clock is ${difference}` }];
  }
  const message = `its clock is ${difference}; the store's time is its own, but people compare`;
  return [{ level: "warn", message, remedy: "Run an NTP client on both machines." }];
}

function clocksAmong(facts: readonly ServerFacts[]): Finding[] {
  const known = facts.filter(({ uncertaintyMs }) => Number.isFinite(uncertaintyMs));
  if (known.length < 2) return [];
  const ahead = known.map(({ aheadMs }) => aheadMs);
  const differenceMs = Math.round(Math.max(...ahead) - Math.min(...ahead));
  const uncertaintyMs = Math.max(...known.map((each) => each.uncertaintyMs));
  const message = `their clocks differ by ${differenceMs} ms`;
  const subject = "redis servers";
  if (differenceMs - 2 * uncertaintyMs <= clockDifferenceMaxMs) return [{ subject, level: "ok", message }];
  return [{ subject, level: "warn", message, remedy: "Run an NTP client on all of them." }];
}

function aboutEncryption({ server }: ServerFacts): Remark[] {
  const { host, access } = server.address;
  if (access.tls !== undefined) return [{ level: "ok", message: "the connection is encrypted" }];
  if (isLoopback(host)) return [{ level: "ok", message: "not encrypted, on this machine" }];
  const message = "the connection is not encrypted: whoever is on the way reads payloads and the password";
  return [{ level: "warn", message, remedy: "Use rediss:// in store.redisUrls, with store.tlsCaFile." }];
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host.startsWith("127.");
}

function aboutRights({ user, server, appendFsync }: ServerFacts, { prefix }: ExamineOptions): Remark[] {
  if (user === undefined) return [{ level: "ok", message: "its user may not see its own name" }];
  const remedy = leastRights("interlock", prefix, "<password>");
  if (user === "default") {
    const { password } = server.address.access;
    const message = `its user is default${password === undefined ? ", without a password" : ""}: it may do everything`;
    return [{ level: "warn", message, remedy }];
  }
  // Reading the configuration is nothing that we need.
  if (appendFsync !== undefined) {
    return [{ level: "warn", message: `its user ${user} has more rights than it needs`, remedy }];
  }
  return [{ level: "ok", message: `its user is ${user}` }];
}

/** By branch (`major.minor`), the first version without the flaw. */
type FixedIn = Readonly<Record<string, string>>;

/** CVE-2025-49844, -46817 and -46818: a script can make the server run code of its own. */
const redisFixedIn: FixedIn = { "7.2": "7.2.11", "7.4": "7.4.6", "8.0": "8.0.4", "8.2": "8.2.2" };
const valkeyFixedIn: FixedIn = { "7.2": "7.2.11", "8.0": "8.0.6", "8.1": "8.1.4" };
/** CVE-2026-23479. */
const redisEightFixedIn = "8.6.3";

/** What the version is open to, or undefined. A distribution may have repaired an older version under its old number. */
export function knownFlaw(info: ServerInfo): string | undefined {
  const valkey = info("valkey_version");
  const version = valkey ?? info("redis_version") ?? "";
  const branch = version.split(".").slice(0, 2).join(".");
  const fixedIn = (valkey === undefined ? redisFixedIn : valkeyFixedIn)[branch];
  if (fixedIn !== undefined && isBelow(version, fixedIn)) {
    return `CVE-2025-49844 (remote code through Lua), fixed in ${fixedIn}`;
  }
  // The branch got no release of its own any more.
  if (branch === "7.0")
    return "CVE-2025-49844 (remote code through Lua), fixed in 7.2.11 and by distributions";
  if (valkey === undefined && version.startsWith("8.") && isBelow(version, redisEightFixedIn)) {
    return `CVE-2026-23479 (Lua), fixed in ${redisEightFixedIn}`;
  }
  return undefined;
}

function isBelow(version: string, other: string): boolean {
  const [ours, theirs] = [version, other].map((text) =>
    text.split(".").map((part) => Number.parseInt(part, 10) || 0),
  );
  for (let index = 0; index < 3; index += 1) {
    const difference = (ours?.[index] ?? 0) - (theirs?.[index] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}

export type ServerFacts = {
  readonly server: Connection;
  readonly info: ServerInfo;
  /** `ACL WHOAMI`; undefined when the user may not even ask that. */
  readonly user: string | undefined;
  /** Undefined when the user may not read the configuration, as the one with the least rights may not. */
  readonly appendFsync: string | undefined;
  /** How far the server's clock is ahead of ours, and how far that can be wrong. */
  readonly aheadMs: number;
  readonly uncertaintyMs: number;
};

const askMs = 2_000;

/** Text is trouble. */
export async function learnFacts(server: Connection, clock: Clock): Promise<ServerFacts | string> {
  await server.untilTried(askMs);
  let info: ServerInfo;
  try {
    info = await readInfo(server, ["server", "memory", "persistence", "replication"], askMs);
  } catch (error) {
    if (error instanceof InterlockError) return error.detail;
    throw error;
  }
  const [user, appendFsync, time] = [
    await whoAmI(server),
    await readAppendFsync(server),
    await readTime(server, clock),
  ];
  return { server, info, user, appendFsync, ...time };
}

async function whoAmI(server: Connection): Promise<string | undefined> {
  const delivery = await server.send(["ACL", "WHOAMI"], askMs);
  return delivery.kind === "reply" ? String(delivery.reply) : undefined;
}

async function readAppendFsync(server: Connection): Promise<string | undefined> {
  const delivery = await server.send(["CONFIG", "GET", "appendfsync"], askMs);
  if (delivery.kind !== "reply") return undefined;
  return (delivery.reply as Readonly<Record<string, string>>).appendfsync;
}

/** The answer was true at some moment between asking and hearing it. */
async function readTime(server: Connection, clock: Clock) {
  const askedMs = clock.wallMs();
  const startMs = clock.monotonicMs();
  const delivery = await server.send(["TIME"], askMs);
  const tookMs = clock.monotonicMs() - startMs;
  if (delivery.kind !== "reply") return { aheadMs: 0, uncertaintyMs: Number.POSITIVE_INFINITY };
  const [seconds, microseconds] = delivery.reply as readonly [string, string];
  const serverMs = Number(seconds) * 1_000 + Number(microseconds) / 1_000;
  return { aheadMs: serverMs - (askedMs + tookMs / 2), uncertaintyMs: tookMs / 2 };
}
