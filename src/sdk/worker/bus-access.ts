// How a worker gets into the NATS servers: their addresses, the login, and what a failed try says about the next one.
import { readFileSync } from "node:fs";
import { createConnection } from "node:net";
import type { MsgHdrs, NatsConnection, NodeConnectionOptions } from "@nats-io/transport-node";
import { InterlockConnectionError } from "../client-errors.ts";
import type { Runtime } from "../runtime.ts";

export type BusOptions = {
  /** `nats://` or `tls://`, with `user:password@` or `token@` if the servers ask for it; several as a list or with commas. */
  readonly servers: string | readonly string[];
  /** The control plane's `store.prefix`: `interlock` by default. */
  readonly prefix?: string | undefined;
  /** Where no address names a user. */
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  /** A `.creds` file of a decentralised account. */
  readonly credentialsFile?: string | undefined;
  readonly tls?: TlsFiles | undefined;
};

type TlsFiles = {
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
};

export type BusAccess = {
  readonly prefix: string;
  readonly servers: readonly URL[];
  /** The servers as messages name them: without passwords. */
  readonly shown: string;
  readonly login: Pick<NodeConnectionOptions, "user" | "pass" | "token" | "tls">;
  readonly credentialsFile: string | undefined;
};

export function readAccess(given: string | BusOptions): BusAccess {
  const options = typeof given === "string" ? { servers: given } : given;
  const { prefix = "interlock", credentialsFile } = options;
  if (!/^[A-Za-z0-9_-]{1,32}$/.test(prefix))
    throw new TypeError(`bus.prefix is INTERLOCK_PREFIX of the server, not ${JSON.stringify(prefix)}`);
  const servers = [options.servers].flat().flatMap((text) => text.split(",").map(readAddress));
  if (servers.length === 0) throw new TypeError("bus.servers names no server");
  const shown = servers.map(({ protocol, host }) => `${protocol}//${host}`).join(",");
  return { prefix, servers, shown, login: loginOf(options, servers), credentialsFile };
}

function readAddress(text: string): URL {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : undefined;
  if (url?.host && /^(nats|tls):$/.test(url.protocol)) return url;
  // It may hold a password.
  const shown = JSON.stringify(text.replace(/\/\/.*@/, "//"));
  throw new TypeError(`a server of the bus must be a nats:// or tls:// address, not ${shown}`);
}

/** The client of NATS does not read user and password out of an address: without this they would be ignored. */
function loginOf(options: BusOptions, servers: readonly URL[]): BusAccess["login"] {
  const named = servers.find(({ username }) => username !== "");
  const user = named === undefined ? (options.user ?? "") : decodeURIComponent(named.username);
  const pass = named === undefined ? (options.password ?? "") : decodeURIComponent(named.password);
  const files = Object.entries(options.tls ?? {}).filter(([, file]) => file !== undefined);
  const isEncrypted = options.tls !== undefined || servers.some(({ protocol }) => protocol === "tls:");
  return {
    ...(user === "" ? {} : pass === "" ? { token: user } : { user, pass }),
    ...(isEncrypted ? { tls: Object.fromEntries(files) } : {}),
  };
}

export type Opened = { readonly connection: NatsConnection; headers(): MsgHdrs };

const connectWithinMs = 5_000;
/** A server that hangs is noticed after three of these. */
const pingEveryMs = 3_000;
const reconnectMs = { first: 100, most: 2_000 };

/** Rejects with `InterlockConnectionError` when it may be tried again, with another error when that cannot help. */
export async function connectTo(
  runtime: Runtime,
  access: BusAccess,
  client: { readonly name: string; readonly inboxPrefix: string; reconnects(): number },
): Promise<Opened> {
  const silence = await silenceOf(runtime, access.servers);
  if (silence !== undefined) throw unreached(access, silence);
  // Only workers over the bus load it.
  const { connect, credsAuthenticator, headers } = await import("@nats-io/transport-node");
  const { credentialsFile } = access;
  try {
    const connection = await connect({
      ...access.login,
      ...(credentialsFile === undefined
        ? {}
        : { authenticator: credsAuthenticator(readFileSync(credentialsFile)) }),
      servers: access.servers.map(({ host }) => host),
      name: `interlock worker ${client.name}`,
      inboxPrefix: client.inboxPrefix,
      timeout: connectWithinMs,
      pingInterval: pingEveryMs,
      maxPingOut: 2,
      maxReconnectAttempts: -1,
      ignoreAuthErrorAbort: true,
      reconnectDelayHandler: () => {
        const ceilingMs = Math.min(
          reconnectMs.most,
          reconnectMs.first * 2 ** Math.min(client.reconnects(), 10),
        );
        return Math.round(ceilingMs * (0.5 + 0.5 * runtime.fraction()));
      },
    });
    if (connection.info?.headers === true) return { connection, headers };
    await connection.close();
    throw new Error("the NATS server has headers turned off");
  } catch (error) {
    throw failureOf(access, error);
  }
}

const advice = "Is NATS running, and is the address in `bus` right?";

export function unreached({ shown }: BusAccess, what: string, cause?: unknown): InterlockConnectionError {
  return new InterlockConnectionError({ asked: "NATS", url: shown, reason: "refused", what, advice, cause });
}

/** What stays the same however often it is tried: a login, a permission, a certificate, a file, a server without headers. */
const lasting =
  /authorization|authentication(?! timeout)|credential|permission|doesn't exist|ENOENT|EACCES|support 'tls'|headers turned off|ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO/i;

export function failureOf(access: BusAccess, error: unknown): Error {
  const text = error instanceof Error ? error.message : String(error);
  const codes = [error, (error as Error | undefined)?.cause].map(
    (each) => (each as { readonly code?: unknown } | undefined)?.code ?? "",
  );
  if (!lasting.test(`${text} ${codes.join(" ")}`))
    return unreached(access, `the connection failed, ${text}`, error);
  const what = "check the user, the password, the permissions and the files that `bus` names";
  return new Error(`NATS (${access.shown}): ${text}: ${what}`, { cause: error });
}

const defaultPort = 4222;

/**
 * Why no server can be talked to; undefined when one says hello. The client of NATS keeps a connection for ever whose server
 * accepts it and says nothing: the process could not end any more.
 */
async function silenceOf(runtime: Runtime, servers: readonly URL[]): Promise<string | undefined> {
  const all = await Promise.all(servers.map((server) => greetingOf(runtime, server)));
  return all.includes(undefined) ? undefined : all[0];
}

function greetingOf(runtime: Runtime, { hostname, port }: URL): Promise<string | undefined> {
  return new Promise((resolve) => {
    const host = hostname.replaceAll(/[[\]]/g, "");
    const socket = createConnection({ host, port: Number(port || defaultPort) });
    const settle = (silence: string | undefined) => {
      cancel();
      socket.destroy();
      resolve(silence);
    };
    const cancel = runtime.timer(connectWithinMs, () =>
      settle(`no greeting within ${connectWithinMs} ms: it hangs, or expects TLS at once`),
    );
    socket.once("data", () => settle(undefined));
    socket.once("error", (error) => settle(`the server cannot be reached, ${error.message}`));
    socket.once("close", () => settle("the connection was closed without a greeting"));
  });
}
