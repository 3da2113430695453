// Makes a valid definition ready to run: expressions parsed, neighbours known, defaults filled in. Done once per version.
import type { JsonValue } from "../fingerprint.ts";
import type { CompiledDefinition, CompiledStep, Expression, Problem } from "./compiled.ts";
import { type Definition, graphOf, readExpressions } from "./definition.ts";
import type { ExpressionReading } from "./expression.ts";
import { readInputSchema } from "./input-schema.ts";
import type { StepDefinition } from "./step-definition.ts";
import { handlersOf } from "./step-graph.ts";
import { type ReadingStep, stepsRead } from "./step-reads.ts";

/** The definition comes from `readDefinition`; one that it would refuse is a mistake of the caller and throws. */
export function compileDefinition(workflow: string, definition: Definition): CompiledDefinition {
  const graph = graphOf(definition);
  const handlers = handlersOf(definition.steps);
  const dependents = dependentsOf(definition, handlers);
  const steps = new Map(
    [...definition.steps.values()].map((step) => {
      const expressions = compileExpressions(step, { id: step.id, steps: definition.steps, graph });
      const neighbours = {
        // A handler begins when a step fails, so it waits for nothing.
        dependsOn: handlers.has(step.id) ? [] : step.dependsOn,
        dependents: dependents.get(step.id) ?? [],
        handlesErrors: handlers.has(step.id),
      };
      return [step.id, compileStep(workflow, step, { ...neighbours, ...expressions })];
    }),
  );
  const roots = [...steps.values()].filter((step) => step.dependsOn.length === 0 && !step.handlesErrors);
  return {
    workflow,
    name: definition.name ?? workflow,
    risk: definition.risk,
    ...(definition.timeoutMs === undefined ? {} : { timeoutMs: definition.timeoutMs }),
    steps,
    roots: roots.map(({ id }) => id),
    problemsOfInput: inputCheck(definition.inputSchema),
  };
}

type StepParts = Pick<CompiledStep, "dependsOn" | "dependents" | "handlesErrors" | "condition" | "input"> & {
  readonly delayUntil?: Expression;
};

function compileStep(workflow: string, step: StepDefinition, parts: StepParts): CompiledStep {
  const { delayUntil, ...rest } = parts;
  const { labels, capabilities, delay } = step;
  const hasRequirements = capabilities.length > 0 || Object.keys(labels).length > 0;
  return {
    id: step.id,
    type: step.type,
    name: step.name,
    topic: step.topic ?? `job.workflow.${workflow}`,
    retry: step.retry,
    separateDuties: step.separateDuties,
    ...rest,
    ...(step.onError === undefined ? {} : { onError: step.onError }),
    ...(hasRequirements ? { requires: { labels, capabilities } } : {}),
    ...(step.timeoutMs === undefined ? {} : { timeoutMs: step.timeoutMs }),
    ...(step.outputPath === undefined ? {} : { outputPath: step.outputPath }),
    ...(delay?.kind === "for" ? { delay } : {}),
    ...(delayUntil === undefined ? {} : { delay: { kind: "until", at: delayUntil } }),
  };
}

function dependentsOf(
  { steps }: Definition,
  handlers: ReadonlyMap<string, unknown>,
): ReadonlyMap<string, string[]> {
  const dependents = new Map<string, string[]>([...steps.keys()].map((id) => [id, []]));
  for (const { id, dependsOn } of steps.values()) {
    if (handlers.has(id)) continue;
    for (const dependency of dependsOn) dependents.get(dependency)?.push(id);
  }
  return dependents;
}

function compileExpressions(step: StepDefinition, reader: ReadingStep) {
  const { condition, input, delayUntil } = readExpressions(step);
  return {
    ...(condition === undefined ? {} : { condition: ready(condition, reader) }),
    ...(input === undefined ? {} : { input: ready(input, reader) }),
    ...(delayUntil === undefined ? {} : { delayUntil: ready(delayUntil, reader) }),
  };
}

function ready(reading: ExpressionReading, reader: ReadingStep): Expression {
  if (reading.kind === "invalid") {
    throw new Error(`the definition was not read as valid: ${reading.problems[0]?.message}`);
  }
  const { source, references, evaluate } = reading.expression;
  return { source, steps: stepsRead(reader, references), evaluate };
}

/** Compiled at the first start of a run: processes that only carry runs on never need it. */
function inputCheck(schema: JsonValue | undefined): CompiledDefinition["problemsOfInput"] {
  if (schema === undefined) return () => [];
  let check: ((input: JsonValue) => readonly Problem[]) | undefined;
  return (input) => {
    if (check === undefined) {
      const reading = readInputSchema(schema);
      if (reading.kind === "invalid") throw new Error("the definition was not read as valid: input_schema");
      check = reading.problemsOf;
    }
    return check(input);
  };
}
