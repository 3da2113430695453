// The planted bugs in what is counted, and in the rules that read it.
import type { TextPatch } from "../planted-bug.ts";

export const plantedMetricBugs: readonly TextPatch[] = [
  {
    name: "rerun-counted-as-a-start",
    what: "the decision of a rerun is measured as that of a start",
    edits: [
      {
        file: "src/control/admission/start-run.ts",
        find: `const endpoint = request.rerun === undefined ? "start_run" : "rerun_run";`,
        replace: `const endpoint = request.rerun === undefined ? "start_run" : "start_run";`,
      },
    ],
    tests: ["test/unit/flow-rerun.test.ts"],
  },
  {
    name: "every-refusal-is-the-limit",
    what: "whatever refused a start, a key that was not given back counts as one at the limit",
    edits: [
      {
        file: "src/control/admission/start-under-lock.ts",
        find: `refusedContexts[answer.kind] ?? "refused"`,
        replace: `refusedContexts[answer.kind] ?? "limit"`,
      },
    ],
    tests: ["test/unit/start-run-lock.test.ts"],
  },
  {
    name: "unanswered-renewals-uncounted",
    what: "renewals without an answer are not counted: the objective looks kept while the store is away",
    edits: [
      {
        file: "src/control/locks/release-lease.ts",
        find: `  metrics.count("lock_renewals_total", { lock, outcome });`,
        replace: `  if (outcome !== "unknown") metrics.count("lock_renewals_total", { lock, outcome });`,
      },
    ],
    tests: ["test/unit/counted-work.test.ts"],
  },
  {
    name: "counters-appear-with-one",
    what: "a counter is shown from its first event on: Prometheus sees no rise, and the first repair alarms nobody",
    edits: [
      {
        file: "src/adapters/prometheus-metrics.ts",
        find: "for (const labels of shownFromTheStart(metrics[name]))",
        replace: "for (const labels of shownFromTheStart(metrics[name]).slice(1))",
      },
    ],
    tests: ["test/unit/prometheus-metrics.test.ts"],
  },
  {
    name: "failover-looks-sustained",
    what: "refused renewals of a failover of five minutes stay in the ratio for fifteen: somebody is told of what is over",
    edits: [
      {
        file: "deploy/prometheus/alerts.yml",
        find: "            and interlock:lock_not_owned:ratio_5m > 0.05\n",
        replace: "",
      },
    ],
    tests: ["test/e2e/promtool.test.ts"],
  },
  {
    name: "repeated-reports-counted",
    what: "a report that a worker sent twice counts as two results",
    edits: [
      {
        file: "src/control/engine/deliver-entry.ts",
        find: `    if (isHandedOver) metrics.count("inbox_handoffs_total", {});`,
        replace: `    if (isHandedOver) metrics.count("inbox_handoffs_total", {});
    if (entry.kind === "result") metrics.count("jobs_reported_total", { outcome: entry.outcome });`,
      },
    ],
    tests: ["test/unit/counted-work.test.ts"],
  },
];
