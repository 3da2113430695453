// Signs what this process puts on the bus and checks what it takes off it: subject, id, expiry and body belong together.
import { createHmac, timingSafeEqual } from "node:crypto";

/** What a signature binds. The subject is the one on the wire, so that a message cannot be moved to another stream either. */
export type SignedPart = { readonly subject: string; readonly id: string; readonly body: string };

export type Signature = { readonly expiresAtMs: number; readonly value: string };

export type Refusal = "unsigned" | "forged" | "expired";

export type Signer = {
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
