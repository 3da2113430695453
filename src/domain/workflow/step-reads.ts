// Decides which steps an expression may read, and which records it needs: only what has certainly ended when it is evaluated.
import type { Problem } from "./compiled.ts";
import type { PlacedReference } from "./expression.ts";
import type { StepDefinition } from "./step-definition.ts";
import type { StepGraph } from "./step-graph.ts";

export type ReadingStep = {
  readonly id: string;
  readonly steps: ReadonlyMap<string, StepDefinition>;
  readonly graph: StepGraph;
};

/** The value of a step that may or may not have ended would depend on timing, so reading it is refused. */
export function problemsOfReads(reader: ReadingStep, references: readonly PlacedReference[]): Problem[] {
  return references.flatMap(({ path, reference }) => {
    if (reference.kind === "step") return problemOfStep(reader, reference.step, path);
    const uncertain = writersOf(reader, reference.path).find(
      (writer) =>
        writer !== reader.id && !hasEnded(reader, writer) && !reader.graph.isBefore(reader.id, writer),
    );
    if (uncertain === undefined) return [];
    const read = `ctx.${reference.path.join(".")}`;
    const message = `reads ${read}, which "${uncertain}" fills at an uncertain time; let this step depend on it`;
    return [{ path, message }];
  });
}

function problemOfStep(reader: ReadingStep, step: string, path: string): Problem[] {
  if (!reader.steps.has(step))
    return [{ path, message: `there is no step "${step}"${hintFor(reader, step)}` }];
  if (step === reader.id) return [{ path, message: "a step cannot read itself" }];
  if (hasEnded(reader, step)) return [];
  return [{ path, message: `reads "${step}", which may not have ended by then; let this step depend on it` }];
}

/** `steps.my-step` is read as a subtraction. */
function hintFor({ steps }: ReadingStep, step: string): string {
  const [dashed, dotted] = [`${step}-`, `${step}.`];
  const similar = [...steps.keys()].find((id) => id.startsWith(dashed) || id.startsWith(dotted));
  return similar === undefined ? "" : `; "${similar}" is written steps["${similar}"]`;
}

/** All steps whose state decides the value, each once. */
export function stepsRead(reader: ReadingStep, references: readonly PlacedReference[]): readonly string[] {
  const read = references.flatMap(({ reference }) =>
    reference.kind === "step"
      ? [reference.step]
      : writersOf(reader, reference.path).filter((writer) => hasEnded(reader, writer)),
  );
  return [...new Set(read)];
}

function hasEnded({ graph, id }: ReadingStep, step: string): boolean {
  return graph.isBefore(step, id);
}

/** Steps that put their output at the path, above it or below it. */
function writersOf({ steps }: ReadingStep, path: readonly string[]): string[] {
  const writers: string[] = [];
  for (const { id, outputPath } of steps.values()) {
    if (outputPath !== undefined && meets(outputPath, path)) writers.push(id);
  }
  return writers;
}

function meets(left: readonly string[], right: readonly string[]): boolean {
  const common = Math.min(left.length, right.length);
  for (let index = 0; index < common; index += 1) if (left[index] !== right[index]) return false;
  return true;
}
