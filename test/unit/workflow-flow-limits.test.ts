// What a definition says of rates, budgets and estimates: how it is read, and every mistake with its place.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";
import { limitsIn } from "../../src/domain/workflow/flow-control.ts";

type Fields = { readonly [name: string]: JsonValue };

function reading(header: Fields, step: Fields = {}) {
  return readDefinition({ id: "tickets", ...header, steps: { one: { topic: "work", ...step } } });
}

function problemsOf(header: Fields, step?: Fields) {
  const read = reading(header, step);
  return read.kind === "invalid" ? read.problems.map(({ path, message }) => `${path}: ${message}`) : [];
}

function valid(header: Fields, step?: Fields) {
  const read = reading(header, step);
  if (read.kind === "invalid") throw new Error(JSON.stringify(read.problems));
  return read.definition;
}

const daily = { name: "daily", unit: "usd", amount: 25, per: "day" };

test("rates, budgets and estimates are read with the defaults of what is absent", () => {
  const { flowControl, steps } = valid(
    {
      rate: [
        { limit: 30, per_sec: 60 },
        { key: "${input.customer}", limit: 5, per_sec: 0.5, burst: 3, at_limit: "queue" },
      ],
      budgets: [
        daily,
        { ...daily, name: "own", amount: 0.000001, key: "${input.customer}", at_limit: "stop" },
      ],
    },
    { estimate: { usd: 0.02, tokens: 1_200 } },
  );
  expect(flowControl).toMatchObject({
    gates: [],
    rates: [
      { path: "rate[0]", limit: 30, perMs: 60_000, burst: 1, atLimit: "reject" },
      { limit: 5, perMs: 500, burst: 3, atLimit: "queue", key: { path: "rate[1].key" } },
    ],
    budgets: [
      { path: "budgets[0]", spec: "daily~usd~day", amount: 25_000_000, atLimit: "hold" },
      { amount: 1, atLimit: "stop", key: { path: "budgets[1].key" } },
    ],
  });
  expect(steps.get("one")?.estimate).toEqual({ usd: 20_000, tokens: 1_200_000_000 });
  expect(limitsIn(flowControl)).toEqual({ "budget.daily~usd~day": 25_000_000, "budget.own~usd~day": 1 });
});

describe("a mistake is reported with its place", () => {
  test.each<readonly [string, Fields, string]>([
    ["five rates", { rate: Array(5).fill({ limit: 1, per_sec: 1 }) }, "rate: has at most 4 rates, not 5"],
    ["a rate without a limit", { rate: [{ per_sec: 1 }] }, "rate[0].limit: a rate needs it"],
    ["a rate without a span", { rate: [{ limit: 1 }] }, "rate[0].per_sec: a rate needs it"],
    [
      "a limit of zero",
      { rate: [{ limit: 0, per_sec: 1 }] },
      "rate[0].limit: must be a whole number from 1 to 1000000000",
    ],
    [
      "a span of more than a day",
      { rate: [{ limit: 1, per_sec: 86_401 }] },
      "rate[0].per_sec: must be a plain number from 0.001 to 86400",
    ],
    [
      "half a burst",
      { rate: [{ limit: 1, per_sec: 1, burst: 0.5 }] },
      "rate[0].burst: must be a whole number from 1 to 10000000",
    ],
    [
      "an answer of gates",
      { rate: [{ limit: 1, per_sec: 1, at_limit: "replace_queued" }] },
      "rate[0].at_limit: must be one of reject, queue",
    ],
    [
      "the same rate twice",
      {
        rate: [
          { limit: 1, per_sec: 1 },
          { limit: 2, per_sec: 1 },
        ],
      },
      "rate[1]: counts the same starts in the same span as rate[0]",
    ],
    [
      "a key that reads a step",
      { rate: [{ limit: 1, per_sec: 1, key: "${steps.one.output}" }] },
      "rate[0].key: is evaluated before the run begins: it may read only input",
    ],
    ["five budgets", { budgets: Array(5).fill(daily) }, "budgets: has at most 4 budgets, not 5"],
    ["a budget of nothing", { budgets: [{ ...daily, amount: 0 }] }, "budgets[0].amount: must be more than 0"],
    [
      "a negative budget",
      { budgets: [{ ...daily, amount: -1 }] },
      "budgets[0].amount: must be a number from 0 to 9007199254 with at most six decimals",
    ],
    [
      "seven decimals",
      { budgets: [{ ...daily, amount: 0.0000001 }] },
      "budgets[0].amount: must be a number from 0 to 9007199254 with at most six decimals",
    ],
    ["a budget without a unit", { budgets: [{ ...daily, unit: "" }] }, "budgets[0].unit: a budget needs it"],
    [
      "a unit that every object has",
      { budgets: [{ ...daily, unit: "constructor" }] },
      "budgets[0].unit: is a word that programs use for something else: choose another",
    ],
    [
      "a period that there is not",
      { budgets: [{ ...daily, per: "year" }] },
      "budgets[0].per: must be one of hour, day, week, month",
    ],
    [
      "a name twice",
      { budgets: [daily, { ...daily, per: "week" }] },
      "budgets[1]: has the name of budgets[0]",
    ],
    ["an unknown field", { budgets: [{ ...daily, weight: 0 }] }, "budgets[0].weight: this field is unknown"],
  ])("%s", (_what, header, problem) => {
    expect(problemsOf(header)).toEqual([problem]);
  });

  test.each<readonly [string, Fields, string]>([
    [
      "a negative estimate",
      { estimate: { usd: -1 } },
      "steps.one.estimate.usd: must be a number from 0 to 9007199254 with at most six decimals",
    ],
    [
      "an estimate in words",
      { estimate: { usd: "little" } },
      "steps.one.estimate.usd: must be a number from 0 to 9007199254 with at most six decimals",
    ],
    [
      "a unit with a dot",
      { estimate: { "us.d": 1 } },
      'steps.one.estimate["us.d"]: a unit has at most 64 letters, digits, dashes and underscores',
    ],
    [
      "an estimate of a step that is no job",
      { type: "delay", delay_sec: 1, estimate: { usd: 1 } },
      "steps.one.estimate: only goes with steps whose work a worker does",
    ],
  ])("%s", (_what, step, problem) => {
    expect(problemsOf({}, step)).toEqual([problem]);
  });
});
