// The rows of steps that end as they begin: condition, switch, transform and storage.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { type Cell, type Row, soon, work } from "./step-types-table.ts";
import type { Steps } from "./step-types-world.ts";

type InlineStep = { readonly [field: string]: JsonValue };

type Inline = {
  readonly success: Cell;
  readonly failure: Cell;
  /** The step as it succeeds, and as it fails with the input `{}`. */
  readonly good: InlineStep;
  readonly bad: InlineStep;
  /** What it gives with the input `{n: 7}`. */
  readonly output: JsonValue;
  /** Steps that it needs around it, and what becomes of them. */
  readonly around?: { readonly steps: Steps; readonly ends: Readonly<Record<string, string>> };
};

const atOnce = "it ends in the commit that begins it";

/** What holds for all of them: between their beginning and their end there is nothing. */
function inlineRow({ success, failure, good, bad, output, around }: Inline): Row {
  const others = around ?? { steps: {}, ends: {} };
  const unharmed = {
    input: { n: 7 },
    ends: {
      status: "succeeded",
      steps: { before: "succeeded", it: "succeeded", after: "succeeded", ...others.ends },
      outputs: { it: output },
      attempts: { it: 1 },
      atOnce: ["it"],
    },
  };
  const between = (more: InlineStep = {}): Steps => ({
    before: work(),
    it: { ...good, depends_on: ["before"], ...more },
    after: work({ depends_on: ["it"] }),
    ...others.steps,
  });
  return {
    success,
    failure,
    retry: {
      cannot: `${atOnce}, and would fail again`,
      shows: "it fails at its first attempt, whatever its retry policy says",
      steps: { it: { ...bad, retry: soon }, ...others.steps },
      ends: {
        status: "failed",
        steps: { it: "failed", ...mapped(others.ends, () => "skipped") },
        errors: { it: "expression_failed" },
        never: ["step_retry_scheduled it"],
        atOnce: ["it"],
      },
    },
    timeout: {
      cannot: atOnce,
      shows: "the shortest timeout does not hit it",
      steps: between({ timeout_sec: 0.001 }),
      ...unharmed,
    },
    cancel: {
      cannot: atOnce,
      shows: "a cancel finds it done or not begun",
      steps: between(),
      input: { n: 7 },
      work: (scene) => (job) => (job.step === "after" ? scene.hang(job) : job.input),
      script: async (scene, runId) => {
        await scene.reaches(runId, "after", "running");
        await scene.cancel(runId);
      },
      ends: {
        status: "cancelled",
        steps: { before: "succeeded", it: "succeeded", after: "cancelled", ...others.ends },
        atOnce: ["it"],
      },
    },
    restart: {
      cannot: atOnce,
      shows: "a process that dies before it leaves it to the next one, which does it once",
      steps: between(),
      work: (scene) => (job, life) => (life === 1 ? scene.hang(job) : job.input),
      middle: (scene, runId) => scene.reaches(runId, "before", "running"),
      ...unharmed,
    },
  };
}

function mapped(record: Readonly<Record<string, string>>, value: () => string): Record<string, string> {
  return Object.fromEntries(Object.keys(record).map((key) => [key, value()]));
}

export const conditionRow = inlineRow({
  good: { type: "condition", condition: "input.n > 5" },
  bad: { type: "condition", condition: "input.n > 5" },
  output: true,
  success: {
    shows: "its output is true or false, and steps whose condition reads it run or are skipped",
    steps: {
      large: { type: "condition", condition: "input.n > 5" },
      small: { type: "condition", condition: "input.n < 5" },
      yes: work({ depends_on: ["large"], condition: "steps.large.output" }),
      no: work({ depends_on: ["small"], condition: "steps.small.output" }),
    },
    input: { n: 7 },
    ends: {
      status: "succeeded",
      steps: { large: "succeeded", small: "succeeded", yes: "succeeded", no: "skipped" },
      outputs: { large: true, small: false },
      timeline: ["step_condition_evaluated large", "step_completed yes"],
      atOnce: ["large", "small"],
    },
  },
  failure: {
    shows: "a condition over something that is not there fails, and what depends on it is skipped",
    steps: { it: { type: "condition", condition: "input.n > 5" }, after: work({ depends_on: ["it"] }) },
    ends: {
      status: "failed",
      steps: { it: "failed", after: "skipped" },
      errors: { it: "expression_failed" },
      timeline: ["step_failed it", "step_skipped after"],
    },
  },
});

