// The runbook pages of the locks are true: keys, numbers, log lines, metrics, alerts and drills are those of the code.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createKeys } from "../../src/adapters/redis/keys.ts";
import { settings } from "../../src/config.ts";
import { type LockName, type LockNamespace, lockNamespaces } from "../../src/domain/lock.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { catalogue } from "../../src/drills/catalogue.ts";
import { type DrillName, drillNames } from "../../src/drills/drill.ts";
import { errors } from "../../src/errors.ts";
import { metrics } from "../../src/metrics.ts";
import type { Setting } from "../../src/settings/kinds.ts";
import { root, textOf } from "../support/packaging.ts";

const rows: Readonly<Record<string, Setting>> = settings;
const pages = lockNamespaces.map((namespace) => ({
  namespace,
  text: textOf(`docs/runbooks/locks/${namespace}.md`),
}));

/** The names that the pages use for their examples. */
const examples: Readonly<Record<LockNamespace, string>> = {
  admission: "",
  run: "run_47_0123",
  job: "run_47_0123:charge@1",
  approval: "run_47_0123:review@1",
  public: "report/week-46",
};

/** As a page writes a number: 7.5 s, 250 ms, 3. */
function shown(row: Setting): string {
  if (row.kind !== "number") return row.default;
  if (row.unit !== "ms") return String(row.default);
  return row.default >= 1_000 ? `${row.default / 1_000} s` : `${row.default} ms`;
}

/** Every line that the source can log, with what its templates may hold filled in. */
const logLines = knownLogLines();

