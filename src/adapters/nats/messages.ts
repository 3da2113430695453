// How a message of the port looks on the wire: its headers, its signature, and what is believed of one that arrives.
import { createHmac, timingSafeEqual } from "node:crypto";
import { headers, type Msg, type MsgHdrs } from "@nats-io/transport-node";
import type { BusChannel, BusMessage, BusStream } from "../../ports/bus.ts";
import type { Clock, Log, Metrics } from "../../ports/ports.ts";
import type { BusNames } from "./streams.ts";

export type Writing = {
  readonly clock: Clock;
  readonly names: BusNames;
  readonly signer: Signer | undefined;
  readonly refusals: Refusals;
};

export const header = {
  /** The server stores a message with an id once within its window. */
  messageId: "Nats-Msg-Id",
  /** Only where a subject is too long to be a NATS subject. */
  subject: "Interlock-Subject",
  expires: "Interlock-Expires",
  signature: "Interlock-Signature",
  /** Of workers: the version of their protocol, whose key signs, and where the answer to a result goes. */
  protocol: "Interlock-Protocol",
  key: "Interlock-Key",
  answerTo: "Interlock-Answer-To",
} as const;

export const protocolVersion = "1";

/**
 * How long a signed message is believed. A hint that nobody took is published again by the sweep. A result may wait for its
 * run, or for an engine, much longer. An announcement is heard at once or never.
 */
export const believedMs: Record<MessageKind, number> = {
  hints: 600_000,
  notices: 1_200_000,
  checks: 1_200_000,
  results: 7 * 86_400_000,
  announcement: 60_000,
  request: 60_000,
  answer: 60_000,
};

type MessageKind = BusStream | "announcement" | "request" | "answer";

type Outgoing = { readonly subject: string; readonly headers?: MsgHdrs };

export function writeMessage(writing: Writing, stream: BusStream, message: BusMessage): Outgoing {
  const { names } = writing;
  const subject = names.subject(stream, message.subject);
  const fields = new Map<string, string>();
  const id = message.messageId === undefined ? "" : encodeURIComponent(message.messageId);
  if (id !== "") fields.set(header.messageId, id);
  if (names.isShortened(subject)) fields.set(header.subject, encodeURIComponent(message.subject));
  const { sender } = message;
  if (sender !== undefined) fields.set(header.protocol, protocolVersion).set(header.key, sender.keyId);
  const signer = sender === undefined ? writing.signer : createSigner([sender.secretHash]);
  sign({ ...writing, signer }, { subject, id, body: message.body }, { kind: stream, fields });
  return outgoing(subject, fields);
}

export function writeAnnouncement(writing: Writing, channel: BusChannel, body: string): Outgoing {
  const subject = writing.names.channel(channel);
  const fields = new Map<string, string>();
  sign(writing, { subject, id: "", body }, { kind: "announcement", fields });
  return outgoing(subject, fields);
}

type Envelope = { readonly kind: MessageKind; readonly fields: Map<string, string> };

export function sign(
  { signer, clock }: Pick<Writing, "signer" | "clock">,
  message: SignedPart,
  { kind, fields }: Envelope,
): void {
  if (signer === undefined) return;
  const { expiresAtMs, value } = signer.sign(message, Math.round(clock.wallMs()) + believedMs[kind]);
  fields.set(header.expires, String(expiresAtMs)).set(header.signature, value);
}

export function outgoing(subject: string, fields: ReadonlyMap<string, string>): Outgoing {
  if (fields.size === 0) return { subject };
  const written = headers();
  for (const [name, value] of fields) written.set(name, value);
  return { subject, headers: written };
}

type Incoming =
  | { readonly kind: "believed"; readonly subject: string; readonly body: string }
  | { readonly kind: "refused" };

export function readMessage(writing: Writing, stream: BusStream, message: Msg): Incoming {
  const incoming = readAnnouncement(writing, message);
  if (incoming.kind === "refused") return incoming;
  const subject = readSubject(writing, stream, message);
  return subject === undefined ? refuse(writing, "forged", message) : { ...incoming, subject };
}

