// Who runs before whom: checks the edges between steps and answers what has certainly ended when a step begins.
//
// A step named by some `on_error` is a handler. It begins only when such a step has failed for good, and then the failure
// counts as handled: the run is not failed by it. What depends on the failed step is skipped all the same, because what
// it needs was not done; what depends on the handler runs once the handler has succeeded, and never otherwise. Several
// steps may name one handler: it runs once, for the first that fails.
import type { Sliced } from "../slices.ts";
import type { Problem } from "./compiled.ts";
import type { NamedStep } from "./control-steps.ts";
import type { StepDefinition } from "./step-definition.ts";
import {
  childrenNamed,
  circleText,
  controllersAround,
  dependenciesOf,
  type Link,
  linksOf,
  loopAround,
  named,
  type StepLinks,
  type Steps,
  stepPath,
  stepsBelow,
  targetsOf,
} from "./step-links.ts";
import { pause, spend, type Work } from "./work-count.ts";

export type StepGraph = {
  /**
   * True when `earlier` has ended whenever `later` begins: through dependencies, as the step whose failure it handles, or
   * because that holds for the parallel or loop that begins `later`. With a parallel or loop all inside it has ended.
   */
  isBefore(earlier: string, later: string): boolean;
  /** True when `inner` begins because `outer` did. */
  isInside(inner: string, outer: string): boolean;
  /** The parallel or loop that a step is inside of; of several the one around all. */
  outermost(id: string): string | undefined;
  /** True for steps inside a loop. */
  repeats(id: string): boolean;
};

/** A graph without problems, and what is known of its steps. */
export type ValidGraph = StepGraph & {
  readonly links: StepLinks;
  /** Every step comes after what it waits for, and after all that is inside that. */
  readonly order: readonly string[];
};

type GraphReading =
  | { readonly kind: "graph"; readonly graph: ValidGraph }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

export function* readGraph(steps: Steps, work: Work): Sliced<GraphReading> {
  const links = linksOf(steps);
  const waits = waitsOf(steps, links);
  const waited = [...waits.values()].reduce((sum, targets) => sum + targets.length, links.controllers.size);
  // Every part looks at each of them once: together 33,000 take 80 ms.
  const partDone = function* () {
    spend(work, "links", waited / 2);
    yield* pause(work);
  };
  yield* partDone();
  const misnamed = nestingProblems(steps, links);
  yield* partDone();
  if (misnamed.length > 0) return { kind: "invalid", problems: misnamed };
  const { cycles } = walk([...steps.keys()], waits);
  if (cycles.length > 0) return { kind: "invalid", problems: cycles };
  yield* partDone();
  const { order } = walk([...steps.keys()], waits, innerOf(links));
  yield* partDone();
  const orders = yield* ordersOf(steps, links, order, work);
  const repeating = new Set(
    [...links.controllers.keys()].filter((id) => loopAround(steps, links, id) !== undefined),
  );
  const graph: ValidGraph = {
    isBefore: (earlier, later) => (bitsOf(orders.before, later) & bitsOf(orders.bits, earlier)) !== 0n,
    isInside: (inner, outer) => (bitsOf(orders.below, outer) & bitsOf(orders.bits, inner)) !== 0n,
    outermost: (id) => controllersAround(links, id).at(-1),
    repeats: (id) => repeating.has(id),
    links,
    order: orders.order,
  };
  const problems = [...handlerProblems(steps, links, graph), ...neverReady(links.handlers, orders)];
  return problems.length > 0 ? { kind: "invalid", problems } : { kind: "graph", graph };
}

type Waits = ReadonlyMap<string, readonly Link[]>;

function waitsOf(steps: Steps, links: StepLinks): Waits {
  return new Map(
    [...steps.values()].map((step) => {
      const owners = links.handlers.get(step.id) ?? [];
      const failures = owners.map((owner) => ({ step: owner, path: `${stepPath(owner)}.on_error` }));
      const controller = links.controllers.get(step.id);
      const waits = [...dependenciesOf(links, step), ...failures];
      return [step.id, controller === undefined ? waits : [...waits, controller]];
    }),
  );
}

/** Who waits for a parallel or loop waits for all that is inside. That adds no cycle: what is inside waits for nothing else. */
function innerOf(links: StepLinks): Inner {
  const met = new Set<string>();
  return (id, target) => {
    // The first who waits for it visits all that is inside, so that nothing is left for the others.
    if (links.controllers.get(id)?.step === target || met.has(target)) return [];
    met.add(target);
    return stepsBelow(links, target);
  };
}

/** The steps inside `target` that `id` has to come after, too. */
type Inner = (id: string, target: string) => readonly string[];

/** More circles than anybody reads are only counted. */
const circlesShownMax = 200;

