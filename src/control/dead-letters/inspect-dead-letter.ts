// Shows a dead letter with all that is known of it: its error, the job's input, its run, and whether it can be retried.
import {
  errorOf,
  judgeRetry,
  type KeptResult,
  keptResult,
  type Letter,
  type RetryVerdict,
  readLetter,
  whyRunStays,
} from "../../domain/dead-letter.ts";
import { apply } from "../../domain/engine/apply.ts";
import { jobInputKey, parseOutsideKey, stepRecordKey } from "../../domain/engine/keys.ts";
import { readError, readStepRecord } from "../../domain/engine/records.ts";
import { type JobId, makeJobId, parseJobId } from "../../domain/job.ts";
import { isTerminal, type RunHeader, type RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";
import { entryOf } from "../jobs/result-entry.ts";

export type LetterDetails = {
  readonly letter: Letter;
  readonly error?: NonNullable<Letter["error"]>;
  /** JSON text. */
  readonly input?: string;
  /** Absent when the run is gone. */
  readonly header?: RunHeader;
  readonly verdict: RetryVerdict;
};

type LetterAnswer =
  | ({ readonly kind: "letter" } & LetterDetails)
  | { readonly kind: "dead_letter_not_found" }
  | Trouble;

export async function inspectDeadLetter(
  engine: Engine,
  { tenant, id }: { readonly tenant: TenantId; readonly id: string },
): Promise<LetterAnswer> {
  const found = await findLetter(engine, tenant, id);
  if (found.kind !== "letter") return found;
  // The kept result holds a claim's token, which is shown to nobody.
  const { kept: result, ...letter } = found;
  const run = await readRun(engine, tenant, letter.letter);
  if (run.kind === "unknown" || run.kind === "unavailable") return run;
  if (run.kind === "gone") {
    return { ...letter, ...errorIn(letter.letter, undefined), verdict: judgeRetry(letter) };
  }
  const { header, bodies, jobInput } = run;
  const { step, errorKey } = letter.letter;
  const record = step === undefined ? undefined : bodies.get(stepRecordKey(step));
  const facts = { letter: letter.letter, header };
  const kept = await readKept(engine, tenant, result);
  if (kept.kind !== "kept") return kept;
  const begun = record === undefined ? {} : { step: readStepRecord(record) };
  const judged = judgeRetry({ ...facts, ...begun, ...kept.facts });
  const verdict = await checkVerdict(engine, facts, judged);
  if (verdict.kind === "unknown" || verdict.kind === "unavailable") return verdict;
  return {
    ...letter,
    header,
    ...errorIn(letter.letter, errorKey === undefined ? undefined : bodies.get(errorKey)),
    ...(jobInput === undefined ? {} : { input: jobInput }),
    verdict,
  };
}

/** A retry that the engine would not apply is refused before it is made: the letter stays open, and the run as it is. */
async function checkVerdict(
  engine: Engine,
  { letter, header }: { readonly letter: Letter; readonly header: RunHeader },
  judged: RetryVerdict,
): Promise<RetryVerdict | Trouble> {
  if (judged.kind !== "retryable" || letter.jobId === undefined) return judged;
  const foreseen = await foreseeRetry(engine, header, { jobId: letter.jobId });
  if (foreseen.kind === "unknown" || foreseen.kind === "unavailable") return foreseen;
  const because =
    "its run has gone on without it: the failure was handled, or what waited for the step ended otherwise";
  return foreseen.kind === "late" ? { kind: "not_retryable", because } : checkAbove(engine, header, judged);
}

/** A run that was started by another is opened with it: every step above must be able to wait again. */
async function checkAbove(
  engine: Engine,
  header: RunHeader,
  judged: RetryVerdict,
): Promise<RetryVerdict | Trouble> {
  const { tenant } = header;
  for (let child = header; isTerminal(child.status) && child.parent !== undefined; ) {
    const { runId, step, attempt } = child.parent;
    const loaded = await ask(engine, "loadRun", { tenant, runId, records: [] });
    if (loaded.kind === "unknown" || loaded.kind === "unavailable") return { ...loaded };
    const above = `run ${runId}, which started it,`;
    if (loaded.kind === "not_found") return { kind: "not_retryable", because: `${above} is gone` };
    const because = whyRunStays(loaded.header);
    if (because !== undefined)
      return { kind: "not_retryable", because: `${above} stays as it is: ${because}` };
    const entry = { jobId: makeJobId({ runId, step, attempt }), childRunId: child.runId };
    const foreseen = await foreseeRetry(engine, loaded.header, entry);
    if (foreseen.kind === "unknown" || foreseen.kind === "unavailable") return foreseen;
    if (foreseen.kind === "late")
      return { kind: "not_retryable", because: `${above} has gone on without it` };
    child = loaded.header;
  }
  return judged;
}

/** `open`: not to be known in advance; the run itself decides. */
type Foreseen =
  | { readonly kind: "applied" }
  | { readonly kind: "late" }
  | { readonly kind: "open" }
  | Trouble;

/** Rounds of loading what the engine wants to see. */
const roundsMax = 4;

/**
 * Asks the engine in advance what it would do with a retry: only it knows who handled a failure, and who went on without a step.
 */
async function foreseeRetry(
  engine: Engine,
  header: RunHeader,
  retry: { readonly jobId: JobId; readonly childRunId?: RunId },
): Promise<Foreseen> {
  const { tenant, runId, actor, version, parent } = header;
  const pinned = await engine.definitions.pinned(tenant, header.definition);
  if (pinned.kind === "unknown" || pinned.kind === "unavailable") return pinned;
  if (pinned.kind === "missing") return { kind: "late" };
  const records = new Map<string, string | undefined>();
  const view = { runId, tenant, actor, version, records, ...(parent === undefined ? {} : { parent }) };
  const entry = { kind: "retry", entryId: "foreseen", actor, ...retry } as const;
  for (let round = 0; round < roundsMax; round += 1) {
    const applied = apply(pinned.definition, view, [entry], engine.storeTime.nowMs(), engine.terms.commit);
    if (applied.kind === "applied") return { kind: applied.fates[0]?.fate ?? "open" };
    // What lies outside the run is checked when the entry is applied.
    if (applied.records.some((key) => parseOutsideKey(key) !== undefined)) return { kind: "open" };
    const loaded = await ask(engine, "loadRun", { tenant, runId, records: applied.records });
    if (loaded.kind !== "run") return loaded.kind === "not_found" ? { kind: "open" } : { ...loaded };
    for (const key of applied.records) records.set(key, undefined);
    for (const { key, body } of loaded.records) records.set(key, body);
  }
  return { kind: "open" };
}

/** What the letter's result is to its job now; nothing for a letter that keeps none. */
async function readKept(engine: Engine, tenant: TenantId, result: KeptResult | undefined) {
  const parts = result === undefined ? undefined : parseJobId(result.jobId);
  if (result === undefined || parts === undefined) return { kind: "kept", facts: {} } as const;
  const answer = await ask(engine, "getJob", { tenant, jobId: parts.jobId });
  if (answer.kind === "unknown" || answer.kind === "unavailable") return answer;
  const { entryId } = entryOf(result, parts);
  const job = answer.kind === "job" ? { job: answer.job } : {};
  return { kind: "kept", facts: { kept: { token: result.token, entryId, ...job } } } as const;
}

type LetterFound =
  | { readonly kind: "letter"; readonly letter: Letter; readonly kept?: KeptResult }
  | { readonly kind: "dead_letter_not_found" }
  | Trouble;

export async function findLetter(engine: Engine, tenant: TenantId, id: string): Promise<LetterFound> {
  const answer = await ask(engine, "getDocument", { tenant, collection: "deadLetter", id });
  if (answer.kind === "not_found") return { kind: "dead_letter_not_found" };
  if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
  const kept = keptResult(answer.document.body);
  return { kind: "letter", letter: readLetter(answer.document), ...(kept === undefined ? {} : { kept }) };
}

type RunOfLetter =
  | {
      readonly kind: "run";
      readonly header: RunHeader;
      readonly bodies: ReadonlyMap<string, string>;
      readonly jobInput: string | undefined;
    }
  | { readonly kind: "gone" }
  | Trouble;

/** The step, the error and the input in one read: the job itself need not be there any more. */
async function readRun(engine: Engine, tenant: TenantId, letter: Letter): Promise<RunOfLetter> {
  const { runId, step, attempt, errorKey } = letter;
  if (runId === undefined) return { kind: "gone" };
  const inputs = step === undefined ? [] : [...new Set([jobInputKey(step, attempt ?? 1), jobInputKey(step)])];
  const records = [
    ...(step === undefined ? [] : [stepRecordKey(step)]),
    ...(errorKey === undefined ? [] : [errorKey]),
    ...inputs,
  ];
  const answer = await ask(engine, "loadRun", { tenant, runId, records });
  if (answer.kind === "not_found") return { kind: "gone" };
  if (answer.kind !== "run") return { kind: answer.kind, cause: answer.cause };
  const bodies = new Map(answer.records.map(({ key, body }) => [key, body]));
  const named = inputs.find((key) => bodies.has(key));
  const jobInput = named === undefined ? undefined : bodies.get(named);
  return { kind: "run", header: answer.header, bodies, jobInput };
}

/** What the worker said stands in the run; what the engine found stands in the letter. */
function errorIn({ error }: Letter, body: string | undefined) {
  const found = body === undefined ? error : (errorOf(readError(body)) ?? error);
  return found === undefined ? {} : { error: found };
}