export function readAnnouncement(writing: Writing, message: Msg): Incoming {
  const refusal = refusalOf(writing, writing.signer, message);
  if (refusal !== undefined) return refuse(writing, refusal, message);
  return { kind: "believed", subject: message.subject, body: message.string() };
}

export function refusalOf({ clock }: Writing, signer: Signer | undefined, message: Msg): Refusal | undefined {
  const id = message.headers?.get(header.messageId) ?? "";
  const signed = { subject: message.subject, id, body: message.string() };
  return signer?.refusal(signed, signatureOf(message), clock.wallMs());
}

export function refuse({ refusals }: Writing, reason: Refusal, { subject }: Msg) {
  refusals.report(reason, subject);
  return { kind: "refused" } as const;
}

/** The subject as the port knows it. The digest in one that is too long proves the one that is written out beside it. */
export function readSubject({ names }: Writing, stream: BusStream, message: Msg): string | undefined {
  const short = names.read(stream, message.subject);
  if (short !== undefined) return short;
  try {
    const subject = decodeURIComponent(message.headers?.get(header.subject) ?? "");
    return names.subject(stream, subject) === message.subject ? subject : undefined;
  } catch {
    return undefined;
  }
}

export function signatureOf({ headers: given }: Msg): Signature | undefined {
  const value = given?.get(header.signature) ?? "";
  const expiresAtMs = Number(given?.get(header.expires) ?? "");
  return value === "" || !Number.isSafeInteger(expiresAtMs) ? undefined : { value, expiresAtMs };
}

/** What a signature binds. The subject is the one on the wire, so that a message cannot be moved to another stream either. */
type SignedPart = { readonly subject: string; readonly id: string; readonly body: string };

type Signature = { readonly expiresAtMs: number; readonly value: string };

type Refusal =
  | ("unsigned" | "forged" | "expired")
  | ("wrong_version" | "unknown_key" | "foreign" | "wrong_address" | "overloaded");

type Signer = {
  sign(message: SignedPart, expiresAtMs: number): Signature;
  /** Why a message is not to be believed; undefined when it is. */
  refusal(message: SignedPart, signature: Signature | undefined, nowMs: number): Refusal | undefined;
};

/** The first key signs and all verify, so that keys can be changed one process at a time. No key, no signatures. */
export function createSigner(keys: readonly string[]): Signer | undefined {
  const [signing] = keys;
  if (signing === undefined) return undefined;
  return {
    sign: (message, expiresAtMs) => ({ expiresAtMs, value: digestOf(signing, message, expiresAtMs) }),
    refusal(message, signature, nowMs) {
      if (signature === undefined) return "unsigned";
      const { expiresAtMs, value } = signature;
      const genuine = keys.some((key) => isSame(digestOf(key, message, expiresAtMs), value));
      if (!genuine) return "forged";
      return expiresAtMs < nowMs ? "expired" : undefined;
    },
  };
}

function digestOf(key: string, { subject, id, body }: SignedPart, expiresAtMs: number): string {
  return createHmac("sha256", key)
    .update(JSON.stringify([subject, id, expiresAtMs]))
    .update("\n")
    .update(body)
    .digest("base64url");
}

function isSame(expected: string, given: string): boolean {
  const [left, right] = [Buffer.from(expected), Buffer.from(given)];
  return left.length === right.length && timingSafeEqual(left, right);
}

type Refusals = { report(reason: Refusal, subject: string): void };

/** One line a second at most; the counter has them all. */
const lineEveryMs = 1_000;

export function createRefusals(ports: {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics?: Metrics | undefined;
}): Refusals {
  let lastLineMs = Number.NEGATIVE_INFINITY;
  let unlogged = 0;
  return {
    report(reason, subject) {
      ports.metrics?.count("bus_messages_refused_total", { reason });
      const nowMs = ports.clock.monotonicMs();
      if (nowMs - lastLineMs < lineEveryMs) {
        unlogged += 1;
        return;
      }
      ports.log.warn("a message on the bus was refused", { reason, subject, refused_since: unlogged });
      lastLineMs = nowMs;
      unlogged = 0;
    },
  };
}
