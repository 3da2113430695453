// A workflow definition made ready to run: every expression parsed, every reference resolved, neighbours known by name.
import type { JsonValue } from "../fingerprint.ts";
import type { RiskClass } from "../lock.ts";

/** `worker` stands for its aliases too (llm, http, container, script, input). */
export type StepType = "worker" | "approval" | "condition" | "delay" | "transform";

/** What expressions may read. `steps.<id>` is `{status, output, error}`, `ctx.steps.<id>` the output itself. */
export type Scope = {
  readonly input: JsonValue;
  readonly steps: Readonly<Record<string, JsonValue>>;
  readonly ctx: Readonly<Record<string, JsonValue>>;
};

export type Evaluation =
  | { readonly kind: "value"; readonly value: JsonValue }
  /** A template that yields nothing: the key it stands in is dropped. */
  | { readonly kind: "nothing" }
  | { readonly kind: "failed"; readonly message: string };

/** A CEL expression, or a JSON value with `${...}` templates in its texts. Its cost is bounded. */
export type Expression = {
  readonly source: string;
  /** Steps whose state or output it reads: their records are loaded before it is evaluated. */
  readonly steps: readonly string[];
  evaluate(scope: Scope): Evaluation;
};

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
};

export type CompiledDefinition = {
  readonly workflow: string;
  readonly name: string;
  readonly risk: RiskClass;
  readonly timeoutMs?: number;
  readonly steps: ReadonlyMap<string, CompiledStep>;
  /** Steps without dependencies that are not error handlers, in the order of the definition. */
  readonly roots: readonly string[];
  /** All problems of a run's input by the workflow's `input_schema`; none when it fits or there is no schema. */
  problemsOfInput(input: JsonValue): readonly Problem[];
};

/** Something wrong at a place: `steps.review.depends_on[0]`. */
export type Problem = { readonly path: string; readonly message: string };
