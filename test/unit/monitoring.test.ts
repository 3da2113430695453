// The alert rules, their tests and the dashboard name only what is exported, and every alert leads to a page that says what to do.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { dashboardRows } from "../../scripts/dashboard-panels.ts";
import { metricNeeds } from "../../scripts/metric-needs.ts";
import { bucketsOf } from "../../src/adapters/prometheus-metrics.ts";
import { settings } from "../../src/config.ts";
import { type MetricRow, metrics } from "../../src/metrics.ts";
import { labelsLeftBy, problemsIn, rowOf, type Selector, selectorsIn } from "../support/promql.ts";

const root = dirname(dirname(import.meta.dirname));
const textOf = (path: string) => readFileSync(join(root, path), "utf8");

type Rule = {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
};
type Alert = Rule & { readonly alert: string };

const { groups } = parse(textOf("deploy/prometheus/alerts.yml")) as {
  readonly groups: ReadonlyArray<{ readonly name: string; readonly rules: readonly Rule[] }>;
};
const rules = groups.flatMap((group) => group.rules);
const alerts = rules.filter((rule): rule is Alert => rule.alert !== undefined);
const recorded = new Map(
  rules.flatMap(({ record, expr }) => (record === undefined ? [] : [[record, labelsLeftBy(expr)] as const])),
);

/** The names, kinds and labels that operators were promised. */
const promised: ReadonlyArray<readonly [string, MetricRow["kind"], readonly string[]]> = [
  ["admission_wait_seconds", "histogram", ["tenant", "endpoint", "strategy", "outcome"]],
  ["admission_decisions_total", "counter", ["strategy", "outcome"]],
  ["run_starts_total", "counter", []],
  ["active_runs", "gauge", ["tenant"]],
  ["idempotency_reservations_total", "counter", ["outcome"]],
  ["idempotency_cleanup_failures_total", "counter", ["context"]],
  ["lock_acquire_seconds", "histogram", ["lock", "outcome"]],
  ["lock_not_owned_total", "counter", ["lock", "operation"]],
  ["lock_renewal_failed_total", "counter", ["lock", "policy"]],
  ["lock_renewals_total", "counter", ["lock", "outcome"]],
  ["lock_releases_total", "counter", ["lock", "outcome"]],
  ["lock_abandoned_total", "counter", ["lock", "policy", "cause"]],
  ["lock_busy_retries_total", "counter", ["path", "policy"]],
  ["lock_busy_retry_delay_seconds", "histogram", ["lock", "policy"]],
  ["run_lock_wait_seconds", "histogram", ["path"]],
  ["run_lock_acquired_total", "counter", ["path", "retries"]],
  ["stale_write_refused_total", "counter", ["operation"]],
  ["inbox_entries_total", "counter", ["kind", "fate"]],
  ["inbox_handoffs_total", "counter", []],
  ["inbox_drain_entries", "histogram", []],
  ["jobs_published_total", "counter", ["cause"]],
  ["jobs_claimed_total", "counter", []],
  ["jobs_reported_total", "counter", ["outcome"]],
  ["job_claims_lost_total", "counter", []],
  ["job_result_latency_seconds", "histogram", ["strategy"]],
  ["dead_letters_total", "counter", ["reason"]],
  ["unknown_outcomes_total", "counter", ["operation"]],
  ["sweep_repairs_total", "counter", ["kind"]],
];

test.each(promised)("%s is a %s with the labels %j", (name, kind, labels) => {
  const rows: Readonly<Record<string, MetricRow>> = metrics;
  expect(rows[name]).toMatchObject({ kind, labels });
});

describe("closed lists of label values", () => {
  const rows = Object.entries<MetricRow>(metrics).filter(([, row]) => row.values !== undefined);

  test.each(rows)("those of %s are for labels that it has", (_name, { kind, labels, values = {} }) => {
    expect(kind).toBe("counter");
    expect(labels).toEqual(expect.arrayContaining(Object.keys(values)));
    for (const known of Object.values(values)) expect(new Set(known).size).toBe(known.length);
  });
});

