// All expressions of a step, each with its place, the names known there, and what it may read.
import type { JsonValue } from "../fingerprint.ts";
import type { Sliced } from "../slices.ts";
import type { ScopeName } from "./cel-references.ts";
import type { Problem } from "./compiled.ts";
import type { StorageDefinition } from "./control-steps.ts";
import {
  celCost,
  type ExpressionReading,
  type LocatedReference,
  readCondition,
  readItems,
  readingTemplates,
  readValue,
} from "./expression.ts";
import { pathIn } from "./fields.ts";
import type { StepDefinition } from "./step-definition.ts";
import type { StepGraph } from "./step-graph.ts";
import { isTooMuch, pause, spend, type Work } from "./work-count.ts";

export type LocatedExpression = {
  readonly reading: ExpressionReading;
  /** Names besides input, ctx and steps. */
  readonly knows: readonly ScopeName[];
  /** It is asked between the iterations of the loop that it belongs to, and may read what is inside. */
  readonly seesInside: boolean;
};

export type StepExpressions = {
  readonly condition?: LocatedExpression;
  readonly input?: LocatedExpression;
  readonly delayUntil?: LocatedExpression;
  readonly items?: LocatedExpression;
  readonly on?: LocatedExpression;
  readonly cases?: readonly LocatedExpression[];
  readonly while?: LocatedExpression;
  readonly until?: LocatedExpression;
  readonly stored?: LocatedExpression;
  readonly childInput?: LocatedExpression;
  readonly childOutput?: LocatedExpression;
};

/** `repeats`: the step is inside a loop, so all its expressions know `loop`. */
export function* readExpressions(
  step: StepDefinition,
  { repeats, work }: { readonly repeats: boolean; readonly work: Work },
): Sliced<StepExpressions> {
  const { condition, input, delay, forEach } = step;
  const path = pathIn("steps", step.id);
  const around: readonly ScopeName[] = repeats ? ["loop"] : [];
  const placed = (reading: ExpressionReading, more: readonly ScopeName[] = []): LocatedExpression => ({
    reading,
    knows: [...around, ...more],
    seesInside: false,
  });
  const perItem: readonly ScopeName[] = forEach === undefined ? [] : ["item", "index"];
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
  readonly placed: (reading: ExpressionReading, more?: readonly ScopeName[]) => LocatedExpression;
  readonly work: Work;
};

function* switchExpressions({ switch: choice }: StepDefinition, { path, placed, work }: StepReading) {
  if (choice === undefined) return {};
  const { on } = choice;
  const cases: LocatedExpression[] = [];
  for (const { value } of choice.cases)
    cases.push(placed(yield* readingTemplates(value.json, value.path, work)));
  return { ...(on === undefined ? {} : { on: placed(readValue(on, `${path}.condition`)) }), cases };
}

