// The names that a bus has on a NATS server: streams, consumers and subjects, all under one prefix.
import { createHash } from "node:crypto";
import type { BusChannel, BusStream } from "../../ports/bus.ts";

export type BusNames = {
  readonly inboxPrefix: string;
  stream(stream: BusStream): string;
  /** Every subject of a stream. */
  wildcard(stream: BusStream): string;
  subject(stream: BusStream, subject: string): string;
  /** The subject as the port knows it, unless it was too long to be written out. */
  read(stream: BusStream, written: string): string | undefined;
  channel(channel: BusChannel): string;
};

export type BusUser = "control-plane" | "reporter";

/** Reporters have inboxes of their own: nobody who may only report can hear what the server tells the control plane. */
export function namesOf(prefix: string, user: BusUser = "control-plane"): BusNames {
  return {
    inboxPrefix: user === "reporter" ? `_INBOX_${prefix}_reporter` : `_INBOX_${prefix}`,
    stream: (stream) => `${prefix}_${stream}`,
    wildcard: (stream) => `${prefix}.${stream}.>`,
    subject: (stream, subject) => `${prefix}.${stream}.${writeSubject(subject)}`,
    read: (stream, written) => readSubject(written.slice(`${prefix}.${stream}.`.length)),
    channel: (channel) => `${prefix}.announce.${channel}`,
  };
}

/** One token: what NATS gives a meaning to, and whatever else is not plain, becomes `=` and two digits a byte. */
export function writeToken(text: string): string {
  if (text === "") return "=";
  return text.replaceAll(/[^A-Za-z0-9_:@-]/gu, (character) =>
    [...Buffer.from(character)]
      .map((byte) => `=${byte.toString(16).toUpperCase().padStart(2, "0")}`)
      .join(""),
  );
}

/** A server disconnects a client that sends a line of more than 4,096 bytes; its rest is a reply subject and numbers. */
const charactersMax = 2_048;

/** The parts become tokens. What would be too long keeps its first part, whose it is, and a digest for the others. */
function writeSubject(subject: string): string {
  const [owner = "", ...rest] = subject.split("/").map(writeToken);
  const written = [owner, ...rest].join(".");
  if (written.length <= charactersMax) return written;
  const digest = createHash("sha256").update(subject).digest("base64url");
  return owner.length < charactersMax / 2 ? `${owner}.=-${digest}` : `=-${digest}`;
}

function readSubject(written: string): string | undefined {
  const tokens = written.split(".");
  if (tokens.some((token) => token.startsWith("=-"))) return undefined;
  return tokens.map(readToken).join("/");
}

function readToken(token: string): string {
  if (token === "=") return "";
  return token.replaceAll(/(=[0-9A-F]{2})+/g, (bytes) =>
    Buffer.from(bytes.replaceAll("=", ""), "hex").toString("utf8"),
  );
}
