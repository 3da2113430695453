// interlock tenants, keys, idempotency: who may do what, and which run a key stands for.
import { type Command, Option } from "commander";
import { isPlatformRole, type KeyRole, keyRoles } from "../../domain/api-key.ts";
import { formatTime } from "../../domain/engine/rfc3339.ts";
import { isNearlySpent, quotaNames } from "../../domain/tenant.ts";
import type { Body, Success } from "../../sdk/contract.ts";
import type { Cli, Context } from "../context.ts";
import { budgetOption, budgetText, rateText, startRateOption, topicRateOption } from "../limit-options.ts";
import { type ListOptions, readList, showList, withListOptions } from "../output.ts";
import { UsageError } from "../run-program.ts";
import { age, toneOf } from "../text.ts";
import { durationMs, wholeNumber, yesOrNo } from "../values.ts";
import { adviseDrill } from "./policies.ts";

export function addTenantCommands({ program, does }: Cli): void {
  const tenants = program
    .command("tenants")
    .description("tenants, their limits and their kill switch; with a platform key");
  withListOptions(tenants.command("list", { isDefault: true }).description("list the tenants")).action(
    does(listTenants),
  );
  tenants
    .command("show")
    .description("show a tenant's settings")
    .argument("<tenant>")
    .action(does(showTenant));
  withSettings(tenants.command("create").description("create a tenant").argument("<tenant>"))
    .addHelpText("after", "\nExample:\n  interlock tenants create acme --max-runs 20")
    .action(does(createTenant));
  withSettings(tenants.command("set").description("change a tenant's settings").argument("<tenant>"))
    .option("--unset <names...>", "settings that become the process's own again, such as max-runs")
    .option("--expect-version <version>", "refuse when it was changed since", wholeNumber)
    .addHelpText("after", "\nExample:\n  interlock tenants set acme --max-runs 50 --unset admission-strategy")
    .action(does(setTenant));
  tenants
    .command("remove")
    .description("remove a tenant that has no active run, with its keys")
    .argument("<tenant>")
    .action(does(removeTenant));
  for (const [name, stopped, what] of [
    ["stop", true, "throw the kill switch: no run starts and no job is claimed"],
    ["resume", false, "take the kill switch back"],
  ] as const) {
    tenants
      .command(name)
      .description(what)
      .argument("<tenant>")
      .action(does((context, id: string) => changeTenant(context, id, { stopped })));
  }
}

export function addKeyCommands({ program, does }: Cli): void {
  const keys = program
    .command("keys")
    .description("API keys: of your key's tenant, or with --tenant of another");
  withListOptions(
    keys.command("list", { isDefault: true }).description("list API keys, without their secrets"),
    keysListed,
  )
    .option("--tenant <tenant>", "which tenant; with a platform key")
    .option("--platform", "the platform's own; with a platform key")
    .action(does(listKeys));
  keys
    .command("create")
    .description("create an API key; it is shown once")
    .argument("<name>", "what it is for")
    .addOption(new Option("--role <role>", "what it may do").choices(keyRoles).makeOptionMandatory())
    .option("--tenant <tenant>", "which tenant; with a platform key")
    .option("--owner <owner>", "the person or service that it belongs to; its name by default")
    .option("--expires-in <time>", "such as 90d", durationMs)
    .option(
      "--max-priority <priority>",
      "the highest priority of the runs that it starts, 0 to 9",
      wholeNumber,
    )
    .addHelpText(
      "after",
      "\nExamples:\n  interlock keys create 'the mailer' --role worker --expires-in 90d\n  interlock keys create 'phone of Ada' --role approver --owner ada",
    )
    .action(does(createKey));
  keys
    .command("revoke")
    .description("revoke an API key, at once and for good")
    .argument("<key-id>")
    .option("--tenant <tenant>", "which tenant; with a platform key")
    .option("--platform", "it is the platform's own; with a platform key")
    .action(does(revokeKey));
  program
    .command("idempotency")
    .description("show the run of an idempotency key")
    .argument("<key>")
    .addHelpText("after", "\nExample:\n  interlock idempotency order-17")
    .action(does(lookUpKey));
}

