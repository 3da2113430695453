// Looks at the NATS servers as an operator would: reachable, recent, with JetStream, and the streams as they should be.
import type { JetStreamManager, StreamInfo } from "@nats-io/jetstream";
import { InterlockError } from "../../errors.ts";
import { type BusStream, busStreams } from "../../ports/bus.ts";
import type { Finding, Log } from "../../ports/ports.ts";
import { isBelow, type Link, openLink, patchedVersion, showAddress } from "./link.ts";
import type { NatsBusOptions } from "./nats-bus.ts";
import { differences, namesOf, streamSettings } from "./streams.ts";

export type NatsExamination = Omit<NatsBusOptions, "log" | "metrics"> & {
  /** The largest output that a worker may report. */
  readonly resultBytesMax: number;
};

/** The findings report the result, not the log. */
const silent: Log = { info: () => {}, warn: () => {}, error: () => {} };

export async function examineNats(options: NatsExamination): Promise<readonly Finding[]> {
  const names = namesOf(options.prefix);
  const where = options.urls.map(showAddress).join(", ");
  let link: Link;
  try {
    link = await openLink(options, names, { ...options, log: silent });
  } catch (error) {
    return [unreachable(where, error)];
  }
  try {
    return [
      ...serverFindings(link, where),
      ...adviceFindings(link, options),
      ...payloadFindings(link, options),
      ...(await jetStreamFindings(link)),
      ...(await streamFindings(link, options)),
      ...(await otherPrefixFindings(link, options)),
    ];
  } finally {
    await link.close();
  }
}

function unreachable(where: string, error: unknown): Finding {
  const code = error instanceof InterlockError ? error.code : "bus_unavailable";
  const message = error instanceof Error ? error.message : String(error);
  const remedy =
    code === "bus_unavailable"
      ? "Start nats-server with JetStream (nats-server -js), or correct bus.natsUrls and the bus.tls* files."
      : "Install nats-server 2.9 or later, or correct the user; docs/guide/nats.md lists what is needed.";
  return { subject: `nats ${where}`, level: "fail", message, remedy };
}

function serverFindings({ connection }: Link, where: string): readonly Finding[] {
  const subject = `nats ${where}`;
  const version = connection.info?.version ?? "unknown";
  const reached: Finding = {
    subject,
    level: "ok",
    message: `reached ${connection.getServer()}, version ${version}`,
  };
  if (!isBelow(version, patchedVersion)) return [reached];
  const message = `version ${version} has known weaknesses, fixed in ${patchedVersion}`;
  return [
    reached,
    { subject, level: "warn", message, remedy: `Install nats-server ${patchedVersion} or later.` },
  ];
}

