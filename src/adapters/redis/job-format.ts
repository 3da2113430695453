// A job as one text in its run's hash: words that scripts compare and exchange, then what only we read.
import type { AtBudget, BudgetId, JobMeter } from "../../domain/budgets.ts";
import type { CheckedVerdict } from "../../domain/dispatch.ts";
import {
  type ClaimTerms,
  type ClaimToken,
  defaultPool,
  type Job,
  type JobHint,
  type JobId,
  type JobSpec,
  type JobState,
  type Place,
} from "../../domain/job.ts";
import type { Fence } from "../../domain/lock.ts";
import type { RunId } from "../../domain/run.ts";
import { InterlockError } from "../../errors.ts";
import type { ClaimGrant } from "../../ports/admission-operations.ts";
import { encode, unencoded } from "./keys.ts";
import { jsonWord, spaceInWord, textOfWord, wholeMs } from "./script-call.ts";

/** As lua/parts/meters.lua reads it: ` e:<unit>=<amount>` of each amount and ` b:<budget>=<at limit>` of each budget, without the first space. */
function meterWords(meter: JobMeter | undefined): { readonly meter?: string } {
  if (meter === undefined) return {};
  const estimate = Object.entries(meter.estimate).map(
    ([unit, amount]) => `e:${unencoded("unit", unit)}=${amount}`,
  );
  const budgets = meter.budgets.map(({ budget, atLimit }) => `b:${unencoded("budget", budget)}=${atLimit}`);
  return { meter: [...estimate, ...budgets].join(" ") };
}

function parseMeter(text: string): JobMeter {
  const words = text === "" ? [] : text.split(" ").map((each) => each.split(/[:=]/, 3));
  const estimate = words.flatMap(([kind, unit = "", amount]) =>
    kind === "e" ? [[unit, Number(amount)] as const] : [],
  );
  const budgets = words.flatMap(([kind, budget, atLimit]) =>
    kind === "b" ? [{ budget: budget as BudgetId, atLimit: atLimit as AtBudget }] : [],
  );
  return { estimate: Object.fromEntries(estimate), budgets };
}

/** What a job's text ends with, after the words that change: `<topic> <spec> <input key>`. */
export function jobTail(job: JobSpec): string {
  const { step, attempt, topic, inputKey, requires, deadlineAtMs, turn, traceparent, meter } = job;
  // The meter stands first: scripts look there for it, and nowhere else in a text of any length.
  const details = { ...meterWords(meter), step, attempt, requires, deadlineAtMs, turn, traceparent };
  const spec = JSON.stringify(details).replaceAll(" ", spaceInWord);
  return `${encode(topic)} ${spec} ${inputKey}`;
}

/**
 * `<state> <republished> <token> <worker> <fence> <claimedAt> <expiresAt> <reportId> <progress> <createdAt>` and the tail;
 * a dash stands for what is absent. The budget for which a job is parked stands where the token of a claim does.
 */
export function parseJob(jobId: JobId, text: string): Job {
  const { words, inputKey } = split(jobId, text);
  const [state, republished, token, worker, fence, claimedAt, expiresAt, report, progress, created, topic] =
    words;
  const { meter, ...spec } = JSON.parse(words[11].replaceAll(spaceInWord, " ")) as Spec;
  const isParked = state === "parked";
  return {
    jobId,
    ...spec,
    ...(meter === undefined ? {} : { meter: parseMeter(meter) }),
    topic: decodeURIComponent(topic),
    inputKey,
    runId: runIdOf(jobId),
    state: state as JobState,
    createdAtMs: Number(created),
    republished: Number(republished),
    ...(isParked ? { parkedFor: token as BudgetId } : {}),
    ...(token === "-" || isParked
      ? {}
      : {
          claim: {
            token: textOfWord(token) as ClaimToken,
            ...parseWorker(worker),
            fence: Number(fence) as Fence,
            claimedAtMs: Number(claimedAt),
            expiresAtMs: Number(expiresAt),
          },
        }),
    ...(report === "-" ? {} : { reportId: textOfWord(report) }),
    ...wordOfOthers(progress),
  };
}

