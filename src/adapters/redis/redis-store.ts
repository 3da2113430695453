// The store on Redis: every operation is one Lua script, and every call ends in time with an answer or as unknown.
import { InterlockError } from "../../errors.ts";
import type { Clock, Log } from "../../ports/ports.ts";
import {
  type Answer,
  type CallOptions,
  type Execute,
  type OperationName,
  type RequestOf,
  type Store,
  type StoreSettings,
  storeFrom,
} from "../../ports/store.ts";
import { systemRandom } from "../system/system.ts";
import { admissionCalls, tenantCalls } from "./admission-calls.ts";
import { tooLate, trouble } from "./answers.ts";
import { connect, type RedisPlace } from "./connect.ts";
import { type Durability, isPromise } from "./durability.ts";
import { GatheredCalls, isGathered } from "./gather-calls.ts";
import { documentCalls, jobCalls, sweepCalls } from "./job-calls.ts";
import { createKeys, type Keys, type PartitionKeys } from "./keys.ts";
import { lockCalls } from "./lock-calls.ts";
import { checkServers, openPartitions, StoreTimes } from "./opening.ts";
import { queueCalls } from "./queue-calls.ts";
import { inboxCalls, runCalls } from "./run-calls.ts";
import { settingsArgs } from "./run-format.ts";
import {
  type GatheredName,
  type OwnerKeys,
  parseReply,
  type Reply,
  type ScriptCall,
  type ScriptCalls,
} from "./script-call.ts";
import { loadScripts, runScript, type ScriptOverrides, type ScriptRun, type Scripts } from "./scripts.ts";
import type { Topology } from "./topology.ts";
import { type ServersState, watchServers } from "./watch-servers.ts";

export type RedisStoreOptions = RedisPlace & {
  readonly prefix: string;
  readonly durability?: Durability;
  /** How long a replica may take to acknowledge, with durability `replicated`. */
  readonly replicaWaitMs?: number;
  readonly settings: StoreSettings;
  readonly clock: Clock;
  readonly log: Log;
  /** Told at the opening and about once a second what is known of the servers. */
  readonly watch?: (state: ServersState) => void;
  /** Lua sources in place of an operation's own: tests plant bugs with them. */
  readonly scripts?: ScriptOverrides;
};

export async function openRedisStore(options: RedisStoreOptions): Promise<Store> {
  const { clock, log, settings, mode, durability = "process", replicaWaitMs = 500 } = options;
  const scripts = loadScripts(options.scripts);
  const keys = createKeys(options.prefix);
  const times = new StoreTimes(clock);
  const topology = await connect(options, { clock, log, random: systemRandom });
  try {
    await checkServers(topology.masters(), { mode, durability });
    await openPartitions({ topology, clock, keys, times });
  } catch (error) {
    await topology.close();
    throw error;
  }
  const replicas = durability === "replicated" ? { replicaWaitMs } : {};
  const parts = { topology, clock, keys, times, scripts, settings, replicas };
  const tell = options.watch ?? (() => {});
  const stopWatching = watchServers({ topology, needs: { mode, durability }, clock, log, tell });
  return storeFrom(executeWith(parts), () => {
    stopWatching();
    return topology.close();
  });
}

type Parts = {
  readonly topology: Topology;
  readonly clock: Clock;
  readonly keys: Keys;
  readonly times: StoreTimes;
  readonly scripts: Scripts;
  readonly settings: StoreSettings;
  /** What an answer that is a promise waits for. */
  readonly replicas: Pick<ScriptRun, "replicaWaitMs">;
};

const calls: ScriptCalls<AloneName> = {
  ...lockCalls,
  ...tenantCalls,
  ...admissionCalls,
  ...runCalls,
  ...inboxCalls,
  ...jobCalls,
  ...documentCalls,
  ...queueCalls,
  ...sweepCalls,
};

type Attempt = { readonly notAfterMs: number; readonly withinMs: number };

function executeWith(parts: Parts): Execute {
  const gathering = { ...parts, settings: settingsArgs(parts.settings) };
  const gathered: { readonly [Name in GatheredName]: GatheredCalls<Name> } = {
    admit: new GatheredCalls("admit", gathering),
    deliver: new GatheredCalls("deliver", gathering),
    commit: new GatheredCalls("commit", gathering),
  };
  const alone = executeAlone(parts);
  return <Name extends OperationName>(name: Name, request: RequestOf<Name>, options: CallOptions) =>
    isGathered(name)
      ? ((gathered[name] as unknown as GatheredCalls<GatheredName>).ask(
          request as RequestOf<GatheredName>,
          options,
        ) as unknown as Promise<Answer<Name>>)
      : (alone(name, request as RequestOf<AloneName>, options) as unknown as Promise<Answer<Name>>);
}

type AloneName = Exclude<OperationName, GatheredName>;

function executeAlone(parts: Parts) {
  const { clock, times } = parts;
  return async <Name extends AloneName>(name: Name, request: RequestOf<Name>, options: CallOptions) => {
    const ask = prepare(parts, name, request);
    const startMs = clock.monotonicMs();
    const notAfterMs = options.notAfterMs ?? times.nowMs(ask.partition) + options.deadlineMs;
    const answer = await ask.attempt({ notAfterMs, withinMs: options.deadlineMs });
    if (answer.kind !== "too_late") return answer;
    const leftMs = Math.floor(options.deadlineMs - (clock.monotonicMs() - startMs));
    if (options.notAfterMs !== undefined || leftMs <= 0) return tooLate;
    // Our estimate of the store's time was wrong. The refusal carried the right one and had no effect: ask once more.
    const second = await ask.attempt({ notAfterMs: answer.storeTimeMs + leftMs, withinMs: leftMs });
    return second.kind === "too_late" ? tooLate : second;
  };
}

type TooLate = { readonly kind: "too_late"; readonly storeTimeMs: number };

/** Builds the keys and arguments once, for up to two attempts. */
function prepare<Name extends AloneName>(parts: Parts, name: Name, request: RequestOf<Name>) {
  const { topology, clock, times, scripts, settings } = parts;
  const call: ScriptCall<Name> = calls[name];
  const owner = ownerOf(parts.keys, request);
  const { partition } = owner;
  const keys = call.keys(owner as OwnerKeys<Name>, request);
  const args = call.args(request, settings);
  const script = scripts[name];
  const replicas = isPromise(name, request) ? parts.replicas : {};
  return {
    partition,
    async attempt({ notAfterMs, withinMs }: Attempt): Promise<Answer<Name> | TooLate> {
      const operands = [String(keys.length), ...keys, String(notAfterMs), ...args];
      const run = { partition, script, operands, withinMs, ...replicas };
      const delivery = await runScript(topology, clock, run);
      if (delivery.kind !== "reply") return trouble(name, delivery, notAfterMs);
      const reply = delivery.reply as Reply;
      const storeTimeMs = Number(reply[1]);
      times.learn(partition, storeTimeMs);
      if (reply[0] === "too_late") return { kind: "too_late", storeTimeMs };
      return { ...parseReply(call, reply, request), storeTimeMs };
    },
  };
}

function ownerOf(keys: Keys, request: RequestOf<OperationName>): PartitionKeys {
  if ("tenant" in request) return keys.forTenant(request.tenant);
  // A look goes to the server of the first: the caller names those of one server.
  const partition = "partition" in request ? request.partition : request.partitions[0];
  if (partition === undefined) throw new InterlockError("invalid_request", "no partition is named");
  return keys.forPartition(partition);
}
