// docs/guide/requirements.md is complete: ids without a gap, everything that it names is there, and every row names its checks.
import { existsSync, readdirSync } from "node:fs";
import { join, normalize } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { createProgram } from "../../src/cli/main.ts";
import { processTerminal } from "../../src/cli/terminal.ts";
import { settings } from "../../src/config.ts";
import { catalogue } from "../../src/drills/catalogue.ts";
import { metrics } from "../../src/metrics.ts";
import { root, textOf } from "../support/packaging.ts";

type Requirement = {
  readonly id: string;
  readonly claim: string;
  readonly where: string;
  readonly checks: ReadonlyArray<{ readonly file: string; readonly title: string; readonly drill?: string }>;
  readonly unread: string;
};
type Ran = { readonly file: string; readonly fullName: string; readonly status: string };
type Requirements = {
  readRequirements(page: string): Requirement[];
  judgeRequirements(
    rows: readonly Requirement[],
    ran: { readonly stages: readonly string[]; readonly tests: readonly Ran[] },
  ): { readonly judged: number; readonly problems: readonly string[] };
};
const { readRequirements, judgeRequirements } = (await import(
  pathToFileURL(join(root, "scripts/requirements.mjs")).href
)) as Requirements;

const page = textOf("docs/guide/requirements.md");
const rows = readRequirements(page).map((row) => ({
  ...row,
  document: row.id.slice(1, 4),
  number: Number(row.id.slice(5)),
}));
const documents = ["000", "001", "002", "003", "004"];
const invariants = textOf("docs/invariants.md");
const alerts = textOf("deploy/prometheus/alerts.yml");

/** Tests that read documents and rules, and run nothing of the product. */
const readsPages = ["requirements", "lock-pages", "monitoring"].map((name) => `test/unit/${name}.test.ts`);

/** What stands in backticks, and what links lead to. */
const namesIn = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
const linksIn = (text: string) => [...text.matchAll(/\]\(([^)]+)\)/g)].map(([, link = ""]) => link);

