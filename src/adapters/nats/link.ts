// The connection to the NATS servers: who we are there, whether their version suits us, and whether we are connected just now.
import { readFileSync } from "node:fs";
import { createConnection } from "node:net";
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import {
  connect,
  credsAuthenticator,
  type NatsConnection,
  type NodeConnectionOptions,
  TimeoutError,
} from "@nats-io/transport-node";
import { InterlockError } from "../../errors.ts";
import type { Clock, Log, Metrics, Random } from "../../ports/ports.ts";
import type { BusNames } from "./streams.ts";

/** Where the servers are and how to get in. */
export type NatsAccess = {
  /** `nats://` or `tls://`, with `user:password@` or `token@` if the servers ask for it. */
  readonly urls: readonly string[];
  /** Where no address names a user. */
  readonly user?: string;
  readonly password?: string;
  /** A `.creds` file of a decentralised account. */
  readonly credentialsFile?: string;
  readonly tlsCaFile?: string;
  readonly tlsCertFile?: string;
  readonly tlsKeyFile?: string;
};

type LinkState = "up" | "down";

export type Link = {
  readonly connection: NatsConnection;
  readonly manager: JetStreamManager;
  isUp(): boolean;
  /** Calls back at every change, until the answer is called. */
  watch(changed: (state: LinkState) => void): () => void;
  close(): Promise<void>;
};

export type LinkPorts = {
  readonly clock: Clock;
  readonly log: Log;
  readonly random: Random;
  readonly metrics?: Metrics | undefined;
  readonly instance: string;
};

const connectWithinMs = 5_000;
/** Asking a server for something other than a message: to make a stream, for instance. */
const requestWithinMs = 5_000;
/** A server that hangs is noticed after three of these; until then calls end by their own deadlines. */
const pingEveryMs = 3_000;
const closeWithinMs = 2_000;
const defaultPort = 4222;
const reconnectAfterMs = { first: 100, most: 2_000 };

