// Turns the page of a list into its reply, and a cursor back into a place.
import { readCursor, writeCursor } from "../api/cursor.ts";
import { pageLimitDefault } from "../api/fields.ts";
import type { Operation } from "../api/routes.ts";
import type { TenantId } from "../domain/tenant.ts";
import type { Failure } from "./handler.ts";

/** A list of one tenant: a cursor of another one is not understood. `detail` tells lists of one operation apart. */
type ListName = { readonly operation: Operation; readonly tenant: TenantId; readonly detail?: string };

export type PageQuery = { readonly limit?: number; readonly cursor?: string };

type AskedPage =
  | { readonly kind: "page"; readonly limit: number; readonly after: string | undefined }
  | { readonly kind: "bad_cursor"; readonly failure: Failure<"invalid_request"> };

export function readPage(list: ListName, { limit = pageLimitDefault, cursor }: PageQuery): AskedPage {
  if (cursor === undefined) return { kind: "page", limit, after: undefined };
  const after = readCursor(cursor, nameOf(list));
  if (after !== undefined) return { kind: "page", limit, after };
  const detail = "cursor: not one of this list; start again without it";
  return { kind: "bad_cursor", failure: { kind: "invalid_request", detail } };
}

/** `next` is where the following page begins, if there is one. */
export function pageReply<Item>(list: ListName, items: Item[], next: string | undefined) {
  const next_cursor = next === undefined ? null : cursorAfter(list, next);
  return { status: 200, body: { items, next_cursor } } as const;
}

export function cursorAfter(list: ListName, after: string): string {
  return writeCursor({ ...nameOf(list), after });
}

/** For lists that do not say whether there is more: a full page may have a successor. */
export function lastOf<Item>(items: readonly Item[], limit: number, idOf: (item: Item) => string) {
  const last = items.at(-1);
  return last === undefined || items.length < limit ? undefined : idOf(last);
}

function nameOf({ operation, tenant, detail }: ListName) {
  return { operation: detail === undefined ? operation : `${operation} ${detail}`, tenant };
}