function adviceFindings(
  { connection }: Link,
  { urls, signingKeys = [] }: NatsExamination,
): readonly Finding[] {
  const isLocal = urls.every((url) => /^(127\.|localhost$|\[?::1)/.test(new URL(url).hostname));
  const isEncrypted = urls.every((url) => url.startsWith("tls://"));
  const findings: Finding[] = [];
  if (!isEncrypted && !isLocal) {
    findings.push({
      subject: "nats encryption",
      level: "warn",
      message: "messages cross the network unencrypted",
      remedy: "Use tls:// in bus.natsUrls, with bus.tlsCaFile if the authority is your own.",
    });
  }
  if (connection.info?.auth_required !== true && !isLocal) {
    findings.push({
      subject: "nats users",
      level: "warn",
      message: "whoever reaches the server may publish and purge",
      remedy: "Give every role a user with its own permissions: docs/guide/nats.md lists them.",
    });
  }
  if (signingKeys.length === 0) {
    findings.push({
      subject: "nats signatures",
      level: isLocal ? "ok" : "warn",
      message: "messages are not signed",
      ...(isLocal
        ? {}
        : { remedy: "Set bus.signingKeys in every process: forged messages are dropped then." }),
    });
  }
  return findings;
}

/** What stands beside the output in a message: names, a token, headers. */
const besideOutputBytes = 8_192;

function payloadFindings({ connection }: Link, { resultBytesMax }: NatsExamination): readonly Finding[] {
  const bytes = connection.info?.max_payload;
  const needed = resultBytesMax + besideOutputBytes;
  if (bytes === undefined || bytes >= needed) return [];
  const message = `a message holds ${bytes} bytes, and workers may report results of ${resultBytesMax}`;
  const remedy = `Set max_payload of the servers to ${needed} at least, or lower jobs.resultBytesMax.`;
  return [{ subject: "nats max_payload", level: "warn", message, remedy }];
}

async function jetStreamFindings({ connection, manager }: Link): Promise<readonly Finding[]> {
  const subject = "nats jetstream";
  const remedy =
    "Start the server with JetStream (nats-server -js, or a jetstream block in its configuration).";
  if (connection.info?.jetstream !== true)
    return [{ subject, level: "fail", message: "JetStream is off", remedy }];
  try {
    const { limits, memory, storage } = await manager.getAccountInfo();
    const room = [
      roomLeft("memory", memory, limits.max_memory),
      roomLeft("file storage", storage, limits.max_storage),
    ].flat();
    return [{ subject, level: "ok", message: `JetStream is on, ${storage} bytes stored on disk` }, ...room];
  } catch (error) {
    const message = `JetStream does not answer for this account: ${causeOf(error)}`;
    return [
      {
        subject,
        level: "fail",
        message,
        remedy: `${remedy} Enable it for the account and allow $JS.API.INFO.`,
      },
    ];
  }
}

/** Below a fifth of the room an outage of the engines would soon fill it. */
function roomLeft(what: string, used: number, most: number): readonly Finding[] {
  if (most <= 0 || used < 0.8 * most) return [];
  return [
    {
      subject: "nats jetstream",
      level: "warn",
      message: `${used} of ${most} bytes of ${what} are used`,
      remedy: `Raise the account's limit of ${what}.`,
    },
  ];
}

async function streamFindings({ manager }: Link, options: NatsExamination): Promise<readonly Finding[]> {
  const names = namesOf(options.prefix);
  const findings: Finding[] = [];
  for (const stream of busStreams) {
    const found = await infoOf(manager, names.stream(stream));
    findings.push(streamFinding(options, stream, found));
  }
  return findings;
}

/**
 * Processes with another prefix share nothing with these, and see none of them. A user with few rights may not ask for the
 * names of all streams: then nothing is said.
 */
async function otherPrefixFindings(
  { manager }: Link,
  { prefix }: NatsExamination,
): Promise<readonly Finding[]> {
  const ending = namesOf("").stream("hints");
  try {
    const names = await manager.streams.names().next();
    const others = names.filter((name) => name.endsWith(ending)).map((name) => name.slice(0, -ending.length));
    const foreign = others.filter((other) => other !== prefix).sort();
    if (foreign.length === 0) return [];
    const message = `processes with another store.prefix use this server: ${foreign.slice(0, 10).join(", ")}`;
    const remedy = `Leave it if that is another installation; otherwise give every process store.prefix ${prefix}.`;
    return [{ subject: "nats prefixes", level: "warn", message, remedy }];
  } catch {
    return [];
  }
}

async function infoOf(manager: JetStreamManager, name: string): Promise<StreamInfo | string> {
  try {
    return await manager.streams.info(name);
  } catch (error) {
    return causeOf(error);
  }
}

function streamFinding(
  { prefix, replicas = 1 }: NatsExamination,
  stream: BusStream,
  found: StreamInfo | string,
): Finding {
  const expected = streamSettings(namesOf(prefix), stream, replicas);
  const subject = `nats stream ${expected.name}`;
  if (typeof found === "string") {
    const message = `not there: ${found}`;
    return {
      subject,
      level: "warn",
      message,
      remedy: "It is made when a process starts; check its permissions if one runs.",
    };
  }
  const wrong = differences(expected, found.config);
  if (wrong.length > 0) {
    const message = `set up otherwise: ${wrong.join(", ")}`;
    return {
      subject,
      level: "fail",
      message,
      remedy: `Remove it (nats stream rm ${expected.name}): no job is lost by that.`,
    };
  }
  const unusual = differences(expected, found.config, ["num_replicas", "storage", "max_age", "max_msgs"]);
  const state = `${found.state.messages} messages, ${found.state.consumer_count} consumers`;
  if (unusual.length === 0) return { subject, level: "ok", message: state };
  return {
    subject,
    level: "warn",
    message: `${state}; not as Interlock makes it: ${unusual.join(", ")}`,
    remedy: "Leave it if that is on purpose; otherwise remove the stream, and it is made anew.",
  };
}

function causeOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
