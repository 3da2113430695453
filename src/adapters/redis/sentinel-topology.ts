// The one server that is the master now, as Sentinels name it: asked again every second, and at once when it is in doubt.
import { InterlockError } from "../../errors.ts";
import type { CancelTimer } from "../../ports/ports.ts";
import { Connection, type ConnectionPorts, type Delivery } from "./connection.ts";
import { openingError } from "./connection-trouble.ts";
import { type ServerAccess, type ServerAddress, serverAddress } from "./server-address.ts";
import { describeDelivery, type Topology } from "./topology.ts";

/** How long Sentinels and a new master may take to answer. */
const lookUpMs = 1_000;
/**
 * A master that was cut off from its Sentinels answers as before, so that no trouble tells us of its successor: we ask
 * anyway. A subscription to +switch-master would tell sooner, but one that broke without a sign never would.
 */
const lookUpEveryMs = 1_000;
/** Trouble makes us ask at once, but not with every failed call. */
const lookUpAtMostEveryMs = 100;

type SentinelOptions = {
  readonly sentinels: readonly ServerAddress[];
  /** What the Sentinels call the master. */
  readonly masterName: string;
  /** For the servers that the Sentinels name. */
  readonly access: ServerAccess;
};

/** What a Sentinel says: the epoch grows with every failover, so that the newest answer can be recognised. */
type NamedMaster = { readonly host: string; readonly port: number; readonly epoch: number };

/**
 * The client library brings a Sentinel client; it sends a command again after a failover, also one that was executed
 * (one INCR counted 2). This one only says where the master is; what was sent to the old one is never sent to the new.
 */
export class SentinelTopology implements Topology {
  readonly #options: SentinelOptions;
  readonly #ports: ConnectionPorts;
  readonly #sentinels: readonly Connection[];
  #master: Connection | undefined;
  #epoch = -1;
  #lookingUp = false;
  #lastLookUpMs = Number.NEGATIVE_INFINITY;
  #cancelTimer: CancelTimer = () => {};
  #closed = false;

  constructor(options: SentinelOptions, ports: ConnectionPorts) {
    this.#options = options;
    this.#ports = ports;
    this.#sentinels = options.sentinels.map((address) => new Connection(address, ports));
  }

  connectionFor(): Connection {
    if (this.#master === undefined) throw new InterlockError("internal", "no master has been looked up");
    return this.#master;
  }

  /** Only a Cluster redirects. */
  follow(): Connection {
    return this.connectionFor();
  }

  suspect(): void {
    const nowMs = this.#ports.clock.monotonicMs();
    if (this.#lookingUp || this.#closed || nowMs - this.#lastLookUpMs < lookUpAtMostEveryMs) return;
    this.#lookingUp = true;
    this.#lastLookUpMs = nowMs;
    this.#cancelTimer();
    void this.#lookUpOnce(lookUpMs).then((trouble) => {
      this.#lookingUp = false;
      if (trouble !== undefined && !this.#closed) this.#ports.log.warn("no new master found", { trouble });
      this.#askLater();
    });
  }

  masters(): readonly Connection[] {
    return [this.connectionFor()];
  }

  /** Finds the first master, and from then on follows it. */
  async lookUp(withinMs: number): Promise<void> {
    await Promise.all(this.#sentinels.map((sentinel) => sentinel.untilTried(withinMs)));
    const trouble = await this.#lookUpOnce(withinMs);
    if (trouble !== undefined) throw openingError(trouble);
    this.#askLater();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelTimer();
    const connections = [...this.#sentinels, ...(this.#master === undefined ? [] : [this.#master])];
    await Promise.all(connections.map((connection) => connection.close()));
  }

  #askLater(): void {
    if (this.#closed) return;
    this.#cancelTimer = this.#ports.clock.timer(lookUpEveryMs, () => this.suspect());
  }

  /** Asks all Sentinels and moves to the master that the newest answer names. Returns why that was not possible. */
  async #lookUpOnce(withinMs: number): Promise<string | undefined> {
    const { masterName } = this.#options;
    const answers = await Promise.all(
      this.#sentinels.map((sentinel) => askFor(sentinel, masterName, withinMs)),
    );
    const troubles = answers.filter((answer) => typeof answer === "string");
    const named = answers.filter((answer) => typeof answer !== "string");
    const [newest] = named.sort((one, other) => other.epoch - one.epoch);
    if (newest === undefined) return troubles.join("; ");
    const isOld = newest.epoch < this.#epoch && this.#master !== undefined;
    // An older answer is that of a Sentinel which missed a failover, or of one that was set up anew and counts from zero.
    if (isOld && (await roleTrouble(this.connectionFor(), withinMs)) === undefined) return undefined;
    return this.#moveTo(newest, withinMs);
  }

  async #moveTo({ host, port, epoch }: NamedMaster, withinMs: number): Promise<string | undefined> {
    const address = serverAddress(host, port, this.#options.access);
    const old = this.#master;
    if (old?.address.name === address.name) {
      this.#epoch = epoch;
      return undefined;
    }
    const candidate = new Connection(address, this.#ports);
    await candidate.untilTried(withinMs);
    const trouble = await roleTrouble(candidate, withinMs);
    if (trouble !== undefined || this.#closed) {
      await candidate.close();
      return trouble;
    }
    this.#master = candidate;
    this.#epoch = epoch;
    if (old !== undefined) {
      this.#ports.log.warn("the master has changed", { from: old.address.name, to: address.name, epoch });
      void old.close();
    }
    return undefined;
  }
}

/** Text is trouble. */
async function askFor(
  sentinel: Connection,
  masterName: string,
  withinMs: number,
): Promise<NamedMaster | string> {
  const delivery = await sentinel.send(["SENTINEL", "MASTER", masterName], withinMs);
  const name = `sentinel ${sentinel.address.name}`;
  if (delivery.kind !== "reply") return `${name}: ${sentinelTrouble(delivery)}`;
  const fields = delivery.reply as Readonly<Record<string, string>>;
  const { ip: host, port, "config-epoch": epoch } = fields;
  if (host === undefined || port === undefined) return `${name} does not say where ${masterName} is`;
  return { host, port: Number(port), epoch: Number(epoch ?? 0) };
}

function sentinelTrouble(delivery: Delivery): string {
  const trouble = describeDelivery(delivery);
  if (/no such master/i.test(trouble))
    return `${trouble}: set store.redisMaster to the name they have for it`;
  if (/unknown command/i.test(trouble))
    return "it is no Sentinel: store.redisMode sentinel needs their addresses";
  return trouble;
}

/** Sentinels may still name a server that has stopped being the master, or one that is not yet. */
async function roleTrouble(server: Connection, withinMs: number): Promise<string | undefined> {
  const delivery = await server.send(["ROLE"], withinMs);
  const name = server.address.name;
  if (delivery.kind !== "reply") return `${name}: ${describeDelivery(delivery)}`;
  const [role] = delivery.reply as readonly string[];
  return role === "master"
    ? undefined
    : `${name} is named as the master, but says that it is a ${String(role)}`;
}
