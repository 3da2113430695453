// Measures one input at 1x, 2x, 4x and 8x and says what is wrong: growth beyond linear, a blocked event loop, an answer that repeats
// what was sent. All of it is CPU time, least of several tries, so that neither other programs nor a collection of garbage decide.
import type { FuzzAnswer } from "../fuzz/request.ts";
import type { MeasuredGateway } from "./gateway.ts";
import type { ScaledInput } from "./inputs.ts";

export const factors = [1, 2, 4, 8] as const;

export type Row = {
  readonly input: ScaledInput;
  /** By factor; absent where nothing was measured, Infinity where no answer came. */
  readonly cpuMs: ReadonlyMap<number, number>;
  /** The longest of any size. */
  readonly blockMs: number;
  /** The answer to the largest that was measured. */
  readonly status: string;
  readonly problems: readonly string[];
};

/** Below it an input is cheap, whatever its growth. */
const cheapMs = 25;
const blockMaxMs = 100;
/** More than that is never linear work that a limit lets in: larger sizes are not tried. */
const endlessMs = 4_000;
/** A size may cost that much more than its share of a smaller one, which counts as at least 3 ms for each 1x. */
const growth = { ofNext: 1.75, ofEight: 1.6, leastMs: 3 };
/** Two hundred problems of a definition, each told in a line. */
const answerBytesMax = 16_384;
const triesMax = 6;

type Measured = {
  readonly cpuMs: number;
  readonly blockMs: number;
  readonly bytes: number;
  readonly answer: FuzzAnswer | undefined;
};

/** `largest` looks at the smaller sizes only when the largest is not cheap. What looks wrong is measured again: the least counts. */
export async function judge(
  gateway: MeasuredGateway,
  input: ScaledInput,
  sizes: "all" | "largest",
): Promise<Row> {
  const measured = new Map<number, Measured>();
  measured.set(8, await measure(gateway, input, 8));
  const isCheap = (measured.get(8)?.cpuMs ?? 0) < cheapMs;
  for (let tries = 1; ; tries += 1) {
    const isEnough = sizes === "largest" && isCheap && problemsWith(measured).length === 0;
    for (const factor of isEnough ? [] : factors) {
      const again = await measure(gateway, input, factor);
      measured.set(factor, least(measured.get(factor), again));
      if (again.cpuMs > endlessMs) break;
    }
    if (tries === triesMax || problemsWith(measured).length === 0) break;
  }
  const largest = measured.get(Math.max(...measured.keys()));
  const cpuMs = new Map([...measured].map(([factor, each]) => [factor, each.cpuMs]));
  return {
    input,
    cpuMs,
    blockMs: longestBlockMs(measured),
    status: statusOf(largest?.answer),
    problems: problemsWith(measured),
  };
}

async function measure(gateway: MeasuredGateway, input: ScaledInput, factor: number): Promise<Measured> {
  const request = await input.request(Math.max(1, Math.floor((input.largest * factor) / 8)));
  const cost = await gateway.measure(request, input.settles);
  const head = request.target.length + JSON.stringify(request.headers).length;
  return {
    cpuMs: cost?.cpuMs ?? Number.POSITIVE_INFINITY,
    blockMs: cost?.blockMs ?? Number.POSITIVE_INFINITY,
    bytes: head + (request.body?.length ?? 0),
    answer: cost?.answer,
  };
}

const least = (left: Measured | undefined, right: Measured): Measured => ({
  ...right,
  cpuMs: Math.min(left?.cpuMs ?? Number.POSITIVE_INFINITY, right.cpuMs),
  blockMs: Math.min(left?.blockMs ?? Number.POSITIVE_INFINITY, right.blockMs),
});

const longestBlockMs = (measured: ReadonlyMap<number, Measured>): number =>
  Math.max(...[...measured.values()].map(({ blockMs }) => blockMs));

function problemsWith(measured: ReadonlyMap<number, Measured>): readonly string[] {
  const blockMs = longestBlockMs(measured);
  return [
    ...(blockMs > blockMaxMs ? [`the event loop was blocked for ${told(blockMs)} ms of CPU time`] : []),
    ...growthProblems(measured),
    ...[...measured.values()].flatMap(({ answer }) => answerProblems(answer)).slice(0, 1),
  ];
}

function growthProblems(measured: ReadonlyMap<number, Measured>): string[] {
  const problems: string[] = [];
  for (const [small, large] of [
    [1, 2],
    [2, 4],
    [4, 8],
    [1, 8],
  ] as const) {
    const [before, after] = [measured.get(small), measured.get(large)];
    if (before === undefined || after === undefined || after.cpuMs < cheapMs) continue;
    // A larger one that was answered in the same way for less shows that it was not the size.
    const isRefuted = [...measured].some(
      ([factor, each]) =>
        factor > large && each.cpuMs < after.cpuMs && statusOf(each.answer) === statusOf(after.answer),
    );
    if (isRefuted) continue;
    // What is counted may grow faster in bytes: a list of lists.
    const share = Math.max(large / small, after.bytes / before.bytes);
    const allowed = (large === 8 && small === 1 ? growth.ofEight : growth.ofNext) * share;
    if (after.cpuMs > allowed * Math.max(before.cpuMs, growth.leastMs * small))
      problems.push(`${large}x costs ${told(after.cpuMs / before.cpuMs)} times as much as ${small}x`);
  }
  for (const [factor, { cpuMs }] of measured) {
    if (cpuMs > endlessMs) problems.push(`${factor}x costs ${told(cpuMs)} ms of CPU time`);
  }
  return problems;
}

/** A refusal need not repeat what was sent; an answer that is asked for may. */
function answerProblems(answer: FuzzAnswer | undefined): string[] {
  if (answer === undefined) return ["no answer came"];
  if (answer.kind === "none") return [`no answer came: ${answer.cause}`];
  if (answer.status >= 500) return [`it was answered ${answer.status}: ${answer.text.slice(0, 200)}`];
  const isRefusal = answer.status >= 400 || answer.text.includes('"valid":false');
  return isRefusal && answer.text.length > answerBytesMax
    ? [`the refusal has ${answer.text.length} characters`]
    : [];
}

const statusOf = (answer: FuzzAnswer | undefined): string =>
  answer === undefined || answer.kind === "none" ? "none" : String(answer.status);

export const told = (value: number): string =>
  !Number.isFinite(value) ? "endless" : value >= 100 ? value.toFixed(0) : value.toFixed(1);
