// Rates and budgets as the command line takes them: `30/60,burst=5,queue`, `llm=100000tokens/60`, `daily=25usd/day,stop`.
import type { Body } from "../sdk/contract.ts";
import { UsageError } from "./run-program.ts";

type Changes = Body<"changeTenant">;
type StartRate = NonNullable<Changes["start_rate"]>;
type TopicRates = NonNullable<Changes["topic_rates"]>;
type Budgets = NonNullable<Changes["budgets"]>;

/** `30/60` is 30 in 60 seconds; `none` takes the rate away. */
export function startRateOption(text: string): StartRate | null {
  if (text === "none") return null;
  const [limit, ...words] = text.split(",");
  return { ...rateOf(text, limit), ...wordsOf(text, words, ["reject", "queue"]) } as StartRate;
}

/** `llm=600/60`, `llm=100000tokens/60,burst=2000`; several of one topic add up, `llm=none` takes all of a topic away. */
export function topicRateOption(text: string, before: TopicRates = {}): TopicRates {
  const { name, value } = named(text);
  if (value === "none") return { ...before, [name]: null };
  const [limit, ...words] = value.split(",");
  const rate = { ...rateOf(text, limit), ...wordsOf(text, words, []) };
  return { ...before, [name]: [...(before[name] ?? []), rate] } as TopicRates;
}

/** `daily=25usd/day,stop`; `daily=none` takes the budget away. */
export function budgetOption(text: string, before: Budgets = {}): Budgets {
  const { name, value } = named(text);
  if (value === "none") return { ...before, [name]: null };
  const [amount = "", ...words] = value.split(",");
  const [, number, unit, per] =
    /^([0-9.]+)([A-Za-z0-9_-]*[A-Za-z_][A-Za-z0-9_-]*)\/(\w+)$/.exec(amount) ?? [];
  if (number === undefined) throw new UsageError(`${text}: a budget is written daily=25usd/day`);
  const budget = { unit, amount: Number(number), per, ...wordsOf(text, words, ["reject", "hold", "stop"]) };
  return { ...before, [name]: budget } as Budgets;
}

function named(text: string) {
  const [, name, value] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (name === undefined || value === undefined)
    throw new UsageError(`${text}: write a name, = and the limit`);
  return { name, value };
}

function rateOf(text: string, limit = "") {
  const [, number, unit, seconds] = /^(\d+)([A-Za-z_][A-Za-z0-9_-]*)?\/([0-9.]+)$/.exec(limit) ?? [];
  if (number === undefined) throw new UsageError(`${text}: a rate is written 30/60, for 30 in 60 seconds`);
  return { limit: Number(number), per_sec: Number(seconds), ...(unit === undefined ? {} : { unit }) };
}

function wordsOf(text: string, words: readonly string[], choices: readonly string[]) {
  return Object.assign(
    {},
    ...words.map((word) => {
      const [, burst] = /^burst=(\d+)$/.exec(word) ?? [];
      if (burst !== undefined) return { burst: Number(burst) };
      if (choices.includes(word)) return { at_limit: word };
      throw new UsageError(`${text}: "${word}" is not one of ${["burst=<count>", ...choices].join(", ")}`);
    }),
  ) as { readonly burst?: number; readonly at_limit?: string };
}

/** How a limit is shown: as it would be written. */
export function rateText({ limit, per_sec, burst, unit = "", at_limit }: RateShown): string {
  const more = [
    burst === undefined || burst === 1 ? [] : `burst=${burst}`,
    at_limit === "queue" ? at_limit : [],
  ];
  return [`${limit}${unit}/${per_sec}`, ...more.flat()].join(",");
}

type RateShown = {
  readonly limit: number;
  readonly per_sec: number;
  readonly burst?: number;
  readonly unit?: string;
  readonly at_limit?: string;
};

export function budgetText({ amount, unit, per, at_limit }: NonNullable<Budgets[string]>): string {
  return `${amount}${unit}/${per},${at_limit ?? "hold"}`;
}