function knownLogLines(): ReadonlySet<string> {
  const files = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".ts"),
  );
  const source = files.map((name) => textOf(join("src", name))).join("\n");
  const literal = [...source.matchAll(/log\s*\.(?:info|warn|error)\(\s*"([^"]+)"/g)].map(
    ([, line = ""]) => line,
  );
  const templates = [
    ...[...source.matchAll(/log\s*\.(?:info|warn|error)\(\s*`([^`]+)`/g)].map(([, line = ""]) => line),
    // The one message that is also an error's.
    ...[...source.matchAll(/const message = `([^`]+)`/g)].map(([, line = ""]) => line),
  ];
  const named = [...source.matchAll(/log\s*\.(?:info|warn|error)\(\s*errors\.(\w+)\.message/g)].map(
    ([, code = ""]) => errors[code as keyof typeof errors].message,
  );
  const causes = unionIn(textOf("src/domain/lock.ts"), "AbandonCause").map((cause) =>
    cause.replaceAll("_", " "),
  );
  const contexts = unionIn(textOf("src/control/admission/start-under-lock.ts"), "CleanupContext");
  // The templates are those of the processes' own locks; what is said of public ones is written out.
  const filled = templates.flatMap((template) =>
    lockNamespaces
      .filter((lock) => lock !== "public")
      .flatMap((lock) =>
        causes.flatMap((cause) =>
          contexts.map((context) =>
            template
              .replace("${lock}", lock)
              .replace('${cause.replaceAll("_", " ")}', cause)
              .replace("${context}", context),
          ),
        ),
      ),
  );
  return new Set([...literal, ...named, ...filled]);
}

function unionIn(text: string, name: string): string[] {
  const [, body = ""] = new RegExp(`type ${name} = ([^;]+);`).exec(text) ?? [];
  return [...body.matchAll(/"(\w+)"/g)].map(([, member = ""]) => member);
}

/** What stands in backticks in the first cell of a table's rows. */
function firstCells(text: string, header: string): string[] {
  const table = text.slice(text.indexOf(`\n| ${header} |`));
  const [body = ""] = table.slice(1).split("\n\n");
  return body
    .split("\n")
    .slice(2)
    .flatMap((line) => [...(line.split(" | ")[0] ?? "").matchAll(/`([^`]+)`/g)].map(([, text = ""]) => text));
}

const drills = await Promise.all(drillNames.map((name) => catalogue[name]()));

/** A drill says which locks it takes; that it does, and takes no other, is a check of every run of it. */
function drillsTaking(namespace: LockNamespace): readonly DrillName[] {
  return drills.filter(({ locks }) => locks.includes(namespace)).map(({ name }) => name);
}

/** In the order of the list of drills. */
function drillsNamedIn(text: string): readonly DrillName[] {
  return drillNames.filter((name) => new RegExp(`(?:\`(?:interlock drill )?|\\[)${name}\\b`).test(text));
}

test("the runbook of locks names for every lock the drills that take it, and no other", () => {
  const rowsOf = [
    ...textOf("docs/runbooks/locks.md").matchAll(/^\| \[(\w+)\]\(locks\/\w+\.md\) \|.*\| (.+) \|$/gm),
  ];
  const told = Object.fromEntries(rowsOf.map(([, lock = "", cell = ""]) => [lock, drillsNamedIn(cell)]));
  expect(told).toEqual(Object.fromEntries(lockNamespaces.map((lock) => [lock, drillsTaking(lock)])));
});

test.each(drills)(
  "the page of the drill $name names the locks that it takes, and no other",
  ({ name, locks }) => {
    const [, told = ""] = /^\*\*Locks\.\*\* (.+)\.$/m.exec(textOf(`docs/runbooks/drills/${name}.md`)) ?? [];
    expect(told).toBe(locks.map((lock) => `[${lock}](../locks/${lock}.md)`).join(", ") || "None");
  },
);

test("there is a page for every kind of lock, and no other", () => {
  const files = readdirSync(join(root, "docs/runbooks/locks"));
  expect(files.sort()).toEqual(lockNamespaces.map((namespace) => `${namespace}.md`).sort());
  const index = textOf("docs/runbooks/locks.md");
  expect(lockNamespaces.filter((namespace) => !index.includes(`(locks/${namespace}.md)`))).toEqual([]);
});

describe.each(pages)("the page of the $namespace lock", ({ namespace, text }) => {
  test("shows the key that the store uses", () => {
    const keys = createKeys("interlock").forTenant("acme" as TenantId);
    const lock: LockName = { namespace, name: examples[namespace] };
    expect(text).toContain(`redis-cli GET '${keys.lock(lock)}'`);
    if (namespace === "public") expect(text).toContain(`'${keys.queue(lock).places}'`);
  });

  test("has every setting of the lock, with its default", () => {
    const told = [...text.matchAll(/^\| `([a-z]+\.[a-zA-Z.]+)` \| ([^|]+) \|/gm)].map(
      ([, name = "", value = ""]) => ({
        name,
        value,
      }),
    );
    const wrong = told.filter(({ name, value }) => shown(rows[name] as Setting) !== value.trim());
    expect(wrong).toEqual([]);
    const own = Object.keys(settings).filter((name) => name.startsWith(`locks.${namespace}.`));
    expect(own.filter((name) => !told.some((each) => each.name === name))).toEqual([]);
  });

  test("names only settings, choices and errors that there are", () => {
    const names = [...text.matchAll(/`((?:locks|results|dispatch|jobs|admission|approvals)\.[a-zA-Z.]+)`/g)];
    expect(names.map(([, name = ""]) => name).filter((name) => !(name in rows))).toEqual([]);
    const codes = [...text.matchAll(/\b(?:409|429|503) `(\w+)`/g)].map(([, code = ""]) => code);
    expect(codes.filter((code) => !Object.hasOwn(errors, code))).toEqual([]);
  });

  test("lists log lines as the code writes them", () => {
    const lines = firstCells(text, "log");
    expect(lines.length).toBeGreaterThan(3);
    expect(lines.filter((line) => !logLines.has(line))).toEqual([]);
  });

  test("lists metrics with labels that they have", () => {
    const named = [...text.matchAll(/`interlock_(\w+?)(?:\{([^}`]*)\})?`/g)];
    const wrong = named.filter(([, name = "", labels = ""]) => {
      const row = Object.hasOwn(metrics, name) ? metrics[name as keyof typeof metrics] : undefined;
      const known: readonly string[] = row?.labels ?? [];
      const used = [...labels.matchAll(/(\w+)=/g)].map(([, label = ""]) => label);
      return row === undefined || used.some((label) => !known.includes(label));
    });
    expect([named.length > 3, wrong.map(([all]) => all)]).toEqual([true, []]);
  });

  test("names alerts that there are, at least one", () => {
    const alerts = [...text.matchAll(/`(Interlock[A-Za-z]+)`\]\(\.\.\/alerts\.md#(\w+)\)/g)];
    const rules = textOf("deploy/prometheus/alerts.yml");
    const wrong = alerts.filter(
      ([, name = "", anchor]) => !rules.includes(`alert: ${name}\n`) || anchor !== name.toLowerCase(),
    );
    expect([alerts.length > 0, wrong.map(([all]) => all)]).toEqual([true, []]);
  });

  test("names the drills that take the lock, and no other", () => {
    expect(drillsNamedIn(text)).toEqual(drillsTaking(namespace));
  });

  test("says what a failed renewal does and what is expected of the operator", () => {
    expect(text).toContain("\n## When a renewal fails\n");
    expect(text).toMatch(/expected of you/i);
  });
});

test("the run lock fences before its ttl by the margin that its page names", () => {
  const ttlMs = settings["locks.run.ttlMs"].default;
  const knownMs =
    3 * settings["locks.run.renewEveryMs"].default + settings["locks.run.callTimeoutMs"].default;
  expect(pages.find(({ namespace }) => namespace === "run")?.text).toContain(
    `${(ttlMs - knownMs) / 1_000} s before`,
  );
});