describe("the alert rules", () => {
  test.each(rules.map((rule) => [rule.record ?? rule.alert ?? "", rule.expr]))(
    "%s names metrics, labels and values that exist",
    (_name, expr) => {
      expect(selectorsIn(expr).length).toBeGreaterThan(0);
      expect(problemsIn(expr, recorded)).toEqual([]);
    },
  );

  test.each(alerts)("$alert has a severity, a summary and a text with the number", ({ alert, ...rule }) => {
    expect(alert).toMatch(/^Interlock[A-Z]/);
    expect(rule.labels?.severity).toMatch(/^(critical|warning)$/);
    expect(rule.annotations?.summary).toMatch(/^[A-Z][^.]*$/);
    if (alert !== "InterlockDown") expect(rule.annotations?.description).toContain("$value");
    expect(rule.annotations?.description).toMatch(/\d/);
    for (const [, label = ""] of rule.annotations?.description?.matchAll(/\$labels\.(\w+)/g) ?? []) {
      const left = [
        ...labelsLeftBy(rule.expr),
        ...selectorsIn(rule.expr).flatMap(({ name }) => recorded.get(name) ?? []),
      ];
      if (alert !== "InterlockDown") expect(left).toContain(label);
    }
  });

  test.each(alerts)("$alert leads to a section of its own that says what it means and what to do", (rule) => {
    const [path = "", anchor = ""] = rule.annotations?.runbook_url?.split("#") ?? [];
    expect(path).toMatch(/^docs\/runbooks\/[a-z-]+\.md$/);
    expect(existsSync(join(root, path)), path).toBe(true);
    expect(anchor).toBe(rule.alert.toLowerCase());
    const section = textOf(path).split(`\n## ${rule.alert}\n`)[1]?.split("\n## ")[0] ?? "";
    for (const part of ["**Means:**", "**See:**", "**Do:**", "**Rehearse:**"])
      expect(section).toContain(part);
  });

  test("the page states each percentile's bound as the rule has it", () => {
    const page = textOf("docs/runbooks/alerts.md");
    const compared = alerts.flatMap(({ alert, expr }) =>
      [...expr.matchAll(/:p(\d+)_5m(?:\{[^}]*\})?\s*>\s*([\d.]+)/g)].map((found) => [
        alert,
        ...found.slice(1),
      ]),
    );
    expect(compared.length).toBeGreaterThanOrEqual(5);
    for (const [alert, percentile, limit] of compared) {
      const [opening = ""] = page.split(`\n## ${alert}\n\n`)[1]?.split("\n") ?? [];
      expect(opening, alert).toMatch(new RegExp(`\\bp${percentile}\\b.* above ${limit} s\\b`));
    }
  });

  test("no section of the page is about an alert that is gone", () => {
    const sections = [...textOf("docs/runbooks/alerts.md").matchAll(/^## (Interlock\w+)$/gm)].map(
      ([, name]) => name,
    );
    expect(sections).toEqual(alerts.map(({ alert }) => alert));
  });

  test("percentiles are compared with bounds of buckets, since between two bounds they are guessed", () => {
    const compared = alerts.flatMap(({ alert, expr }) =>
      [...expr.matchAll(/interlock:(\w+):p\d+_5m(?:\{[^}]*\})?\s*>\s*([\d.]+)/g)].map(
        ([, metric = "", limit]) => ({ alert, metric, limit: Number(limit) }),
      ),
    );
    expect(compared.length).toBeGreaterThanOrEqual(5);
    for (const { alert, metric, limit } of compared) {
      const bounds = bucketsOf(metric);
      expect(bounds, alert).toContain(limit);
      expect(limit, `${alert}: nothing can be above it`).toBeLessThan(Math.max(...bounds));
    }
  });

  /** The series that a rule counts, as it is exported: the first one that it names. */
  function countedBy(expr: string, above: Selector["matchers"] = []): Selector {
    const [first] = selectorsIn(expr);
    if (first === undefined) throw new Error(`${expr} names nothing`);
    const matchers = [...first.matchers, ...above];
    const rule = rules.find(({ record }) => record === first.name);
    return rule === undefined ? { name: first.name, matchers } : countedBy(rule.expr, matchers);
  }

  /** The settings of which one lets the alert fire; none when it can fire as it is. */
  function needsOf(expr: string): readonly string[] {
    const { name, matchers } = countedBy(expr);
    const needs = metricNeeds[(rowOf(name)?.metric ?? "") as keyof typeof metricNeeds] ?? [];
    if ("length" in needs) return needs;
    const asked = matchers.filter(({ label }) => label === needs.label);
    const possible = Object.entries(needs.values).filter(([value]) =>
      asked.every(({ values, operator }) => values.includes(value) !== operator.startsWith("!")),
    );
    const isFree = possible.some(([, settings]) => settings.length === 0);
    return isFree ? [] : [...new Set(possible.flatMap(([, settings]) => settings))];
  }

  test("the page lists the alerts that cannot fire with the default settings, and what lets them", () => {
    const section = textOf("docs/runbooks/alerts.md").split("\n## Which cannot fire\n")[1]?.split("\n## ")[0];
    const rows = [...(section ?? "").matchAll(/^\| \[`(\w+)`\]\(#(\w+)\) \| (.*) \|$/gm)];
    for (const [, alert = "", anchor] of rows) expect(anchor).toBe(alert.toLowerCase());
    const listed = rows.map(([, alert, , settings = ""]) => [
      alert,
      [...settings.matchAll(/`([^`]+)`/g)].map(([, setting]) => setting).sort(),
    ]);
    const idle = alerts.filter(({ expr }) => needsOf(expr).length > 0);
    expect(idle.length).toBeGreaterThan(8);
    expect(listed).toEqual(idle.map(({ alert, expr }) => [alert, [...needsOf(expr)].sort()]));
  });

  test("what a series needs are settings, and other values than their defaults", () => {
    const needs = Object.values(metricNeeds).flatMap((each) =>
      "length" in each ? each : Object.values(each.values).flat(),
    );
    for (const need of needs) {
      const [name = "", value] = need.split("=");
      const setting = settings[name as keyof typeof settings] as {
        default: unknown;
        choices?: readonly string[];
      };
      expect(setting, name).toBeDefined();
      if (value === undefined) expect(setting.default).toBe("");
      else expect(setting.choices).toContain(value);
      expect(setting.default).not.toBe(value);
    }
  });

  test("every alert is tested both ways: it fires, and it does not", () => {
    const { tests } = parse(textOf("deploy/prometheus/alerts.test.yml")) as {
      readonly tests: ReadonlyArray<{
        readonly input_series: ReadonlyArray<{ readonly series: string }>;
        readonly alert_rule_test: ReadonlyArray<{
          readonly alertname: string;
          readonly exp_alerts: readonly object[];
        }>;
      }>;
    };
    const cases = tests.flatMap((each) => each.alert_rule_test);
    const tested = (fires: boolean) =>
      new Set(cases.filter((each) => each.exp_alerts.length > 0 === fires).map((each) => each.alertname));
    const all = new Set(alerts.map(({ alert }) => alert));
    expect({ firing: tested(true), quiet: tested(false) }).toEqual({ firing: all, quiet: all });
    const series = tests.flatMap((each) => each.input_series.map((input) => input.series));
    expect(series.flatMap((each) => problemsIn(each))).toEqual([]);
  });
});

describe("the dashboard", () => {
  const queries = dashboardRows.flatMap((row) =>
    row.panels.flatMap((panel) =>
      panel.queries.map((query) => ({ at: `${row.title}: ${panel.title}`, ...query })),
    ),
  );
  const dashboard = JSON.parse(textOf("deploy/grafana/interlock.json"));

  test.each(queries)("$at: $expr asks for what exists, of the chosen installation", ({ expr, legend }) => {
    expect(selectorsIn(expr).length).toBeGreaterThan(0);
    expect(problemsIn(expr)).toEqual([]);
    for (const { matchers } of selectorsIn(expr)) {
      expect(matchers[0]).toEqual({ label: "job", operator: "=~", values: ["$job"] });
    }
    for (const [, label = ""] of legend.matchAll(/\{\{(\w+)\}\}/g))
      expect(labelsLeftBy(expr)).toContain(label);
  });

  test("every promised metric is on it", () => {
    const shown = new Set(
      queries.flatMap(({ expr }) => selectorsIn(expr).map(({ name }) => rowOf(name)?.metric)),
    );
    expect(promised.map(([name]) => name).filter((name) => !shown.has(name))).toEqual([]);
  });

  test("the rows that people look for are there, and one shows duplicate effects beside renewal failures", () => {
    const titles = dashboardRows.map(({ title }) => title);
    expect(titles).toEqual(expect.arrayContaining(["Admission", "Locks", "Idempotency", "Results", "Jobs"]));
    const beside = dashboardRows
      .flatMap(({ panels }) => panels)
      .find(({ title }) => title === "Duplicate effects beside renewal failures");
    const named = beside?.queries.flatMap(({ expr }) => selectorsIn(expr).map(({ name }) => name));
    expect(named).toEqual([
      "interlock_lock_renewal_failed_total",
      "interlock_lock_abandoned_total",
      "interlock_stale_write_refused_total",
      "interlock_inbox_entries_total",
    ]);
  });

  test("it has what Grafana 10 asks of one: an id of its own, the datasource as a variable, panels that do not overlap", () => {
    expect(dashboard).toMatchObject({ uid: "interlock", title: "Interlock" });
    expect(dashboard.schemaVersion).toBeGreaterThanOrEqual(38);
    const { panels } = dashboard as {
      readonly panels: ReadonlyArray<{
        readonly id: number;
        readonly type: string;
        readonly title: string;
        readonly datasource?: object;
        readonly gridPos: Readonly<Record<"x" | "y" | "w" | "h", number>>;
      }>;
    };
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const cells = new Set<string>();
    for (const { title, type, datasource, gridPos } of panels) {
      expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(24);
      if (type !== "row") expect(datasource).toEqual({ type: "prometheus", uid: "${datasource}" });
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
          expect(cells.has(`${x} ${y}`), `${title} lies on another panel`).toBe(false);
          cells.add(`${x} ${y}`);
        }
      }
    }
    const variables = dashboard.templating.list as ReadonlyArray<{
      readonly name: string;
      readonly type: string;
    }>;
    expect(variables.map(({ name, type }) => `${name} ${type}`)).toEqual([
      "datasource datasource",
      "job query",
    ]);
  });
});

describe("what is looked at", () => {
  test("names, labels, values and groupings that do not exist are found", () => {
    expect(problemsIn("sum by (job) (rate(interlock_run_start_total[5m]))")).toEqual([
      "interlock_run_start_total is not exported",
    ]);
    expect(problemsIn('interlock_lock_not_owned_total{namespace="run"}')).toEqual([
      "interlock_lock_not_owned_total has no label namespace",
    ]);
    expect(problemsIn('interlock_lock_renewals_total{outcome!="renewd"}')).toEqual([
      "outcome of interlock_lock_renewals_total is never renewd",
    ]);
    expect(problemsIn("sum by (job, tenant) (rate(interlock_run_starts_total[5m]))")).toEqual([
      "interlock_run_starts_total has no label tenant",
    ]);
    expect(problemsIn("interlock_admission_wait_seconds > 1")).toEqual([
      "interlock_admission_wait_seconds is not exported",
    ]);
    expect(problemsIn("interlock:unheard:of > 1")).toEqual(["interlock:unheard:of is not exported"]);
    expect(
      problemsIn('sum by (job, le) (rate(interlock_lock_acquire_seconds_bucket{lock="run"}[5m]))'),
    ).toEqual([]);
  });
});
