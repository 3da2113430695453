// Which server holds a partition. With one server it is always the same; Sentinels and a Cluster have files of their own.
import type { Partition } from "../../domain/tenant.ts";
import type { Connection, Delivery } from "./connection.ts";

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
