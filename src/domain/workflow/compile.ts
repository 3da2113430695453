// Makes a valid definition ready to run: expressions parsed, neighbours known, defaults filled in. Done once per version.

import type { JsonValue } from "../fingerprint.ts";
import { atOnce, type Sliced } from "../slices.ts";
import type { CompiledDefinition, CompiledStep, Expression } from "./compiled.ts";
import { type Definition, inputSchemaPlace, schemasOf } from "./definition.ts";
import { readSchema, type SchemaCheck, type SchemaUse } from "./json-schema.ts";
import type { StepDefinition } from "./step-definition.ts";
import {
  childStepsRead,
  type LocatedExpression,
  type ReadingStep,
  type StepExpressions,
  stepsRead,
  writersIn,
} from "./step-expressions.ts";
import type { ValidGraph } from "./step-graph.ts";
import { dependenciesOf } from "./step-links.ts";
import { newWork, pause, spend, type Work } from "./work-count.ts";

export function compileDefinition(workflow: string, definition: Definition): CompiledDefinition {
  return atOnce(compilingDefinition(workflow, definition));
}

/** Step by step, with pauses between. The definition comes from `readingDefinition`, with all its expressions read. */
export function* compilingDefinition(workflow: string, definition: Definition): Sliced<CompiledDefinition> {
  const { graph } = definition;
  const work = newWork("stored");
  const neighbours = neighboursOf(definition, graph);
  const writers = writersIn(definition.steps);
  const steps = new Map<string, CompiledStep>();
  for (const step of definition.steps.values()) {
    const reader = { id: step.id, steps: definition.steps, graph, writers };
    const expressions = definition.expressions.get(step.id) ?? {};
    const made = new Map<LocatedExpression, Expression>();
    for (const placed of Object.values(expressions).flat())
      made.set(placed, yield* readyExpression(placed, reader, work));
    const ready: Ready = (placed) => {
      const expression = made.get(placed);
      if (expression === undefined) throw new Error("every expression of a step was compiled");
      return expression;
    };
    steps.set(step.id, {
      ...plainParts(workflow, step),
      ...neighbours(step),
      ...expressionParts(expressions, ready),
      ...typedParts(step, expressions, ready),
      ...schemaParts(step),
    });
    spend(work, "steps", stepCost);
    yield* pause(work);
  }
  const roots = [...steps.values()].filter(
    (step) => step.dependsOn.length === 0 && !step.handlesErrors && step.controller === undefined,
  );
  return {
    workflow,
    name: definition.name ?? workflow,
    risk: definition.risk,
    ...(definition.timeoutMs === undefined ? {} : { timeoutMs: definition.timeoutMs }),
    ...(definition.flowControl === undefined ? {} : { flowControl: definition.flowControl }),
    steps,
    roots: roots.map(({ id }) => id),
    problemsOfInput:
      definition.inputSchema === undefined ? () => [] : checkBy(definition.inputSchema, inputSchemaPlace),
  };
}

/** Putting a step together takes less than 10 us. */
const stepCost = 10;

type Neighbours = Pick<
  CompiledStep,
  "dependsOn" | "dependents" | "handlesErrors" | "order" | "repeats" | "controller"
>;

function neighboursOf(
  { steps }: Definition,
  { links, order, repeats }: ValidGraph,
): (step: StepDefinition) => Neighbours {
  const orders = new Map(order.map((id, index) => [id, index]));
  const dependents = new Map<string, string[]>([...steps.keys()].map((id) => [id, []]));
  // A handler begins when a step fails, so it waits for nothing.
  const dependencies = new Map(
    [...steps.values()].map((step) => [
      step.id,
      links.handlers.has(step.id) ? [] : dependenciesOf(links, step).map((link) => link.step),
    ]),
  );
  for (const [id, names] of dependencies) for (const name of names) dependents.get(name)?.push(id);
  return ({ id }) => {
    const controller = links.controllers.get(id)?.step;
    return {
      dependsOn: dependencies.get(id) ?? [],
      dependents: dependents.get(id) ?? [],
      handlesErrors: links.handlers.has(id),
      order: orders.get(id) ?? 0,
      repeats: repeats(id),
      ...(controller === undefined ? {} : { controller }),
    };
  };
}

