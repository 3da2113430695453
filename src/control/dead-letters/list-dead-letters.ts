// Lists dead letters in the order of their ids, by reason and state.
import { type Letter, type LetterState, readLetter } from "../../domain/dead-letter.ts";
import type { DeadLetterReason } from "../../domain/run.ts";
import type { Document, TenantId } from "../../domain/tenant.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";

export type LetterFilter = { readonly state?: LetterState; readonly reason?: DeadLetterReason };

export type LetterPage = LetterFilter & { readonly after: string; readonly limit: number };

export type LetterList =
  /** `next` says where to go on, also when few matched. */
  { readonly kind: "listed"; readonly letters: readonly Letter[]; readonly next?: string } | Trouble;

/** Looked at in one call: whatever the filter, an answer does not take long. */
const lookedAtMax = 1_000;
const batchMax = 250;

export async function listDeadLetters(
  engine: Engine,
  tenant: TenantId,
  page: LetterPage,
): Promise<LetterList> {
  const { limit } = page;
  const filtered = page.state !== undefined || page.reason !== undefined;
  const letters: Letter[] = [];
  let { after } = page;
  for (let seen = 0; seen < lookedAtMax; ) {
    const amount = filtered ? Math.min(batchMax, lookedAtMax - seen) : limit;
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

export function isWanted(letter: Letter, { state, reason }: LetterFilter): boolean {
  return (
    (state === undefined || letter.state === state) && (reason === undefined || letter.reason === reason)
  );
}

export async function readDocuments(
  engine: Engine,
  tenant: TenantId,
  page: { readonly after: string; readonly limit: number },
): Promise<{ readonly kind: "listed"; readonly documents: readonly Document[] } | Trouble> {
  const answer = await ask(engine, "listDocuments", { tenant, collection: "deadLetter", ...page });
  return answer.kind === "listed" ? answer : { kind: answer.kind, cause: answer.cause };
}
