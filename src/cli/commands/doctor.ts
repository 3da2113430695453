// interlock doctor: looks at everything that a server needs, and says what to fix.
import type { Config } from "../../config.ts";
import { parseTime } from "../../domain/engine/rfc3339.ts";
import { isNearlySpent } from "../../domain/tenant.ts";
import { InterlockError } from "../../errors.ts";
import { loadConfig, product } from "../../load-config.ts";
import type { Finding } from "../../ports/ports.ts";
import { createClient } from "../../sdk/client.ts";
import { InterlockApiError, InterlockConnectionError } from "../../sdk/client-errors.ts";
import { type Cli, type Context, configSources } from "../context.ts";
import { certificateFindings, dataFindings } from "../data-findings.ts";
import { duration, toneOf, visible } from "../text.ts";

export function addDoctorCommand({ program, does }: Cli): void {
  program
    .command("doctor")
    .description("check Node, data folder, configuration, server, Redis and NATS, and say what to fix")
    .action(does(doctor));
}

async function doctor(context: Context): Promise<void> {
  const { output } = context;
  const { config, findings: ofConfig } = configFindings(context);
  const findings: readonly Finding[] = [
    nodeFinding(process.versions.node),
    ...ofConfig,
    ...(config === undefined ? [] : dataFindings(context.terminal, config)),
    ...(config === undefined ? [] : certificateFindings(context.terminal, config)),
    ...(config === undefined ? [] : await serverFindings(context)),
    ...(config === undefined ? [] : await quotaFindings(context)),
    ...(config === undefined ? [] : await processFindings(context)),
    ...(config === undefined ? [] : await surroundingFindings(config)),
  ];
  const count = (level: Finding["level"]) => findings.filter((finding) => finding.level === level).length;
  output.answer({ findings, ok: count("fail") === 0 }, () => [
    ...findings.flatMap((finding) => findingLines(context, finding)),
    "",
    count("fail") + count("warn") === 0
      ? "All is well."
      : `${count("fail")} to fix, ${count("warn")} to think about.`,
  ]);
  if (count("fail") > 0) context.end("failed");
}

function findingLines({ output }: Context, { subject, level, message, remedy }: Finding): string[] {
  return [
    `${output.paint(toneOf(level), level.padEnd(4))}  ${output.paint("strong", visible(subject))}: ${visible(message)}`,
    ...(remedy === undefined ? [] : [`      ${output.paint("quiet", "→")} ${visible(remedy)}`]),
  ];
}

/** The package says which version it needs. */
export function nodeFinding(version: string): Finding {
  const { engines } = product();
  const parts = (dotted: string) => (/\d+(\.\d+)*/.exec(dotted)?.[0] ?? "").split(".").map(Number);
  const [needed, has] = [parts(engines.node), parts(version)];
  const differs = needed.findIndex((part, index) => part !== (has[index] ?? 0));
  const isEnough = differs === -1 || (has[differs] ?? 0) > (needed[differs] ?? 0);
  return isEnough
    ? { subject: "node", level: "ok", message: `${version} (needs ${engines.node})` }
    : {
        subject: "node",
        level: "fail",
        message: `${version} is too old`,
        remedy: `Install Node ${engines.node}.`,
      };
}

function configFindings(context: Context): {
  readonly config?: Config;
  readonly findings: readonly Finding[];
} {
  const { terminal, options } = context;
  const file = options.config ?? terminal.env.INTERLOCK_CONFIG;
  try {
    const { config, origins } = loadConfig(configSources(terminal, options));
    const changed = Object.values(origins).filter((origin) => origin !== "default").length;
    const from = file === undefined || file === "" ? "" : `, file ${file}`;
    const message = `valid; ${changed} settings are not the default${from}`;
    return { config, findings: [{ subject: "configuration", level: "ok", message }] };
  } catch (error) {
    if (!(error instanceof InterlockError)) throw error;
    return {
      findings: error.detail.split("; ").map((message) => ({
        subject: "configuration",
        level: "fail",
        message,
        remedy: "Correct it; docs/reference/settings.md lists all settings.",
      })),
    };
  }
}

/** A server on another machine with a wrong clock makes expiry times lie to people; its own decisions use the store's clock. */
const clockToleranceMs = 5_000;

