// The sweep of a partition as a script call.
import type { JobId } from "../../domain/job.ts";
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { RepairKind } from "../../ports/job-operations.ts";
import type { OutcomeOf } from "../../ports/store.ts";
import { parseHint } from "./job-format.ts";
import { type Reply, type ScriptCall, unexpected } from "./script-call.ts";

export const sweep: ScriptCall<"sweep"> = {
  keys: (keys) => [keys.start, keys.due, keys.swept],
  args: (_request, settings) => [
    String(settings.sweepEveryMs),
    String(settings.attentionMs),
    String(settings.republishAfterMs),
    String(settings.republishAfterMaxMs),
    String(settings.deadLetterRetentionMs),
    String(settings.proveEveryMs),
  ],
  parse(reply) {
    switch (reply[0]) {
      case "swept":
        return parseSwept(reply);
      case "not_due":
        return { kind: "not_due" };
      default:
        return unexpected("sweep", reply);
    }
  },
};

type SweptReply = readonly [
  kind: string,
  storeTimeMs: string,
  lostClaims: number,
  waiting: ReadonlyArray<readonly [TenantId, RunId]>,
  unclaimed: ReadonlyArray<readonly [TenantId, JobId, text: string]>,
  repairs: ReadonlyArray<readonly [TenantId, RepairKind, RunId]>,
];

function parseSwept(reply: Reply): OutcomeOf<"sweep"> {
  const [, , lostClaims, waiting, unclaimed, repairs] = reply as unknown as SweptReply;
  return {
    kind: "swept",
    waiting: waiting.map(([tenant, runId]) => ({ tenant, runId })),
    unclaimed: unclaimed.map(([tenant, jobId, text]) => ({ tenant, job: parseHint(jobId, text) })),
    repairs: repairs.map(([tenant, repair, runId]) => ({ tenant, repair, runId })),
    lostClaims,
  };
}