/** The loop's own `loop` hides that of a loop around it. */
function loopExpressions({ loop }: StepDefinition) {
  const asked = (text: string, path: string): LocatedExpression => ({
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

export type ReadingStep = {
  readonly id: string;
  readonly steps: ReadonlyMap<string, StepDefinition>;
  readonly graph: StepGraph;
  readonly writers: Writers;
};

/** The value of a step that may or may not have ended would depend on timing, so reading it is refused. */
export function* problemsOfReads(
  reader: ReadingStep,
  placed: LocatedExpression,
  work: Work,
): Sliced<readonly Problem[]> {
  if (placed.reading.kind === "invalid") return placed.reading.problems;
  const reading = { ...reader, seesInside: placed.seesInside };
  const problems: Problem[] = [];
  for (const one of placed.reading.expression.references) {
    problems.push(...problemsOfRead(reading, placed.knows, one));
    spend(work, "references", costOf(reader, one));
    yield* pause(work);
    if (isTooMuch(work)) break;
  }
  return problems;
}

/** Every writer is asked about; for a step that is not there, every name is. */
function costOf({ steps, writers }: ReadingStep, { reference }: LocatedReference): number {
  if (reference.kind === "context") {
    const { ids, examined } = writers.of(reference.path);
    return 1 + ids.length + (examined >> 4);
  }
  return reference.kind === "step" && !steps.has(reference.step) ? steps.size >> 3 : 1;
}

type Reader = ReadingStep & Pick<LocatedExpression, "seesInside">;

function problemsOfRead(
  reader: Reader,
  knows: readonly ScopeName[],
  { path, reference }: LocatedReference,
): Problem[] {
  switch (reference.kind) {
    case "step":
      return problemOfStep(reader, reference.step, path);
    case "context":
      return problemOfContext(reader, reference.path, path);
    case "name":
      return knows.includes(reference.name) ? [] : [{ path, message: knownWhere[reference.name] }];
    case "child_step":
      // Its steps are those of a workflow that may change: they are looked for when it has ended.
      return [];
  }
}

const knownWhere: Readonly<Record<ScopeName, string>> = {
  item: "item is only known in the input of a step with for_each",
  index: "index is only known in the input of a step with for_each",
  loop: "loop is only known inside a loop, and in its while and until",
  child: "child is only known in the output_mapping of a subworkflow step",
};

function problemOfStep(reader: Reader, step: string, path: string): Problem[] {
  if (!reader.steps.has(step))
    return [{ path, message: `there is no step "${step}"${hintFor(reader, step)}` }];
  if (step === reader.id) return [{ path, message: "a step cannot read itself" }];
  if (hasEnded(reader, step)) return [];
  const reads = `reads "${step}", which may not have ended by then`;
  return [{ path, message: `${reads}; ${remedyFor(reader, step)}` }];
}

function problemOfContext(reader: Reader, place: readonly string[], path: string): Problem[] {
  const { id, graph } = reader;
  const read = `ctx.${place.join(".")}`;
  const writers = reader.writers.of(place).ids;
  if (writers.includes(id) && graph.repeats(id) && !hasEnded(reader, id)) {
    const message = `reads ${read}, which it fills itself: every iteration begins anew; read loop.last_output`;
    return [{ path, message }];
  }
  const uncertain = writers.find(
    (writer) => writer !== id && !hasEnded(reader, writer) && !beginsLater(reader, writer),
  );
  if (uncertain === undefined) return [];
  const reads = `reads ${read}, which "${uncertain}" fills at an uncertain time`;
  return [{ path, message: `${reads}; ${remedyFor(reader, uncertain)}` }];
}

/** What is inside a step begins after it, unless it all happens again. */
function beginsLater({ id, graph }: Reader, writer: string): boolean {
  return graph.isBefore(id, writer) || (graph.isInside(writer, id) && !graph.repeats(id));
}

function remedyFor({ id, graph }: Reader, step: string): string {
  if (graph.isInside(step, id)) return "it is inside this step and begins later";
  const around = graph.outermost(id);
  if (around !== undefined) return `a step inside "${around}" reads only what ended before "${around}" began`;
  const outermost = graph.outermost(step);
  return outermost === undefined
    ? "let this step depend on it"
    : `it is inside "${outermost}": let this step depend on that`;
}

/** `steps.my-step` is read as a subtraction. */
function hintFor({ steps }: ReadingStep, step: string): string {
  const [dashed, dotted] = [`${step}-`, `${step}.`];
  const similar = [...steps.keys()].find((id) => id.startsWith(dashed) || id.startsWith(dotted));
  return similar === undefined ? "" : `; "${similar}" is written steps["${similar}"]`;
}

/** All steps whose state decides the value, each once. */
export function* stepsRead(
  reader: ReadingStep,
  references: readonly LocatedReference[],
  seesInside: LocatedExpression["seesInside"],
  work: Work,
): Sliced<readonly string[]> {
  const reading = { ...reader, seesInside };
  const read = new Set<string>();
  for (const one of references) {
    const { reference } = one;
    if (reference.kind === "step") read.add(reference.step);
    if (reference.kind === "context") {
      for (const writer of reader.writers.of(reference.path).ids)
        if (hasEnded(reading, writer)) read.add(writer);
    }
    spend(work, "references", costOf(reader, one));
    yield* pause(work);
  }
  return [...read];
}

export function childStepsRead(references: readonly LocatedReference[]): readonly string[] {
  const read = references.flatMap(({ reference }) =>
    reference.kind === "child_step" ? [reference.step] : [],
  );
  return [...new Set(read)];
}

function hasEnded({ graph, id, seesInside }: Reader, step: string): boolean {
  return graph.isBefore(step, id) || (seesInside && graph.isInside(step, id));
}

type Writers = {
  /** Steps that put something at the path, above it or below it, or take it away; and how many were looked at. */
  of(path: readonly string[]): { readonly ids: readonly string[]; readonly examined: number };
};

export function writersIn(steps: ReadonlyMap<string, StepDefinition>): Writers {
  const byFirstName = new Map<string, Writer[]>();
  for (const { id, outputPath, storage } of steps.values()) {
    const changed = storage === undefined || storage.operation === "read" ? undefined : storage.path;
    for (const place of [outputPath, changed]) {
      if (place === undefined) continue;
      const known = byFirstName.get(place[0] ?? "");
      if (known === undefined) byFirstName.set(place[0] ?? "", [{ id, place }]);
      else known.push({ id, place });
    }
  }
  // Each path is asked about several times in a row.
  let last: { readonly path: readonly string[]; readonly found: ReturnType<Writers["of"]> } | undefined;
  return {
    of(path) {
      if (last?.path === path) return last.found;
      const candidates = byFirstName.get(path[0] ?? "") ?? [];
      const writers = candidates.filter(({ place }) => meets(place, path));
      last = {
        path,
        found: { ids: [...new Set(writers.map(({ id }) => id))], examined: candidates.length },
      };
      return last.found;
    },
  };
}

type Writer = { readonly id: string; readonly place: readonly string[] };

function meets(left: readonly string[], right: readonly string[]): boolean {
  const common = Math.min(left.length, right.length);
  for (let index = 0; index < common; index += 1) if (left[index] !== right[index]) return false;
  return true;
}