const branches = {
  left: { type: "transform", input: { went: "left" } },
  right: { type: "transform", input: { went: "right" } },
} as const;

const choice = {
  type: "switch",
  condition: "input.n",
  input: {
    cases: [
      { match: 7, next: "left" },
      { match: 8, next: "right" },
    ],
  },
};

export const switchRow = inlineRow({
  good: choice,
  bad: choice,
  output: { matched_case: 0, matched_value: 7, target_step: "left" },
  around: { steps: branches, ends: { left: "succeeded", right: "skipped" } },
  success: {
    shows: "the case that matches begins, the others are passed over, and what joins them goes on",
    steps: {
      it: choice,
      ...branches,
      join: work({ depends_on: ["left", "right"] }),
    },
    input: { n: 8 },
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", left: "skipped", right: "succeeded", join: "succeeded" },
      outputs: { it: { matched_case: 1, matched_value: 8, target_step: "right" }, right: { went: "right" } },
      timeline: ["step_switch_evaluated it", "step_branch_not_taken left", "step_completed right"],
    },
  },
  failure: {
    shows: "a switch over something that is not there fails, and none of its targets begins",
    steps: { it: choice, ...branches },
    ends: {
      status: "failed",
      steps: { it: "failed", left: "skipped", right: "skipped" },
      errors: { it: "expression_failed" },
      never: ["step_completed left", "step_completed right"],
    },
  },
});

const doubled = { type: "transform", input: { doubled: "${input.n * 2}" } };

export const transformRow = inlineRow({
  good: doubled,
  bad: doubled,
  output: { doubled: 14 },
  success: {
    shows: "its output is its evaluated input, read by others by its step and by its output_path",
    steps: {
      it: { ...doubled, output_path: "math.result" },
      after: work({
        depends_on: ["it"],
        input: { byStep: "${steps.it.output.doubled}", byPath: "${ctx.math.result.doubled}" },
      }),
    },
    input: { n: 7 },
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      outputs: { it: { doubled: 14 }, after: { byStep: 14, byPath: 14 } },
      atOnce: ["it"],
    },
  },
  failure: {
    shows: "an output that does not fit its schema fails the step",
    steps: {
      it: { ...doubled, output_schema: { type: "object", properties: { doubled: { type: "string" } } } },
      after: work({ depends_on: ["it"] }),
    },
    input: { n: 7 },
    ends: {
      status: "failed",
      steps: { it: "failed", after: "skipped" },
      errors: { it: "output_invalid" },
    },
  },
});

const write = { type: "storage", input: { operation: "write", key: "kept.n", value: "${input.n + 1}" } };

export const storageRow = inlineRow({
  good: write,
  bad: write,
  output: 8,
  success: {
    shows: "what is written is read at its place, and gone once it is deleted",
    steps: {
      write,
      read: { type: "storage", depends_on: ["write"], input: { operation: "read", key: "ctx.kept.n" } },
      remove: { type: "storage", depends_on: ["read"], input: { operation: "delete", key: "kept.n" } },
      after: work({ depends_on: ["remove"], input: { left: "${ctx.kept}", read: "${steps.read.output}" } }),
    },
    input: { n: 7 },
    ends: {
      status: "succeeded",
      steps: { write: "succeeded", read: "succeeded", remove: "succeeded", after: "succeeded" },
      outputs: { write: 8, read: 8, after: { left: {}, read: 8 } },
      atOnce: ["write", "read", "remove"],
    },
  },
  failure: {
    shows: "a value that cannot be evaluated fails the step, and nothing is written",
    steps: {
      it: write,
      rescue: { type: "storage", input: { operation: "read", key: "kept.n" }, depends_on: ["it"] },
    },
    ends: {
      status: "failed",
      steps: { it: "failed", rescue: "skipped" },
      errors: { it: "expression_failed" },
    },
  },
});
