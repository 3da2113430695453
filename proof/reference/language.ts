// A definition as it is written, seen as the reference reads it: who begins whom, and what waits for what.
import type { JsonValue } from "../../src/domain/fingerprint.ts";

export type StepText = { readonly [field: string]: JsonValue };
export type WorkflowText = { readonly steps: Readonly<Record<string, StepText>> };

export type Links = {
  readonly steps: Readonly<Record<string, StepText>>;
  /** By step: the parallel or loop that begins it. */
  readonly controllers: ReadonlyMap<string, string>;
  /** By target: its switch. */
  readonly switches: ReadonlyMap<string, string>;
  /** By handler: the step whose failure it handles. */
  readonly owners: ReadonlyMap<string, string>;
};

export function linksOf({ steps }: WorkflowText): Links {
  const controllers = new Map<string, string>();
  const switches = new Map<string, string>();
  const owners = new Map<string, string>();
  for (const [id, step] of Object.entries(steps)) {
    for (const child of childrenOf(step)) controllers.set(child, id);
    for (const { next } of casesOf(step)) switches.set(next, id);
    const otherwise = inputOf(step).default;
    if (step.type === "switch" && typeof otherwise === "string") switches.set(otherwise, id);
    if (typeof step.on_error === "string") owners.set(step.on_error, id);
  }
  return { steps, controllers, switches, owners };
}

export function inputOf(step: StepText): StepText {
  return (step.input ?? {}) as StepText;
}

export function casesOf(step: StepText): ReadonlyArray<{ readonly when: JsonValue; readonly next: string }> {
  if (step.type !== "switch") return [];
  return inputOf(step).cases as unknown as ReadonlyArray<{ when: JsonValue; next: string }>;
}

export function childrenOf(step: StepText): readonly string[] {
  if (step.type === "parallel") return inputOf(step).steps as readonly string[];
  return step.type === "loop" ? [inputOf(step).body as string] : [];
}

export function dependenciesOf(
  { steps, controllers, switches, owners }: Links,
  id: string,
): readonly string[] {
  if (controllers.has(id) || owners.has(id)) return [];
  const written = (steps[id]?.depends_on ?? []) as readonly string[];
  const choice = switches.get(id);
  return choice === undefined || written.includes(choice) ? written : [...written, choice];
}

/** Steps that nobody waits for, and that begin by themselves. */
export function lastSteps(links: Links): readonly string[] {
  const ids = Object.keys(links.steps);
  const waitedFor = new Set(ids.flatMap((id) => dependenciesOf(links, id)));
  return ids.filter((id) => !waitedFor.has(id) && !links.owners.has(id) && !links.controllers.has(id));
}

export function retriesOf(step: StepText): number {
  return ((step.retry ?? {}) as { readonly max_retries?: number }).max_retries ?? 0;
}
