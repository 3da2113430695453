// What the tables of questions to a gateway share: how one is written down, and the parts of answers that later questions need.
import type { Question, RawAnswers } from "./answer-script.ts";

type Body = object | string | ((raw: RawAnswers) => object);

export function ask(
  title: string,
  as: string,
  asks: Question["asks"],
  body?: Body,
  headers?: Record<string, string>,
) {
  return {
    title,
    as,
    asks,
    ...(body === undefined ? {} : { body }),
    ...(headers === undefined ? {} : { headers }),
  };
}

export const workflows = "/api/v1/workflows";
export const runs = "/api/v1/workflow-runs";

export type Id = { readonly run_id: string };
export type Page = {
  readonly next_cursor: string;
  readonly items: ReadonlyArray<{ readonly job_id: string; readonly hash: string }>;
};

export const two = {
  ...{ id: "two", name: "Two", version: undefined },
  steps: {
    one: { type: "worker", topic: "one", input: { n: "${input.n}" } },
    after: { type: "worker", topic: "after", depends_on: ["one"] },
  },
};
