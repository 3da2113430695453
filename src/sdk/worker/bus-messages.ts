// Messages between a worker and the control plane over NATS: the API key that signs them, their subjects and their headers.
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { crc32 } from "node:zlib";

/** What a worker needs of its API key. The secret itself never leaves the process: only its hash signs. */
export type BusKey = {
  readonly id: string;
  /** As a token of a subject. */
  readonly tenant: string;
  readonly name: string;
  readonly secretHash: string;
};

const keyPattern = /^(ilk_([A-Za-z0-9._-]+)\.([A-Za-z0-9_-]+)_([0-9a-f]{48,64}))_([0-9a-f]{8})$/;

export function readBusKey(text: string | undefined): BusKey {
  if (text === undefined || text === "")
    throw new TypeError("a worker over the bus needs an API key: set apiKey or INTERLOCK_API_KEY");
  const [, body = "", tenant = "", name = "", secret = "", checksum] = keyPattern.exec(text) ?? [];
  if (checksum === undefined || crc32(body).toString(16).padStart(8, "0") !== checksum)
    throw new TypeError(
      "the API key is not one of Interlock's, or was cut or mistyped: its checksum is wrong",
    );
  const secretHash = createHash("sha256").update(secret).digest("hex");
  return { id: `${tenant}.${name}`, tenant: writeToken(tenant), name, secretHash };
}

export type BusSubjects = {
  readonly poll: string;
  readonly heartbeat: string;
  readonly report: string;
  /** All answers to this key arrive below it. */
  readonly answers: string;
  result(jobId: string): string;
};

export function subjectsOf(prefix: string, { tenant, name }: BusKey): BusSubjects {
  return {
    poll: `${prefix}.requests.${tenant}.poll`,
    heartbeat: `${prefix}.requests.${tenant}.heartbeat`,
    report: `${prefix}.requests.${tenant}.report`,
    answers: `${prefix}.answers.${tenant}.${name}`,
    result: (jobId) => `${prefix}.results.${tenant}.${writeToken(jobId)}`,
  };
}

/** One token of a subject: what is not plain becomes `=` and two hexadecimal digits a byte. */
function writeToken(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9_:@-]/gu, (character) =>
    [...new TextEncoder().encode(character)]
      .map((byte) => `=${byte.toString(16).toUpperCase().padStart(2, "0")}`)
      .join(""),
  );
}

export const header = {
  protocol: "Interlock-Protocol",
  key: "Interlock-Key",
  expires: "Interlock-Expires",
  signature: "Interlock-Signature",
  answerTo: "Interlock-Answer-To",
  messageId: "Nats-Msg-Id",
} as const;

/** The version of the protocol that this worker speaks. */
const protocol = "1";

export type BusMessage = {
  readonly subject: string;
  readonly body: string;
  readonly messageId?: string | undefined;
  readonly expiresAtMs: number;
  /** Not signed. */
  readonly more?: Readonly<Record<string, string>>;
};

/** The headers of what a worker sends. */
export function signedHeaders(key: BusKey, message: BusMessage): Readonly<Record<string, string>> {
  const { subject, body, messageId, expiresAtMs, more } = message;
  const signed = { subject, messageId: messageId ?? "", expires: expiresAtMs, body };
  return {
    [header.protocol]: protocol,
    [header.key]: key.id,
    [header.expires]: String(expiresAtMs),
    [header.signature]: signatureOf(key, signed),
    ...(messageId === undefined ? {} : { [header.messageId]: messageId }),
    ...more,
  };
}

/** As NATS counts them: with its first line and its last one. */
export function bytesOfHeaders(headers: Readonly<Record<string, string>>): number {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return new TextEncoder().encode(`NATS/1.0\r\n${lines.join("")}\r\n`).length;
}

type Answer = {
  readonly subject: string;
  readonly data: Uint8Array;
  /** The value of a header, or an empty text. */
  field(name: string): string;
};

/** Why an answer is not to be trusted; undefined when it is. */
export function distrustOf(key: BusKey, answer: Answer, nowMs: number): string | undefined {
  const { subject, data, field } = answer;
  const expires = Number(field(header.expires));
  const signed = { subject, messageId: field(header.messageId), expires, body: data };
  if (!isSame(signatureOf(key, signed), field(header.signature))) return "its signature is wrong";
  return expires < nowMs ? "its time was over: do the clocks differ?" : undefined;
}

function signatureOf(
  key: BusKey,
  signed: {
    readonly subject: string;
    readonly messageId: string;
    readonly expires: number;
    readonly body: string | Uint8Array;
  },
): string {
  const { subject, messageId, expires, body } = signed;
  return createHmac("sha256", key.secretHash)
    .update(`${JSON.stringify([subject, messageId, expires])}\n`)
    .update(body)
    .digest("base64url");
}

function isSame(expected: string, given: string): boolean {
  const [left, right] = [Buffer.from(expected), Buffer.from(given)];
  return left.length === right.length && timingSafeEqual(left, right);
}
