// Who runs before whom: checks the edges between steps and answers what has certainly ended when a step begins.
//
// A step named by some `on_error` is a handler. It begins only when such a step has failed for good, and then the failure
// counts as handled: the run is not failed by it. What depends on the failed step is skipped all the same, because what
// it needs was not done; what depends on the handler runs once the handler has succeeded, and never otherwise. Several
// steps may name one handler: it runs once, for the first that fails.
import type { Problem } from "./compiled.ts";
import { placeIn } from "./place.ts";
import type { StepDefinition } from "./step-definition.ts";

type Steps = ReadonlyMap<string, StepDefinition>;

export type StepGraph = {
  /** True when `earlier` has ended whenever `later` begins, through dependencies or as the step whose failure it handles. */
  isBefore(earlier: string, later: string): boolean;
};

export type GraphReading =
  | { readonly kind: "graph"; readonly graph: StepGraph }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

export function readGraph(steps: Steps): GraphReading {
  const dangling = [...steps.values()].flatMap((step) => danglingEdges(steps, step));
  if (dangling.length > 0) return { kind: "invalid", problems: dangling };
  const handlers = handlersOf(steps);
  const walked = walk([...steps.keys()], waitsOf(steps, handlers));
  if (walked.cycles.length > 0) return { kind: "invalid", problems: walked.cycles };
  const orders = ordersOf(steps, handlers, walked.order);
  const graph: StepGraph = {
    isBefore: (earlier, later) => (bitsOf(orders.before, later) & bitsOf(orders.bits, earlier)) !== 0n,
  };
  const problems = [...handlerProblems(steps, handlers, graph), ...neverReady(handlers, orders)];
  return problems.length > 0 ? { kind: "invalid", problems } : { kind: "graph", graph };
}

/** Handlers, and the steps that name them. */
export function handlersOf(steps: Steps): ReadonlyMap<string, readonly string[]> {
  const handlers = new Map<string, string[]>();
  for (const { id, onError } of steps.values()) {
    if (onError !== undefined) handlers.set(onError, [...(handlers.get(onError) ?? []), id]);
  }
  return handlers;
}

const stepPlace = (id: string) => placeIn("steps", id);

function danglingEdges(steps: Steps, { id, dependsOn, onError }: StepDefinition): Problem[] {
  const edges = dependsOn.map((target, index) => ({ target, path: `${stepPlace(id)}.depends_on[${index}]` }));
  if (onError !== undefined) edges.push({ target: onError, path: `${stepPlace(id)}.on_error` });
  return edges.flatMap(({ target, path }) => {
    if (target === id) return [{ path, message: "a step cannot name itself" }];
    if (target === "" || steps.has(target)) return [];
    return [{ path, message: `there is no step "${target}"` }];
  });
}

/** An edge of waiting, with the place where it was written. */
type Wait = { readonly target: string; readonly path: string };
type Handlers = ReadonlyMap<string, readonly string[]>;

function waitsOf(steps: Steps, handlers: Handlers): ReadonlyMap<string, readonly Wait[]> {
  return new Map(
    [...steps.values()].map(({ id, dependsOn }) => {
      const waits = dependsOn.map((target, index) => ({
        target,
        path: `${stepPlace(id)}.depends_on[${index}]`,
      }));
      const owners = handlers.get(id) ?? [];
      const failures = owners.map((owner) => ({ target: owner, path: `${stepPlace(owner)}.on_error` }));
      return [id, [...waits, ...failures]];
    }),
  );
}

/** Depth first; the order has every step after what it waits for. */
function walk(ids: readonly string[], waits: ReadonlyMap<string, readonly Wait[]>) {
  const order: string[] = [];
  const cycles: Problem[] = [];
  const open: string[] = [];
  const states = new Map<string, "open" | "done">();
  const visit = (id: string): void => {
    states.set(id, "open");
    open.push(id);
    for (const { target, path } of waits.get(id) ?? []) {
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
  /** All that must have been done for a step to begin. */
  readonly needed: Bits;
};

function ordersOf(steps: Steps, handlers: Handlers, order: readonly string[]): Orders {
  const bits = new Map(order.map((id, index) => [id, 1n << BigInt(index)]));
  const before = new Map<string, bigint>();
  const needed = new Map<string, bigint>();
  const union = (ids: readonly string[], sets: Bits) =>
    ids.reduce((sum, id) => sum | bitsOf(bits, id) | bitsOf(sets, id), 0n);
  for (const id of order) {
    const owners = handlers.get(id);
    const dependencies = steps.get(id)?.dependsOn ?? [];
    before.set(id, union([...dependencies, ...(owners ?? [])], before));
    needed.set(id, owners === undefined ? union(dependencies, needed) : 0n);
  }
  return { order, bits, before, needed };
}

function bitsOf(sets: Bits, id: string): bigint {
  return sets.get(id) ?? 0n;
}

/** Steps that wait both for a handler and for the success of all it is there for; only the first of a chain is told. */
function neverReady(handlers: Handlers, { order, bits, needed }: Orders): Problem[] {
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
function handlerProblems(steps: Steps, handlers: Handlers, graph: StepGraph): Problem[] {
  return [...handlers].flatMap(([handler, owners]) =>
    (steps.get(handler)?.dependsOn ?? []).flatMap((name, index) => {
      if (owners.includes(name) || owners.every((owner) => graph.isBefore(name, owner))) return [];
      const message = `an error handler begins when "${owners.join('" or "')}" fails; it cannot also wait for "${name}"`;
      return [{ path: `${stepPlace(handler)}.depends_on[${index}]`, message }];
    }),
  );
}
