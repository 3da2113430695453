// Checks the names that steps give to others: that they exist, and that every step begins in one way only.
import type { Problem } from "./compiled.ts";
import type { NamedStep } from "./control-steps.ts";
import type { StepDefinition } from "./step-definition.ts";
import {
  childrenNamed,
  circleText,
  controllersAround,
  loopAround,
  named,
  type StepLinks,
  type Steps,
  stepPlace,
  targetsOf,
} from "./step-links.ts";

/** How many parallels and loops may stand around a step. */
const depthMax = 8;

export function nestingProblems(steps: Steps, links: StepLinks): Problem[] {
  const wrong = [...steps.values()].flatMap((step) => [
    ...danglingNames(steps, step),
    ...targetsOf(step).flatMap((target) => targetProblems(steps, links, { step, target })),
    ...childrenNamed(step).flatMap((child) => childProblems(steps, links, { step, child })),
    ...edgeProblems(steps, links, step),
  ]);
  return [...wrong, ...depthProblems(steps, links)];
}

function danglingNames(steps: Steps, step: StepDefinition): Problem[] {
  const { id, dependsOn, onError } = step;
  const names: NamedStep[] = dependsOn.map((name, index) => ({
    step: name,
    path: `${stepPlace(id)}.depends_on[${index}]`,
  }));
  if (onError !== undefined) names.push({ step: onError, path: `${stepPlace(id)}.on_error` });
  return [...names, ...targetsOf(step), ...childrenNamed(step)].flatMap(({ step: name, path }) => {
    if (name === id) return [{ path, message: "a step cannot name itself" }];
    if (name === "" || steps.has(name)) return [];
    return [{ path, message: `there is no step "${name}"` }];
  });
}

type Naming<Role extends string> = { readonly step: StepDefinition } & {
  readonly [Name in Role]: NamedStep;
};

function isProper(steps: Steps, step: StepDefinition, name: string): boolean {
  return name !== step.id && steps.has(name);
}

function targetProblems(steps: Steps, links: StepLinks, { step, target }: Naming<"target">): Problem[] {
  const { step: name, path } = target;
  if (!isProper(steps, step, name)) return [];
  const first = links.switches.get(name);
  if (first !== undefined && first.step !== step.id)
    return [{ path, message: `"${name}" is a target of "${first.step}" already` }];
  const owners = links.handlers.get(name);
  if (owners === undefined) return [];
  return [{ path, message: `"${name}" handles errors of ${named(owners, "and")}: no switch begins it` }];
}

function childProblems(steps: Steps, links: StepLinks, { step, child }: Naming<"child">): Problem[] {
  const { step: name, path } = child;
  if (!isProper(steps, step, name)) return [];
  const problem = (message: string): Problem[] => [{ path, message }];
  const first = links.controllers.get(name);
  if (first !== undefined && first.step !== step.id)
    return problem(`"${name}" runs inside "${first.step}" already`);
  const owners = links.handlers.get(name);
  if (owners !== undefined)
    return problem(`"${name}" handles errors of ${named(owners, "and")}: nothing else begins it`);
  const choice = links.switches.get(name);
  if (choice !== undefined)
    return problem(`"${name}" is a target of "${choice.step}": nothing else begins it`);
  if (steps.get(name)?.type === "switch")
    return problem(
      `"${name}" is a switch, whose targets would begin outside "${step.id}"; put both into a subworkflow`,
    );
  return [];
}

function edgeProblems(steps: Steps, links: StepLinks, step: StepDefinition): Problem[] {
  const { id, onError } = step;
  const loop = onError === undefined ? undefined : loopAround(steps, links, id);
  const handled = loop === undefined ? [] : [handlerInLoop(id, loop)];
  return [...handled, ...dependencyProblems(steps, links, step)];
}

function handlerInLoop(id: string, loop: string): Problem {
  const message = `a step inside a loop has no handler of its own: it may fail in every iteration, and a handler runs once; let "${loop}" name it`;
  return { path: `${stepPlace(id)}.on_error`, message };
}

function dependencyProblems(steps: Steps, links: StepLinks, { id, dependsOn }: StepDefinition): Problem[] {
  const controller = links.controllers.get(id)?.step;
  return dependsOn.flatMap((name, index) => {
    if (name === id || !steps.has(name)) return [];
    const path = `${stepPlace(id)}.depends_on[${index}]`;
    if (controller !== undefined) {
      const message = `"${id}" begins when "${controller}" says so: it can depend on nothing else; let "${controller}" depend on "${name}"`;
      return name === controller ? [] : [{ path, message }];
    }
    const outermost = controllersAround(links, name).at(-1);
    if (outermost === undefined || (links.handlers.get(id) ?? []).includes(name)) return [];
    return [{ path, message: `"${name}" runs inside "${outermost}"; depend on "${outermost}" instead` }];
  });
}

/** A cycle is reported once, and only the first step that is too deep in each place. */
function depthProblems(steps: Steps, links: StepLinks): Problem[] {
  const reported = new Set<string>();
  return [...links.controllers].flatMap(([id, { step: controller, path }]) => {
    if (id === controller || !steps.has(id)) return [];
    const around = controllersAround(links, id);
    if (around.includes(id)) {
      if (reported.has(id)) return [];
      for (const name of around) reported.add(name);
      const circle = [id, ...around.slice(0, around.indexOf(id) + 1)];
      return [{ path, message: `the steps run inside each other: ${circleText(circle)}` }];
    }
    if (around.length !== depthMax + 1) return [];
    return [{ path, message: `"${id}" stands inside ${around.length} others, ${depthMax} are allowed` }];
  });
}
