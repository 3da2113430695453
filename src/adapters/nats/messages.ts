// How a message of the port looks on the wire: its headers, its signature, and what is believed of one that arrives.
import { headers, type Msg, type MsgHdrs } from "@nats-io/transport-node";
import type { BusChannel, BusMessage, BusStream } from "../../ports/bus.ts";
import type { Clock } from "../../ports/ports.ts";
import type { Refusals } from "./refusals.ts";
import type { Signature, SignedPart, Signer } from "./signatures.ts";
import type { BusNames } from "./subjects.ts";

export type Writing = {
  readonly clock: Clock;
  readonly names: BusNames;
  readonly signer: Signer | undefined;
  readonly refusals: Refusals;
};

const header = {
  /** The server stores a message with an id once within its window. */
  messageId: "Nats-Msg-Id",
  /** Only where a subject is too long to be a NATS subject. */
  subject: "Interlock-Subject",
  expires: "Interlock-Expires",
  signature: "Interlock-Signature",
} as const;

/**
 * How long a signed message is believed. A hint that nobody took is published again by the sweep. A result may wait for its
 * run, or for an engine, much longer. An announcement is heard at once or never.
 */
const believedMs: Record<BusStream | "announcement", number> = {
  hints: 600_000,
  notices: 1_200_000,
  checks: 1_200_000,
  results: 7 * 86_400_000,
  announcement: 60_000,
};

type Outgoing = { readonly subject: string; readonly headers?: MsgHdrs };

export function writeMessage(writing: Writing, stream: BusStream, message: BusMessage): Outgoing {
  const { names } = writing;
  const subject = names.subject(stream, message.subject);
  const fields = new Map<string, string>();
  const id = message.messageId === undefined ? "" : encodeURIComponent(message.messageId);
  if (id !== "") fields.set(header.messageId, id);
  if (names.read(stream, subject) === undefined)
    fields.set(header.subject, encodeURIComponent(message.subject));
  sign(writing, { subject, id, body: message.body }, { kind: stream, fields });
  return outgoing(subject, fields);
}

export function writeAnnouncement(writing: Writing, channel: BusChannel, body: string): Outgoing {
  const subject = writing.names.channel(channel);
  const fields = new Map<string, string>();
  sign(writing, { subject, id: "", body }, { kind: "announcement", fields });
  return outgoing(subject, fields);
}

type Envelope = { readonly kind: BusStream | "announcement"; readonly fields: Map<string, string> };

function sign({ signer, clock }: Writing, message: SignedPart, { kind, fields }: Envelope): void {
  if (signer === undefined) return;
  const { expiresAtMs, value } = signer.sign(message, Math.round(clock.wallMs()) + believedMs[kind]);
  fields.set(header.expires, String(expiresAtMs)).set(header.signature, value);
}

function outgoing(subject: string, fields: ReadonlyMap<string, string>): Outgoing {
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
  const subject = writing.names.read(stream, message.subject) ?? longSubject(writing, stream, message);
  if (subject !== undefined) return { ...incoming, subject };
  writing.refusals.report("forged", message.subject);
  return { kind: "refused" };
}

export function readAnnouncement({ signer, clock, refusals }: Writing, message: Msg): Incoming {
  const body = message.string();
  const id = message.headers?.get(header.messageId) ?? "";
  const refusal = signer?.refusal(
    { subject: message.subject, id, body },
    signatureOf(message),
    clock.wallMs(),
  );
  if (refusal === undefined) return { kind: "believed", subject: message.subject, body };
  refusals.report(refusal, message.subject);
  return { kind: "refused" };
}

/** The digest in the subject proves the one that is written out beside it. */
function longSubject({ names }: Writing, stream: BusStream, message: Msg): string | undefined {
  try {
    const subject = decodeURIComponent(message.headers?.get(header.subject) ?? "");
    return names.subject(stream, subject) === message.subject ? subject : undefined;
  } catch {
    return undefined;
  }
}

function signatureOf({ headers: given }: Msg): Signature | undefined {
  const value = given?.get(header.signature) ?? "";
  const expiresAtMs = Number(given?.get(header.expires) ?? "");
  return value === "" || !Number.isSafeInteger(expiresAtMs) ? undefined : { value, expiresAtMs };
}
