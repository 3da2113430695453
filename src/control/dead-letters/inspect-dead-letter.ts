// Shows a dead letter with all that is known of it: its error, the job's input, its run, and whether it can be retried.
import { errorOf, judgeRetry, type Letter, type RetryVerdict, readLetter } from "../../domain/dead-letter.ts";
import { jobInputKey, stepRecordKey } from "../../domain/engine/keys.ts";
import { readError, readStepRecord } from "../../domain/engine/records.ts";
import type { RunHeader } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import { foreseeRetry } from "./foresee-retry.ts";

export type LetterDetails = {
  readonly letter: Letter;
  readonly error?: NonNullable<Letter["error"]>;
  /** JSON text. */
  readonly input?: string;
  /** Absent when the run is gone. */
  readonly header?: RunHeader;
  readonly verdict: RetryVerdict;
};

export type LetterAnswer =
  | ({ readonly kind: "letter" } & LetterDetails)
  | { readonly kind: "not_found" }
  | Trouble;

export async function inspectDeadLetter(engine: Engine, tenant: TenantId, id: string): Promise<LetterAnswer> {
  const letter = await findLetter(engine, tenant, id);
  if (letter.kind !== "letter") return letter;
  const run = await readRun(engine, tenant, letter.letter);
  if (run.kind === "unknown" || run.kind === "unavailable") return run;
  if (run.kind === "gone") {
    return { ...letter, ...errorIn(letter.letter, undefined), verdict: judgeRetry(letter) };
  }
  const { header, bodies, jobInput } = run;
  const { step, errorKey } = letter.letter;
  const record = step === undefined ? undefined : bodies.get(stepRecordKey(step));
  const facts = { letter: letter.letter, header };
  const judged = judgeRetry(record === undefined ? facts : { ...facts, step: readStepRecord(record) });
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
  const foreseen = await foreseeRetry(engine, header, letter.jobId);
  if (foreseen.kind === "unknown" || foreseen.kind === "unavailable") return foreseen;
  if (foreseen.kind !== "late") return judged;
  const because =
    "its run has gone on without it: the failure was handled, or what waited for the step ended otherwise";
  return { kind: "not_retryable", because };
}

type LetterFound =
  | { readonly kind: "letter"; readonly letter: Letter }
  | { readonly kind: "not_found" }
  | Trouble;

export async function findLetter(engine: Engine, tenant: TenantId, id: string): Promise<LetterFound> {
  const answer = await ask(engine, "getDocument", { tenant, collection: "deadLetter", id });
  if (answer.kind === "not_found") return { kind: "not_found" };
  if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
  return { kind: "letter", letter: readLetter(answer.document) };
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
