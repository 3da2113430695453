// interlock canary: policies on trial for a share of the runs, both sides shown live, and the verdict.
import { type CanaryMetric, canaryMetrics, shown } from "../../domain/canary-guard.ts";
import type { Body, Success } from "../../sdk/contract.ts";
import type { Cli, Context } from "../context.ts";
import { showList } from "../output.ts";
import { UsageError } from "../run-program.ts";
import { age, type Tone } from "../text.ts";
import { collected, durationMs, percentage, wholeNumber } from "../values.ts";
import { typedPolicies } from "./policies.ts";

type Status = Success<"getCanary">;

export function addCanaryCommands({ program, does }: Cli): void {
  const canary = program
    .command("canary")
    .description("try policies on a share of the runs, with automatic rollback; needs a platform key");
  canary
    .command("start")
    .description("start one")
    .argument("[policies...]", "what is tried, such as results.strategy=handoff")
    .option("--policy <policy...>", "the same, as an option")
    .requiredOption("--percent <percent>", "of the runs", percentage)
    .option("--for <time>", "how long: 10s to 30d", durationMs, defaultForMs)
    .option(
      "--guard <guard>",
      "such as result_latency_p95<=1.2x or lock_wait_p99<=250ms; repeatable",
      collected,
    )
    .option("--tenant <tenant>", "whose runs; without one those of all tenants that do not say otherwise")
    .option("--window <time>", "how long a window is: 1s to 1h", durationMs)
    .option("--samples <count>", "of each side before anything is decided: 10 or more", wholeNumber)
    .option("--windows-in-a-row <count>", "how many windows in a row must break a guard", wholeNumber)
    .option("--watch", "show both sides until it has ended")
    .addHelpText(
      "after",
      '\nExample:\n  interlock canary start results.strategy=handoff --percent 10 --for 7d --guard "result_latency_p95<=1.2x"',
    )
    .action(does(startCanary));
  canary
    .command("status", { isDefault: true })
    .description("show both sides, the guards, and what is missing; of the latest, or of one")
    .argument("[canary]")
    .option("--watch", "until it has ended")
    .action(does(showCanary));
  canary
    .command("list")
    .description("list those that run and the latest that have ended")
    .action(does(listCanaries));
  for (const [name, what] of [
    ["rollback", "end one now: all runs follow what is set for all"],
    ["keep", "end one now: its policies are set for all runs"],
  ] as const) {
    canary
      .command(name)
      .description(what)
      .argument("<canary>")
      .option("--reason <text>", "for the audit trail")
      .action(does((context, id: string, options: Reason) => endCanary(context, name, id, options)));
  }
}

/** A day has every load that a tenant has. */
const defaultForMs = 86_400_000;

type StartOptions = {
  readonly policy?: readonly string[];
  readonly percent: number;
  readonly for: number;
  readonly guard?: string[];
  readonly tenant?: string;
  readonly window?: number;
  readonly samples?: number;
  readonly windowsInARow?: number;
  readonly watch?: boolean;
};

async function startCanary(context: Context, named: readonly string[], options: StartOptions): Promise<void> {
  const { tenant, window, samples, windowsInARow, guard, watch } = options;
  const typed = [...named, ...(options.policy ?? [])];
  if (typed.length === 0) throw new UsageError("name what is to be tried, such as results.strategy=handoff");
  const body = {
    ...(tenant === undefined ? {} : { tenant }),
    policies: typedPolicies("canary start", typed, undefined),
    percent: options.percent,
    for_seconds: options.for / 1_000,
    ...(window === undefined ? {} : { window_seconds: window / 1_000 }),
    ...(guard === undefined ? {} : { guards: guard }),
    ...(samples === undefined ? {} : { samples_min: samples }),
    ...(windowsInARow === undefined ? {} : { windows_in_a_row: windowsInARow }),
  } as Body<"startCanary">;
  const status = await context.client("platform").call("startCanary", { body });
  if (watch === true) return watchCanary(context, status);
  context.output.answer(status, () => statusLines(context, status));
  context.output.note(`Follow it: ${context.terminal.calledAs} canary status ${status.id} --watch`);
}

async function showCanary(
  context: Context,
  id: string | undefined,
  { watch }: { readonly watch?: boolean },
): Promise<void> {
  const client = context.client("platform");
  const wanted = id ?? (await client.call("listCanaries")).items[0]?.id;
  if (wanted === undefined)
    throw new UsageError("there is no canary: start one with `interlock canary start`");
  const status = await client.call("getCanary", { params: { id: wanted } });
  if (watch === true) return watchCanary(context, status);
  context.output.answer(status, () => statusLines(context, status));
}

/** Windows last a second at least. */
const askEveryMs = 1_000;

