// Seals the audit trails of tenants to which this process has added records; and every hour those of all.
import { redacted } from "../../domain/excerpt.ts";
import { platformTenant, type TenantId } from "../../domain/tenant.ts";
import type { Consumer } from "../../ports/bus.ts";
import type { SettingsEngine } from "../engine/engine.ts";
import { listTenants } from "../tenants/tenants.ts";
import { dropExpired } from "./drop-expired.ts";
import { type SealBook, sealTrail } from "./seal-trail.ts";

/** Records of one tenant that are not left waiting for their time. */
const changesMax = 1_000;
/** Tenants that are sealed at the same time. */
const atOnceMax = 4;
/** All tenants are looked at this often: the process that changed them may have ended before it announced that. */
const roundEveryMs = 3_600_000;
const tenantsPerPage = 200;

/** Undefined when this process seals nothing by itself. */
export function startSealer(engine: SettingsEngine): Consumer | undefined {
  const everyMs = engine.config["audit.sealEveryMs"];
  if (everyMs === 0) return undefined;
  const { clock, random } = engine.ports;
  const stopped = new AbortController();
  const book = engine.seals;
  const changes = new Map<TenantId, number>();
  const aging = new Set<TenantId>();
  let resting = new AbortController();
  let isUrgent = false;
  const note = (tenant: TenantId) => {
    const count = (changes.get(tenant) ?? 0) + 1;
    changes.set(tenant, count);
    if (count !== changesMax) return;
    isUrgent = true;
    resting.abort();
  };
  const unwatch = engine.wakes.watchAudited(note);

  async function sealAgainAndAgain(): Promise<void> {
    while (!stopped.signal.aborted) {
      resting = new AbortController();
      // Processes that heard of the same change do not seal it together.
      if (!isUrgent) await clock.sleep(everyMs * (0.5 + random.fraction() / 2), resting.signal);
      isUrgent = false;
      await sealChanged(engine, book, { changes, aging, isStopping: () => stopped.signal.aborted });
    }
    aging.clear();
    await sealChanged(engine, book, { changes, aging, isStopping: () => true });
    logHeads(engine, book);
  }

  async function goRound(): Promise<void> {
    await clock.sleep(everyMs * random.fraction(), stopped.signal);
    while (!stopped.signal.aborted) {
      for (let after: string | undefined = ""; after !== undefined && !stopped.signal.aborted; ) {
        const page = await listTenants(engine, { after, limit: tenantsPerPage });
        const tenants: readonly TenantId[] = page.kind === "listed" ? page.tenants : [];
        for (const tenant of after === "" ? [platformTenant, ...tenants] : tenants) {
          aging.add(tenant);
          note(tenant);
        }
        after = tenants.length < tenantsPerPage ? undefined : tenants.at(-1);
        if (after !== undefined) await clock.sleep(everyMs, stopped.signal);
      }
      await clock.sleep(roundEveryMs, stopped.signal);
      logHeads(engine, book);
    }
  }

  const running = Promise.all([sealAgainAndAgain(), goRound()]);
  return {
    /** What was changed here is sealed before the process ends, if the store lets it. */
    async stop() {
      unwatch();
      stopped.abort();
      resting.abort();
      await running;
    },
  };
}

/** The second place outside the store: an operator who collects logs can compare them with the trail. */
function logHeads({ ports }: SettingsEngine, book: SealBook): void {
  for (const [tenant, { sequence, hash }] of book.takeMoved())
    ports.log.info("head of an audit trail", { tenant, head: `${sequence}:${hash}` });
}

type Waiting = {
  readonly changes: Map<TenantId, number>;
  /** Those whose old records are looked for as well. */
  readonly aging: Set<TenantId>;
  isStopping(): boolean;
};

/** Those that could not be sealed stay noted. A process that stops does not wait for a store that gives no answers. */
async function sealChanged(
  engine: SettingsEngine,
  book: SealBook,
  { changes, aging, isStopping }: Waiting,
): Promise<void> {
  const queue = [...changes.keys()];
  changes.clear();
  const failed: TenantId[] = [];
  let cause = "";
  const work = async () => {
    for (let tenant = queue.shift(); tenant !== undefined; tenant = queue.shift()) {
      const trouble = await sealOne(engine, book, tenant, aging.delete(tenant));
      if (trouble === undefined) continue;
      failed.push(tenant);
      cause = trouble;
      if (isStopping()) queue.length = 0;
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnceMax, queue.length) }, work));
  if (failed.length === 0) return;
  for (const tenant of failed) changes.set(tenant, changes.get(tenant) ?? 0);
  engine.ports.log.warn("audit trails wait for their seals", {
    tenants: failed.length,
    cause: redacted(cause),
  });
}

async function sealOne(
  engine: SettingsEngine,
  book: SealBook,
  tenant: TenantId,
  isAging: boolean,
): Promise<string | undefined> {
  try {
    const answer = await sealTrail(engine, book, tenant);
    if (answer.kind !== "sealed") return answer.cause;
    const dropped = isAging ? await dropExpired(engine, book, tenant) : undefined;
    return dropped === undefined || dropped.kind === "done" ? undefined : dropped.cause;
  } catch (error) {
    return error instanceof Error ? (error.stack ?? error.message) : String(error);
  }
}
