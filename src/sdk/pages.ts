// Lists as async iterators: pages are asked for as they are needed.

export type Page<Item> = { readonly items: readonly Item[]; readonly next_cursor: string | null };

/** All items from the first page on, or `pages()` for those who show one page at a time. */
export type Listing<Item> = AsyncIterable<Item> & {
  pages(): AsyncIterable<Page<Item>>;
  /** The first page. */
  page(): Promise<Page<Item>>;
  /** The first so many items. */
  take(count: number): Promise<Item[]>;
};

export function listing<Item>(read: (cursor: string | undefined) => Promise<Page<Item>>): Listing<Item> {
  async function* pages(): AsyncGenerator<Page<Item>, void, undefined> {
    let cursor: string | undefined;
    do {
      const page = await read(cursor);
      yield page;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }
  async function* items(): AsyncGenerator<Item, void, undefined> {
    for await (const page of pages()) yield* page.items;
  }
  return {
    pages,
    page: () => read(undefined),
    async take(count) {
      const taken: Item[] = [];
      if (count <= 0) return taken;
      for await (const item of items()) {
        taken.push(item);
        if (taken.length >= count) break;
      }
      return taken;
    },
    [Symbol.asyncIterator]: items,
  };
}
