// docs/guide/requirements.md is complete and true: ids without a gap, and everything that it names is there.
import { existsSync } from "node:fs";
import { join, normalize } from "node:path";
import { describe, expect, test } from "vitest";
import { createProgram } from "../../src/cli/main.ts";
import { processTerminal } from "../../src/cli/terminal.ts";
import { settings } from "../../src/config.ts";
import { catalogue } from "../../src/drills/catalogue.ts";
import { metrics } from "../../src/metrics.ts";
import { root, textOf } from "../support/packaging.ts";

const page = textOf("docs/guide/requirements.md");
const rows = [...page.matchAll(/^\| (R(\d{3})-(\d{2})) \| (.+) \| (.+) \|$/gm)].map(
  ([, id = "", document = "", number = "", claim = "", where = ""]) => ({
    id,
    document,
    number: Number(number),
    claim,
    where,
  }),
);
const documents = ["000", "001", "002", "003", "004"];
const invariants = textOf("docs/invariants.md");
const alerts = textOf("deploy/prometheus/alerts.yml");

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