function plainParts(workflow: string, step: StepDefinition) {
  const { labels, capabilities, onError, timeoutMs, outputPath, resultPath, estimate } = step;
  const hasRequirements = capabilities.length > 0 || Object.keys(labels).length > 0;
  return {
    id: step.id,
    type: step.type,
    name: step.name,
    topic: step.topic ?? `job.workflow.${workflow}`,
    retry: step.retry,
    separateDuties: step.separateDuties,
    ...(onError === undefined ? {} : { onError }),
    ...(hasRequirements ? { requires: { labels, capabilities } } : {}),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(outputPath === undefined ? {} : { outputPath }),
    ...(resultPath === undefined ? {} : { resultPath }),
    ...(estimate === undefined ? {} : { estimate }),
  };
}

type Ready = (placed: LocatedExpression) => Expression;

function* readyExpression(
  { reading, seesInside }: LocatedExpression,
  reader: ReadingStep,
  work: Work,
): Sliced<Expression> {
  if (reading.kind === "invalid") {
    throw new Error(`the definition was not read as valid: ${reading.problems[0]?.message}`);
  }
  const { source, references, evaluate } = reading.expression;
  return {
    source,
    steps: yield* stepsRead(reader, references, seesInside, work),
    childSteps: childStepsRead(references),
    evaluate,
  };
}

function expressionParts({ condition, input }: StepExpressions, ready: Ready) {
  return {
    ...(condition === undefined ? {} : { condition: ready(condition) }),
    ...(input === undefined ? {} : { input: ready(input) }),
  };
}

type TypedParts = Pick<
  CompiledStep,
  "delay" | "forEach" | "switch" | "parallel" | "loop" | "storage" | "subworkflow"
>;

/** What only steps of one type have. */
function typedParts(step: StepDefinition, expressions: StepExpressions, ready: Ready): TypedParts {
  const { delay, forEach, storage, subworkflow } = step;
  const { delayUntil, items, stored, childInput, childOutput } = expressions;
  return {
    ...(delay?.kind === "for" ? { delay } : {}),
    ...(delayUntil === undefined ? {} : { delay: { kind: "until", at: ready(delayUntil) } }),
    ...(forEach === undefined || items === undefined ? {} : { forEach: { ...forEach, items: ready(items) } }),
    ...controlParts(step, expressions, ready),
    ...(storage === undefined
      ? {}
      : {
          storage: {
            operation: storage.operation,
            path: storage.path,
            ...(stored === undefined ? {} : { value: ready(stored) }),
          },
        }),
    ...(subworkflow === undefined
      ? {}
      : {
          subworkflow: {
            workflow: subworkflow.workflow,
            ...(childInput === undefined ? {} : { input: ready(childInput) }),
            ...(childOutput === undefined ? {} : { output: ready(childOutput) }),
          },
        }),
  };
}

function controlParts(
  { switch: choice, parallel, loop }: StepDefinition,
  expressions: StepExpressions,
  ready: Ready,
): TypedParts {
  const { on, cases = [], while: asked, until } = expressions;
  return {
    ...(choice === undefined
      ? {}
      : {
          switch: {
            cases: choice.cases.flatMap(({ target }, index) => {
              const value = cases[index];
              return value === undefined ? [] : [{ value: ready(value), target: target.step }];
            }),
            ...(on === undefined ? {} : { on: ready(on) }),
            ...(choice.otherwise === undefined ? {} : { otherwise: choice.otherwise.step }),
          },
        }),
    ...(parallel === undefined
      ? {}
      : { parallel: { ...parallel, steps: parallel.steps.map(({ step }) => step) } }),
    ...(loop?.body === undefined
      ? {}
      : {
          loop: {
            body: loop.body.step,
            iterationsMax: loop.iterationsMax,
            ...(asked === undefined ? {} : { while: ready(asked) }),
            ...(until === undefined ? {} : { until: ready(until) }),
          },
        }),
  };
}

function schemaParts(step: StepDefinition): Pick<CompiledStep, "problemsOfInput" | "problemsOfOutput"> {
  const { input, output } = schemasOf(step);
  return {
    ...(input === undefined ? {} : { problemsOfInput: checkBy(input.schema, input.place) }),
    ...(output === undefined ? {} : { problemsOfOutput: checkBy(output.schema, output.place) }),
  };
}

/** Made ready at the first check: processes that never see such a value never need it. */
function checkBy(schema: JsonValue, place: SchemaUse): SchemaCheck {
  let check: SchemaCheck | undefined;
  return (value, work) => {
    if (check === undefined) {
      const reading = readSchema(schema, place, "stored");
      if (reading.kind === "invalid")
        throw new Error(`the definition was not read as valid: ${place.schema}`);
      check = reading.problemsOf;
    }
    return check(value, work);
  };
}
