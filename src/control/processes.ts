// The processes that live on one store: each keeps a document there, compares itself with the others, and says where they do not agree.
import type { Config, SettingName } from "../config.ts";
import { secretIdOf } from "../domain/audit.ts";
import {
  disagreements,
  examineProcesses,
  type ProcessFinding,
  type ProcessRecord,
} from "../domain/process-record.ts";
import { type Document, platformTenant } from "../domain/tenant.ts";
import { InterlockError } from "../errors.ts";
import type { Consumer } from "../ports/bus.ts";
import type { Ports } from "../ports/ports.ts";
import { type Asking, ask } from "./ask-until-known.ts";
import type { Trouble } from "./caller.ts";
import { type Engine, holdsHighRisk } from "./engine/engine.ts";

/** Stores, sweeps and retention follow the settings of whichever process happens to do them. */
const compared = [
  "store.eventsPerTenantMax",
  "audit.keepDays",
  "audit.recordsPerTenantMax",
  "retention.runDays",
  "retention.deadLetterDays",
  "retention.timelineRowsMax",
  "admission.keysPerTenantMax",
  "admission.keyRetentionDays",
  "runs.perRootMax",
  "bus.kind",
] as const satisfies readonly SettingName[];

export function recordOf(config: Config, who: Omit<ProcessRecord, "settings">): ProcessRecord {
  const isNats = config["bus.kind"] === "nats";
  const plain = Object.fromEntries(compared.map((name) => [name, String(config[name])]));
  const bus = {
    "bus.natsUrls": config["bus.natsUrls"].replaceAll(/\/\/[^,/]*@/g, "//"),
    "bus.signingKeys": idsOf(config["bus.signingKeys"]),
  };
  return {
    ...who,
    settings: {
      ...plain,
      ...(isNats ? bus : {}),
      "dispatch.hold": holdsHighRisk(config) ? "high" : "none",
      "audit.secret": idsOf(config["audit.secret"]),
    },
  };
}

function idsOf(texts: string): string {
  return texts
    .split(",")
    .map((text) => (text === "" || text === "none" ? "none" : secretIdOf(text)))
    .join(",");
}

const refreshEveryMs = 10_000;
/** Three times: one lost write makes nobody dead. */
const aliveMs = 3 * refreshEveryMs;
/** What a process that was killed has left is removed by the others. */
const forgetAfterMs = 600_000;
const processesMax = 500;
/** Nobody waits for these but a process that starts or stops. */
const limits = { callTimeoutMs: 1_000, budgetMs: 1_000 };
const collection = "process";
const tenant = platformTenant;

type Registering = Asking<"putDocument" | "listDocuments" | "removeDocument"> & {
  readonly ports: Pick<Ports, "log" | "instance">;
};

/** Throws `config_conflict` where to go on would break a promise. Without an answer of the store it goes on: the next look compares. */
export async function joinProcesses(registering: Registering, own: ProcessRecord): Promise<Consumer> {
  const { clock, log } = registering.ports;
  const stopped = new AbortController();
  const told = new Set<string>();
  const found = await register(registering, own);
  const refusal = found.find(({ level }) => level === "fail");
  if (refusal !== undefined) {
    await leave(registering);
    throw new InterlockError("config_conflict", refusal.message);
  }
  const tell = (findings: readonly ProcessFinding[]) => {
    for (const { level, message, remedy } of findings) {
      if (told.has(message)) continue;
      told.add(message);
      log[level === "fail" ? "error" : "warn"]("processes on one store do not agree", {
        difference: message,
        remedy,
      });
    }
  };
  tell(found);
  const refreshing = (async () => {
    for (;;) {
      await clock.sleep(refreshEveryMs, stopped.signal);
      if (stopped.signal.aborted) return;
      tell(await register(registering, own));
    }
  })();
  return {
    async stop() {
      stopped.abort();
      await refreshing;
      await leave(registering);
    },
  };
}

/** Written before the others are read: of two that start together at least one sees the other. */
async function register(registering: Registering, own: ProcessRecord): Promise<readonly ProcessFinding[]> {
  const { random, instance } = registering.ports;
  const body = JSON.stringify(own);
  const changeId = random.token();
  const saving = { tenant, collection, id: instance, body, changeId, actor: instance } as const;
  await ask(registering, "putDocument", saving, limits);
  const listed = await listRecords(registering);
  if (listed.kind !== "listed") return [];
  for (const { id } of listed.forgotten)
    await ask(registering, "removeDocument", { tenant, collection, id, actor: instance }, limits);
  return listed.alive.flatMap(({ record }) =>
    record.instance === instance ? [] : disagreements(own, record),
  );
}

async function leave(registering: Registering): Promise<void> {
  const { instance } = registering.ports;
  await ask(registering, "removeDocument", { tenant, collection, id: instance, actor: instance }, limits);
}

type Alive = { readonly record: ProcessRecord; readonly agoMs: number };

async function listRecords(
  asking: Asking<"listDocuments">,
): Promise<
  | { readonly kind: "listed"; readonly alive: readonly Alive[]; readonly forgotten: readonly Document[] }
  | Trouble
> {
  const listing = { tenant, collection, after: "", limit: processesMax } as const;
  const answer = await ask(asking, "listDocuments", listing, limits);
  if (answer.kind !== "listed") return answer;
  const agoMs = ({ savedAtMs }: Document) => answer.storeTimeMs - savedAtMs;
  return {
    kind: "listed",
    alive: answer.documents
      .filter((document) => agoMs(document) < aliveMs)
      .map((document) => ({ record: JSON.parse(document.body) as ProcessRecord, agoMs: agoMs(document) })),
    forgotten: answer.documents.filter((document) => agoMs(document) >= forgetAfterMs),
  };
}

export type LivingProcesses = {
  readonly kind: "processes";
  readonly processes: ReadonlyArray<Omit<ProcessRecord, "settings"> & { readonly seenMsAgo: number }>;
  readonly findings: readonly ProcessFinding[];
};

/** Those that have written lately, and the one that answers: an embedded store has no other. */
export async function livingProcesses(
  engine: Engine<"documents">,
  { version }: { readonly version: string },
): Promise<LivingProcesses | Trouble> {
  const { config, ports } = engine;
  const { instance } = ports;
  const own = recordOf(config, { instance, version, roles: config["process.roles"].split(",") });
  const listed = await listRecords(engine);
  if (listed.kind !== "listed") return listed;
  const others = listed.alive.filter(({ record }) => record.instance !== instance);
  return {
    kind: "processes",
    processes: [{ record: own, agoMs: 0 }, ...others].map(({ record: { settings: _, ...who }, agoMs }) => ({
      ...who,
      seenMsAgo: agoMs,
    })),
    findings: examineProcesses(
      own,
      others.map(({ record }) => record),
    ),
  };
}
