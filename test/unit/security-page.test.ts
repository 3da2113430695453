// The page on security names tests: each is there under its title, and every row of the checklist has one.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

const root = dirname(dirname(import.meta.dirname));
const page = readFileSync(join(root, "docs/guide/security.md"), "utf8");

type Row = { readonly id: string; readonly shownBy: string };

const rows: readonly Row[] = [...page.matchAll(/^\| (S\d+) \| .* \| (.*) \|$/gm)].map(
  ([, id = "", shownBy = ""]) => ({ id, shownBy }),
);

/** S26, S37 and S38 are about webhooks, a console and further doors, which do not exist. */
const asked = Array.from({ length: 40 }, (_, index) => `S${index + 1}`).filter(
  (id) => !["S26", "S37", "S38"].includes(id),
);

test("has a row for everything that the checklist asks of what exists", () => {
  expect([...new Set(rows.map(({ id }) => id))].sort(byNumber)).toEqual(asked);
});

test.each(rows)("$id names tests that are there", ({ shownBy }) => {
  const named = [...shownBy.matchAll(/`((?:test|src)\/[^`]+)`((?::|,)? "[^;]*)?/g)];
  expect(named.length).toBeGreaterThan(0);
  for (const [, file = "", titles = ""] of named) {
    const text = readFileSync(join(root, file), "utf8");
    for (const [, title = ""] of titles.matchAll(/"([^"]+)"/g)) expect(text, file).toContain(title);
  }
});

function byNumber(left: string, right: string): number {
  return Number(left.slice(1)) - Number(right.slice(1));
}
