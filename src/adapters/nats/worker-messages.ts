// What workers send over NATS: believed only with the signature of the API key that it names, and answered only where that key listens.
import type { Msg } from "@nats-io/transport-node";
import { tenantOfKey } from "../../domain/api-key.ts";
import type { Sender, SenderOf } from "../../ports/bus.ts";
import type { Link } from "./link.ts";
import {
  believedMs,
  createSigner,
  header,
  outgoing,
  protocolVersion,
  refusalOf,
  refuse,
  sign,
  signatureOf,
  type Writing,
} from "./messages.ts";

type SentByWorker =
  | {
      readonly kind: "believed";
      /** The id of its key. */
      readonly sender: string;
      /** Absent where the worker has named no address. */
      answer?(body: string): void;
    }
  | { readonly kind: "refused" };

/** Throws as `senderOf` does. */
export type ReadWorker = (kind: "results" | "request", tenant: string, message: Msg) => Promise<SentByWorker>;

/** Keys that are looked up at the same time: a flood of unknown ones must not reach the store. */
const lookupsMax = 1_000;
/** A worker's clock may be ahead of ours by so much. */
const aheadMs = 60_000;

export function createWorkerReader(writing: Writing, link: Link, senderOf: SenderOf): ReadWorker {
  let lookups = 0;
  return async (kind, tenant, message) => {
    const field = (name: string) => message.headers?.get(name) ?? "";
    const keyId = field(header.key);
    const expiresAtMs = signatureOf(message)?.expiresAtMs;
    if (keyId === "" || expiresAtMs === undefined) return refuse(writing, "unsigned", message);
    if (field(header.protocol) !== protocolVersion) return refuse(writing, "wrong_version", message);
    const isTooFar = expiresAtMs > writing.clock.wallMs() + believedMs[kind] + aheadMs;
    if (isTooFar) return refuse(writing, "forged", message);
    if (lookups >= lookupsMax) return refuse(writing, "overloaded", message);
    lookups += 1;
    const sender = await senderOf(keyId).finally(() => {
      lookups -= 1;
    });
    if (sender === undefined) return refuse(writing, "unknown_key", message);
    const refusal = refusalOf(writing, createSigner([sender.secretHash]), message);
    if (refusal !== undefined) return refuse(writing, refusal, message);
    if (tenantOfKey(keyId) !== tenant) return refuse(writing, "foreign", message);
    const subject = kind === "request" ? (message.reply ?? "") : field(header.answerTo);
    if (subject === "") return { kind: "believed", sender: keyId };
    if (!isBelow(subject, writing.names.answersTo(keyId))) return refuse(writing, "wrong_address", message);
    const answer = (body: string) => tell({ writing, link }, sender, { subject, body });
    return { kind: "believed", sender: keyId, answer };
  };
}

/**
 * Anywhere else a worker could let the control plane publish in its place, and one who copies a poll could have its jobs. No
 * wildcards and no empty parts: nobody can publish to those.
 */
function isBelow(address: string, answers: string): boolean {
  const rest = address.slice(answers.length);
  return address.startsWith(answers) && address.length < 256 && /^[\w-]+(\.[\w-]+)*$/.test(rest);
}

/** Signed by the worker's own key: nobody else could have made it. A worker without an answer asks again. */
function tell(
  { writing, link }: { readonly writing: Writing; readonly link: Link },
  { secretHash }: Sender,
  { subject, body }: { readonly subject: string; readonly body: string },
): void {
  if (!link.isUp()) return;
  const fields = new Map<string, string>();
  const signer = createSigner([secretHash]);
  sign({ ...writing, signer }, { subject, id: "", body }, { kind: "answer", fields });
  const { headers } = outgoing(subject, fields);
  if (headers !== undefined) link.connection.publish(subject, body, { headers });
}