type Tenant = Success<"getTenant">;
type Settings = Omit<Body<"createTenant">, "id">;

const choices = {
  admissionStrategy: ["admission_strategy", ["atomic", "lock"]],
  admissionWait: ["admission_wait", ["jitter", "fixed"]],
  resultsStrategy: ["results_strategy", ["handoff", "retry"]],
  resultsWait: ["results_wait", ["jitter", "fixed"]],
  renewalPolicy: ["renewal_policy", ["by_risk", "fence", "continue"]],
  approvalsStrategy: ["approvals_strategy", ["atomic", "lock"]],
  atLimit: ["at_limit", ["reject", "queue"]],
} as const;

function withSettings(command: Command): Command {
  command
    .option("--max-runs <count>", "how many runs may be active at once", wholeNumber)
    .option(
      "--gate <name=number...>",
      "how many runs a gate lets through that workflows share by name, such as crm=10 or crm=none",
      gateOption,
    )
    .option(
      "--quota <name=number...>",
      "how much it may store or hold open, such as locks=500 or locks=default",
      quotaOption,
    )
    .option(
      "--start-rate <count/seconds>",
      "how many runs may start in a time, such as 30/60 or 30/60,burst=5,queue or none",
      startRateOption,
    )
    .option(
      "--topic-rate <topic=count/seconds...>",
      "how many jobs of a topic may be claimed in a time, or how many units they may need, such as llm=100000tokens/60 or llm=none",
      topicRateOption,
    )
    .option(
      "--budget <name=amount/period...>",
      "what all runs together may spend, such as daily=25usd/day,stop or daily=none",
      budgetOption,
    )
    .option("--separate-duties <yes|no>", "the person who started a run may not approve its steps", yesOrNo);
  for (const [field, values] of Object.values(choices)) {
    const name = field.replace("_", "-");
    command.addOption(new Option(`--${name} <how>`, "how it is done").choices(values));
  }
  return command;
}

type Gates = Readonly<Record<string, { readonly max: number } | null>>;

type SettingsOptions = {
  readonly maxRuns?: number;
  readonly quota?: Readonly<Record<string, number | null>>;
  readonly gate?: Gates;
  readonly startRate?: ReturnType<typeof startRateOption>;
  readonly topicRate?: ReturnType<typeof topicRateOption>;
  readonly budget?: ReturnType<typeof budgetOption>;
  readonly separateDuties?: boolean;
} & { readonly [Name in keyof typeof choices]?: (typeof choices)[Name][1][number] };

/** `locks=500`; `locks=default` takes the tenant's own number away. */
function quotaOption(text: string, before: Readonly<Record<string, number | null>> = {}) {
  const [name = "", value = ""] = text.split("=", 2);
  if (!(quotaNames as readonly string[]).includes(name)) {
    throw new UsageError(`there is no quota "${name}"; there are ${quotaNames.join(", ")}`);
  }
  return { ...before, [name]: value === "default" ? null : wholeNumber(value) };
}

/** `crm=10`; `crm=none` takes the gate away, and with it its limit. */
function gateOption(text: string, before: Gates = {}): Gates {
  const [name = "", value = ""] = text.split("=", 2);
  return { ...before, [name]: value === "none" ? null : { max: wholeNumber(value) } };
}

function settingsOf(options: SettingsOptions): Settings {
  const chosen = Object.entries(choices).flatMap(([name, [field]]) => {
    const value = options[name as keyof typeof choices];
    return value === undefined ? [] : [[field, value] as const];
  });
  return {
    ...(options.maxRuns === undefined ? {} : { max_concurrent_runs: options.maxRuns }),
    ...(options.quota === undefined ? {} : { quotas: options.quota as NonNullable<Settings["quotas"]> }),
    ...(options.gate === undefined ? {} : { gates: options.gate as NonNullable<Settings["gates"]> }),
    ...limitsOf(options),
    ...(options.separateDuties === undefined ? {} : { separate_duties: options.separateDuties }),
    ...Object.fromEntries(chosen),
  };
}

