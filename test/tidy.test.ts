// Reads the source as text and keeps the rules of the house: layering, banned calls, sizes, script headers, fresh docs.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, test } from "vitest";
import { textPatches } from "../proof/planted/planted-bugs.ts";
import { referencePages } from "../scripts/reference-pages.ts";
import { readSourceGraph, smallSingleImporterFiles, unusedExports } from "../scripts/source-graph.ts";
import { errors } from "../src/errors.ts";
import { metrics } from "../src/metrics.ts";

const root = dirname(import.meta.dirname);

/** Tracked files and new ones that are not ignored; what has just been deleted does not count. */
const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
  cwd: root,
  encoding: "utf8",
})
  .split("\n")
  .filter((path) => path !== "" && existsSync(join(root, path)));

const sources = files.filter((path) => path.startsWith("src/") && path.endsWith(".ts"));
const proof = files.filter((path) => path.startsWith("proof/") && path.endsWith(".ts"));
const code = files.filter((path) => /\.(ts|mjs|lua)$/.test(path));
const textOf = (path: string) => readFileSync(join(root, path), "utf8");

/** Which folders each layer may import from, besides itself. The tables are open to all. */
const tables = ["src/config.ts", "src/errors.ts", "src/metrics.ts"];
const layers: Record<string, readonly string[]> = {
  "src/settings": [],
  "src/domain": [],
  "src/ports": ["src/domain"],
  "src/control": ["src/domain", "src/ports"],
  "src/adapters": ["src/domain", "src/ports"],
  "src/api": ["src/domain"],
  "src/gateway": ["src/api", "src/control", "src/domain", "src/ports"],
  "src/testing": ["src/domain", "src/ports", "src/adapters"],
  "src/embedded": [
    "src/domain",
    "src/ports",
    "src/control",
    "src/gateway",
    "src/control-plane.ts",
    "src/load-config.ts",
  ],
  "src/drills": [
    "src/domain",
    "src/ports",
    "src/control",
    "src/embedded",
    "src/control-plane.ts",
    "src/load-config.ts",
    "src/sdk",
  ],
  "src/cli": [
    "src/domain",
    "src/ports",
    "src/control",
    "src/embedded",
    "src/drills",
    "src/control-plane.ts",
    "src/load-config.ts",
    "src/settings",
    "src/sdk",
    "src/index.ts",
  ],
};

function importsOf(path: string): string[] {
  const found = textOf(path).matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g);
  return [...found].map(([, target]) => normalize(join(dirname(path), target as string)));
}

describe("layering", () => {
  for (const [layer, allowed] of Object.entries(layers)) {
    test(`${layer} imports only ${[...allowed, "the tables"].join(", ")}`, () => {
      const wrong = sources
        .filter((path) => path.startsWith(`${layer}/`))
        .flatMap((path) => importsOf(path).map((target) => ({ path, target })))
        .filter(({ target }) => !tables.includes(target))
        .filter(
          ({ target }) =>
            ![layer, ...allowed].some((folder) => target === folder || target.startsWith(`${folder}/`)),
        )
        .map(({ path, target }) => `${path} imports ${target}`);
      expect(wrong).toEqual([]);
    });
  }

  test("the product imports nothing that is there to prove it", () => {
    const wrong = sources
      .flatMap((path) => importsOf(path).map((target) => ({ path, target })))
      .filter(({ target }) => !target.startsWith("src/"))
      .map(({ path, target }) => `${path} imports ${target}`);
    expect(wrong).toEqual([]);
  });

  test("only the composition root names adapters", () => {
    const outside = sources.filter(
      (path) => !/^src\/(adapters|testing)\/|^src\/control-plane\.ts$/.test(path),
    );
    const wrong = outside.filter((path) =>
      importsOf(path).some((target) => target.startsWith("src/adapters/")),
    );
    expect(wrong).toEqual([]);
  });

  test("the SDK needs nothing else of the source when it runs, and only its own package", () => {
    const packages = ["eventsource-parser", "node:crypto", "node:fs", "node:net", "node:os", "node:zlib"];
    const statements = /^(import|export)\s(type\s)?[^;]*?from\s+"([^"]+)";/gm;
    const wrong = sources
      .filter((path) => path.startsWith("src/sdk/"))
      .flatMap((path) =>
        [...textOf(path).matchAll(statements)].map(([, , isType, name = ""]) => {
          const target = name.startsWith(".") ? normalize(join(dirname(path), name)) : name;
          return { path, isType: isType !== undefined, target };
        }),
      )
      .filter(({ target }) => !target.startsWith("src/sdk/") && !packages.includes(target))
      // Types of the contract are gone when the program runs.
      .filter(
        ({ isType, target }) =>
          !isType || !/^(src\/api\/.+|src\/errors\.ts|zod|@nats-io\/transport-node)$/.test(target),
      )
      .map(({ path, target }) => `${path} imports ${target}`);
    expect(wrong).toEqual([]);
    const loaded = sources
      .filter((path) => path.startsWith("src/sdk/"))
      .flatMap((path) => [...textOf(path).matchAll(/\bimport\("([^"]+)"\)/g)].map(([, name]) => name));
    expect(loaded, "only workers over the bus load it").toEqual(["@nats-io/transport-node"]);
  });

  test("nothing reads the reference material beside the checkout", () => {
    const beside = `../${"shared"}`;
    expect(code.filter((path) => textOf(path).includes(beside))).toEqual([]);
  });
});

