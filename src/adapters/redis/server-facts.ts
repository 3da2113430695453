// What can be learned of one server without changing it, as far as its user may ask.
import { InterlockError } from "../../errors.ts";
import type { Clock } from "../../ports/ports.ts";
import type { Connection } from "./connection.ts";
import { readInfo, type ServerInfo } from "./server-info.ts";

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
