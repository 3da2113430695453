// The connections of the HTTP server: which are open, which of too many are closed first, what is broken on them, how they end.
import { type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Config } from "../config.ts";
import { type AddressRanges, networkOf } from "../domain/network-address.ts";
import type { CancelTimer, Clock, Ports } from "../ports/ports.ts";

export type Connections = {
  /** Sockets that requests come on. */
  readonly sockets: ReadonlySet<Socket>;
  /** To be called when a request's head has been read. */
  requestBegan(socket: Socket): void;
  /** It took one of the last places, which are for health checks and for keys that worked lately. */
  isReserved(socket: Socket): boolean;
  /** Counts a request that was refused on such a connection. */
  noteRefused(network: string): void;
  /** Closes all, also those that have not finished their TLS handshake. */
  cut(): void;
};

type Connection = {
  /** With TLS another one as soon as the handshake is done. */
  socket: Socket;
  readonly network: string;
  readonly isProxy: boolean;
  readonly isReserved: boolean;
  /** When it was opened, or when its last request began. */
  activeAtMs: number;
  /** Ends a reserved connection that asks nothing. */
  cancelDeadline: CancelTimer | undefined;
};

type ConnectionLimits = {
  readonly max: number;
  readonly perAddressMax: number;
  /** With more open connections than this only the reserve is left. */
  readonly unreservedMax: number;
  /** How long a connection of the reserve may take to send its first head. */
  readonly reservedHeadMs: number;
};

export function connectionLimits(config: Config): ConnectionLimits {
  const max = config["gateway.connectionsMax"];
  const reserve = Math.ceil((max * config["gateway.connectionsReservedPercent"]) / 100);
  // By default a tenth, but enough for a busy machine, and never so many that one address could fill the process.
  const byDefault = Math.min(Math.max(256, Math.floor(max / 10)), Math.floor(max / 2));
  return {
    max,
    perAddressMax: config["gateway.connectionsPerAddressMax"] || byDefault,
    unreservedMax: max - reserve,
    reservedHeadMs: Math.min(reservedHeadMsMax, config["gateway.headersTimeoutMs"]),
  };
}

/** From here on idle connections are closed early. */
const crowdedFraction = 0.8;
/** How many of all are closed in one go, so that not every new connection needs a look at all of them. */
const closedFraction = 0.05;
/** The next request of a connection that has just been used may be on its way. */
const idleMs: Readonly<Record<Pressure, number>> = { crowded: 1_000, scarce: 250 };
const lookEveryMs = 100;
const reservedHeadMsMax = 2_000;
const warnEveryMs = 60_000;

/** `crowded`: idle ones are closed early. `scarce`: only the reserve is left. */
type Pressure = "crowded" | "scarce";
type EndReason = "address" | "full" | "reserve" | "idle";

/** Everything that is known of the open connections. */
type Register = Pick<Ports, "clock" | "log" | "metrics"> & {
  readonly limits: ConnectionLimits;
  readonly trusted: AddressRanges;
  readonly open: Set<Connection>;
  readonly sockets: Set<Socket>;
  readonly counts: Map<string, number>;
  readonly bySocket: WeakMap<Socket, Connection>;
  /** By address and port: the socket that is there after a TLS handshake is another one. */
  readonly byPeer: Map<string, Connection>;
  readonly warnedAtMs: Map<EndReason, number>;
  /** Looks that found too little: another one finds no more before this time, unless for somebody who has fewer connections. */
  readonly fruitless: Record<Pressure, { untilMs: number; ownCount: number }>;
};

export function watchConnections(
  { clock, log, metrics }: Pick<Ports, "clock" | "log" | "metrics">,
  server: Server,
  { limits, trusted }: { readonly limits: ConnectionLimits; readonly trusted: AddressRanges },
): Connections {
  const register: Register = {
    ...{ clock, log, metrics, limits, trusted },
    open: new Set(),
    sockets: new Set(),
    counts: new Map(),
    bySocket: new WeakMap(),
    byPeer: new Map(),
    warnedAtMs: new Map(),
    fruitless: { crowded: { untilMs: 0, ownCount: 0 }, scarce: { untilMs: 0, ownCount: 0 } },
  };
  server.on("connection", (socket) => takeOrRefuse(register, socket));
  server.on("secureConnection", (socket: Socket) => {
    const connection = register.byPeer.get(peerOf(socket));
    if (connection === undefined) socket.destroy();
    else useSocket(register, connection, socket);
  });
  return {
    sockets: register.sockets,
    requestBegan(socket) {
      const connection = register.bySocket.get(socket);
      if (connection === undefined) return;
      connection.activeAtMs = clock.monotonicMs();
      connection.cancelDeadline?.();
    },
    isReserved: (socket) =>
      register.bySocket.get(socket)?.isReserved === true && register.open.size > limits.unreservedMax,
    noteRefused: (network) => note(register, "reserve", network),
    cut() {
      for (const { socket } of register.open) socket.destroy();
    },
  };
}

