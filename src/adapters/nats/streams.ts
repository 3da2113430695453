// The four streams of the bus on the server and their subjects: how they are set up, made, and made again when they were removed.
import { createHash } from "node:crypto";
import {
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from "@nats-io/jetstream";
import { nanos } from "@nats-io/transport-node";
import { InterlockError } from "../../errors.ts";
import { type BusChannel, type BusStream, keepsLatest } from "../../ports/bus.ts";
import type { Clock, Log } from "../../ports/ports.ts";

export type Streams = {
  /** Makes the stream if it is not there. Callers at the same time share one request. */
  ensure(stream: BusStream): Promise<void>;
};

type StreamSettings = Pick<
  StreamConfig,
  | "name"
  | "subjects"
  | "retention"
  | "storage"
  | "discard"
  | "num_replicas"
  | "max_msgs_per_subject"
  | "max_msgs"
  | "max_age"
  | "duplicate_window"
>;

const minuteMs = 60_000;
const duplicateWindowMs = 2 * minuteMs;

/**
 * Results are on disk: a lost one is a job done again. The others are in memory, since the sweep names every job that waits
 * again, and a disk write per hint would be the slowest part of a commit.
 */
export function streamSettings(names: BusNames, stream: BusStream, replicas: number): StreamSettings {
  const common = {
    name: names.stream(stream),
    subjects: [names.wildcard(stream)],
    num_replicas: replicas,
    duplicate_window: nanos(duplicateWindowMs),
  };
  if (!keepsLatest(stream)) {
    return {
      ...common,
      retention: RetentionPolicy.Workqueue,
      storage: StorageType.File,
      // A full stream refuses, so that the worker notices: a new result must not push out an older one.
      discard: DiscardPolicy.New,
      max_msgs_per_subject: -1,
      max_msgs: -1,
      max_age: nanos(7 * 24 * 60 * minuteMs),
    };
  }
  return {
    ...common,
    // Every process hears every hint, and none is kept for processes that are not there.
    retention: stream === "hints" ? RetentionPolicy.Interest : RetentionPolicy.Workqueue,
    storage: StorageType.Memory,
    discard: DiscardPolicy.Old,
    max_msgs_per_subject: 1,
    max_msgs: 100_000,
    max_age: nanos((stream === "hints" ? 5 : 15) * minuteMs),
  };
}

/** Without these the bus does not do what it promises; others are left as an operator has set them. */
const essentials = ["subjects", "retention", "discard", "max_msgs_per_subject", "duplicate_window"] as const;

/** The settings in which a stream differs from what is expected. */
export function differences(
  expected: StreamSettings,
  found: StreamSettings,
  which: ReadonlyArray<keyof StreamSettings> = essentials,
): readonly string[] {
  return which.filter((name) => JSON.stringify(expected[name]) !== JSON.stringify(found[name]));
}

/**
 * A server of 2.9 forgets a stream that is removed before it has removed its folder. One that is made again meanwhile loses its
 * folder, too, and refuses every message from then on: so it was in 1 of 5 rounds on a busy disk.
 */
const folderRemovedMs = 1_000;

export function createStreams(
  {
    clock,
    manager,
    names,
    log,
  }: {
    readonly clock: Clock;
    readonly manager: JetStreamManager;
    readonly names: BusNames;
    readonly log: Log;
  },
  replicas: number,
): Streams {
  const underWay = new Map<BusStream, Promise<void>>();
  const seen = new Set<BusStream>();

  async function make(stream: BusStream): Promise<void> {
    const expected = streamSettings(names, stream, replicas);
    const found = await find(expected.name);
    const wasRemoved = found === undefined && seen.has(stream);
    seen.add(stream);
    if (wasRemoved && expected.storage === StorageType.File) await clock.sleep(folderRemovedMs);
    if (found === undefined) {
      await manager.streams.add(expected);
      log.info("a stream of the bus was made", { stream: expected.name });
      return;
    }
    const wrong = differences(expected, found);
    if (wrong.length === 0) return;
    const essential = Object.fromEntries(wrong.map((name) => [name, expected[name as keyof StreamSettings]]));
    try {
      await manager.streams.update(expected.name, essential);
      log.warn("a stream of the bus was set up otherwise and has been changed", {
        stream: expected.name,
        settings: wrong.join(", "),
      });
    } catch (error) {
      throw new InterlockError(
        "bus_unsuitable",
        `the stream ${expected.name} is set up otherwise (${wrong.join(", ")}) and cannot be changed: remove it, no job is lost by that`,
        { cause: error },
      );
    }
  }

  async function find(name: string): Promise<StreamSettings | undefined> {
    try {
      return (await manager.streams.info(name)).config;
    } catch (error) {
      if (error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamNotFound)
        return undefined;
      throw error;
    }
  }

  return {
    ensure(stream) {
      const making = underWay.get(stream) ?? make(stream).finally(() => underWay.delete(stream));
      underWay.set(stream, making);
      return making;
    },
  };
}

export type BusNames = {
  readonly inboxPrefix: string;
  stream(stream: BusStream): string;
  /** Every subject of a stream. */
  wildcard(stream: BusStream): string;
  subject(stream: BusStream, subject: string): string;
  /** It was too long to be written out. */
  isShortened(written: string): boolean;
  /** The subject as the port knows it, unless it was too long to be written out. */
  read(stream: BusStream, written: string): string | undefined;
  channel(channel: BusChannel): string;
  /** Every request of every worker: `<tenant>.<request>` below it. */
  readonly requests: string;
  /** Whose request it is and what it asks for, as far as the subject says. */
  readRequest(subject: string): { readonly tenant: string; readonly request: string } | undefined;
  /** What answers to this key begin with. */
  answersTo(keyId: string): string;
};

export function namesOf(prefix: string): BusNames {
  return {
    inboxPrefix: `_INBOX_${prefix}`,
    stream: (stream) => `${prefix}_${stream}`,
    wildcard: (stream) => `${prefix}.${stream}.>`,
    subject: (stream, subject) => `${prefix}.${stream}.${writeSubject(subject)}`,
    isShortened: (written) => written.includes(`.${digestMark}`),
    read: (stream, written) => readSubject(written.slice(`${prefix}.${stream}.`.length)),
    channel: (channel) => `${prefix}.announce.${channel}`,
    requests: `${prefix}.requests.*.*`,
    readRequest(subject) {
      const [tenant, request, ...rest] = subject.slice(`${prefix}.requests.`.length).split(".");
      if (tenant === undefined || request === undefined || rest.length > 0) return undefined;
      return { tenant: readToken(tenant), request };
    },
    answersTo(keyId) {
      const end = keyId.lastIndexOf(".");
      return `${prefix}.answers.${writeToken(keyId.slice(0, end))}.${writeToken(keyId.slice(end + 1))}.`;
    },
  };
}

/** One token: what NATS gives a meaning to, and whatever else is not plain, becomes `=` and two digits a byte. */
export function writeToken(text: string): string {
  if (text === "") return "=";
  if (isPlain(text)) return text;
  return text.replaceAll(/[^A-Za-z0-9_:@-]/gu, (character) =>
    [...Buffer.from(character)]
      .map((byte) => `=${byte.toString(16).toUpperCase().padStart(2, "0")}`)
      .join(""),
  );
}

/** Most tokens are: two of three parts of a subject, for every message. */
function isPlain(text: string): boolean {
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    const isLetter = (code | 32) >= 97 && (code | 32) <= 122;
    // Digits, the colon behind them, the at sign, the underscore and the hyphen.
    if (!isLetter && !(code >= 48 && code <= 58) && code !== 64 && code !== 95 && code !== 45) return false;
  }
  return true;
}

/** A server disconnects a client that sends a line of more than 4,096 bytes; its rest is a reply subject and numbers. */
const charactersMax = 2_048;

/** No token that is written out has it. */
const digestMark = "=-";

/** The parts become tokens. What would be too long keeps its first part, whose it is, and a digest for the others. */
function writeSubject(subject: string): string {
  const [owner = "", ...rest] = subject.split("/").map(writeToken);
  const written = [owner, ...rest].join(".");
  if (written.length <= charactersMax) return written;
  const digest = createHash("sha256").update(subject).digest("base64url");
  return owner.length < charactersMax / 2 ? `${owner}.${digestMark}${digest}` : `${digestMark}${digest}`;
}

function readSubject(written: string): string | undefined {
  const tokens = written.split(".");
  if (tokens.some((token) => token.startsWith(digestMark))) return undefined;
  return tokens.map(readToken).join("/");
}

function readToken(token: string): string {
  if (token === "=") return "";
  return token.replaceAll(/(=[0-9A-F]{2})+/g, (bytes) =>
    Buffer.from(bytes.replaceAll("=", ""), "hex").toString("utf8"),
  );
}
