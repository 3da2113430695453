// Everything that may be asked about work that was given up.
import type { TenantId } from "../../domain/tenant.ts";
import type { Caller, WriteTrouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import { inspectDeadLetter, type LetterAnswer } from "./inspect-dead-letter.ts";
import { type LetterList, type LetterPage, listDeadLetters } from "./list-dead-letters.ts";
import {
  type PurgeAnswer,
  type PurgeRequest,
  purgeDeadLetters,
  removeDeadLetter,
} from "./purge-dead-letters.ts";
import { type RetryAnswer, retryDeadLetter } from "./retry-dead-letter.ts";

export type DeadLetterApi = {
  listDeadLetters(tenant: TenantId, page: LetterPage): Promise<LetterList>;
  inspectDeadLetter(tenant: TenantId, id: string): Promise<LetterAnswer>;
  /** The same run and step go on with the next attempt; repeating is safe. */
  retryDeadLetter(caller: Caller, id: string): Promise<RetryAnswer>;
  /** `not_found` is also what the repeat of a removal answers. */
  removeDeadLetter(
    caller: Caller,
    id: string,
  ): Promise<{ readonly kind: "removed" } | { readonly kind: "not_found" } | WriteTrouble>;
  purgeDeadLetters(caller: Caller, request: PurgeRequest): Promise<PurgeAnswer>;
};

export function createDeadLetterApi(engine: Engine): DeadLetterApi {
  return {
    listDeadLetters: (tenant, page) => listDeadLetters(engine, tenant, page),
    inspectDeadLetter: (tenant, id) => inspectDeadLetter(engine, tenant, id),
    retryDeadLetter: (caller, id) => retryDeadLetter(engine, caller, id),
    removeDeadLetter: (caller, id) => removeDeadLetter(engine, caller, id),
    purgeDeadLetters: (caller, request) => purgeDeadLetters(engine, caller, request),
  };
}
