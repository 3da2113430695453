// The links of one process to its servers, each through a fault proxy of its own, so that one process can be cut off alone.
import { type FaultProxy, startFaultProxy } from "../test/support/fault-proxy.ts";

export type Links = {
  /** One to each Redis server. */
  readonly redis: readonly FaultProxy[];
  readonly sentinel: FaultProxy;
  readonly nats: FaultProxy;
  close(): Promise<void>;
};

export type Ports = {
  readonly redis: readonly number[];
  readonly sentinel: number;
  readonly nats: number;
};

/**
 * A Sentinel hands out the real address of the master. What it says to this process names the proxy's port instead: both have
 * five digits, so that the length of the text, which Redis' protocol tells in front of it, stays right.
 */
export async function openLinks(ports: Ports): Promise<Links> {
  const redis = await Promise.all(ports.redis.map((port) => startFaultProxy(port)));
  const names = ports.redis.map((port, index) => [bulk(port), bulk(redis[index]?.port as number)] as const);
  const sentinel = await startFaultProxy(ports.sentinel, {
    rewriteReply(chunk) {
      const text = chunk.toString("latin1");
      const rewritten = names.reduce((so, [real, proxied]) => so.replaceAll(real, proxied), text);
      return rewritten === text ? chunk : Buffer.from(rewritten, "latin1");
    },
  });
  const nats = await startFaultProxy(ports.nats);
  const all = [...redis, sentinel, nats];
  return {
    redis,
    sentinel,
    nats,
    async close() {
      await Promise.all(all.map((proxy) => proxy.close()));
    },
  };
}

function bulk(port: number): string {
  const digits = String(port);
  if (digits.length !== 5) throw new Error(`the port ${port} has not five digits`);
  return `$5\r\n${digits}\r\n`;
}
