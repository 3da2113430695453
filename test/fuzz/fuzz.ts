// The loop of the fuzzer: every operation in every manner, each answer judged, refused writes compared with what was there before.
import { createSeededRandom, type SeededRandom } from "../../src/testing/seeded-random.ts";
import { type Manner, manners, requestFor } from "./generate.ts";
import { problemsOf } from "./judge.ts";
import { learnFrom } from "./knowledge.ts";
import { type FuzzOperation, fuzzOperations } from "./operations.ts";
import { createSender, curlText, type FuzzAnswer, type FuzzRequest } from "./request.ts";
import { type RowWatch, stateOf, watchRows } from "./unchanged.ts";
import type { FuzzWorld } from "./world.ts";

export type Finding = {
  readonly request: FuzzRequest;
  readonly answer: FuzzAnswer;
  readonly problems: readonly string[];
  /** To be given to the fuzzer again: what was drawn for it follows from these. */
  readonly seed: number;
  readonly number: number;
};

export type Summary = {
  requests: number;
  /** By class of status: 2xx, 4xx, 503, none. */
  readonly byClass: Map<string, number>;
  /** By operation, then by class. */
  readonly byOperation: Map<string, Map<string, number>>;
  readonly codes: Map<string, number>;
  refusedWritesCompared: number;
  readonly findings: Finding[];
};

export type FuzzOptions = {
  readonly seed: number;
  /** Asked before every request. */
  readonly goesOn: (summary: Summary) => boolean;
  readonly onProgress?: (summary: Summary) => void;
};

/** After so many requests what they have used up is made again. */
const replenishEvery = 150;
/** Every so many refused writes all that can be listed is compared, too. */
const compareEvery = 40;
/** More would only repeat the first. */
const findingsMax = 20;

export async function fuzz(world: FuzzWorld, { seed, goesOn, onProgress }: FuzzOptions): Promise<Summary> {
  const random = createSeededRandom(seed);
  const sender = createSender(world.gateway.url);
  const rows = watchRows(world.gateway);
  const prototype = Object.getOwnPropertyNames(Object.prototype).join();
  const summary: Summary = {
    requests: 0,
    byClass: new Map(),
    byOperation: new Map(),
    codes: new Map(),
    refusedWritesCompared: 0,
    findings: [],
  };
  for (let number = 0; goesOn(summary) && summary.findings.length < findingsMax; number += 1) {
    if (number % replenishEvery === 0) {
      await world.replenish();
      onProgress?.(summary);
    }
    const own = random.stream(`request ${number}`);
    const { operation, manner } = turnOf(number, own);
    const request = requestFor(world, own, operation, manner);
    const isCompared = request.method !== "GET" && number % compareEvery === 0;
    const before = isCompared ? await stateOf(world.gateway) : undefined;
    await rows.forget();
    const answer = await sender.send(request);
    const problems = problemsOf(operation, request, answer);
    if (Object.getOwnPropertyNames(Object.prototype).join() !== prototype)
      problems.push("Object.prototype was changed");
    problems.push(...(await changes(world, { request, answer, rows, before, summary, send: sender.send })));
    note(summary, operation, answer);
    learn(world, operation, answer);
    if (problems.length > 0) summary.findings.push({ request, answer, problems, seed, number });
  }
  sender.close();
  return summary;
}

/** Every operation comes up in every manner before any comes up again. */
function turnOf(number: number, random: SeededRandom): { operation: FuzzOperation; manner: Manner } {
  const operation = fuzzOperations[number % fuzzOperations.length] as FuzzOperation;
  const round = Math.floor(number / fuzzOperations.length);
  // Two of three rounds follow the turn, the third is drawn: some operations have more to get wrong than others.
  if (round % 4 === 3) return { operation: random.pick(fuzzOperations), manner: random.pick(manners) };
  return { operation, manner: manners[round % 4] ?? "hostile" };
}

type Compared = {
  readonly request: FuzzRequest;
  readonly answer: FuzzAnswer;
  readonly rows: RowWatch;
  readonly before: string | undefined;
  readonly summary: Summary;
  send(request: FuzzRequest): Promise<FuzzAnswer>;
};

/** What a refused request has changed all the same. */
async function changes(world: FuzzWorld, compared: Compared): Promise<string[]> {
  const { request, answer, rows, before, summary, send } = compared;
  const isRefused = answer.kind === "answered" && answer.status >= 400 && answer.status < 500;
  if (!isRefused || request.method === "GET" || request.method === "HEAD") return [];
  const keyId = /^ilk_([^_]+)_/.exec(request.headers["x-api-key"] ?? "")?.[1] ?? "";
  const written = await rows.rowsBy(keyId);
  const problems = written.map((row) => `it was refused, and yet: ${row}`);
  if (before === undefined) return problems;
  summary.refusedWritesCompared += 1;
  // Claims run out and sweeps go on meanwhile: only a change that comes with every repetition is the request's.
  let last = before;
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const after = await stateOf(world.gateway);
    if (after === last) return problems;
    last = await stateOf(world.gateway);
    await send(request);
  }
  return [...problems, "it was refused, and yet what can be listed has changed"];
}

function note(summary: Summary, operation: FuzzOperation, answer: FuzzAnswer): void {
  summary.requests += 1;
  const name = classOf(answer);
  add(summary.byClass, name);
  const own = summary.byOperation.get(operation.name) ?? new Map<string, number>();
  summary.byOperation.set(operation.name, own);
  add(own, name);
  const code = answer.kind === "answered" ? /"code":"([a-z_]+)"/.exec(answer.text)?.[1] : undefined;
  if (code !== undefined && answer.kind === "answered" && answer.status >= 400) add(summary.codes, code);
}

function classOf(answer: FuzzAnswer): string {
  if (answer.kind === "none") return "none";
  return answer.status >= 500 ? String(answer.status) : `${Math.floor(answer.status / 100)}xx`;
}

function add(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

function learn(world: FuzzWorld, operation: FuzzOperation, answer: FuzzAnswer): void {
  if (answer.kind !== "answered" || answer.status >= 300) return;
  if (!answer.headers["content-type"]?.startsWith("application/json")) return;
  learnFrom(world.knowledge, operation.name, JSON.parse(answer.text));
}

/** For people: what was asked, what came, what is wrong with it, and how to see it again. */
export function findingText({ request, answer, problems, seed, number }: Finding): string {
  const came = answer.kind === "none" ? "nothing" : `${answer.status} ${answer.text.slice(0, 1_000)}`;
  return [
    `${request.operation} (${request.how}): ${problems.join("; ")}`,
    `  ${curlText(request)}`,
    `  answered: ${came}`,
    `  again: npm run fuzz -- --seed ${seed} --requests ${number + 1}`,
  ].join("\n");
}

export function summaryText(summary: Summary): string {
  const counts = (map: ReadonlyMap<string, number>) =>
    [...map]
      .sort(([left], [right]) => left.localeCompare(right))
      .map(([name, count]) => `${name} ${count}`)
      .join(", ");
  const width = Math.max(...fuzzOperations.map(({ name }) => name.length));
  const operations = [...summary.byOperation].map(
    ([name, classes]) => `  ${name.padEnd(width)}  ${counts(classes)}`,
  );
  return [
    `${summary.requests} requests: ${counts(summary.byClass)}`,
    `${summary.refusedWritesCompared} refused writes compared with all that can be listed`,
    ...operations,
    `codes: ${counts(summary.codes)}`,
  ].join("\n");
}
