// All expressions of a step, each with the place it was written at and the names that are known there.

import type { JsonValue } from "../fingerprint.ts";
import type { Sliced } from "../slices.ts";
import type { PlaceName } from "./cel-references.ts";
import {
  celCost,
  type ExpressionReading,
  readCondition,
  readItems,
  readingTemplates,
  readValue,
} from "./expression.ts";
import { placeIn } from "./fields.ts";
import type { StepDefinition } from "./step-definition.ts";
import { pause, spend, type Work } from "./work-count.ts";
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
export function* readExpressions(
  step: StepDefinition,
  { repeats, work }: { readonly repeats: boolean; readonly work: Work },
): Sliced<StepExpressions> {
  const { condition, input, delay, forEach } = step;
  const path = placeIn("steps", step.id);
  const around: readonly PlaceName[] = repeats ? ["loop"] : [];
  const placed = (reading: ExpressionReading, more: readonly PlaceName[] = []): PlacedExpression => ({
    reading,
    knows: [...around, ...more],
    seesInside: false,
  });
  const perItem: readonly PlaceName[] = forEach === undefined ? [] : ["item", "index"];
  for (const text of [
    condition,
    forEach?.items,
    step.switch?.on,
    step.loop?.while?.text,
    step.loop?.until?.text,
  ])
    if (text !== undefined) spend(work, "expressions", celCost(text));
  yield* pause(work);
  return {
    ...(condition === undefined ? {} : { condition: placed(readCondition(condition, `${path}.condition`)) }),
    ...(input === undefined
      ? {}
      : { input: placed(yield* readingTemplates(input, `${path}.input`, work), perItem) }),
    ...(delay?.kind !== "until"
      ? {}
      : { delayUntil: placed(yield* readingTemplates(delay.at, `${path}.delay_until`, work)) }),
    ...(forEach === undefined ? {} : { items: placed(readItems(forEach.items, `${path}.for_each`)) }),
    ...(yield* switchExpressions(step, { path, placed, work })),
    ...loopExpressions(step),
    ...(yield* ownExpressions(step, { path, placed, work })),
  };
}

type StepReading = {
  readonly path: string;
  readonly placed: (reading: ExpressionReading, more?: readonly PlaceName[]) => PlacedExpression;
  readonly work: Work;
};

function* switchExpressions({ switch: choice }: StepDefinition, { path, placed, work }: StepReading) {
  if (choice === undefined) return {};
  const { on } = choice;
  const cases: PlacedExpression[] = [];
  for (const { value } of choice.cases)
    cases.push(placed(yield* readingTemplates(value.json, value.path, work)));
  return { ...(on === undefined ? {} : { on: placed(readValue(on, `${path}.condition`)) }), cases };
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

function* ownExpressions({ storage, subworkflow }: StepDefinition, { path, placed, work }: StepReading) {
  const { input, output } = subworkflow ?? {};
  const stored = storage === undefined ? undefined : storedTemplate(storage, path);
  const read = (value: JsonValue, place: string) => readingTemplates(value, place, work);
  return {
    ...(stored === undefined ? {} : { stored: placed(yield* read(stored.value, stored.path)) }),
    ...(input === undefined ? {} : { childInput: placed(yield* read(input, `${path}.input.input_mapping`)) }),
    ...(output === undefined
      ? {}
      : { childOutput: placed(yield* read(output, `${path}.input.output_mapping`), ["child"]) }),
  };
}

/** What is written, or the place that is read as an expression: nothing when nothing is there. */
function storedTemplate(storage: StorageDefinition, path: string) {
  if (storage.operation === "write") return { value: storage.value, path: `${path}.input.value` };
  if (storage.operation === "delete") return undefined;
  const keys = storage.path.map((name) => `[${JSON.stringify(name)}]`).join("");
  return { value: `\${ctx${keys}}`, path: `${path}.input.key` };
}