/** As lua/parts/worker-word.lua describes it; scripts add the default pool where the tenant's running jobs are counted. */
export function workerWord({ worker, pool = defaultPool }: ClaimTerms): string {
  return pool === defaultPool ? jsonWord(worker) : `[${jsonWord(worker)},"${encode(pool)}"]`;
}

type StoredWorker = [worker: string, pool: string, mark?: 1 | [overBudget: BudgetId]];

function parseWorker(word: string): Pick<Claim, "worker" | "pool" | "charged" | "overBudget"> {
  if (!word.startsWith("[")) return { worker: textOfWord(word) };
  const [worker, pool, mark] = JSON.parse(word.replaceAll(spaceInWord, " ")) as StoredWorker;
  return {
    worker,
    ...(pool === "" ? {} : { pool: decodeURIComponent(pool) }),
    ...(mark === 1 ? { charged: true } : {}),
    ...(Array.isArray(mark) ? { overBudget: mark[0] } : {}),
  };
}

type Claim = NonNullable<Job["claim"]>;

/** `<topic> <pool>` of a place that was freed, or nothing. */
export function parseFreed(text: unknown): { freed?: Place } {
  const [topic = "", pool] = String(text ?? "").split(" ");
  return pool === undefined
    ? {}
    : { freed: { topic: decodeURIComponent(topic), pool: decodeURIComponent(pool) } };
}

/** Where a worker's progress stands, a verdict of the dispatch check does before: a list instead of a text. */
function wordOfOthers(word: string): Pick<Job, "progress" | "checked"> {
  if (word === "-") return {};
  if (!word.startsWith("[")) return { progress: textOfWord(word) };
  const [verdict, entryId, reason, askAgainMs, saidAtMs] = JSON.parse(
    word.replaceAll(spaceInWord, " "),
  ) as StoredVerdict;
  const again = askAgainMs === null ? {} : { askAgainMs };
  return { checked: { entryId, verdict, reason, saidAtMs, ...again } };
}

type StoredVerdict = [
  verdict: CheckedVerdict["verdict"],
  entryId: string,
  reason: string,
  askAgainMs: number | null,
  saidAtMs: number,
];

/** The word of a verdict but for the time, which the script knows: what tells a repeat, and the rest. */
export function verdictWords(entry: Omit<CheckedVerdict, "saidAtMs">): [string, string] {
  const { verdict, entryId, reason, askAgainMs } = entry;
  const again = askAgainMs === undefined ? "null" : wholeMs("askAgainMs", askAgainMs);
  return [`[${jsonWord(verdict)},${jsonWord(entryId)},`, `${jsonWord(reason)},${again}`];
}

export function parseHint(id: JobId, text: string): JobHint {
  const { jobId, runId, topic, createdAtMs, requires, state } = parseJob(id, text);
  const hint = { jobId, runId, topic, createdAtMs, ...(state === "held" ? { held: true as const } : {}) };
  return requires === undefined ? hint : { ...hint, requires };
}

/** A job id begins with its run's id. */
export function runIdOf(jobId: JobId): RunId {
  return jobId.slice(0, jobId.indexOf(":")) as RunId;
}

/** Job id, fence and the time left, in turn. */
export function parseClaims(flat: readonly (string | number)[]): ClaimGrant[] {
  return Array.from({ length: flat.length / 3 }, (_, index) => ({
    jobId: String(flat[3 * index]) as JobId,
    fence: Number(flat[3 * index + 1]) as Fence,
    expiresInMs: Number(flat[3 * index + 2]),
  }));
}

type Spec = Pick<JobSpec, "step" | "attempt" | "requires" | "deadlineAtMs" | "turn" | "traceparent"> & {
  readonly meter?: string;
};

const jobPattern = new RegExp(`^${"([^ ]+) ".repeat(12)}([^]*)$`);

type Words = [
  ...[string, string, string, string, string, string, string, string, string, string, string, string],
];

function split(jobId: JobId, text: string): { readonly words: Words; readonly inputKey: string } {
  const parts = jobPattern.exec(text);
  if (parts === null) throw new InterlockError("store_corrupt", `the job ${jobId} cannot be read`);
  return { words: parts.slice(1, 13) as Words, inputKey: parts[13] ?? "" };
}
