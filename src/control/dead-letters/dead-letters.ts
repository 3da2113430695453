// Lists dead letters in the order of their ids, and removes them: one, or all of a kind, a bounded number per call.

import { type Letter, type LetterState, readLetter } from "../../domain/dead-letter.ts";
import type { DeadLetterReason } from "../../domain/run.ts";
import type { Document, TenantId } from "../../domain/tenant.ts";
import { ask, askUntilKnown } from "../ask-until-known.ts";
import { type Caller, credentialIn, type Trouble, type WriteTrouble, writeTroubleOf } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";

export const deadLetterFlows = { listDeadLetters, purgeDeadLetters, removeDeadLetter };

type LetterFilter = { readonly state?: LetterState; readonly reason?: DeadLetterReason };

type LetterPage = LetterFilter & {
  readonly tenant: TenantId;
  readonly after: string;
  readonly limit: number;
};

type LetterList =
  /** `next` says where to go on, also when few matched. */
  { readonly kind: "listed"; readonly letters: readonly Letter[]; readonly next?: string } | Trouble;

/** Looked at in one call: whatever the filter, an answer does not take long. */
const listedAtMax = 1_000;
const batchMax = 250;

async function listDeadLetters(engine: Engine, page: LetterPage): Promise<LetterList> {
  const { tenant, limit } = page;
  const filtered = page.state !== undefined || page.reason !== undefined;
  const letters: Letter[] = [];
  let { after } = page;
  for (let seen = 0; seen < listedAtMax; ) {
    const amount = filtered ? Math.min(batchMax, listedAtMax - seen) : limit;
    const answer = await readDocuments(engine, tenant, { after, limit: amount });
    if (answer.kind !== "listed") return answer;
    for (const document of answer.documents) {
      after = document.id;
      seen += 1;
      const letter = readLetter(document);
      if (isWanted(letter, page)) letters.push(letter);
      if (letters.length === limit) return { kind: "listed", letters, next: after };
    }
    if (answer.documents.length < amount) return { kind: "listed", letters };
  }
  return { kind: "listed", letters, next: after };
}

function isWanted(letter: Letter, { state, reason }: LetterFilter): boolean {
  return (
    (state === undefined || letter.state === state) && (reason === undefined || letter.reason === reason)
  );
}

async function readDocuments(
  engine: Engine,
  tenant: TenantId,
  page: { readonly after: string; readonly limit: number },
): Promise<{ readonly kind: "listed"; readonly documents: readonly Document[] } | Trouble> {
  const answer = await ask(engine, "listDocuments", { tenant, collection: "deadLetter", ...page });
  return answer.kind === "listed" ? answer : { kind: answer.kind, cause: answer.cause };
}

type PurgeRequest = LetterFilter & { readonly caller: Caller; readonly beforeMs?: number };

type PurgeAnswer =
  /** `more`: not all have been looked at; ask again. */
  { readonly kind: "purged"; readonly purged: number; readonly more: boolean } | WriteTrouble;

/** Per call: each removal is an operation of its own, and is audited as such. */
const removedMax = 100;
const purgeLooksAtMax = 5_000;

async function purgeDeadLetters(engine: Engine, request: PurgeRequest): Promise<PurgeAnswer> {
  const { caller } = request;
  let purged = 0;
  let after = "";
  for (let seen = 0; seen < purgeLooksAtMax; ) {
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
      const removed = await removeDeadLetter(engine, { caller, id: letter.id });
      // The answer counts what was removed so far; the next call finds the rest.
      if (removed.kind !== "removed" && removed.kind !== "dead_letter_not_found") {
        return purged === 0 ? removed : { kind: "purged", purged, more: true };
      }
      if (removed.kind === "removed") purged += 1;
    }
    if (page.documents.length < batchMax) return { kind: "purged", purged, more: false };
  }
  return { kind: "purged", purged, more: true };
}

/** `dead_letter_not_found` is also what the repeat of a removal answers. */
async function removeDeadLetter(
  { ports, terms }: Engine,
  { caller, id }: { readonly caller: Caller; readonly id: string },
): Promise<{ readonly kind: "removed" } | { readonly kind: "dead_letter_not_found" } | WriteTrouble> {
  const { tenant, actor } = caller;
  const request = { tenant, collection: "deadLetter", id, actor, ...credentialIn(tenant, caller) } as const;
  let tries = 0;
  const answer = await askUntilKnown(ports, "removeDocument", terms.store, (deadlineMs) => {
    tries += 1;
    return ports.store.removeDocument(request, { deadlineMs });
  });
  if (answer.kind !== "removed" && answer.kind !== "not_found") return writeTroubleOf(answer);
  // Gone after a try without an answer: that try removed it.
  if (answer.kind === "not_found" && tries === 1) return { kind: "dead_letter_not_found" };
  ports.metrics.count("dead_letters_purged_total", {});
  return { kind: "removed" };
}
