// The headers of a message as a worker sends it over NATS, right by default and wrong where a test says so.
import { headers, type MsgHdrs } from "@nats-io/transport-node";
import { createSigner } from "../../src/adapters/nats/messages.ts";
import type { Sender } from "../../src/ports/bus.ts";

type Signed = {
  readonly subject: string;
  readonly body: string;
  readonly expiresAtMs?: number;
  readonly answerTo?: string;
  /** Instead of the right ones; empty ones are left out. */
  readonly wrong?: Readonly<Record<string, string>>;
};

export function signedHeaders({ keyId, secretHash }: Sender, message: Signed): MsgHdrs {
  const { subject, body, expiresAtMs = Date.now() + 30_000, answerTo = "", wrong } = message;
  const signature = createSigner([secretHash])?.sign({ subject, id: "", body }, expiresAtMs).value ?? "";
  const fields = {
    "Interlock-Protocol": "1",
    "Interlock-Key": keyId,
    "Interlock-Expires": String(expiresAtMs),
    "Interlock-Signature": signature,
    "Interlock-Answer-To": answerTo,
    ...wrong,
  };
  const written = headers();
  for (const [name, value] of Object.entries(fields)) if (value !== "") written.set(name, value);
  return written;
}