export async function openLink(access: NatsAccess, names: BusNames, ports: LinkPorts): Promise<Link> {
  const backoff = { attempts: 0 };
  const connection = await connectTo(access, { ...ports, names, backoff });
  try {
    requireVersion(connection, ports.log);
    const manager = await jetstreamManager(connection, { checkAPI: false, timeout: requestWithinMs });
    const link = watchLink(connection, manager, ports);
    link.watch((state) => {
      if (state === "up") backoff.attempts = 0;
    });
    return link;
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/** What an address may be called in messages: without the password. */
export function showAddress(url: string): string {
  const at = url.lastIndexOf("@");
  return at < 0 ? url : `${url.slice(0, url.indexOf("//") + 2)}${url.slice(at + 1)}`;
}

type Connecting = LinkPorts & { readonly names: BusNames; readonly backoff: { attempts: number } };

async function connectTo(access: NatsAccess, connecting: Connecting): Promise<NatsConnection> {
  const { names, backoff, random, instance } = connecting;
  const options: NodeConnectionOptions = {
    ...loginOf(access),
    servers: access.urls.map((url) => new URL(url).host),
    name: `interlock ${instance}`,
    inboxPrefix: names.inboxPrefix,
    // An announcement is for the others. What JetStream delivers comes from the server and is not meant.
    noEcho: true,
    timeout: connectWithinMs,
    pingInterval: pingEveryMs,
    maxPingOut: 2,
    maxReconnectAttempts: -1,
    ignoreAuthErrorAbort: true,
    reconnectDelayHandler: () => {
      backoff.attempts += 1;
      return reconnectDelayMs(backoff.attempts, random);
    },
  };
  try {
    return await connect(options);
  } catch (error) {
    throw await connectingError(access, error);
  }
}

const encryptionCodes = /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO)/;

/** What will be the same however long we wait, and what to do about it. */
const lastingRefusals: readonly (readonly [pattern: RegExp, advice: string])[] = [
  [
    /authorization|authentication|credentials/i,
    "correct bus.natsUser and bus.natsPassword, the user and password in bus.natsUrls, or bus.credentialsFile",
  ],
  [encryptionCodes, "correct bus.tlsCaFile, or address the server by a name that its certificate holds"],
  [/doesn't exist/, "correct the bus.tls* setting that names it"],
  [/does not support 'tls'/, "use nats:// in bus.natsUrls without bus.tls* files, or turn on TLS there"],
];

/** `bus_unsuitable` where waiting cannot help, `bus_unavailable` where it may. */
async function connectingError({ urls }: NatsAccess, error: unknown): Promise<InterlockError> {
  const message = error instanceof Error ? error.message : String(error);
  const code = codeOf(error) ?? codeOf(error instanceof Error ? error.cause : undefined) ?? "";
  const trouble = `${urls.map(showAddress).join(", ")}: ${message}`;
  const refused = lastingRefusals.find(([pattern]) => pattern.test(message) || pattern.test(code));
  if (refused !== undefined)
    return new InterlockError("bus_unsuitable", `${trouble}: ${refused[1]}`, { cause: error });
  // The client keeps such a connection for ever, so that each further try would leave one more behind.
  if (error instanceof TimeoutError && (await acceptsConnections(urls))) {
    const detail = `${trouble}: the connection was accepted, and then nothing came: restart the server, or set bus.tls* if it expects a certificate`;
    return new InterlockError("bus_unsuitable", detail, { cause: error });
  }
  return new InterlockError("bus_unavailable", trouble, { cause: error });
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}

const acceptWithinMs = 1_000;

async function acceptsConnections(urls: readonly string[]): Promise<boolean> {
  const tries = urls.map((url) => {
    const { hostname, port } = new URL(url);
    return new Promise<boolean>((resolve) => {
      const socket = createConnection({
        host: hostname.replaceAll(/[[\]]/g, ""),
        port: Number(port || defaultPort),
        timeout: acceptWithinMs,
      });
      const settle = (accepted: boolean) => {
        socket.destroy();
        resolve(accepted);
      };
      socket.once("connect", () => settle(true));
      socket.once("timeout", () => settle(false));
      socket.once("error", () => settle(false));
    });
  });
  return (await Promise.all(tries)).includes(true);
}

function reconnectDelayMs(attempts: number, random: Random): number {
  const ceilingMs = Math.min(reconnectAfterMs.most, reconnectAfterMs.first * 2 ** Math.min(attempts, 10));
  return Math.round(ceilingMs * (0.5 + 0.5 * random.fraction()));
}

/** The client does not read user and password out of an address: without this they would be ignored. */
function loginOf(
  access: NatsAccess,
): Pick<NodeConnectionOptions, "user" | "pass" | "token" | "tls" | "authenticator"> {
  const urls = access.urls.map((url) => new URL(url));
  const login = urls.find(({ username }) => username !== "");
  const user = login === undefined ? (access.user ?? "") : decodeURIComponent(login.username);
  const pass = login === undefined ? (access.password ?? "") : decodeURIComponent(login.password);
  const { credentialsFile, tlsCaFile, tlsCertFile, tlsKeyFile } = access;
  const files = {
    ...(tlsCaFile === undefined ? {} : { caFile: tlsCaFile }),
    ...(tlsCertFile === undefined ? {} : { certFile: tlsCertFile }),
    ...(tlsKeyFile === undefined ? {} : { keyFile: tlsKeyFile }),
  };
  const isEncrypted = urls.some(({ protocol }) => protocol === "tls:") || Object.keys(files).length > 0;
  return {
    ...(user === "" ? {} : pass === "" ? { token: user } : { user, pass }),
    ...(credentialsFile === undefined
      ? {}
      : { authenticator: credsAuthenticator(readCredentials(credentialsFile)) }),
    ...(isEncrypted ? { tls: files } : {}),
  };
}

function readCredentials(file: string): Uint8Array {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new InterlockError("bus_unsuitable", `the credentials file ${file} cannot be read`, {
      cause: error,
    });
  }
}

function requireVersion({ info }: NatsConnection, log: Log): void {
  const version = info?.version ?? "unknown";
  if (isBelow(version, leastVersion)) {
    throw new InterlockError("bus_unsuitable", `nats-server ${version} is older than ${leastVersion}`);
  }
  if (info?.headers !== true)
    throw new InterlockError("bus_unsuitable", "the NATS server has headers turned off");
  if (isBelow(version, patchedVersion)) {
    log.warn("the NATS server has known weaknesses", { version, fixed_in: patchedVersion });
  }
}

function watchLink(connection: NatsConnection, manager: JetStreamManager, ports: LinkPorts): Link {
  const watchers = new Set<(state: LinkState) => void>();
  let state: LinkState = "up";
  let closing = false;
  let lastError = "";
  let downSinceMs = 0;

  const show = () => ports.metrics?.set("bus_connected", {}, state === "up" ? 1 : 0);
  show();
  const become = (next: LinkState) => {
    if (next === state) return;
    state = next;
    show();
    if (!closing) tell();
    for (const changed of watchers) changed(next);
  };
  const tell = () => {
    const nowMs = ports.clock.monotonicMs();
    if (state === "down") {
      downSinceMs = nowMs;
      ports.log.warn("the connection to the bus is lost", { server: connection.getServer() });
      return;
    }
    lastError = "";
    ports.metrics?.count("bus_reconnects_total", {});
    const afterMs = Math.round(nowMs - downSinceMs);
    ports.log.info("the connection to the bus is back", {
      server: connection.getServer(),
      after_ms: afterMs,
    });
  };
  /** Whatever is refused is asked for again and again: a line for each would bury all others. */
  const tellError = (cause: string) => {
    if (closing || cause === lastError) return;
    lastError = cause;
    ports.log.warn("the NATS server reports an error", { cause });
  };
  const follow = async () => {
    for await (const status of connection.status()) {
      if (status.type === "disconnect" || status.type === "close") become("down");
      else if (status.type === "reconnect") become("up");
      else if (status.type === "error") tellError(status.error.message);
    }
  };
  void follow();

  return {
    connection,
    manager,
    isUp: () => state === "up",
    watch(changed) {
      watchers.add(changed);
      return () => watchers.delete(changed);
    },
    async close() {
      closing = true;
      // What was acknowledged last must reach the server; one that hangs is not waited for.
      if (state === "up") await waitAtMost(ports.clock, closeWithinMs, connection.flush());
      await connection.close();
    },
  };
}

/** Resolves when there is a connection, or when the signal is aborted. */
export function connected(link: Link, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const settle = () => {
      unwatch();
      signal.removeEventListener("abort", settle);
      resolve();
    };
    const unwatch = link.watch((state) => {
      if (state === "up") settle();
    });
    signal.addEventListener("abort", settle);
    if (link.isUp() || signal.aborted) settle();
  });
}

/** Resolves when the promise settles, however it does, or after the time. */
export async function waitAtMost(clock: Clock, ms: number, promise: Promise<unknown>): Promise<void> {
  const settled = new AbortController();
  const ended = promise.then(
    () => settled.abort(),
    () => settled.abort(),
  );
  await Promise.race([ended, clock.sleep(ms, settled.signal)]);
}

/** Pull consumers with heartbeats, named consumers, limits per subject. */
const leastVersion = "2.9.0";
export const patchedVersion = "2.12.7";

export function isBelow(version: string, least: string): boolean {
  const [left, right] = [numbersOf(version), numbersOf(least)];
  const place = left.findIndex((number, index) => number !== right[index]);
  return place >= 0 && (left[place] ?? 0) < (right[place] ?? 0);
}

/** A version that cannot be read counts as 0.0.0: too old. */
function numbersOf(version: string): readonly number[] {
  const found = /^v?(\d+)\.(\d+)\.(\d+)/.exec(version);
  return [1, 2, 3].map((group) => Number(found?.[group] ?? 0));
}
