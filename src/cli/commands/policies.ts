// interlock policy: shows and sets how runs are handled, for all of them or for a share, and takes that back.
import { policyProblem } from "../../domain/policy.ts";
import type { Body, Success } from "../../sdk/contract.ts";
import type { Cli, Context } from "../context.ts";
import { UsageError } from "../run-program.ts";
import { percentage } from "../values.ts";

type PoliciesShown = Success<"getPolicies">;
type Layer = PoliciesShown["platform"];
type TypedPolicies = Body<"setPolicies">["policies"];

export function addPolicyCommands({ program, does }: Cli): void {
  const policy = program
    .command("policy")
    .description("how runs are started and results are applied; with a platform key");
  policy
    .command("show", { isDefault: true })
    .description("show which policies hold, and what is rolled out to a share of the runs")
    .option("--tenant <tenant>", "which tenant; without it, the whole platform")
    .action(does(showPolicies));
  policy
    .command("set")
    .description("set policies for all runs, or for a share of them")
    .argument("<policies...>", "such as results.strategy=retry; results.strategy=unset clears it")
    .option("--tenant <tenant>", "which tenant; without it, the whole platform")
    .option("--percent <percent>", "of the runs; 100 sets them for all and ends the rollout", percentage)
    .addHelpText(
      "after",
      "\nExample:\n  interlock policy set results.strategy=retry results.wait=fixed --tenant acme --percent 10",
    )
    .action(does(setPolicies));
  policy
    .command("rollback")
    .description("undo a rollout: all runs follow the policies set for all")
    .option("--tenant <tenant>", "which tenant; without it, the platform")
    .action(does(rollBack));
}

type Scope = { readonly tenant?: string };

const scopeOf = ({ tenant }: Scope) => (tenant === undefined ? {} : { tenant });

async function showPolicies(context: Context, options: Scope): Promise<void> {
  const shown = await context.client("platform").call("getPolicies", { query: scopeOf(options) });
  showAnswer(context, shown);
}

async function setPolicies(
  context: Context,
  typed: readonly string[],
  { percent, ...options }: Scope & { readonly percent?: number },
): Promise<void> {
  const policies = typedPolicies("policy set", typed, "unset");
  const share = percent === undefined ? {} : { percent };
  const body = { ...scopeOf(options), policies, ...share };
  const shown = await context.client("platform").call("setPolicies", { body });
  showAnswer(context, shown);
  context.output.note("Every process follows within 5 s.");
  adviseDrill(context, Object.keys(policies));
}

async function rollBack(context: Context, options: Scope): Promise<void> {
  const shown = await context.client("platform").call("removeRollout", { query: scopeOf(options) });
  showAnswer(context, shown);
  context.output.note("Every process follows within 5 s.");
}

function showAnswer(context: Context, shown: PoliciesShown): void {
  context.output.answer(shown, () => policyLines(context, shown));
  context.output.note(...(shown.warnings ?? []).map((warning) => `Warning: ${warning}.`));
}

/** `name=value`, each checked here so that a mistake is named with what could have been meant. */
export function typedPolicies(
  command: string,
  typed: readonly string[],
  cleared: "unset" | undefined,
): TypedPolicies {
  const named = typed.map((text) => {
    const [name = "", value = ""] = text.split("=", 2);
    const given = value === cleared ? undefined : typedValue(value);
    const problem = policyProblem(name, given);
    if (problem !== undefined) throw new UsageError(`${command}: ${problem}`);
    return [name, given ?? null] as const;
  });
  return Object.fromEntries(named) as TypedPolicies;
}

/** No choice looks like a number. */
function typedValue(text: string): string | number {
  return /^-?[0-9]*\.?[0-9]+$/.test(text) ? Number(text) : text;
}

const places: Readonly<Record<string, string>> = {
  tenant: "the tenant's setting",
  platform: "the platform's setting",
  process: "the process's setting",
};

function policyLines({ output }: Context, { tenant, effective, platform, own }: PoliciesShown): string[] {
  const layers = [
    { whose: tenant ?? "", layer: own },
    { whose: "the platform", layer: platform },
  ];
  const rollouts = layers.flatMap(({ whose, layer }) =>
    layer?.rollout === undefined ? [] : [rolloutFact(whose, layer.rollout)],
  );
  return [
    ...output.table(
      ["policy", "value", "by", ...rollouts.map(({ title }) => title)],
      Object.entries(effective).map(([name, { value, source }]) => [
        name,
        value,
        places[source] ?? source,
        ...rollouts.map(({ policies }) => ({ text: String(policies[name] ?? ""), tone: "busy" as const })),
      ]),
    ),
    ...rollouts.map(({ line }) => line),
  ];
}

function rolloutFact(whose: string, { id, percent, canary, policies }: NonNullable<Layer["rollout"]>) {
  const kind = canary ? "canary" : "rollout";
  return {
    title: `${percent} % of ${whose}`,
    policies: policies as Readonly<Record<string, string | number | undefined>>,
    line: `${kind} ${id}: ${percent} % of the runs of ${whose}`,
  };
}

/** By the API's names of a tenant's settings, and by the names of policies. */
const admissionSettings = new Set([
  "max_concurrent_runs",
  "admission_strategy",
  "admission_wait",
  "admission.strategy",
  "admission.wait",
]);

/** For people, beside the answer; nothing when the change is about something else. */
export function adviseDrill({ output, terminal }: Context, changed: Iterable<string>): void {
  const concerns = [...changed].some((name) => admissionSettings.has(name));
  if (!concerns) return;
  output.note(
    `This changes which runs are admitted. Run \`${terminal.calledAs} drill key-survives-429\`: it proves that a start refused now succeeds later with the same key.`,
  );
}