/** Depth first; the order has every step after what it waits for. */
function walk(ids: readonly string[], waits: Waits, inner: Inner = () => []) {
  const order: string[] = [];
  const cycles: Problem[] = [];
  const open: string[] = [];
  const states = new Map<string, "open" | "done">();
  const visit = (id: string): void => {
    states.set(id, "open");
    open.push(id);
    const waited = waits.get(id) ?? [];
    for (const { step: target, path } of waited) {
      const state = states.get(target);
      if (state === undefined) visit(target);
      if (state !== "open") continue;
      const isShown = cycles.length < circlesShownMax;
      const circle = isShown ? `: ${circleText([...open.slice(open.indexOf(target)), target])}` : "";
      cycles.push({ path, message: `the steps wait for each other${circle}` });
    }
    for (const { step: target } of waited)
      for (const step of inner(id, target)) if (!states.has(step)) visit(step);
    open.pop();
    states.set(id, "done");
    order.push(id);
  };
  for (const id of ids) if (!states.has(id)) visit(id);
  return { order, cycles };
}

/** Sets of steps as bits of one number: 1,000 steps with 60,000 edges take some milliseconds. */
type Bits = ReadonlyMap<string, bigint>;

type Orders = {
  readonly order: readonly string[];
  readonly bits: Bits;
  /** All that has ended when a step begins. */
  readonly before: Bits;
  /** All that begins because a step did. */
  readonly below: Bits;
  /** All that must have been done for a step to begin. */
  readonly needed: Bits;
};

function* ordersOf(steps: Steps, links: StepLinks, order: readonly string[], work: Work): Sliced<Orders> {
  const bits = new Map(order.map((id, index) => [id, 1n << BigInt(index)]));
  const below = new Map(
    [...links.children.keys()].map((id) => [
      id,
      stepsBelow(links, id).reduce((sum, inner) => sum | bitsOf(bits, inner), 0n),
    ]),
  );
  const before = new Map<string, bigint>();
  const needed = new Map<string, bigint>();
  const union = (ids: readonly string[], sets: Bits) =>
    ids.reduce((sum, id) => sum | bitsOf(bits, id) | bitsOf(sets, id), 0n);
  for (const id of order) {
    const controller = links.controllers.get(id)?.step;
    if (controller !== undefined) {
      before.set(id, bitsOf(before, controller));
      needed.set(id, bitsOf(needed, controller));
      continue;
    }
    const owners = links.handlers.get(id);
    const step = steps.get(id);
    const dependencies = step === undefined ? [] : dependenciesOf(links, step).map((link) => link.step);
    const ended = [...dependencies, ...(owners ?? [])];
    const inner = ended.reduce((sum, one) => sum | bitsOf(below, one), 0n);
    before.set(id, union(ended, before) | inner);
    needed.set(id, owners === undefined ? union(dependencies, needed) : 0n);
    spend(work, "links", ended.length);
    yield* pause(work);
  }
  return { order, bits, before, below, needed };
}

function bitsOf(sets: Bits, id: string): bigint {
  return sets.get(id) ?? 0n;
}

/** Steps that wait both for a handler and for the success of all it is there for; only the first of a chain is reported. */
function neverReady(handlers: StepLinks["handlers"], { order, bits, needed }: Orders): Problem[] {
  const problems: Problem[] = [];
  const contradictions = [...handlers].map(([handler, owners]) => ({
    handler,
    owners,
    steps: [handler, ...owners].reduce((sum, one) => sum | bitsOf(bits, one), 0n),
  }));
  let hopeless = 0n;
  for (const id of order) {
    const waited = bitsOf(needed, id);
    if (waited === 0n || (waited & hopeless) !== 0n) continue;
    const found = contradictions.find(({ steps }) => (waited & steps) === steps);
    if (found === undefined) continue;
    hopeless |= bitsOf(bits, id);
    const { handler, owners } = found;
    const message = `can never begin: "${handler}" runs only when ${named(owners, "or")} fails, and this step waits for the success of both`;
    problems.push({ path: `${stepPath(id)}.depends_on`, message });
  }
  return problems;
}

/** A handler begins at once, so it cannot wait; naming what has ended by then anyway does no harm. */
function handlerProblems(steps: Steps, { handlers }: StepLinks, graph: StepGraph): Problem[] {
  return [...handlers].flatMap(([handler, owners]) =>
    (steps.get(handler)?.dependsOn ?? []).flatMap((name, index) => {
      if (owners.includes(name) || owners.every((owner) => graph.isBefore(name, owner))) return [];
      const message = `an error handler begins when ${named(owners, "or")} fails; it cannot also wait for "${name}"`;
      return [{ path: `${stepPath(handler)}.depends_on[${index}]`, message }];
    }),
  );
}

/** How many parallels and loops may stand around a step. */
const depthMax = 8;

function nestingProblems(steps: Steps, links: StepLinks): Problem[] {
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
    path: `${stepPath(id)}.depends_on[${index}]`,
  }));
  if (onError !== undefined) names.push({ step: onError, path: `${stepPath(id)}.on_error` });
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
  return { path: `${stepPath(id)}.on_error`, message };
}

function dependencyProblems(steps: Steps, links: StepLinks, { id, dependsOn }: StepDefinition): Problem[] {
  const controller = links.controllers.get(id)?.step;
  return dependsOn.flatMap((name, index) => {
    if (name === id || !steps.has(name)) return [];
    const path = `${stepPath(id)}.depends_on[${index}]`;
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