describe("docs/guide/requirements.md", () => {
  test.each(documents)("numbers the requirements of document %s without a gap", (document) => {
    const numbers = rows.filter((row) => row.document === document).map(({ number }) => number);
    expect(numbers).toEqual(numbers.map((_, index) => index + 1));
    expect(numbers.length).toBeGreaterThan(20);
    expect(page).toMatch(new RegExp(`^\\| \\[R${document}\\].* \\| ${numbers.length} \\|$`, "m"));
  });

  test("has no row of another kind, and none twice", () => {
    expect(page.match(/^\| R\d/gm)).toHaveLength(rows.length);
    expect(new Set(rows.map(({ claim, document }) => `${document} ${claim}`)).size).toBe(rows.length);
  });

  test("says of every requirement where it lives: something that can be opened, measured or run", () => {
    const kinds = /\]\(|`interlock |`interlock_|INV-\d/;
    const isSetting = (where: string) => namesIn(where).some((name) => Object.hasOwn(settings, name));
    const vague = rows.filter(({ where }) => !kinds.test(where) && !isSetting(where));
    expect(vague.map(({ id }) => id)).toEqual([]);
  });

  test("says of every requirement which tests or drills check it, and nothing else in that place", () => {
    expect(rows.filter(({ checks }) => checks.length === 0).map(({ id }) => id)).toEqual([]);
    expect(rows.filter(({ unread }) => unread !== "").map(({ id, unread }) => `${id}: ${unread}`)).toEqual(
      [],
    );
  });

  test("names a check that runs the product for every row about drills, renewals, owners and busy results", () => {
    const isAbout = /\b(?:runbook|drill|renew|stale|owner|polic|busy|lock not owned|tokens?)/i;
    const unchecked = rows
      .filter(({ claim }) => isAbout.test(claim))
      .filter(({ checks }) => checks.every(({ file }) => readsPages.includes(file)));
    expect(unchecked.map(({ id, claim }) => `${id}: ${claim}`)).toEqual([]);
  });

  test("names only tests whose titles are in their files, and drills that there are", () => {
    const absent = rows.flatMap(({ id, checks }) =>
      checks
        .filter(({ file, title, drill }) =>
          drill === undefined ? !sourceOf(file).includes(title) : !Object.hasOwn(catalogue, drill),
        )
        .map(({ file, title }) => `${id}: ${title} (${file})`),
    );
    expect(absent).toEqual([]);
  });

  test("names only choices that a setting has, where a row holds with one alone", () => {
    const named = namesIn(page).filter((name) => /^[a-z]+\.[a-zA-Z.]+=/.test(name));
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter((name) => !isChoice(name))).toEqual([]);
  });

  test("says of an alert that cannot fire by default with which setting it can", () => {
    const [, list = ""] = textOf("docs/runbooks/alerts.md").split("\n## Which cannot fire\n");
    const needs = [...(list.split("\n## ")[0] ?? "").matchAll(/^\| \[`(\w+)`\]\S+ \| (.+) \|$/gm)];
    expect(needs.length).toBeGreaterThan(5);
    const silent = needs.flatMap(([, alert = "", settingsOf = ""]) =>
      rows
        .filter(({ where }) => where.includes(`[\`${alert}\`]`))
        .filter(({ where }) => !namesIn(settingsOf).some((setting) => where.includes(setting)))
        .map(({ id }) => `${id}: ${alert}`),
    );
    expect(silent).toEqual([]);
  });

  test("links only to files that are there", () => {
    const absent = [...new Set(linksIn(page))]
      .map((link) => link.split("#")[0] ?? "")
      .filter((path) => path !== "" && !existsSync(join(root, normalize(join("docs/guide", path)))));
    expect(absent).toEqual([]);
  });

  test("names only settings, metrics, alerts, drills and invariants that there are", () => {
    const names = namesIn(page);
    const areas = new Set(Object.keys(settings).map((name) => name.split(".")[0]));
    // `renewal.policy` is a policy, which no setting of a process chooses.
    const asSettings = names.filter(
      (name) => /^[a-z]+\.[a-zA-Z.]+$/.test(name) && areas.has(name.split(".")[0]),
    );
    expect(asSettings.filter((name) => !Object.hasOwn(settings, name))).toEqual([]);
    const asMetrics = names
      .filter((name) => /^interlock_\w+$/.test(name))
      .map((name) => name.slice("interlock_".length));
    expect(asMetrics.filter((name) => !Object.hasOwn(metrics, name))).toEqual([]);
    const asAlerts = names.filter((name) => /^Interlock[A-Z]\w+$/.test(name));
    expect(asAlerts.filter((name) => !alerts.includes(`alert: ${name}\n`))).toEqual([]);
    const asDrills = names.flatMap((name) => /^interlock drill ([a-z0-9-]+)$/.exec(name)?.[1] ?? []);
    expect(asDrills.filter((name) => !Object.hasOwn(catalogue, name))).toEqual([]);
    const asInvariants = new Set(page.match(/INV-\d+/g));
    expect([...asInvariants].filter((name) => !invariants.includes(`| ${name} |`))).toEqual([]);
    expect([
      asSettings.length > 50,
      asMetrics.length > 30,
      asAlerts.length > 20,
      asDrills.length > 30,
    ]).toEqual([...[true, true, true, true]]);
  });
});

test("the defaults that rows name are those of the settings", () => {
  const named = {
    "admission.strategy": "atomic",
    "admission.wait": "jitter",
    "admission.keyRetentionDays": 7,
    "results.strategy": "handoff",
    "results.retry.wait": "jitter",
    "results.retry.baseMs": 500,
    "results.retry.jitterFraction": 0.3,
    "results.deliveriesMax": 100,
    "approvals.strategy": "atomic",
    "locks.renewalPolicy": "by_risk",
    "locks.run.handoffTtlMs": 5_000,
    "dispatch.checkUrl": "",
  } as const;
  const names = Object.keys(named) as ReadonlyArray<keyof typeof named>;
  expect(Object.fromEntries(names.map((name) => [name, settings[name].default]))).toEqual(named);
});