async function serverFindings(context: Context): Promise<readonly Finding[]> {
  const found = context.found();
  const subject = `server ${found.url}`;
  const where = `(${found.urlFrom})`;
  const client = createClient({
    url: found.url,
    ...(found.apiKey === undefined ? {} : { apiKey: found.apiKey }),
    retry: { attemptsMax: 1 },
    timeoutMs: 5_000,
  });
  let headers: Headers;
  const askedMs = context.terminal.nowMs();
  try {
    ({ headers } = await client.callWithResponse("live"));
  } catch (error) {
    const isSilent = error instanceof InterlockConnectionError;
    const remedy = found.isGuess
      ? `Start one: ${context.terminal.calledAs} serve`
      : "Start it, or correct the address.";
    const message = `${isSilent ? "does not answer" : visible(String((error as Error).message))} ${where}`;
    return [{ subject, level: found.isGuess ? "warn" : "fail", message, remedy }];
  }
  return [
    { subject, level: "ok", message: `answers ${where}` },
    ...clockFindings(headers, { askedMs, answeredMs: context.terminal.nowMs() }),
    ...(found.apiKey === undefined ? [noKey(subject)] : await statusFindings(client, subject, found.keyFrom)),
    ...(found.apiKey === undefined ? [] : await workflowFindings(client)),
  ];
}

function noKey(subject: string): Finding {
  return {
    subject,
    level: "warn",
    message: "no key to ask it more with",
    remedy: "Give --key-file or INTERLOCK_API_KEY.",
  };
}

function clockFindings(
  headers: Headers,
  { askedMs, answeredMs }: { readonly askedMs: number; readonly answeredMs: number },
): readonly Finding[] {
  const serverMs = httpTimeMs(headers.get("date"));
  if (serverMs === undefined) return [];
  // The field has whole seconds; the truth lies somewhere between question and answer.
  const behindMs = askedMs - (serverMs + 1_000);
  const aheadMs = serverMs - answeredMs;
  const differenceMs = Math.max(behindMs, aheadMs, 0);
  if (differenceMs <= clockToleranceMs)
    return [{ subject: "clocks", level: "ok", message: "this machine and the server agree" }];
  const direction = behindMs > aheadMs ? "behind" : "ahead of";
  return [
    {
      subject: "clocks",
      level: "warn",
      message: `the server's clock is ${duration(differenceMs)} ${direction} this machine's`,
      remedy: "Synchronise both, as with chrony or systemd-timesyncd.",
    },
  ];
}

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** `Sun, 06 Nov 1994 08:49:37 GMT`, as RFC 9110 has it. */
export function httpTimeMs(text: string | null): number | undefined {
  const [, day, month = "", year, clock] =
    /^\w{3}, (\d{2}) (\w{3}) (\d{4}) (\d{2}:\d{2}:\d{2}) GMT$/.exec(text ?? "") ?? [];
  const number = months.indexOf(month) + 1;
  if (number === 0) return undefined;
  return parseTime(`${year}-${String(number).padStart(2, "0")}-${day}T${clock}Z`);
}

async function statusFindings(
  client: ReturnType<typeof createClient>,
  subject: string,
  keyFrom: string,
): Promise<readonly Finding[]> {
  try {
    const { status, version, tenant, role, store_ahead_ms } = await client.call("getStatus");
    const ours = product().version;
    return [
      { subject: "key", level: "ok", message: `${role} of ${tenant} (${keyFrom})` },
      status === "ready"
        ? { subject: "store", level: "ok", message: "answers the server" }
        : {
            subject: "store",
            level: "fail",
            message: "does not answer the server",
            remedy: "Look at the server's log and at what is said of Redis.",
          },
      ...storeClockFindings(store_ahead_ms),
      version === ours
        ? { subject: "version", level: "ok", message: `${version}, the same as this command` }
        : {
            subject: "version",
            level: "warn",
            message: `the server is ${version}, this command ${ours}`,
            remedy: "Use the same version of both.",
          },
    ];
  } catch (error) {
    if (error instanceof InterlockApiError && error.status === 401)
      return [
        {
          subject: "key",
          level: "fail",
          message: `the server does not know it (${keyFrom})`,
          remedy: "Give a key of this server; `serve --new-keys` makes new ones.",
        },
      ];
    return [{ subject, level: "fail", message: error instanceof Error ? error.message : String(error) }];
  }
}

/** A restart takes an embedded store to a wall clock that is ahead of it, and never back. */
function storeClockFindings(aheadMs = 0): readonly Finding[] {
  if (Math.abs(aheadMs) <= clockToleranceMs) return [];
  const direction = aheadMs < 0 ? "behind" : "ahead of";
  return [
    {
      subject: "store's time",
      level: "warn",
      message: `${duration(Math.abs(aheadMs))} ${direction} the server's wall clock: delays and locks take their full time, but dates differ`,
      remedy:
        "Set the wall clocks of the server and of Redis right; an embedded store follows by 1 %, see docs/guide/durability.md.",
    },
  ];
}

/** Each tenant costs a question: those beyond are not looked at. */
const tenantsAsked = 100;

