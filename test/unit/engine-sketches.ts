// Definitions built by hand from what matters to a test, without reading the language.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type {
  CompiledDefinition,
  CompiledStep,
  Evaluation,
  Expression,
  Scope,
} from "../../src/domain/workflow/compiled.ts";

export type StepSketch = Partial<Omit<CompiledStep, "id" | "dependents" | "handlesErrors" | "retry">> & {
  readonly retry?: Partial<CompiledStep["retry"]>;
};

/** A compiled definition from what matters to a test. */
export function define(
  sketches: Readonly<Record<string, StepSketch>>,
  options: { readonly timeoutMs?: number } = {},
): CompiledDefinition {
  const entries = Object.entries(sketches);
  const handlers = new Set(entries.map(([, sketch]) => sketch.onError));
  const steps = new Map<string, CompiledStep>();
  for (const [order, [id, sketch]] of entries.entries()) {
    steps.set(id, {
      type: "worker",
      name: id,
      dependsOn: [],
      topic: "job.default",
      separateDuties: false,
      order,
      repeats: false,
      ...sketch,
      id,
      dependents: entries.filter(([, other]) => other.dependsOn?.includes(id)).map(([name]) => name),
      handlesErrors: handlers.has(id),
      retry: { retriesMax: 0, initialMs: 1_000, maxMs: 60_000, multiplier: 2, ...sketch.retry },
    });
  }
  const roots = entries
    .filter(([id, sketch]) => (sketch.dependsOn ?? []).length === 0 && !handlers.has(id))
    .map(([id]) => id);
  return {
    workflow: "wf",
    name: "wf",
    risk: "standard",
    ...options,
    steps,
    roots,
    problemsOfInput: () => [],
  };
}

/** An expression by a function; what it throws is a failed evaluation. */
export function reads(steps: readonly string[], value: (scope: Scope) => JsonValue | undefined): Expression {
  const evaluate = (scope: Scope): Evaluation => {
    try {
      const given = value(scope);
      return given === undefined ? { kind: "nothing" } : { kind: "value", value: given };
    } catch (error) {
      return { kind: "failed", message: String(error) };
    }
  };
  return { source: "test", steps, childSteps: [], evaluate };
}

export const always = (value: JsonValue): Expression => reads([], () => value);
export const broken: Expression = {
  source: "test",
  steps: [],
  childSteps: [],
  evaluate: () => ({ kind: "failed", message: "no such key" }),
};