/** A null removes one; where a tenant is made there is nothing to remove, and the server says so. */
function limitsOf({ startRate, topicRate, budget }: SettingsOptions): Settings {
  return {
    ...(startRate === undefined ? {} : { start_rate: startRate }),
    ...(topicRate === undefined ? {} : { topic_rates: topicRate }),
    ...(budget === undefined ? {} : { budgets: budget }),
  } as Settings;
}

async function removeTenant(context: Context, id: string): Promise<void> {
  await context.client("platform").tenants.remove(id);
  context.output.answer({ id, removed: true }, () => [`Tenant ${id} is removed, and its keys are revoked.`]);
}

async function listTenants(context: Context, options: ListOptions): Promise<void> {
  const client = context.client("platform");
  const list = await readList(options, (query) => client.call("listTenants", { query }));
  showList(context, list, { none: "No tenants.", lines: (items) => items.map(({ id }) => id) });
}

async function showTenant(context: Context, id: string): Promise<void> {
  const tenant = await context.client("platform").call("getTenant", { params: { id } });
  context.output.answer(tenant, () => tenantLines(context, tenant));
}

function tenantLines({ output }: Context, tenant: Tenant): string[] {
  const { id, version, active_runs, idempotency_keys, stopped, quotas, gates, ...others } = tenant;
  const { start_rate, topic_rates = {}, budgets = {}, ...more } = others;
  return output.facts([
    ["tenant", id],
    ["active runs", active_runs],
    ["idempotency keys", quotaCell(idempotency_keys)],
    ["stopped", stopped === true ? { text: "yes: no run starts, no job is claimed", tone: "bad" } : "no"],
    ...Object.entries(more).map(([name, value]) => [name.replaceAll("_", " "), String(value)] as const),
    ...Object.entries(gates ?? {}).map(([name, { max }]) => [`gate ${name}`, max] as const),
    ["start rate", start_rate === undefined ? undefined : rateText(start_rate)],
    ...Object.entries(topic_rates).map(
      ([topic, rates]) => [`rate of ${topic}`, rates.map(rateText).join(" ")] as const,
    ),
    ...Object.entries(budgets).map(([name, budget]) => [`budget ${name}`, budgetText(budget)] as const),
    ...Object.entries(quotas ?? {}).map(
      ([name, quota]) => [`quota of ${name.replaceAll("_", " ")}`, quotaCell(quota)] as const,
    ),
    ["version", version],
  ]);
}

function quotaCell({ limit, used }: { readonly limit: number; readonly used?: number }) {
  if (used === undefined) return `${limit} in each process`;
  const text = `${used} of ${limit}`;
  return isNearlySpent({ limit, used }) ? { text, tone: "bad" as const } : text;
}

async function createTenant(context: Context, id: string, options: SettingsOptions): Promise<void> {
  const client = context.client("platform");
  const tenant = await client.call("createTenant", { body: { id, ...settingsOf(options) } });
  context.output.answer(tenant, () => tenantLines(context, tenant));
  context.output.note(
    `Make a key for it: ${context.terminal.calledAs} keys create 'its admin' --role admin --tenant ${id}`,
  );
}

type SetOptions = SettingsOptions & { readonly unset?: readonly string[]; readonly expectVersion?: number };

