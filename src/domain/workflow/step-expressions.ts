// All expressions of a step, each with the place it was written at and the names that are known there.
import type { PlaceName } from "./cel-references.ts";
import { type ExpressionReading, readCondition, readItems, readTemplates, readValue } from "./expression.ts";
import { placeIn } from "./place.ts";
import type { StepDefinition } from "./step-definition.ts";
import type { StorageDefinition } from "./work-steps.ts";

export type PlacedExpression = {
  readonly reading: ExpressionReading;
  /** Names besides input, ctx and steps. */
  readonly knows: readonly PlaceName[];
  /** It is asked between the iterations of the loop that it belongs to, and may read what is inside. */
  readonly seesInside: boolean;
};

export type StepExpressions = {
  readonly condition?: PlacedExpression;
  readonly input?: PlacedExpression;
  readonly delayUntil?: PlacedExpression;
  readonly items?: PlacedExpression;
  readonly on?: PlacedExpression;
  readonly cases?: readonly PlacedExpression[];
  readonly while?: PlacedExpression;
  readonly until?: PlacedExpression;
  readonly stored?: PlacedExpression;
  readonly childInput?: PlacedExpression;
  readonly childOutput?: PlacedExpression;
};

/** `repeats`: the step is inside a loop, so all its expressions know `loop`. */
export function readExpressions(
  step: StepDefinition,
  { repeats }: { readonly repeats: boolean },
): StepExpressions {
  const { condition, input, delay, forEach } = step;
  const path = placeIn("steps", step.id);
  const around: readonly PlaceName[] = repeats ? ["loop"] : [];
  const placed = (reading: ExpressionReading, more: readonly PlaceName[] = []): PlacedExpression => ({
    reading,
    knows: [...around, ...more],
    seesInside: false,
  });
  const perItem: readonly PlaceName[] = forEach === undefined ? [] : ["item", "index"];
  return {
    ...(condition === undefined ? {} : { condition: placed(readCondition(condition, `${path}.condition`)) }),
    ...(input === undefined ? {} : { input: placed(readTemplates(input, `${path}.input`), perItem) }),
    ...(delay?.kind !== "until"
      ? {}
      : { delayUntil: placed(readTemplates(delay.at, `${path}.delay_until`)) }),
    ...(forEach === undefined ? {} : { items: placed(readItems(forEach.items, `${path}.for_each`)) }),
    ...switchExpressions(step, path, placed),
    ...loopExpressions(step),
    ...ownExpressions(step, path, placed),
  };
}

type Placed = (reading: ExpressionReading, more?: readonly PlaceName[]) => PlacedExpression;

function switchExpressions({ switch: choice }: StepDefinition, path: string, placed: Placed) {
  if (choice === undefined) return {};
  const { on, cases } = choice;
  return {
    ...(on === undefined ? {} : { on: placed(readValue(on, `${path}.condition`)) }),
    cases: cases.map(({ value }) => placed(readTemplates(value.json, value.path))),
  };
}

/** The loop's own `loop` hides that of a loop around it. */
function loopExpressions({ loop }: StepDefinition) {
  const asked = (text: string, path: string): PlacedExpression => ({
    reading: readCondition(text, path),
    knows: ["loop"],
    seesInside: true,
  });
  return {
    ...(loop?.while === undefined ? {} : { while: asked(loop.while.text, loop.while.path) }),
    ...(loop?.until === undefined ? {} : { until: asked(loop.until.text, loop.until.path) }),
  };
}

function ownExpressions({ storage, subworkflow }: StepDefinition, path: string, placed: Placed) {
  const { input, output } = subworkflow ?? {};
  const stored = storage === undefined ? undefined : readStored(storage, path);
  return {
    ...(stored === undefined ? {} : { stored: placed(stored) }),
    ...(input === undefined
      ? {}
      : { childInput: placed(readTemplates(input, `${path}.input.input_mapping`)) }),
    ...(output === undefined
      ? {}
      : { childOutput: placed(readTemplates(output, `${path}.input.output_mapping`), ["child"]) }),
  };
}

/** What is written, or the place that is read as an expression: nothing when nothing is there. */
function readStored(storage: StorageDefinition, path: string): ExpressionReading | undefined {
  if (storage.operation === "write") return readTemplates(storage.value, `${path}.input.value`);
  if (storage.operation === "delete") return undefined;
  const keys = storage.path.map((name) => `[${JSON.stringify(name)}]`).join("");
  return readTemplates(`\${ctx${keys}}`, `${path}.input.key`);
}