describe("banned calls", () => {
  const banned = [
    /\bDate\b(?!Ms)/,
    /\bset(?:Timeout|Interval|Immediate)\b/,
    /\bMath\.random\b/,
    /\brandom(?:UUID|Bytes|Int)\b|\bgetRandomValues\b/,
    /\bperformance\.now\b/,
    /\bAbortSignal\.timeout\b/,
    /\bprocess\.env\b/,
  ];
  /**
   * The kernels of the simulator have to give real time to promise chains; the loader reads the environment; real servers
   * are started and waited for; the SDK runs in other people's processes; a mutant's tests are ended when they never do.
   */
  const exempt = [
    "src/adapters/system/",
    "src/load-config.ts",
    "src/testing/run-in-bursts.ts",
    "src/drills/servers/",
    "proof/servers/",
    "proof/mutation/typescript-runner.ts",
    "src/sdk/runtime.ts",
  ];

  test("time, randomness and the environment come in through ports", () => {
    const wrong = [...sources, ...proof]
      .filter((path) => !exempt.some((prefix) => path.startsWith(prefix)))
      .flatMap((path) =>
        withoutComments(textOf(path))
          .split("\n")
          .filter((line) => banned.some((pattern) => pattern.test(line)))
          .map((line) => `${path}: ${line.trim()}`),
      );
    expect(wrong).toEqual([]);
  });
});

