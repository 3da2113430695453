// Which steps name which others, and what follows from it: who begins a step, and what it waits for.
//
// A step named by some `on_error` is a handler. A step named by a switch is its target and waits for it. A step named by
// a parallel or a loop is controlled: it begins when its controller says so, and waits for nothing else.
import type { NamedStep } from "./control-steps.ts";
import { pathIn } from "./fields.ts";
import type { StepDefinition } from "./step-definition.ts";

export type Steps = ReadonlyMap<string, StepDefinition>;

/** The step at the other end, and the place where the link was written. */
export type Link = { readonly step: string; readonly path: string };

export type StepLinks = {
  /** Handlers, and the steps that name them. */
  readonly handlers: ReadonlyMap<string, readonly string[]>;
  /** Targets of switches, and the switch that named each first. */
  readonly switches: ReadonlyMap<string, Link>;
  /** Controlled steps, and the parallel or loop that named each first. */
  readonly controllers: ReadonlyMap<string, Link>;
  /** Controllers, and the steps that begin when they say so. */
  readonly children: ReadonlyMap<string, readonly string[]>;
  /** What `controllersAround` has found: 900 loops inside each other, asked about one by one, took half a second. */
  readonly around: Map<string, readonly string[]>;
};

export const stepPath = (id: string): string => pathIn("steps", id);

/** More than these are only counted: a thousand steps may fail into one handler, and a message is for people. */
const namedMax = 5;

/** Several steps as a message names them. */
export function named(ids: readonly string[], word: "and" | "or"): string {
  const shown = ids.slice(0, namedMax).map((id) => `"${id}"`);
  const rest = ids.length - shown.length;
  return [...shown, ...(rest > 0 ? [`${rest} more`] : [])].join(` ${word} `);
}

const circleMax = 20;

/** Steps that lead back to the first of them. */
export function circleText(ids: readonly string[]): string {
  if (ids.length <= circleMax) return ids.join(" -> ");
  return [...ids.slice(0, circleMax - 1), `(${ids.length - circleMax} more)`, ids.at(-1)].join(" -> ");
}

export function linksOf(steps: Steps): StepLinks {
  const handlers = new Map<string, string[]>();
  const switches = new Map<string, Link>();
  const controllers = new Map<string, Link>();
  const children = new Map<string, string[]>();
  for (const step of steps.values()) {
    if (step.onError !== undefined) push(handlers, step.onError, step.id);
    for (const { step: target, path } of targetsOf(step)) {
      if (!switches.has(target)) switches.set(target, { step: step.id, path });
    }
    for (const { step: child, path } of childrenNamed(step)) {
      if (controllers.has(child)) continue;
      controllers.set(child, { step: step.id, path });
      push(children, step.id, child);
    }
  }
  return { handlers, switches, controllers, children, around: new Map() };
}

function push(lists: Map<string, string[]>, name: string, item: string): void {
  const list = lists.get(name);
  if (list === undefined) lists.set(name, [item]);
  else list.push(item);
}

/** The steps that a switch chooses from. */
export function targetsOf({ switch: choice }: StepDefinition): readonly NamedStep[] {
  if (choice === undefined) return [];
  const targets = choice.cases.map(({ target }) => target);
  return choice.otherwise === undefined ? targets : [...targets, choice.otherwise];
}

/** The steps that a parallel or a loop begins. */
export function childrenNamed({ parallel, loop }: StepDefinition): readonly NamedStep[] {
  if (loop?.body !== undefined) return [loop.body];
  return parallel?.steps ?? [];
}

/** What must have ended before a step begins, as written and as its switch adds; nothing for a controlled step. */
export function dependenciesOf(links: StepLinks, { id, dependsOn }: StepDefinition): readonly Link[] {
  if (links.controllers.has(id)) return [];
  const written = dependsOn.map((step, index) => ({ step, path: `${stepPath(id)}.depends_on[${index}]` }));
  const choice = links.switches.get(id);
  return choice === undefined || dependsOn.includes(choice.step) ? written : [...written, choice];
}

/** The controllers around a step, innermost first; ends at one that was met before. */
export function controllersAround({ controllers, around }: StepLinks, id: string): readonly string[] {
  const known = around.get(id);
  if (known !== undefined) return known;
  const found = new Set<string>();
  for (let link = controllers.get(id); link !== undefined; link = controllers.get(link.step)) {
    if (found.has(link.step)) break;
    found.add(link.step);
  }
  around.set(id, [...found]);
  return [...found];
}

/** The loop around a step, the innermost if there are several. */
export function loopAround(steps: Steps, links: StepLinks, id: string): string | undefined {
  return controllersAround(links, id).find((controller) => steps.get(controller)?.type === "loop");
}

/** All steps that begin because a step did, also through others. */
export function stepsBelow({ children }: StepLinks, id: string): readonly string[] {
  const below: string[] = [...(children.get(id) ?? [])];
  for (let index = 0; index < below.length; index += 1) {
    below.push(...(children.get(below[index] ?? "") ?? []));
  }
  return below;
}