describe("rows that are advice are written where people look for them", () => {
  test.each([
    [
      "R000-27: the page of the admission lock names the drills to run before its numbers are changed",
      "docs/runbooks/locks/admission.md",
      /## Before you change its numbers\n[^#]*`interlock drill admission-burst --sweep`[^#]*`interlock drill key-survives-429`/,
    ],
    [
      "R000-41: the page of the admission lock says that both budgets are tuned together",
      "docs/runbooks/locks/admission.md",
      /Wait budget and client retry budget belong together/,
    ],
    [
      "R002-26: the drill of keys is run after every change of a limit or of how long keys are kept",
      "docs/guide/operating.md",
      /`interlock drill key-survives-429` \| after every change of a tenant's limit or of `admission.keyRetentionDays`/,
    ],
    [
      "R002-34: the runbook of admission says how to find the run of a key",
      "docs/runbooks/admission.md",
      /## Which run does a key map to\?\n[^#]*GET 'interlock:\{pNN\}:wf:run:idempotency:<tenant>:<sha256>'/,
    ],
    [
      "R003-08: the page of durability names the window that stays open",
      "docs/guide/durability.md",
      /## The window that stays open\n[^#]*WAIT narrows the window and does not close it/,
    ],
    [
      "R003-11: the runbook of locks says what a burst of refusals means",
      "docs/runbooks/locks.md",
      /## `lock not owned`[^#]*Nothing was damaged: the store refused\./,
    ],
    [
      "R003-29: the drill of stale owners is run before the ttl of a lock is changed",
      "docs/guide/operating.md",
      /`interlock drill stale-owner` \| before changing a lock's ttl/,
    ],
    [
      "R003-34: the runbook of locks names pauses, a slow store and work that outlives its lease",
      "docs/runbooks/locks.md",
      /look for long pauses [^#]*for a slow store [^#]*and for work that outlives its lease/,
    ],
    [
      "R003-40: the runbook of locks calls a sustained rise of refusals a matter of time",
      "docs/runbooks/locks.md",
      /A sustained rise of `interlock_lock_not_owned_total` [^#]*holders are slower than their ttl/,
    ],
    [
      "R004-06: the page of the run lock has the policy of each risk as a table",
      "docs/runbooks/locks/run.md",
      /\| `high` \| `fence` at the first failure \|[^#]*\| `standard` \| `fence` at the third[^#]*\| `low` \| `continue` \|/,
    ],
    [
      "R004-26: the drill of renewals is run before their intervals, thresholds or policy are changed",
      "docs/guide/operating.md",
      /`interlock drill renewal-outage` \| before changing renewal intervals, thresholds or the policy/,
    ],
  ])("%s", (_row, path, said) => {
    expect(textOf(path)).toMatch(said);
  });
});

describe("the rows after a run of the tests", () => {
  const [row, drilled] = readRequirements(
    [
      '| R000-01 | It holds. | somewhere | [one](../../test/unit/one.test.ts) "holds", [two](../../test/e2e/two.test.ts) "too" |',
      "| R000-02 | It is drilled. | `interlock drill failover` | `drill failover` |",
    ].join("\n"),
  ) as [Requirement, Requirement];
  const one = { file: "test/unit/one.test.ts", fullName: "the claim holds on sqlite", status: "passed" };
  const two = { file: "test/e2e/two.test.ts", fullName: "holds too", status: "passed" };
  const stages = ["unit", "e2e"];

  test("are checked when each of their tests ran and passed", () => {
    expect(judgeRequirements([row], { stages, tests: [one, two] })).toEqual({ judged: 1, problems: [] });
  });

  test("are not when a test did not run, ran elsewhere, or failed once", () => {
    const problemsOf = (tests: readonly Ran[]) => judgeRequirements([row], { stages, tests }).problems;
    const absent = ['R000-01: no test "holds" ran in test/unit/one.test.ts'];
    expect(problemsOf([two])).toEqual(absent);
    expect(problemsOf([two, { ...one, file: "test/unit/other.test.ts" }])).toEqual(absent);
    const failed = { ...one, fullName: "the claim holds on redis", status: "failed" };
    expect(problemsOf([one, two, failed])).toEqual(['R000-01: "holds" in test/unit/one.test.ts failed']);
  });

  test("are not judged when a stage that they name was not run", () => {
    const tests = [{ ...one, status: "failed" }];
    expect(judgeRequirements([row], { stages: ["unit"], tests })).toEqual({ judged: 0, problems: [] });
  });

  test("need a drill to be met on both kinds of instance", () => {
    const fullName = "drills on embedded failover meets its expectation";
    const tests = [{ file: "test/drills/embedded.test.ts", fullName, status: "passed" }];
    const { problems } = judgeRequirements([drilled], { stages: ["drills"], tests });
    expect(problems).toEqual([
      'R000-02: no test "failover meets its expectation" ran in test/drills/cluster.test.ts',
    ]);
  });

  test("are not checked by what cannot be read as a check", () => {
    const [vague, none] = readRequirements(
      '| R000-03 | A. | b | [one](../../test/unit/one.test.ts) "holds", by hand |\n| R000-04 | A. | b | - |',
    ) as [Requirement, Requirement];
    const { problems } = judgeRequirements([vague, none], { stages, tests: [one] });
    expect(problems).toEqual([
      "R000-03: by hand is neither a test with its title nor a drill",
      "R000-04 names no check",
      "R000-04: - is neither a test with its title nor a drill",
    ]);
  });
});

describe("docs/guide/operating.md", () => {
  const operating = textOf("docs/guide/operating.md");

  test("says when to run each drill, and names no other", () => {
    const told = [...operating.matchAll(/^\| `interlock drill ([a-z0-9-]+)` \|/gm)].map(([, name]) => name);
    expect(told.sort()).toEqual(Object.keys(catalogue).sort());
  });

  test("names only settings and metrics that there are", () => {
    const names = namesIn(operating);
    const areas = new Set(Object.keys(settings).map((name) => name.split(".")[0]));
    const asSettings = names.filter(
      (name) => /^[a-z]+\.[a-zA-Z.]+$/.test(name) && areas.has(name.split(".")[0]),
    );
    expect(asSettings.filter((name) => !Object.hasOwn(settings, name))).toEqual([]);
    const asMetrics = names.flatMap((name) => /^interlock_(\w+)/.exec(name)?.[1] ?? []);
    expect(asMetrics.filter((name) => !Object.hasOwn(metrics, name))).toEqual([]);
  });

  test("names only commands and options that there are", () => {
    const calls = namesIn(operating).filter(
      (name) => name.startsWith("interlock ") && !name.includes(" <name>"),
    );
    expect(calls.length).toBeGreaterThan(20);
    expect(calls.filter((call) => !isCommand(call))).toEqual([]);
  });
});

/** Where the title of a test stands: its file, the list beside it, or the cases that all files of conformance share. */
function sourceOf(file: string): string {
  const cases = "src/testing/conformance";
  const shared = file.startsWith("test/conformance/") ? readdirSync(join(root, cases)) : [];
  const beside = [file.replace(".test.ts", ".json")].filter((path) => existsSync(join(root, path)));
  return [file, ...beside, ...shared.map((name) => `${cases}/${name}`)].map(textOf).join("\n");
}

/** `setting=choice`. */
function isChoice(name: string): boolean {
  const [setting = "", choice = ""] = name.split("=");
  if (!Object.hasOwn(settings, setting)) return false;
  const row = settings[setting as keyof typeof settings];
  return row.kind === "choice" && (row.choices as readonly string[]).includes(choice);
}

/** The words lead to a command, and every option after them is one of it. */
function isCommand(call: string): boolean {
  const [, ...words] = call.split(" ");
  let command = createProgram({ terminal: processTerminal(), ending: "ok", format: "text" });
  let isFound = false;
  for (const word of words) {
    const child = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
    if (child === undefined) break;
    command = child;
    isFound = true;
  }
  const options = words.filter((word) => word.startsWith("--"));
  return isFound && options.every((option) => command.options.some(({ long }) => long === option));
}
