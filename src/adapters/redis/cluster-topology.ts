// The masters of a Cluster and the partitions they hold, looked up again when a server redirects or does not answer.
import { allPartitions, type Partition, partitionCount, partitionLabel } from "../../domain/tenant.ts";
import { InterlockError } from "../../errors.ts";
import { Connection, type ConnectionPorts, type Delivery } from "./connection.ts";
import { openingError } from "./connection-trouble.ts";
import { type ServerAddress, sameClusterAddress } from "./server-address.ts";
import { describeDelivery, type Redirection, type Topology } from "./topology.ts";

/** How long one server may take to say who holds which slots. */
const lookUpMs = 1_000;
/** Looking up again is a hint's work: not more often than this. */
const lookUpEveryMs = 500;

/**
 * The client library brings a Cluster client; this is our own, over plain connections, because each of them must be
 * reset alone when it hangs, and because a command's fate (never sent, or unknown) must be known at every redirection.
 */
export class ClusterTopology implements Topology {
  readonly #seeds: readonly ServerAddress[];
  readonly #ports: ConnectionPorts;
  /** By the server's name. */
  readonly #connections = new Map<string, Connection>();
  readonly #holders = new Map<Partition, Connection>();
  #lookingUp = false;
  #lastLookUpMs = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(seeds: readonly ServerAddress[], ports: ConnectionPorts) {
    this.#seeds = seeds;
    this.#ports = ports;
  }

  connectionFor(partition: Partition): Connection {
    const connection = this.#holders.get(partition);
    if (connection === undefined)
      throw new InterlockError("internal", `no server holds ${partitionLabel(partition)}`);
    return connection;
  }

  follow(partition: Partition, { kind, host, port }: Redirection): Connection {
    const from = this.connectionFor(partition).address;
    const connection = this.#connectionTo(nodeAddress(from, host, port));
    if (kind === "moved") {
      this.#holders.set(partition, connection);
      this.suspect();
    }
    return connection;
  }

  suspect(): void {
    const nowMs = this.#ports.clock.monotonicMs();
    if (this.#lookingUp || this.#closed || nowMs - this.#lastLookUpMs < lookUpEveryMs) return;
    this.#lastLookUpMs = nowMs;
    this.#lookingUp = true;
    void this.#lookUpAgain().finally(() => {
      this.#lookingUp = false;
    });
  }

  masters(): readonly Connection[] {
    return [...new Set(this.#holders.values())];
  }

  /** Asks the given servers in turn until one of them knows who holds the partitions. */
  async lookUp(withinMs: number): Promise<void> {
    const troubles: string[] = [];
    for (const seed of this.#seeds) {
      const connection = this.#connectionTo(seed);
      await connection.untilTried(withinMs);
      const delivery = await askForSlots(connection, withinMs);
      if (delivery.kind === "reply" && this.#learn(connection.address, delivery.reply as SlotRange[])) return;
      const trouble = delivery.kind === "reply" ? "some slots have no master" : describeDelivery(delivery);
      troubles.push(`${seed.name}: ${trouble}`);
    }
    throw openingError(troubles.join("; "));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#connections.values()].map((connection) => connection.close()));
  }

  /** Servers that are connected know best; when there is none, the addresses given at the start are tried again. */
  async #lookUpAgain(): Promise<void> {
    const connected = [...this.#connections.values()].filter((connection) => connection.isReady);
    const asked = connected.length > 0 ? connected : this.#seeds.map((seed) => this.#connectionTo(seed));
    for (const connection of asked) {
      const delivery = await askForSlots(connection, lookUpMs);
      if (this.#closed) return;
      if (delivery.kind === "reply" && this.#learn(connection.address, delivery.reply as SlotRange[])) return;
    }
  }

  /** True when every partition has a holder afterwards. Servers that hold nothing any more are let go. */
  #learn(asked: ServerAddress, ranges: readonly SlotRange[]): boolean {
    for (const [partition, slot] of partitionSlots) {
      const range = ranges.find(([first, last]) => first <= slot && slot <= last);
      if (range === undefined) continue;
      const [host, port] = range[2];
      this.#holders.set(partition, this.#connectionTo(nodeAddress(asked, host ?? "", port)));
    }
    if (this.#holders.size < partitionCount) return false;
    const holders = new Set(this.#holders.values());
    for (const [name, connection] of this.#connections) {
      if (holders.has(connection)) continue;
      this.#connections.delete(name);
      void connection.close();
    }
    return true;
  }

  #connectionTo(address: ServerAddress): Connection {
    let connection = this.#connections.get(address.name);
    if (connection === undefined) {
      connection = new Connection(address, this.#ports);
      this.#connections.set(address.name, connection);
    }
    return connection;
  }
}

/** As CLUSTER SLOTS gives it: first and last slot, then the master and its replicas. */
type SlotRange = readonly [first: number, last: number, master: readonly [host: string | null, port: number]];

function askForSlots(connection: Connection, withinMs: number): Promise<Delivery> {
  return connection.send(["CLUSTER", "SLOTS"], withinMs);
}

/** A server that does not know its own host leaves it out: then it is the one we asked. */
function nodeAddress(known: ServerAddress, host: string, port: number): ServerAddress {
  return sameClusterAddress(known, host === "" || host === "?" ? undefined : host, port);
}

/** The slot of a key is that of the text in its braces: the CRC-16 (XMODEM) of it. */
function slotOf(tag: string): number {
  let crc = 0;
  for (const byte of new TextEncoder().encode(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc % 16_384;
}

const partitionSlots: ReadonlyMap<Partition, number> = new Map(
  allPartitions.map((partition) => [partition, slotOf(partitionLabel(partition))]),
);
