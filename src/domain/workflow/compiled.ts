// A compiled workflow definition: every expression parsed, every reference resolved, neighbours known by name.
import type { Amounts } from "../budgets.ts";
import type { JsonValue } from "../fingerprint.ts";
import type { RiskClass } from "../lock.ts";
import type { FlowControl } from "./flow-control.ts";

/** `worker` stands for its aliases too (llm, http, container, script, input). */
export type StepType =
  | "worker"
  | "approval"
  | "condition"
  | "switch"
  | "parallel"
  | "loop"
  | "delay"
  | "notify"
  | "transform"
  | "storage"
  | "subworkflow";

/** What expressions may read. `steps.<id>` is `{status, output, error}`, `ctx.steps.<id>` the output itself. */
export type Scope = {
  readonly input: JsonValue;
  readonly steps: Readonly<Record<string, JsonValue>>;
  readonly ctx: Readonly<Record<string, JsonValue>>;
  /** The item of a `for_each`, and its position from 0. Only in the step's `input`. */
  readonly item?: JsonValue;
  readonly index?: number;
  /** In a loop's `while` and `until` and in its body: `{iteration, last_output}`; the first iteration is 1. */
  readonly loop?: JsonValue;
  /** In an `output_mapping`: the child run as `{run_id, status, output, steps}`. */
  readonly child?: JsonValue;
};

export type Evaluation =
  | { readonly kind: "value"; readonly value: JsonValue }
  /** A template that yields nothing: the key it stands in is dropped. */
  | { readonly kind: "nothing" }
  | { readonly kind: "failed"; readonly message: string };

/** What a request or a commit may still cost, in units of about 50 ns; all that it evaluates and checks is taken from it. */
export type Allowance = { left: number };

/** A CEL expression, or a JSON value with `${...}` templates in its texts. Its cost is bounded. */
export type Expression = {
  readonly source: string;
  /** Steps whose state or output it reads: their records are loaded before it is evaluated. */
  readonly steps: readonly string[];
  /** Steps of the child run that it reads as `child.steps.<id>`. */
  readonly childSteps: readonly string[];
  /** What it costs is taken from `work`, and never depends on what is left there: an expression always ends alike. */
  evaluate(scope: Scope, work?: Allowance): Evaluation;
};

/** What becomes of the others when one of several children fails: taken back, or left to end. */
export type OnChildFailure = "cancel" | "continue";

export type RetryPolicy = {
  readonly retriesMax: number;
  readonly initialMs: number;
  readonly maxMs: number;
  readonly multiplier: number;
};

export type CompiledStep = {
  readonly id: string;
  readonly type: StepType;
  readonly name: string;
  readonly dependsOn: readonly string[];
  /** Steps that depend on this one. */
  readonly dependents: readonly string[];
  /** The step that handles this one's failure; it runs only then. */
  readonly onError?: string;
  /** True for steps that some other step names as its `on_error`: they do not start by themselves. */
  readonly handlesErrors: boolean;
  readonly condition?: Expression;
  readonly input?: Expression;
  readonly topic: string;
  readonly requires?: {
    readonly labels: Readonly<Record<string, string>>;
    readonly capabilities: readonly string[];
  };
  readonly retry: RetryPolicy;
  readonly timeoutMs?: number;
  /** Where in `ctx` the output is put. */
  readonly outputPath?: readonly string[];
  /** For `delay`: how long, or until when (an RFC 3339 text, possibly a template). */
  readonly delay?:
    | { readonly kind: "for"; readonly ms: number }
    | { readonly kind: "until"; readonly at: Expression };
  /** For `approval`. */
  readonly separateDuties: boolean;
  /** Position in an order in which every step comes after what it waits for. */
  readonly order: number;
  /** The `parallel` or `loop` step that begins this one, and hears how it ended. */
  readonly controller?: string;
  /** Inside a loop: it may begin more than once, with attempts that go on counting. */
  readonly repeats: boolean;
  /** For `worker`: one job per item instead of one. */
  readonly forEach?: {
    readonly items: Expression;
    readonly parallelMax: number;
    readonly onFailure: OnChildFailure;
  };
  /** The first case whose value equals that of `on` (by default: true) names the step that begins. Its targets depend on it. */
  readonly switch?: {
    readonly on?: Expression;
    readonly cases: ReadonlyArray<{ readonly value: Expression; readonly target: string }>;
    readonly otherwise?: string;
  };
  readonly parallel?: {
    readonly steps: readonly string[];
    /** How many must succeed: all of them, 1, or n. */
    readonly required: number;
    readonly parallelMax: number;
    readonly onFailure: OnChildFailure;
  };
  readonly loop?: {
    readonly body: string;
    readonly iterationsMax: number;
    /** Asked before every iteration, also the first. */
    readonly while?: Expression;
    /** Asked after every iteration. */
    readonly until?: Expression;
  };
  /** For `storage`: a place in `ctx`. What is written is the step's output, what is deleted is hidden from then on. */
  readonly storage?: {
    readonly operation: "read" | "write" | "delete";
    readonly path: readonly string[];
    /** What `write` puts there, or what `read` finds there: nothing when it is absent. */
    readonly value?: Expression;
  };
  readonly subworkflow?: {
    readonly workflow: string;
    /** The child's input; absent means the run's own. */
    readonly input?: Expression;
    /** The step's output; absent means the child's. */
    readonly output?: Expression;
  };
  /** What its job is expected to use, in millionths by unit. */
  readonly estimate?: Amounts;
  /** The part of a worker's result that is the step's output. */
  readonly resultPath?: readonly string[];
  /** All problems of the step's input or output by its schema; absent when it has none. */
  problemsOfInput?(input: JsonValue, work?: Allowance): readonly Problem[];
  problemsOfOutput?(output: JsonValue, work?: Allowance): readonly Problem[];
};

export type CompiledDefinition = {
  readonly workflow: string;
  readonly name: string;
  readonly risk: RiskClass;
  readonly timeoutMs?: number;
  readonly flowControl?: FlowControl;
  readonly steps: ReadonlyMap<string, CompiledStep>;
  /** Steps without dependencies that are not error handlers, in the order of the definition. */
  readonly roots: readonly string[];
  /** All problems of a run's input by the workflow's `input_schema`; none when it fits or there is no schema. */
  problemsOfInput(input: JsonValue, work?: Allowance): readonly Problem[];
};

/** Something wrong at a place: `steps.review.depends_on[0]`. */
export type Problem = { readonly path: string; readonly message: string };

/** Every problem in one line, for readers of a refusal's detail alone. */
export function describeProblems(answer: Readonly<Record<string, unknown>>): { readonly detail?: string } {
  const { problems } = answer as { readonly problems?: readonly Problem[] };
  if (problems === undefined) return {};
  return { detail: problems.map(({ path, message }) => `${path}: ${message}`).join("; ") };
}