function takeOrRefuse(register: Register, socket: Socket): void {
  const { clock, limits, trusted, open, counts } = register;
  const address = socket.remoteAddress ?? "";
  const network = networkOf(address);
  const isProxy = trusted.includes(address);
  const reason = reasonToRefuse(register, { network, isProxy });
  if (reason !== undefined) {
    note(register, reason, network);
    socket.destroy();
    return;
  }
  const isReserved = open.size >= limits.unreservedMax;
  const connection: Connection = {
    ...{ socket, network, isProxy, isReserved },
    activeAtMs: clock.monotonicMs(),
    cancelDeadline: isReserved
      ? clock.timer(limits.reservedHeadMs, () => end(register, connection, "reserve"))
      : undefined,
  };
  open.add(connection);
  counts.set(network, countOf(register, network) + 1);
  const peer = peerOf(socket);
  register.byPeer.set(peer, connection);
  socket.once("close", () => {
    register.byPeer.delete(peer);
    forget(register, connection);
  });
  useSocket(register, connection, socket);
  register.metrics.set("connections", {}, open.size);
}

function reasonToRefuse(
  register: Register,
  { network, isProxy }: Pick<Connection, "network" | "isProxy">,
): EndReason | undefined {
  const { limits, open } = register;
  if (!isProxy && countOf(register, network) >= limits.perAddressMax) return "address";
  if (open.size >= Math.min(limits.max * crowdedFraction, limits.unreservedMax)) makeRoom(register, network);
  return open.size >= limits.max ? "full" : undefined;
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

function useSocket({ sockets, bySocket }: Register, connection: Connection, socket: Socket): void {
  sockets.delete(connection.socket);
  connection.socket = socket;
  bySocket.set(socket, connection);
  sockets.add(socket);
  socket.once("close", () => sockets.delete(socket));
}

function countOf({ counts }: Register, network: string): number {
  return counts.get(network) ?? 0;
}

/** Closes idle connections, those of the addresses with most of them first, those of trusted proxies last. */
function makeRoom(register: Register, newcomer: string): void {
  const { clock, limits, open } = register;
  const nowMs = clock.monotonicMs();
  const pressure = open.size >= limits.unreservedMax ? "scarce" : "crowded";
  const ownCount = countOf(register, newcomer) + 1;
  const fruitless = register.fruitless[pressure];
  if (nowMs < fruitless.untilMs && ownCount >= fruitless.ownCount) return;
  // Nobody who has more than the newcomer keeps it out.
  const mayClose = ({ socket, network, activeAtMs }: Connection) =>
    isBetweenRequests(socket) &&
    (nowMs - activeAtMs >= idleMs[pressure] ||
      (pressure === "scarce" && countOf(register, network) > ownCount));
  const idle = [...open]
    .filter(mayClose)
    .sort(
      (left, right) =>
        Number(left.isProxy) - Number(right.isProxy) ||
        countOf(register, right.network) - countOf(register, left.network) ||
        left.activeAtMs - right.activeAtMs,
    );
  const closedMax = Math.ceil(limits.max * closedFraction);
  for (const connection of idle.slice(0, closedMax)) end(register, connection, "idle");
  if (idle.length < closedMax) register.fruitless[pressure] = { untilMs: nowMs + lookEveryMs, ownCount };
}

function end(register: Register, connection: Connection, reason: EndReason): void {
  note(register, reason, connection.network);
  forget(register, connection);
  connection.socket.destroy();
}

function forget(register: Register, connection: Connection): void {
  const { open, counts, metrics } = register;
  if (!open.delete(connection)) return;
  connection.cancelDeadline?.();
  const left = countOf(register, connection.network) - 1;
  if (left > 0) counts.set(connection.network, left);
  else counts.delete(connection.network);
  metrics.set("connections", {}, open.size);
}

function note(
  { clock, log, metrics, limits, open, warnedAtMs }: Register,
  reason: EndReason,
  network: string,
) {
  metrics.count("connections_ended_total", { reason });
  const nowMs = clock.monotonicMs();
  if (nowMs - (warnedAtMs.get(reason) ?? Number.NEGATIVE_INFINITY) < warnEveryMs) return;
  warnedAtMs.set(reason, nowMs);
  log.warn("there are too many connections", { reason, network, open: open.size, max: limits.max });
}

/** By connection, in the order in which they came; those that are answered go when the next one comes. */
const begun = new WeakMap<Socket, ServerResponse[]>();

/** To be called when a request's head has been read. */
export function noteRequest(socket: Socket, response: ServerResponse): void {
  const responses = begun.get(socket);
  if (responses === undefined) {
    begun.set(socket, [response]);
    return;
  }
  if (responses.every(isAnswered)) responses.length = 0;
  responses.push(response);
}

/** No request is under way on it: all are answered, or none has come as a whole. */
function isBetweenRequests(socket: Socket): boolean {
  return begun.get(socket)?.every(isAnswered) ?? true;
}

/**
 * A client takes the first answer on its connection for that to its first request. What is broken must not be answered before the
 * requests that came whole before it: a start that was made would look refused.
 */
export function answerBrokenRequest(error: Error & { readonly code?: string }, socket: Socket): void {
  // What fails before or in the TLS handshake cannot be answered in HTTP.
  if (error.code === "ECONNRESET" || isTlsFailure(error)) {
    socket.destroy();
    return;
  }
  const whole = begun.get(socket)?.findLast((response) => response.req.complete && !isAnswered(response));
  if (whole === undefined) endWith(socket, statusOf(error));
  else whole.once("close", () => endWith(socket, statusOf(error)));
}

function isTlsFailure({ code = "" }: { readonly code?: string }): boolean {
  return code.startsWith("ERR_SSL_") || code.startsWith("ERR_TLS_");
}

function isAnswered(response: ServerResponse): boolean {
  return response.writableFinished || response.destroyed;
}

const statuses: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
};