/** For platform keys, which alone may see them; anything else that goes wrong was said by the other findings. */
async function quotaFindings(context: Context): Promise<readonly Finding[]> {
  const { url, apiKey } = context.found("platform");
  if (apiKey === undefined) return [];
  const client = createClient({ url, apiKey, retry: { attemptsMax: 1 }, timeoutMs: 5_000 });
  const findings: Finding[] = [];
  try {
    const { items } = await client.call("listTenants", { query: { limit: tenantsAsked } });
    for (const { id } of items) {
      const { quotas, idempotency_keys } = await client.call("getTenant", { params: { id } });
      if (isNearlySpent(idempotency_keys)) findings.push(keysFinding(id, idempotency_keys));
      findings.push(
        ...Object.entries(quotas ?? {}).flatMap(([name, quota]) => quotaFinding(id, name, quota)),
      );
    }
    const message = `of ${items.length} tenants none is at four fifths or more`;
    return findings.length > 0 ? findings : [{ subject: "quotas", level: "ok", message }];
  } catch (error) {
    if (error instanceof InterlockApiError || error instanceof InterlockConnectionError) return findings;
    throw error;
  }
}

function keysFinding(
  tenant: string,
  { limit, used }: { readonly limit: number; readonly used: number },
): Finding {
  return {
    subject: `idempotency keys of ${tenant}`,
    level: "warn",
    message: `${used} of ${limit}: at the limit keys are forgotten before admission.keyRetentionDays is over`,
    remedy:
      "Raise admission.keysPerTenantMax, or shorten the retention; docs/guide/limits-and-idempotency.md.",
  };
}

/** For platform keys, as quotas. */
async function processFindings(context: Context): Promise<readonly Finding[]> {
  const { url, apiKey } = context.found("platform");
  if (apiKey === undefined) return [];
  const subject = "processes";
  try {
    const client = createClient({ url, apiKey, retry: { attemptsMax: 1 }, timeoutMs: 5_000 });
    const { processes, findings = [] } = await client.call("getStatus");
    if (processes === undefined) return [];
    const engines = processes.filter(({ roles }) => roles.includes("engine")).length;
    const message = `${processes.length} alive on this store, ${engines} of them with the role engine`;
    return [
      ...findings.map((finding) => ({ subject, ...finding })),
      ...(engines === 0 ? [] : [{ subject, level: "ok" as const, message }]),
    ];
  } catch (error) {
    if (error instanceof InterlockApiError || error instanceof InterlockConnectionError) return [];
    throw error;
  }
}

function quotaFinding(
  tenant: string,
  name: string,
  { limit, used = 0 }: { readonly limit: number; readonly used?: number },
): readonly Finding[] {
  if (limit === 0 || !isNearlySpent({ limit, used })) return [];
  const state = used >= limit ? "is reached" : "is nearly reached";
  return [
    {
      subject: `quota ${name} of ${tenant}`,
      level: "warn",
      message: `${used} of ${limit}: it ${state}`,
      remedy: `Make room, or raise it: tenants set ${tenant} --quota ${name}=<number>`,
    },
  ];
}

async function surroundingFindings(config: Config): Promise<readonly Finding[]> {
  const { examineServers } = await import("../../control-plane.ts");
  return examineServers(config);
}

/** More are not asked about: each is judged by the server anew. */
const workflowsMax = 1_000;

/** Stored workflows keep running under the rules of a new version; their authors should know before they change one. */
async function workflowFindings(client: ReturnType<typeof createClient>): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  let count = 0;
  try {
    const { tenant } = await client.call("getStatus");
    for (const { id, definition } of await client.workflows.list().take(workflowsMax)) {
      count += 1;
      const { valid, problems = [] } = await client.call("validateWorkflow", {
        body: definition,
        timeoutMs: 30_000,
      });
      if (valid) continue;
      const [first] = problems;
      const more = problems.length > 1 ? `, and ${problems.length - 1} more problems` : "";
      findings.push({
        subject: `workflow ${id} of ${tenant}`,
        level: "warn",
        message: `this version would refuse it: ${first?.path}: ${first?.message}${more}`,
        remedy: "It still runs as it was saved; correct it before it is saved again.",
      });
    }
  } catch (error) {
    // Keys that may not read workflows say nothing about them; what else is wrong has been said above.
    if (error instanceof InterlockApiError && (error.status === 401 || error.status === 403)) return [];
    const message = error instanceof Error ? error.message : String(error);
    return [...findings, { subject: "workflows", level: "warn", message: `could not be read: ${message}` }];
  }
  if (count === 0) return findings;
  const message = `${count - findings.length} of ${count} are valid by this version's rules`;
  return [...findings, { subject: "workflows", level: "ok", message }];
}
