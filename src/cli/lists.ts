// Lists as commands show them: as many items as were asked for, whatever the server's pages are.
import type { Command } from "commander";
import type { Context } from "./context.ts";
import { wholeNumber } from "./values.ts";

export type ListOptions = { readonly limit: number; readonly cursor?: string };

type ListedPage<Item> = { readonly items: readonly Item[]; readonly next_cursor: string | null };

/** What the server gives at most at a time. */
const pageMax = 500;

export function withListOptions(command: Command, limit = 50): Command {
  return command
    .option("-n, --limit <count>", "how many at most", wholeNumber, limit)
    .option("--cursor <cursor>", "continue an earlier list: its next_cursor");
}

export async function readList<Item>(
  { limit, cursor }: ListOptions,
  readPage: (page: { readonly limit: number; readonly cursor?: string }) => Promise<ListedPage<Item>>,
): Promise<ListedPage<Item>> {
  const items: Item[] = [];
  let next: string | null = cursor ?? null;
  do {
    const page = { limit: Math.max(1, Math.min(pageMax, limit - items.length)) };
    const read: ListedPage<Item> = await readPage(next === null ? page : { ...page, cursor: next });
    items.push(...read.items);
    next = read.next_cursor;
  } while (next !== null && items.length < limit);
  return { items, next_cursor: next };
}

export function showList<Item>(
  { output }: Context,
  list: ListedPage<Item>,
  { none, lines }: { readonly none: string; lines(items: readonly Item[]): readonly string[] },
): void {
  output.answer(list, () => (list.items.length === 0 ? [none] : lines(list.items)));
  if (list.next_cursor !== null)
    output.note(`There are more: --limit ${list.items.length * 4} shows more of them.`);
}
