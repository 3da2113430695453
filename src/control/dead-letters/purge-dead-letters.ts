// Removes dead letters: one, or all of a kind, a bounded number per call.
import { readLetter } from "../../domain/dead-letter.ts";
import { credentialIn, writeTroubleOf } from "../acting.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import type { Caller, WriteTrouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import { isWanted, type LetterFilter, readDocuments } from "./list-dead-letters.ts";

export type PurgeRequest = LetterFilter & { readonly beforeMs?: number };

export type PurgeAnswer =
  /** `more`: not all have been looked at; ask again. */
  { readonly kind: "purged"; readonly purged: number; readonly more: boolean } | WriteTrouble;

/** Per call: each removal is an operation of its own, and is audited as such. */
const removedMax = 100;
const lookedAtMax = 5_000;
const batchMax = 250;

export async function purgeDeadLetters(
  engine: Engine,
  caller: Caller,
  request: PurgeRequest,
): Promise<PurgeAnswer> {
  let purged = 0;
  let after = "";
  for (let seen = 0; seen < lookedAtMax; ) {
    const page = await readDocuments(engine, caller.tenant, { after, limit: batchMax });
    if (page.kind !== "listed") {
      // Only read so far, or the removed ones are known: nothing is in doubt.
      return purged === 0
        ? { kind: "unavailable", cause: page.cause }
        : { kind: "purged", purged, more: true };
    }
    for (const document of page.documents) {
      after = document.id;
      seen += 1;
      const letter = readLetter(document);
      if (!isWanted(letter, request) || letter.writtenAtMs >= (request.beforeMs ?? Number.POSITIVE_INFINITY))
        continue;
      if (purged === removedMax) return { kind: "purged", purged, more: true };
      const removed = await removeDeadLetter(engine, caller, letter.id);
      // The answer counts what was removed so far; the next call finds the rest.
      if (removed.kind !== "removed" && removed.kind !== "not_found") {
        return purged === 0 ? removed : { kind: "purged", purged, more: true };
      }
      if (removed.kind === "removed") purged += 1;
    }
    if (page.documents.length < batchMax) return { kind: "purged", purged, more: false };
  }
  return { kind: "purged", purged, more: true };
}

export async function removeDeadLetter(
  { ports, terms }: Engine,
  caller: Caller,
  id: string,
): Promise<{ readonly kind: "removed" } | { readonly kind: "not_found" } | WriteTrouble> {
  const { tenant, actor } = caller;
  const request = { tenant, collection: "deadLetter", id, actor, ...credentialIn(tenant, caller) } as const;
  let tries = 0;
  const answer = await askUntilKnown(ports, "removeDocument", terms.store, (deadlineMs) => {
    tries += 1;
    return ports.store.removeDocument(request, { deadlineMs });
  });
  if (answer.kind !== "removed" && answer.kind !== "not_found") return writeTroubleOf(answer);
  // Gone after a try without an answer: that try removed it.
  if (answer.kind === "not_found" && tries === 1) return { kind: "not_found" };
  ports.metrics.count("dead_letters_purged_total", {});
  return { kind: "removed" };
}
