// Counts what is refused, and writes the counts of each minute into the audit trails: one record per tenant, however many refusals.
import type { ControlApi } from "../control/create-api.ts";
import { describeRefusals } from "../domain/audit.ts";
import { platformTenant, type TenantId } from "../domain/tenant.ts";
import type { ErrorCode } from "../errors.ts";
import type { Ports } from "../ports/ports.ts";

export type Refusals = {
  /** Without a tenant it is the platform's: nobody can make a record appear in the trail of a tenant whose key he does not have. */
  count(tenant: TenantId | undefined, code: ErrorCode): void;
  /** Writes what is counted, if the store lets it. */
  close(): Promise<void>;
};

const minuteMs = 60_000;
/** Those beyond are counted for the platform. */
const tenantsMax = 1_000;
/** Records that wait for the store to come back; beyond it the oldest are lost. */
const unwrittenMax = 5_000;

type Refused = { readonly tenant: TenantId; readonly text: string };

export function createRefusals(
  api: Pick<ControlApi, "recordRefusals">,
  { clock, log, instance }: Pick<Ports, "clock" | "log" | "instance">,
): Refusals {
  let counts = new Map<TenantId, Map<string, number>>();
  let minute = 0;
  const unwritten: Refused[] = [];
  let cancel: (() => void) | undefined;
  let writing = Promise.resolve();

  const arm = () => {
    cancel ??= clock.timer(minuteMs - (clock.wallMs() % minuteMs), () => {
      cancel = undefined;
      flush();
    });
  };

  const flush = () => {
    for (const [tenant, codes] of counts)
      unwritten.push({ tenant, text: describeRefusals(minute, codes, instance) });
    counts = new Map();
    const lost = unwritten.splice(0, Math.max(0, unwritten.length - unwrittenMax));
    if (lost.length > 0) log.warn("counts of refusals were lost", { records: lost.length });
    writing = writing.then(write).catch((error: unknown) => {
      log.error("counts of refusals could not be written", { cause: String(error) });
    });
  };

  /** In order, and what could not be written is tried again with the same text: it is written once. */
  const write = async () => {
    for (let next = unwritten[0]; next !== undefined; next = unwritten[0]) {
      const answer = await api.recordRefusals(next);
      if (answer.kind === "recorded") unwritten.shift();
      else {
        arm();
        return;
      }
    }
  };

  return {
    count(tenant, code) {
      if (counts.size === 0) minute = clock.wallMs() - (clock.wallMs() % minuteMs);
      const isRoom = tenant !== undefined && (counts.has(tenant) || counts.size < tenantsMax);
      const owner = isRoom ? tenant : platformTenant;
      const codes = counts.get(owner) ?? new Map<string, number>();
      codes.set(code, (codes.get(code) ?? 0) + 1);
      counts.set(owner, codes);
      arm();
    },
    async close() {
      flush();
      await writing;
      cancel?.();
    },
  };
}
