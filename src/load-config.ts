// Reads, parses and cross-checks the configuration: file, environment, overrides. The only file that reads the environment.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { bounds, type Config, isWithinBounds, type SettingName, settings } from "./config.ts";
import { similarTopics } from "./domain/excerpt.ts";
import { fencesBeforeExpiry, leaseMarginMs, type RenewalNumbers } from "./domain/lock.ts";
import { readAddressRanges } from "./domain/network-address.ts";
import { waitProblems } from "./domain/policy.ts";
import { InterlockError } from "./errors.ts";
import type { Setting } from "./settings/kinds.ts";
import { isSafeAddress } from "./settings/runs.ts";

type ConfigFile = Readonly<Record<string, unknown>>;

/** Throws `config_invalid` with the line and column of whatever is not YAML; which names and values are good, `loadConfig` says. */
export function readConfigFile(path: string): ConfigFile {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    throw new InterlockError("config_invalid", `the configuration file cannot be read: ${cause}`, {
      cause: error,
    });
  }
  return parseConfigFile(text, path);
}

export function parseConfigFile(text: string, path: string): ConfigFile {
  // Loaded when a file is named: the package takes 30 ms, and most programs have no file.
  const { parseDocument } = createRequire(import.meta.url)("yaml") as typeof import("yaml");
  const document = parseDocument(text, { prettyErrors: true });
  const problems = document.errors.map(({ message, linePos }) => {
    const [first = ""] = message.split("\n");
    const place = linePos === undefined ? "" : `:${linePos[0].line}:${linePos[0].col}`;
    return `${path}${place}: ${first.replace(/ at line .*$/, "")}`;
  });
  if (problems.length > 0) throw new InterlockError("config_invalid", problems.join("; "));
  const value: unknown = document.toJS();
  if (value === null || value === undefined) return {};
  if (!isTree(value))
    throw new InterlockError("config_invalid", `${path} must hold settings by name, such as gateway.port`);
  return flattened(value);
}

/** Every setting is a text or a number, so that a tree means the names of its branches with dots between them. */
function flattened(tree: Readonly<Record<string, unknown>>, prefix = ""): ConfigFile {
  return Object.fromEntries(
    Object.entries(tree).flatMap(([name, value]) =>
      isTree(value)
        ? Object.entries(flattened(value, `${prefix}${name}.`))
        : [[prefix + name, value] as const],
    ),
  );
}

function isTree(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export type Origin = "default" | "file" | "environment" | "override";

type LoadedConfig = {
  readonly config: Config;
  readonly origins: Readonly<Record<SettingName, Origin>>;
};

export type ConfigSources = {
  /** Values from a configuration file, by setting name; without them the file that INTERLOCK_CONFIG names is read. */
  readonly file?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly overrides?: Partial<Config>;
};

/** Later sources win: defaults, file, environment, overrides. Reports every problem at once. */
export function loadConfig(given: ConfigSources = {}): LoadedConfig {
  const sources = withNamedFile(given);
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

/** What the package says of itself. Its file lies one folder up from here, in the source as in what is compiled. */
export function product(): { readonly version: string; readonly engines: { readonly node: string } } {
  return JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as ReturnType<
    typeof product
  >;
}

const environmentPrefix = "INTERLOCK_";

function withNamedFile(sources: ConfigSources): ConfigSources {
  const path = sources.env?.INTERLOCK_CONFIG;
  if (sources.file !== undefined || path === undefined || path === "") return sources;
  return { ...sources, file: readConfigFile(path) };
}

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
      return isWithinBounds(row, parsed) ? parsed : undefined;
    }
    case "choice":
      return typeof value === "string" && row.choices.includes(value) ? value : undefined;
    case "text":
      if (value === "" && row.optional) return "";
      return typeof value === "string" && row.pattern.test(value) ? value : undefined;
  }
}

/** Text may hold a password, also in an address that is mistyped: it is never repeated in a message. */
function show(row: Setting, value: unknown): string {
  return row.kind === "text" ? "(not shown)" : (JSON.stringify(value) ?? "missing");
}

/** A misspelt name must not be silently ignored. Names used by clients and the tooling around the product are known too. */
const toolingNames = [
  "INTERLOCK_CONFIG",
  "INTERLOCK_URL",
  "INTERLOCK_API_KEY",
  "INTERLOCK_API_KEY_FILE",
  "INTERLOCK_REDIS_SERVER",
  "INTERLOCK_NATS_SERVER",
  "INTERLOCK_PROMTOOL",
];