async function setTenant(context: Context, id: string, options: SetOptions): Promise<void> {
  const names: Readonly<Record<string, string>> = {
    "max-runs": "max_concurrent_runs",
    "separate-duties": "separate_duties",
    gates: "gates",
    "start-rate": "start_rate",
    "topic-rates": "topic_rates",
    budgets: "budgets",
    ...Object.fromEntries(Object.values(choices).map(([field]) => [field.replace("_", "-"), field])),
  };
  const unset = (options.unset ?? []).map((name) => {
    const field = names[name];
    if (field === undefined)
      throw new UsageError(`--unset ${name}: it must be one of ${Object.keys(names).join(", ")}`);
    return [field, null] as const;
  });
  const changes = { ...settingsOf(options), ...Object.fromEntries(unset) };
  if (Object.keys(changes).length === 0)
    throw new UsageError("tenants set: name a setting to change; `interlock help tenants` lists them");
  const expected = options.expectVersion === undefined ? {} : { expected_version: options.expectVersion };
  await changeTenant(context, id, { ...changes, ...expected });
  adviseDrill(context, Object.keys(changes));
}

async function changeTenant(context: Context, id: string, body: Body<"changeTenant">): Promise<void> {
  const tenant = await context.client("platform").call("changeTenant", { params: { id }, body });
  context.output.answer(tenant, () => tenantLines(context, tenant));
}

/** As many as there were in one answer before there were pages. */
const keysListed = 1_000;

type OfTenant = { readonly tenant?: string; readonly platform?: boolean };

/** A tenant's admin manages its own keys; everybody else's are the platform's business. */
function keysOf(context: Context, { tenant, platform }: OfTenant) {
  const isOwn = tenant === undefined && platform !== true;
  return {
    client: context.client(isOwn ? "tenant" : "platform"),
    query: tenant === undefined ? {} : { tenant },
  };
}

async function listKeys(context: Context, options: OfTenant & ListOptions): Promise<void> {
  const { terminal } = context;
  const { client, query } = keysOf(context, options);
  const list = await readList(options, (page) => client.call("listKeys", { query: { ...page, ...query } }));
  showList(context, list, {
    none: "No API keys.",
    columns: ["id", "tenant", "role", "name", "owner", "created", "created by", "expires"],
    row: (key) => [
      key.id,
      key.tenant,
      key.role,
      key.name,
      key.owner === key.name ? undefined : key.owner,
      age(key.created_at, terminal.nowMs()),
      key.made_through?.[0] ?? key.created_by,
      age(key.expires_at, terminal.nowMs()),
    ],
  });
}

type NewKeyOptions = {
  readonly role: KeyRole;
  readonly owner?: string;
  readonly tenant?: string;
  readonly expiresIn?: number;
  readonly maxPriority?: number;
};

async function createKey(context: Context, name: string, options: NewKeyOptions): Promise<void> {
  const { role, owner, tenant, expiresIn, maxPriority } = options;
  const { client } = keysOf(context, isPlatformRole(role) ? { platform: true } : options);
  const key = await client.call("createKey", {
    body: {
      role,
      name,
      ...(owner === undefined ? {} : { owner }),
      ...(tenant === undefined ? {} : { tenant }),
      ...(maxPriority === undefined ? {} : { max_priority: maxPriority }),
      ...(expiresIn === undefined ? {} : { expires_at: formatTime(context.terminal.nowMs() + expiresIn) }),
    },
  });
  context.output.answer(key, () => [key.key]);
  context.output.note(`A key of ${key.tenant} with role ${key.role}, id ${key.id}: shown only this once.`);
}

async function revokeKey(context: Context, id: string, options: OfTenant): Promise<void> {
  const { client, query } = keysOf(context, options);
  await client.call("revokeKey", { params: { id }, query });
  context.output.answer({ id, revoked: true }, () => [`Revoked ${id}.`]);
}

async function lookUpKey(context: Context, key: string): Promise<void> {
  const bound = await context.client().call("lookUpKey", { params: { key } });
  context.output.answer({ key, ...bound }, () =>
    context.output.facts([
      ["key", key],
      ["run", bound.run_id],
      ["state", bound.state === "pending" ? "pending: it is still being admitted" : "bound"],
      [
        "ended",
        bound.final_status === undefined
          ? undefined
          : { text: bound.final_status, tone: toneOf(bound.final_status) },
      ],
    ]),
  );
}
