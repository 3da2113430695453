// The Grafana dashboard, made from a table of panels: deploy/grafana/interlock.json is written by npm run docs:reference.
import { dashboardRows, type Panel, type PanelRow } from "./dashboard-panels.ts";

/** Grafana 10.0; later ones read it and bring it up to date by themselves. */
const schemaVersion = 38;
const columns = 24;
const panelHeight = 8;

const datasource = { type: "prometheus", uid: "${datasource}" };

export function dashboardText(): string {
  const dashboard = {
    uid: "interlock",
    title: "Interlock",
    description:
      "Admission, locks, idempotency, results and jobs. Made by scripts/dashboard.ts; do not edit.",
    tags: ["interlock"],
    schemaVersion,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: "30s",
    time: { from: "now-3h", to: "now" },
    timezone: "",
    templating: { list: [datasourceVariable, jobVariable] },
    annotations: { list: [firingAlerts] },
    links: [],
    panels: placed(dashboardRows),
  };
  return `${JSON.stringify(dashboard, null, 2)}\n`;
}

const datasourceVariable = {
  name: "datasource",
  label: "Prometheus",
  type: "datasource",
  query: "prometheus",
  current: {},
  hide: 0,
  refresh: 1,
};

/** One scrape job is one installation. */
const jobVariable = {
  name: "job",
  label: "Installation",
  type: "query",
  datasource,
  definition: "label_values(interlock_run_starts_total, job)",
  query: { query: "label_values(interlock_run_starts_total, job)", refId: "jobs" },
  includeAll: true,
  multi: true,
  allValue: ".*",
  current: { text: "All", value: "$__all" },
  hide: 0,
  refresh: 2,
  sort: 1,
};

const firingAlerts = {
  name: "Alerts",
  datasource,
  enable: true,
  hide: false,
  iconColor: "red",
  expr: 'ALERTS{alertname=~"Interlock.*",alertstate="firing",job=~"$job"}',
  titleFormat: "{{alertname}}",
  textFormat: "{{severity}}",
  step: "60s",
};

/** Rows below each other, panels beside each other until the width is used up. */
function placed(rows: readonly PanelRow[]): object[] {
  const panels: object[] = [];
  let y = 0;
  for (const row of rows) {
    const gridPos = { x: 0, y, w: columns, h: 1 };
    panels.push({
      id: panels.length + 1,
      type: "row",
      title: row.title,
      collapsed: false,
      gridPos,
      panels: [],
    });
    y += 1;
    let x = 0;
    for (const panel of row.panels) {
      const width = panel.width ?? columns / 3;
      if (x + width > columns) {
        x = 0;
        y += panelHeight;
      }
      panels.push(panelAt(panel, panels.length + 1, { x, y, w: width, h: panelHeight }));
      x += width;
    }
    y += panelHeight;
  }
  return panels;
}

function panelAt({ title, about, unit, limit, queries }: Panel, id: number, gridPos: object): object {
  const steps =
    limit === undefined
      ? [{ color: "green", value: null }]
      : [
          { color: "green", value: null },
          { color: "red", value: limit },
        ];
  return {
    id,
    type: "timeseries",
    title,
    description: about,
    datasource,
    gridPos,
    fieldConfig: {
      defaults: {
        unit,
        min: 0,
        custom: {
          drawStyle: "line",
          lineWidth: 1,
          fillOpacity: 8,
          showPoints: "never",
          spanNulls: false,
          thresholdsStyle: { mode: limit === undefined ? "off" : "line" },
        },
        thresholds: { mode: "absolute", steps },
      },
      overrides: [],
    },
    options: {
      legend: { displayMode: "list", placement: "bottom", showLegend: true },
      tooltip: { mode: "multi", sort: "desc" },
    },
    targets: queries.map(({ expr, legend }, index) => ({
      refId: String.fromCharCode("A".charCodeAt(0) + index),
      datasource,
      editorMode: "code",
      expr,
      legendFormat: legend,
      range: true,
    })),
  };
}
