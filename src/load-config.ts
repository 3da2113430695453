// Reads, parses and cross-checks the configuration. The only file that reads the environment.
import { bounds, type Config, type SettingName, settings } from "./config.ts";
import { fencesBeforeExpiry, leaseMarginMs, type RenewalNumbers } from "./domain/lease.ts";
import { InterlockError } from "./errors.ts";
import type { Setting } from "./settings/kinds.ts";

export type Origin = "default" | "file" | "environment" | "override";

export type LoadedConfig = {
  readonly config: Config;
  readonly origins: Readonly<Record<SettingName, Origin>>;
};

export type ConfigSources = {
  /** Values from a configuration file, by setting name. */
  readonly file?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly overrides?: Partial<Config>;
};

/** Later sources win: defaults, file, environment, overrides. Reports every problem at once. */
export function loadConfig(sources: ConfigSources = {}): LoadedConfig {
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  const origins: Record<string, Origin> = {};
  for (const [name, row] of Object.entries<Setting>(settings)) {
    const found = findValue(name, row, sources);
    const parsed = parseValue(row, found.value);
    if (parsed === undefined)
      problems.push(`${found.label} is ${show(row, found.value)}: must be ${bounds(row)}`);
    values[name] = parsed ?? row.default;
    origins[name] = found.origin;
  }
  problems.push(...unknownNames(sources), ...crossChecks(values as Config));
  if (problems.length > 0) throw new InterlockError("config_invalid", problems.join("; "));
  return { config: Object.freeze(values) as Config, origins: origins as Record<SettingName, Origin> };
}

/** The environment of this process, as a source for `loadConfig`. */
export function processEnvironment(): Readonly<Record<string, string | undefined>> {
  return process.env;
}

const environmentPrefix = "INTERLOCK_";

function findValue(
  name: string,
  row: Setting,
  sources: ConfigSources,
): { value: unknown; origin: Origin; label: string } {
  const override = (sources.overrides as Record<string, unknown> | undefined)?.[name];
  if (override !== undefined) return { value: override, origin: "override", label: name };
  const fromEnvironment = sources.env?.[environmentPrefix + row.env];
  if (fromEnvironment !== undefined) {
    return { value: fromEnvironment, origin: "environment", label: environmentPrefix + row.env };
  }
  const fromFile = sources.file?.[name];
  if (fromFile !== undefined) return { value: fromFile, origin: "file", label: `${name} in the file` };
  return { value: row.default, origin: "default", label: name };
}

function parseValue(row: Setting, value: unknown): string | number | undefined {
  switch (row.kind) {
    case "number": {
      const parsed = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
      if (typeof parsed !== "number" || !(parsed >= row.min && parsed <= row.max)) return undefined;
      return row.unit === "fraction" || Number.isInteger(parsed) ? parsed : undefined;
    }
    case "choice":
      return typeof value === "string" && row.choices.includes(value) ? value : undefined;
    case "text":
      return typeof value === "string" && row.pattern.test(value) ? value : undefined;
  }
}

/** Text may hold a password, also in an address that is mistyped: it is never repeated in a message. */
function show(row: Setting, value: unknown): string {
  return row.kind === "text" ? "(not shown)" : (JSON.stringify(value) ?? "missing");
}

/** A misspelt name must not be silently ignored. Names used by the tooling around the product are known too. */
const toolingNames = ["INTERLOCK_REDIS_SERVER", "INTERLOCK_NATS_SERVER"];

function unknownNames(sources: ConfigSources): string[] {
  const environmentNames = new Set(
    Object.values<Setting>(settings).map((row) => environmentPrefix + row.env),
  );
  const fromFile = Object.keys(sources.file ?? {}).filter((name) => !Object.hasOwn(settings, name));
  const fromOverrides = Object.keys(sources.overrides ?? {}).filter((name) => !Object.hasOwn(settings, name));
  const fromEnvironment = Object.keys(sources.env ?? {}).filter(
    (name) =>
      name.startsWith(environmentPrefix) && !environmentNames.has(name) && !toolingNames.includes(name),
  );
  return [...fromFile, ...fromOverrides, ...fromEnvironment].map((name) => `${name} is not a setting`);
}

function crossChecks(config: Config): string[] {
  const problems: string[] = [];
  const run = { ...renewalNumbers(config, "run"), failuresMax: 3 };
  const job = { ...renewalNumbers(config, "job"), failuresMax: config["locks.job.failuresMax"] };
  problems.push(...renewalProblem("locks.run", run), ...renewalProblem("locks.job", job));
  if (config["locks.admission.pollMaxMs"] < config["locks.admission.pollMs"]) {
    problems.push("locks.admission.pollMaxMs must not be below locks.admission.pollMs");
  }
  if (config["locks.public.retryMaxMs"] < config["locks.public.retryMs"]) {
    problems.push("locks.public.retryMaxMs must not be below locks.public.retryMs");
  }
  if (config["locks.public.ticketMs"] < 2 * config["locks.public.askEveryMs"]) {
    problems.push(
      "locks.public.ticketMs must be at least twice locks.public.askEveryMs: one lost try would cost the place",
    );
  }
  for (const lock of ["admission", "approval"] as const) {
    const ttlMs = config[`locks.${lock}.ttlMs`];
    const waitMs = config[`locks.${lock}.waitMs`];
    if (waitMs >= ttlMs - leaseMarginMs(ttlMs)) {
      problems.push(
        `locks.${lock}: waitMs ${waitMs} must be below ttlMs ${ttlMs} less a tenth: the lease counts from the first try`,
      );
    }
  }
  if (config["admission.resolveMs"] < config["admission.callTimeoutMs"]) {
    problems.push("admission.resolveMs must not be below admission.callTimeoutMs");
  }
  if (config["events.pollMaxMs"] < config["events.pollMs"]) {
    problems.push("events.pollMaxMs must not be below events.pollMs");
  }
  return problems;
}

function renewalNumbers(config: Config, lock: "run" | "job"): Omit<RenewalNumbers, "failuresMax"> {
  return {
    ttlMs: config[`locks.${lock}.ttlMs`],
    renewEveryMs: config[`locks.${lock}.renewEveryMs`],
    callTimeoutMs: config[`locks.${lock}.callTimeoutMs`],
  };
}

function renewalProblem(lock: string, numbers: RenewalNumbers): string[] {
  if (fencesBeforeExpiry(numbers)) return [];
  const { ttlMs, renewEveryMs, callTimeoutMs, failuresMax } = numbers;
  const lastFailureMs = failuresMax * renewEveryMs + callTimeoutMs;
  return [
    `${lock} cannot fence before its ttl: ${failuresMax} x renewEveryMs ${renewEveryMs} + callTimeoutMs ${callTimeoutMs} = ` +
      `${lastFailureMs} ms, which is more than ttlMs ${ttlMs} less a tenth (${ttlMs - leaseMarginMs(ttlMs)} ms)`,
  ];
}