function unknownNames(sources: ConfigSources): string[] {
  // A source that is absent has no names: most processes of a simulation have overrides alone.
  const environmentNames = new Set(
    sources.env === undefined
      ? []
      : Object.values<Setting>(settings).map((row) => environmentPrefix + row.env),
  );
  const fromFile = Object.keys(sources.file ?? {}).filter((name) => !Object.hasOwn(settings, name));
  const fromOverrides = Object.keys(sources.overrides ?? {}).filter((name) => !Object.hasOwn(settings, name));
  const fromEnvironment = Object.keys(sources.env ?? {}).filter(
    (name) =>
      name.startsWith(environmentPrefix) && !environmentNames.has(name) && !toolingNames.includes(name),
  );
  const named = [...fromFile, ...fromOverrides].map((name) => ({ name, known: Object.keys(settings) }));
  const inEnvironment = fromEnvironment.map((name) => ({ name, known: [...environmentNames] }));
  return [...named, ...inEnvironment].map(({ name, known }) => {
    const [nearest] = similarTopics(name, known);
    return `${name} is not a setting${nearest === undefined ? "" : `: did you mean ${nearest}?`}`;
  });
}

function crossChecks(config: Config): string[] {
  const problems: string[] = [];
  const run = { ...renewalNumbers(config, "run"), failuresMax: 3 };
  const job = { ...renewalNumbers(config, "job"), failuresMax: config["locks.job.failuresMax"] };
  problems.push(...renewalProblem("locks.run", run), ...renewalProblem("locks.job", job));
  problems.push(...encryptionProblems(config), ...busProblems(config), ...checkUrlProblems(config));
  problems.push(...gatewayProblems(config), ...waitProblems(config));
  if (config["locks.public.retryMaxMs"] < config["locks.public.retryMs"]) {
    problems.push("locks.public.retryMaxMs must not be below locks.public.retryMs");
  }
  if (config["locks.public.ticketMs"] < 2 * config["locks.public.askEveryMs"]) {
    problems.push(
      "locks.public.ticketMs must be at least twice locks.public.askEveryMs: one lost try would cost the place",
    );
  }
  if (config["admission.resolveMs"] < config["admission.callTimeoutMs"]) {
    problems.push("admission.resolveMs must not be below admission.callTimeoutMs");
  }
  if (config["events.pollMaxMs"] < config["events.pollMs"]) {
    problems.push("events.pollMaxMs must not be below events.pollMs");
  }
  return problems;
}

/** A certificate that is never used would leave its owner believing that the connection is encrypted. */
function encryptionProblems(config: Config): string[] {
  const problems: string[] = [];
  const encrypted = config["store.redisUrls"].split(",").map((url) => url.startsWith("rediss://"));
  const isEncrypted = encrypted.every((each) => each);
  if (!isEncrypted && encrypted.some((each) => each)) {
    problems.push("store.redisUrls holds redis:// and rediss:// addresses: all must be the same");
  }
  for (const name of ["store.tlsCaFile", "store.tlsCertFile", "store.tlsKeyFile"] as const) {
    if (config[name] !== "" && !isEncrypted) problems.push(`${name} needs rediss:// in store.redisUrls`);
  }
  if ((config["store.tlsCertFile"] === "") !== (config["store.tlsKeyFile"] === "")) {
    problems.push("store.tlsCertFile and store.tlsKeyFile are needed together");
  }
  if (config["store.redisUser"] !== "" && config["store.redisPassword"] === "") {
    problems.push("store.redisUser needs store.redisPassword");
  }
  return problems;
}

function busProblems(config: Config): string[] {
  const problems: string[] = [];
  const encrypted = config["bus.natsUrls"].split(",").map((url) => url.startsWith("tls://"));
  const isEncrypted = encrypted.every((each) => each);
  if (!isEncrypted && encrypted.some((each) => each)) {
    problems.push("bus.natsUrls holds nats:// and tls:// addresses: all must be the same");
  }
  for (const name of ["bus.tlsCaFile", "bus.tlsCertFile", "bus.tlsKeyFile"] as const) {
    if (config[name] !== "" && !isEncrypted) problems.push(`${name} needs tls:// in bus.natsUrls`);
  }
  if ((config["bus.tlsCertFile"] === "") !== (config["bus.tlsKeyFile"] === "")) {
    problems.push("bus.tlsCertFile and bus.tlsKeyFile are needed together");
  }
  if (config["bus.natsUser"] !== "" && config["bus.natsPassword"] === "") {
    problems.push("bus.natsUser needs bus.natsPassword");
  }
  return problems;
}

function gatewayProblems(config: Config): string[] {
  const problems: string[] = [];
  const proxies = readAddressRanges(config["gateway.trustedProxies"]);
  if (proxies.kind === "wrong") {
    problems.push(
      `gateway.trustedProxies: ${proxies.entry} is no address, no range such as 10.1.0.0/16, and not the word loopback`,
    );
  }
  if ((config["gateway.tls.certificateFile"] === "") !== (config["gateway.tls.keyFile"] === "")) {
    problems.push("gateway.tls.certificateFile and gateway.tls.keyFile are needed together");
  }
  return problems;
}

function checkUrlProblems(config: Config): string[] {
  const url = config["dispatch.checkUrl"];
  if (url === "" || config["dispatch.allowInsecure"] === "yes" || isSafeAddress(url)) return [];
  return ["dispatch.checkUrl must be https, or http on this machine: or set dispatch.allowInsecure"];
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