/** Only a canary that is kept is a success to scripts. */
async function watchCanary(context: Context, first: Status): Promise<void> {
  const { output, terminal } = context;
  const client = context.client("platform");
  const leaving = new AbortController();
  const stopListening = terminal.onInterrupt(() => leaving.abort());
  let status = first;
  let before = "";
  for (;;) {
    const lines = statusLines(context, status);
    // Shown again only when it says something new.
    if (lines.join("\n") !== before) output.item(status, () => [...lines, ""]);
    before = lines.join("\n");
    if (endings[status.state] !== undefined || leaving.signal.aborted) break;
    await new Promise<void>((resolve) => {
      const cancel = terminal.timer(askEveryMs, resolve);
      leaving.signal.addEventListener("abort", () => {
        cancel();
        resolve();
      });
    });
    status = await client.call("getCanary", { params: { id: status.id } });
  }
  stopListening();
  const ending = endings[status.state];
  if (ending === undefined) {
    output.note(`It goes on. Follow it again: ${terminal.calledAs} canary status ${status.id} --watch`);
    context.end("interrupted");
  } else if (ending !== "good") {
    context.end("failed");
  }
}

const endings: Readonly<Record<string, Tone | undefined>> = {
  kept: "good",
  rolled_back: "bad",
  inconclusive: "plain",
  stopped: "bad",
};

function statusLines({ output, terminal }: Context, status: Status): string[] {
  const { canary, control } = status.arms;
  const families = Object.keys(status.policies);
  const hasStarts = families.some((name) => name.startsWith("admission."));
  const hasResults = families.some((name) => !name.startsWith("admission."));
  const wanted = Object.keys(canary.measures).filter((name) => {
    const { family } = canaryMetrics[name as CanaryMetric];
    return family === "starts" ? hasStarts : hasResults;
  });
  const value = (name: string, of: number | null | undefined) => shown(name as CanaryMetric, of ?? undefined);
  return [
    ...output.facts([
      ["canary", status.id],
      ["state", { text: status.state.replace("_", " "), tone: endings[status.state] ?? "busy" }],
      ["because", status.reason],
      ["policies", policyText(status.policies)],
      ["of", `${status.percent} % of the runs of ${status.tenant ?? "all tenants"}`],
      [
        endings[status.state] === undefined ? "ends" : "ended",
        age(status.ended_at ?? status.ends_at, terminal.nowMs()),
      ],
      ["missing", status.missing.join("; ")],
    ]),
    "",
    ...output.table(
      ["measure", "canary", "control"],
      [
        ...(hasResults ? [["results", canary.results, control.results] as const] : []),
        ...(hasStarts ? [["starts", canary.starts, control.starts] as const] : []),
        ...(hasResults
          ? [
              [
                "busy_retries_per_minute",
                canary.busy_retries_per_minute,
                control.busy_retries_per_minute,
              ] as const,
            ]
          : []),
        ...wanted.map((name) => [
          name,
          value(name, canary.measures[name as CanaryMetric]),
          value(name, control.measures[name as CanaryMetric]),
        ]),
      ],
    ),
    "",
    ...output.table(
      ["guard", "latest window", "canary", "control", "broken in a row"],
      status.standings.map(({ guard, verdict, broken_in_a_row, ...sides }) => {
        const metric = /^[a-z0-9_]+/.exec(guard)?.[0] ?? "";
        return [
          guard,
          { text: verdict, tone: tones[verdict] ?? "plain" },
          value(metric, sides.canary),
          value(metric, sides.control),
          `${broken_in_a_row} of ${status.windows_in_a_row}`,
        ];
      }),
    ),
  ];
}

const tones: Readonly<Record<string, Tone | undefined>> = { holds: "good", broken: "bad", unknown: "quiet" };

function policyText(policies: Readonly<Record<string, string | number | undefined>>): string {
  return Object.entries(policies)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

async function listCanaries(context: Context): Promise<void> {
  const { terminal } = context;
  const list = await context.client("platform").call("listCanaries");
  showList(context, list, {
    none: "No canaries.",
    columns: ["id", "state", "policies", "percent", "tenant", "started", "because"],
    row: (canary) => [
      canary.id,
      { text: canary.state.replace("_", " "), tone: endings[canary.state] ?? "busy" },
      policyText(canary.policies),
      canary.percent,
      canary.tenant ?? "all",
      age(canary.started_at, terminal.nowMs()),
      canary.reason,
    ],
  });
}

type Reason = { readonly reason?: string };

async function endCanary(
  context: Context,
  how: "rollback" | "keep",
  id: string,
  { reason }: Reason,
): Promise<void> {
  const client = context.client("platform");
  const asked = { params: { id }, body: reason === undefined ? {} : { reason } };
  const status =
    how === "keep" ? await client.call("keepCanary", asked) : await client.call("rollBackCanary", asked);
  context.output.answer(status, () => statusLines(context, status));
  context.output.note("Every process follows within 5 s.");
}
