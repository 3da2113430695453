// The dead letter of a result that was given up: it keeps the report, so that it can be delivered once more.
import { parseJobId } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { ask } from "../ask-until-known.ts";
import type { Engine } from "../engine/engine.ts";
import { entryOf, type ResultReport } from "../jobs/result-entry.ts";

type GivenUpResult = {
  readonly tenant: TenantId;
  /** The job's id; a result that cannot be read has no other name. */
  readonly id: string;
  readonly because: string;
  /** As it came, where it cannot be read. */
  readonly content: { readonly report: ResultReport } | { readonly message: string };
};

type Written = { readonly kind: "written" } | { readonly kind: "unavailable"; readonly cause: string };

/** Repeating is safe: the same result is the same change of its letter. */
export async function writeResultLetter(
  engine: Engine,
  { tenant, id, because, content }: GivenUpResult,
): Promise<Written> {
  const parts = parseJobId(id);
  const about = { job_id: id, run_id: parts?.runId, because, ...content };
  const isKnown = parts !== undefined && "report" in content;
  const request = {
    tenant,
    collection: "deadLetter",
    id,
    body: JSON.stringify({ reason: "deliveries_exhausted", ...about }),
    changeId: `${isKnown ? entryOf(content.report, parts).entryId : id} ${because}`,
    actor: "bus",
  } as const;
  const answer = await ask(engine, "putDocument", request);
  if (answer.kind !== "saved")
    return { kind: "unavailable", cause: `the dead letter could not be written: ${answer.kind}` };
  engine.ports.metrics.count("dead_letters_total", { reason: "deliveries_exhausted" });
  return { kind: "written" };
}
