// What a server says of itself in INFO, which also a user with the least rights may ask.
import { InterlockError } from "../../errors.ts";
import type { Connection } from "./connection.ts";
import { describeDelivery } from "./topology.ts";

/** The value of a field; undefined when the server does not tell it. */
export type ServerInfo = (field: string) => string | undefined;

export async function readInfo(
  server: Connection,
  sections: readonly string[],
  withinMs: number,
): Promise<ServerInfo> {
  const delivery = await server.send(["INFO", ...sections], withinMs);
  if (delivery.kind !== "reply") {
    const trouble = `${server.address.name}: ${describeDelivery(delivery)}`;
    throw new InterlockError("store_unavailable", trouble);
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
