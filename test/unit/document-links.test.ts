// Every relative link of the documents leads to a file or heading that exists, and every npm command is a script.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, test } from "vitest";

const root = dirname(dirname(import.meta.dirname));

const documents = [
  ...readdirSync(root).filter((name) => name.endsWith(".md")),
  ...["docs", "examples", "deploy"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".md"))
      .map((name) => join(folder, name)),
  ),
].sort();

const textOf = (path: string) => readFileSync(join(root, path), "utf8");

/** Code shows links that are not meant for readers. */
function withoutCode(text: string): string {
  return text.replaceAll(/^(`{3,}|~{3,})[\s\S]*?^\1$/gm, "").replaceAll(/(`+)(?!`)[\s\S]*?[^`]\1(?!`)/g, "");
}

function linksIn(text: string): string[] {
  const inline = [...withoutCode(text).matchAll(/\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)/g)];
  const defined = [...withoutCode(text).matchAll(/^\[[^\]]+\]:\s+(\S+)/gm)];
  return [...inline, ...defined]
    .map(([, target]) => target as string)
    .filter((target) => !/^[a-z]+:/.test(target));
}

/** As the pages are shown: lower case, spaces as hyphens, other punctuation gone, and a number for what comes again. */
function anchorsIn(text: string): Set<string> {
  const seen = new Map<string, number>();
  const anchors = new Set<string>();
  for (const [, heading = ""] of text
    .replaceAll(/^(`{3,}|~{3,})[\s\S]*?^\1$/gm, "")
    .matchAll(/^#{1,6} (.+?)\s*$/gm)) {
    const words = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase();
    const anchor = words.replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(/\s/g, "-");
    const times = seen.get(anchor) ?? 0;
    seen.set(anchor, times + 1);
    anchors.add(times === 0 ? anchor : `${anchor}-${times}`);
  }
  return anchors;
}

/** What is wrong with a link of the document, if anything. */
function problemWith(document: string, link: string): string | undefined {
  const [path = "", anchor] = decodeURI(link).split("#");
  const target = path === "" ? document : normalize(join(dirname(document), path));
  if (target.startsWith("..") || !existsSync(join(root, target))) return `${link}: no such file`;
  if (anchor === undefined) return undefined;
  if (!target.endsWith(".md")) return `${link}: an anchor into something that has no headings`;
  return anchorsIn(textOf(target)).has(anchor) ? undefined : `${link}: no such heading`;
}

test.each(documents)("%s has no broken link", (document) => {
  const problems = linksIn(textOf(document)).map((link) => problemWith(document, link));
  expect(problems.filter((problem) => problem !== undefined)).toEqual([]);
});

test("every page of the guide can be reached from its index", () => {
  const pages = readdirSync(join(root, "docs/guide")).filter((name) => /^[a-z].*\.md$/.test(name));
  const linked = new Set(linksIn(textOf("docs/guide/README.md")));
  expect(pages.filter((page) => !linked.has(page))).toEqual([]);
});

describe("npm commands", () => {
  const { scripts } = JSON.parse(textOf("package.json")) as { readonly scripts: Record<string, string> };
  const namedIn = (text: string) =>
    [...text.matchAll(/\bnpm (?:run ([a-z:-]+)|(start|test)\b)/g)].map(([, run, short]) => run ?? short);

  test.each(documents)("%s names only scripts that there are", (document) => {
    expect(namedIn(textOf(document)).filter((name) => !Object.hasOwn(scripts, name ?? ""))).toEqual([]);
  });

  test("docs/commands.md lists every script", () => {
    const listed = new Set(namedIn(textOf("docs/commands.md")));
    expect(Object.keys(scripts).filter((name) => name !== "prepack" && !listed.has(name))).toEqual([]);
  });
});

test("every picture is shown somewhere", () => {
  const shown = new Set(
    documents.flatMap((document) =>
      linksIn(textOf(document)).map((link) => normalize(join(dirname(document), link))),
    ),
  );
  const pictures = readdirSync(join(root, "docs/guide/images")).map((name) => `docs/guide/images/${name}`);
  expect(pictures.filter((picture) => !shown.has(picture))).toEqual([]);
});

describe("what is looked at", () => {
  test("links, pictures and definitions count; code and addresses do not", () => {
    const text = [
      "[a](a.md#one) ![b](b.svg) [c](https://example.org) `[d](d.md)`",
      "```sh",
      "[e](e.md)",
      "```",
      "[f]: f.md",
    ].join("\n");
    expect(linksIn(text)).toEqual(["a.md#one", "b.svg", "f.md"]);
  });

  test("headings become anchors without punctuation, and the second of a name has a number", () => {
    const text = "# One key, one run\n## How `replicated` works\n## TLS\n## TLS\n```sh\n# no heading\n```\n";
    expect([...anchorsIn(text)]).toEqual(["one-key-one-run", "how-replicated-works", "tls", "tls-1"]);
  });

  test("a file that is not there, a heading that is not there and a way out of the repository are problems", () => {
    expect(problemWith("README.md", "docs/guide/absent.md")).toMatch("no such file");
    expect(problemWith("README.md", "docs/guide/README.md#absent")).toMatch("no such heading");
    expect(problemWith("README.md", "../outside.md")).toMatch("no such file");
    expect(problemWith("docs/guide/README.md", "#the-guide-in-reading-order")).toBeUndefined();
  });
});
