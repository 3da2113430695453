// Which server holds a partition, and what a server says of itself. Sentinels and a Cluster have files of their own.
import type { Partition } from "../../domain/tenant.ts";
import type { Connection, Delivery } from "./connection.ts";
import { openingError } from "./connection-trouble.ts";

export type Topology = {
  connectionFor(partition: Partition): Connection;
  /** The server that a redirection (MOVED or ASK) names; a MOVED is also remembered. */
  follow(partition: Partition, redirection: Redirection): Connection;
  /** Called when a partition's server did not answer or does not write: another one may hold the partition by now. */
  suspect(): void;
  masters(): readonly Connection[];
  close(): Promise<void>;
};

export type Redirection = { readonly kind: "moved" | "ask"; readonly host: string; readonly port: number };

/** `MOVED 3999 127.0.0.1:6381` and `ASK 3999 127.0.0.1:6381`; neither was executed. */
export function parseRedirection(message: string): Redirection | undefined {
  const match = /^(MOVED|ASK) \d+ (.*):(\d+)$/.exec(message);
  if (match === null) return undefined;
  const [, kind, host = "", port] = match;
  return { kind: kind === "MOVED" ? "moved" : "ask", host, port: Number(port) };
}

/** For a message: what came instead of what was hoped for. */
export function describeDelivery(delivery: Delivery): string {
  switch (delivery.kind) {
    case "reply":
      return "an answer that was not expected";
    case "error":
      return delivery.message;
    case "not_sent":
    case "lost":
      return delivery.cause;
  }
}

export function singleServer(connection: Connection): Topology {
  return {
    connectionFor: () => connection,
    follow: () => connection,
    suspect: () => {},
    masters: () => [connection],
    close: () => connection.close(),
  };
}

/** The value of a field; undefined when the server does not tell it. */
export type ServerInfo = (field: string) => string | undefined;

export async function readInfo(
  server: Connection,
  sections: readonly string[],
  withinMs: number,
): Promise<ServerInfo> {
  const delivery = await server.send(["INFO", ...sections], withinMs);
  if (delivery.kind !== "reply") {
    throw openingError(`${server.address.name}: ${describeDelivery(delivery)}`);
  }
  const text = String(delivery.reply);
  return (field) => new RegExp(`^${field}:(.*?)\\r?$`, "m").exec(text)?.[1];
}

export const versionMin = 7;

export function isTooOld(info: ServerInfo): boolean {
  return !(Number.parseInt(info("redis_version") ?? "", 10) >= versionMin);
}

/** The server counts good replicas only while it requires some, so its configuration need not be read. */
export function wantsReplicas(info: ServerInfo): boolean {
  return info("min_slaves_good_slaves") !== undefined;
}

/** What to do where `wantsReplicas` is false. */
export function wantReplicasCommand({ address }: Connection): string {
  const command = `redis-cli -h ${address.host} -p ${address.port} CONFIG SET min-replicas-to-write 1`;
  return `${command} (and write min-replicas-to-write 1 into its configuration file)`;
}