function statusOf({ code = "" }: { readonly code?: string }): number {
  return statuses[code] ?? 400;
}

function endWith(socket: Socket, status: number): void {
  if (socket.destroyed || !socket.writable) socket.destroy();
  else
    socket.end(
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
    );
}

type Ending = {
  readonly connections: ReadonlySet<Socket>;
  readonly lingerMs: number;
  readonly drainMs: number;
  /** Resolves when no request is under way. */
  idle(): Promise<void>;
  /** Takes no more connections and closes the idle ones; resolves when all are closed. */
  close(): Promise<unknown>;
  /** Closes all that are left. */
  cut(): void;
};

/** How long the last replies may take to reach their sockets, and the first request of a new connection to reach us. */
const flushMs = 250;

export async function endConnections(clock: Clock, ending: Ending): Promise<void> {
  const { connections, lingerMs, drainMs } = ending;
  const endMs = clock.monotonicMs() + drainMs;
  const leftMs = () => Math.max(0, endMs - clock.monotonicMs());
  // A client learns from its next answer that the connection will be closed. Closed at once, it would break requests that are on
  // their way: five when two gateways were restarted under load, none since.
  await until(clock, Math.min(lingerMs, drainMs), () => connections.size === 0);
  const closed = ending.close();
  await within(clock, leftMs(), ending.idle());
  await until(clock, leftMs(), () => ![...connections].some(isBeingRead));
  // Those that never sent anything do not count as idle: nobody else would end them, and a request may be on its way.
  await within(clock, flushMs, closed);
  ending.cut();
  await closed;
}

/** With nothing under way and nothing to send, an open connection is one whose client has sent a part of a head. */
function isBeingRead({ bytesRead, writableLength }: Socket): boolean {
  return bytesRead > 0 && writableLength === 0;
}

/** Waits for the work, but no longer than this. */
async function within(clock: Clock, limitMs: number, work: Promise<unknown>): Promise<void> {
  const done = new AbortController();
  await Promise.race([work, clock.sleep(limitMs, done.signal)]);
  done.abort();
}

const drainLookEveryMs = 10;

async function until(clock: Clock, limitMs: number, holds: () => boolean): Promise<void> {
  const endMs = clock.monotonicMs() + limitMs;
  while (!holds() && clock.monotonicMs() < endMs) await clock.sleep(drainLookEveryMs);
}
