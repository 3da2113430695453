// Who runs before whom: checks the edges between steps and answers what has certainly ended when a step begins.
//
// A step named by some `on_error` is a handler. It begins only when such a step has failed for good, and then the failure
// counts as handled: the run is not failed by it. What depends on the failed step is skipped all the same, because what
// it needs was not done; what depends on the handler runs once the handler has succeeded, and never otherwise. Several
// steps may name one handler: it runs once, for the first that fails.
import type { Problem } from "./compiled.ts";
import {
  controllersAround,
  dependenciesOf,
  type Link,
  linksOf,
  loopAround,
  type StepLinks,
  type Steps,
  stepPlace,
  stepsBelow,
} from "./step-links.ts";
import { nestingProblems } from "./step-nesting.ts";

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

export type GraphReading =
  | { readonly kind: "graph"; readonly graph: ValidGraph }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

export function readGraph(steps: Steps): GraphReading {
  const links = linksOf(steps);
  const misnamed = nestingProblems(steps, links);
  if (misnamed.length > 0) return { kind: "invalid", problems: misnamed };
  const waits = waitsOf(steps, links);
  const { cycles } = walk([...steps.keys()], waits);
  if (cycles.length > 0) return { kind: "invalid", problems: cycles };
  const orders = ordersOf(steps, links, walk([...steps.keys()], waitsWithInner(links, waits)).order);
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
      const failures = owners.map((owner) => ({ step: owner, path: `${stepPlace(owner)}.on_error` }));
      const controller = links.controllers.get(step.id);
      const waits = [...dependenciesOf(links, step), ...failures];
      return [step.id, controller === undefined ? waits : [...waits, controller]];
    }),
  );
}

/** Who waits for a parallel or loop waits for all that is inside. That adds no cycle: what is inside waits for nothing else. */
function waitsWithInner(links: StepLinks, waits: Waits): Waits {
  if (links.children.size === 0) return waits;
  const inner = new Map(
    [...links.children.keys()].map((id) => [id, stepsBelow(links, id).map((step) => ({ step, path: "" }))]),
  );
  return new Map(
    [...waits].map(([id, targets]) => {
      const controller = links.controllers.get(id)?.step;
      const more = targets.flatMap(({ step }) => (step === controller ? [] : (inner.get(step) ?? [])));
      return [id, [...targets, ...more]];
    }),
  );
}

/** Depth first; the order has every step after what it waits for. */
function walk(ids: readonly string[], waits: Waits) {
  const order: string[] = [];
  const cycles: Problem[] = [];
  const open: string[] = [];
  const states = new Map<string, "open" | "done">();
  const visit = (id: string): void => {
    states.set(id, "open");
    open.push(id);
    for (const { step: target, path } of waits.get(id) ?? []) {
      const state = states.get(target);
      if (state === undefined) visit(target);
      if (state !== "open") continue;
      const circle = [...open.slice(open.indexOf(target)), target];
      cycles.push({ path, message: `the steps wait for each other: ${circle.join(" -> ")}` });
    }
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

function ordersOf(steps: Steps, links: StepLinks, order: readonly string[]): Orders {
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
  }
  return { order, bits, before, below, needed };
}

function bitsOf(sets: Bits, id: string): bigint {
  return sets.get(id) ?? 0n;
}

/** Steps that wait both for a handler and for the success of all it is there for; only the first of a chain is told. */
function neverReady(handlers: StepLinks["handlers"], { order, bits, needed }: Orders): Problem[] {
  const problems: Problem[] = [];
  let hopeless = 0n;
  for (const id of order) {
    const waited = bitsOf(needed, id);
    if ((waited & hopeless) !== 0n) continue;
    const [handler, owners = []] =
      [...handlers].find(([name, failing]) =>
        [name, ...failing].every((one) => (waited & bitsOf(bits, one)) !== 0n),
      ) ?? [];
    if (handler === undefined) continue;
    hopeless |= bitsOf(bits, id);
    const owner = owners.join('" or "');
    const message = `can never begin: "${handler}" runs only when "${owner}" fails, and this step waits for the success of both`;
    problems.push({ path: `${stepPlace(id)}.depends_on`, message });
  }
  return problems;
}

/** A handler begins at once, so it cannot wait; naming what has ended by then anyway does no harm. */
function handlerProblems(steps: Steps, { handlers }: StepLinks, graph: StepGraph): Problem[] {
  return [...handlers].flatMap(([handler, owners]) =>
    (steps.get(handler)?.dependsOn ?? []).flatMap((name, index) => {
      if (owners.includes(name) || owners.every((owner) => graph.isBefore(name, owner))) return [];
      const message = `an error handler begins when "${owners.join('" or "')}" fails; it cannot also wait for "${name}"`;
      return [{ path: `${stepPlace(handler)}.depends_on[${index}]`, message }];
    }),
  );
}