describe("files", () => {
  /** Ratchet: a file may leave this list, never join it. */
  const longFiles: readonly string[] = [];

  test("no file has more than 400 lines", () => {
    const long = code.filter((path) => textOf(path).split("\n").length > 401);
    expect(long).toEqual(longFiles);
  });

  test("every file says first what it is for", () => {
    const silent = code.filter((path) => !/^(#!.*\n)?(\/\/|\/\*\*|--\[\[)/.test(textOf(path)));
    expect(silent).toEqual([]);
  });

  test("no file is a junk drawer", () => {
    const names = /(^|\/)(utils?|helpers?|common|misc|manager|types)(\/|\.[a-z]+$)/;
    expect(files.filter((path) => names.test(path))).toEqual([]);
  });

  test("no test sleeps for luck, is skipped or focused, and no type is silenced", () => {
    const patterns = /\.(skip|only|todo)\(|@ts-ignore|@ts-expect-error|biome-ignore|oxlint-disable/;
    const wrong = code
      .filter((path) => path !== "test/tidy.test.ts")
      // There an error that is expected is the test itself.
      .filter((path) => path !== "test/unit/sdk-types.test.ts")
      .filter((path) => patterns.test(textOf(path)));
    expect(wrong).toEqual([]);
  });
});

describe("what is read together", () => {
  const graph = readSourceGraph(root);
  const ofProof = { ...graph, product: proof };

  test("nothing is exported that no other file uses", () => {
    expect([...unusedExports(graph), ...unusedExports(ofProof)]).toEqual([]);
  });

  /** Ratchet: a file may leave this list, by becoming part of the one that imports it, and never join it. */
  const smallFiles: readonly string[] = [
    "src/adapters/judge-thread.ts",
    "src/adapters/system/system-log.ts",
    "src/drills/admission-burst/crowd-thread.ts",
    "src/drills/catalogue.ts",
    "src/testing/run-in-bursts.ts",
  ];

  test("no other file of fewer than 40 lines has one importer alone", () => {
    const small = [...smallSingleImporterFiles(graph), ...smallSingleImporterFiles(ofProof)];
    expect(small.filter((path) => !smallFiles.includes(path))).toEqual([]);
  });
});

describe("pages and comments", () => {
  const known = new Set(files.flatMap((path) => [path, ...foldersOf(path)]));
  const commented = /\/\/.*|\/\*[\s\S]*?\*\/|--.*/g;
  const named =
    /(?<![\w./@-])((?:src|test|proof|chaos|bench|scripts|docs|deploy|examples)\/[\w./-]+\.(?:ts|mjs|md|lua|json|ya?ml|sh))\b/g;
  // What was is told in the log of changes, by the names of its time.
  const pages = files.filter((path) => path.endsWith(".md") && path !== "CHANGELOG.md");

  test("name only files that exist", () => {
    const texts = [...pages, ...code].map((path) => ({
      path,
      text: path.endsWith(".md") ? textOf(path) : (textOf(path).match(commented) ?? []).join("\n"),
    }));
    const wrong = texts.flatMap(({ path, text }) =>
      [...text.matchAll(named)]
        .filter(([, name = ""]) => !known.has(name))
        .map(([, name]) => `${path}: ${name}`),
    );
    expect(wrong).toEqual([]);
  });

  test("link only to files that exist, and name only folders that do", () => {
    const wrong = pages.flatMap((path) => {
      const links = [...textOf(path).matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)/g)].map(([, link = ""]) =>
        join(dirname(path), decodeURI(link)),
      );
      const folders = [...textOf(path).matchAll(/`((?:src|test|proof|chaos|bench)(?:\/[\w.-]+)+)\/?`/g)];
      const targets = [...links, ...folders.map(([, folder = ""]) => folder)];
      return targets
        .filter((target) => !known.has(target.replace(/\/$/, "")))
        .map((target) => `${path}: ${target}`);
    });
    expect(wrong).toEqual([]);
  });
});

describe("Lua scripts", () => {
  const scripts = files.filter((path) => path.endsWith(".lua"));

  test.each(scripts)("%s lists in its header exactly the keys and arguments it uses", (path) => {
    const text = textOf(path);
    const header = /--\[\[([\s\S]*?)\]\]/.exec(text);
    expect(header).not.toBeNull();
    const body = text.slice((header?.index ?? 0) + (header?.[0].length ?? 0));
    const named = (part: string, list: "KEYS" | "ARGV") =>
      [
        ...new Set(
          [...part.matchAll(new RegExp(`${list}\\[(\\d+)\\]`, "g"))].map(([, index]) => Number(index)),
        ),
      ].sort((left, right) => left - right);
    expect(named(header?.[1] ?? "", "KEYS")).toEqual(named(body, "KEYS"));
    expect(named(header?.[1] ?? "", "ARGV")).toEqual(named(body, "ARGV"));
  });

  test.each(scripts)("%s neither decodes JSON nor prints numbers in any form but a whole one", (path) => {
    const body = textOf(path).replace(/--\[\[[\s\S]*?\]\]/, "");
    expect(body).not.toMatch(/cjson|cmsgpack|tostring\(|%d|%s|%g/);
    expect(body.startsWith("#!lua")).toBe(true);
  });
});

describe("planted bugs", () => {
  const edits = textPatches.flatMap(({ name, edits: changes }) => changes.map((edit) => ({ name, ...edit })));

  test.each(edits)("$name still applies to $file", ({ file, find }) => {
    expect(textOf(file).split(find).length - 1).toBe(1);
  });
});

describe("incidents", () => {
  const page = textOf("docs/incidents.md");
  const rows = page.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("| what "));
  const cited = [...page.matchAll(/`((?:src|test)\/[^`]+\.ts)`: (.+?)(?=<br>| \|)/g)];
  const tests = cited.map(([, file = "", name = ""]) => ({ file, name }));

  test("every row names a test, and every name was understood", () => {
    const silent = rows.filter((row) => !tests.some(({ name }) => row.includes(`: ${name}`)));
    expect([rows.length > 50, silent]).toEqual([true, []]);
    expect(tests).toHaveLength(page.match(/`(?:src|test)\/[^`]+\.ts`: /g)?.length ?? 0);
  });

  test.each(tests)("$file has the test: $name", ({ file, name }) => {
    const text = textOf(file);
    // A test inside a describe is told by both names.
    for (const part of name.split(" › ")) expect(text).toContain(`"${part}"`);
  });
});

describe("tables", () => {
  const used = sources
    .filter((path) => !tables.includes(path))
    .map(textOf)
    .join("\n");

  test("every metric is counted somewhere", () => {
    expect(Object.keys(metrics).filter((name) => !used.includes(`"${name}"`))).toEqual([]);
  });

  test("every error is reported somewhere", () => {
    const unused = Object.keys(errors).filter((name) => !new RegExp(`["'.]${name}\\b`).test(used));
    expect(unused).toEqual([]);
  });

  test.each(referencePages())("$path is fresh (npm run docs:reference)", ({ path, text }) => {
    expect(textOf(path)).toBe(text);
  });
});

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/(^|\s)\/\/.*$/gm, "");
}

function foldersOf(path: string): string[] {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_part, index) => parts.slice(0, index + 1).join("/"));
}
