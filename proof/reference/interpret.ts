// The reference: a workflow interpreted by plain recursion, without time, inbox or commits, from what everybody will answer.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { doControl } from "./interpret-control.ts";
import { doWork } from "./interpret-work.ts";
import { dependenciesOf, lastSteps, linksOf, type WorkflowText } from "./language.ts";
import type { Oracle } from "./oracle.ts";
import {
  type Ended,
  isUnknown,
  type RunPicture,
  type StepPicture,
  statusesShown,
  worstStatuses,
} from "./picture.ts";
import { evaluateCondition } from "./small-expressions.ts";
import {
  type Around,
  type AskedRun,
  failed,
  type Kept,
  type Story,
  scopeOf,
  type Telling,
  type Told,
} from "./telling.ts";

export function interpret(
  library: ReadonlyMap<string, WorkflowText>,
  workflow: string,
  input: JsonValue,
  oracle: Oracle,
  kept?: Kept,
): ReadonlyMap<string, RunPicture> {
  const story: Story = {
    ...{ library, oracle, runs: new Map(), begin },
    tellRun: (asked) => tellRun(story, asked),
  };
  const first = { path: "", workflow, input };
  story.tellRun(kept === undefined ? first : { ...first, kept });
  return story.runs;
}

function tellRun(story: Story, { path, workflow, input, kept }: AskedRun): Told {
  const text = story.library.get(workflow);
  if (text === undefined) throw new Error(`there is no workflow ${workflow}`);
  const links = linksOf(text);
  const telling: Telling = {
    ...{ story, links, path, input },
    ended: new Map(kept?.ended),
    attempts: new Map(),
    chosen: new Map(kept?.chosen),
    order: [...(kept?.ended.keys() ?? [])],
    iffy: new Set(),
  };
  for (const id of Object.keys(links.steps)) if (!links.controllers.has(id)) settle(telling, id);
  const isStuck = [...telling.ended].some(
    ([id, { kind }]) => kind === "stuck" && !links.controllers.has(id) && !id.endsWith("]"),
  );
  const failures = worstStatuses(unhandled(telling));
  const allowed: readonly string[] = isStuck
    ? ["cancelled"]
    : failures.length === 0
      ? ["succeeded"]
      : failures;
  const steps = picturesOf(telling, isStuck);
  const output = allowed.includes("succeeded") ? outputOfRun(telling) : null;
  const isOutputUnknown = lastSteps(links).some((id) => isUnknown(telling.ended.get(id) ?? failed));
  const picture: RunPicture = {
    workflow,
    allowed,
    steps,
    output,
    isOutputUnknown,
    isCertain: true,
    ended: telling.ended,
    chosen: telling.chosen,
  };
  story.runs.set(path, picture);
  return { picture, isStuck, telling };
}

function settle(telling: Telling, id: string): Ended {
  const known = telling.ended.get(id);
  if (known !== undefined) return known;
  const { links } = telling;
  const owner = links.owners.get(id);
  const ended = owner === undefined ? settleByDependencies(telling, id) : settleHandler(telling, id, owner);
  telling.ended.set(id, ended);
  return ended;
}

function settleHandler(telling: Telling, id: string, owner: string): Ended {
  let outermost = owner;
  for (let name: string | undefined = owner; name !== undefined; name = telling.links.controllers.get(name)) {
    outermost = name;
  }
  settle(telling, outermost);
  if (telling.ended.get(owner)?.kind !== "broken") return { kind: "unbegun" };
  const ended = begin(telling, id, {});
  // Whoever handles a failure is told of it, in words that are not foretold here.
  return ended.kind === "met" ? { ...ended, isUnknown: true } : ended;
}

function settleByDependencies(telling: Telling, id: string): Ended {
  const names = dependenciesOf(telling.links, id);
  const before = names.map((name) => settle(telling, name));
  const is = (...kinds: ReadonlyArray<Ended["kind"]>) => before.some(({ kind }) => kinds.includes(kind));
  if (is("broken", "dependency")) return { kind: "dependency" };
  if (is("unbegun", "stuck")) return { kind: "unbegun" };
  const choice = telling.links.switches.get(id);
  const isPassed =
    choice !== undefined && telling.ended.get(choice)?.kind === "met" && telling.chosen.get(choice) !== id;
  if (isPassed || (names.length > 0 && before.every(({ kind }) => kind === "branch")))
    return { kind: "branch" };
  return begin(telling, id, {});
}

/** Does a step whose turn it is. */
function begin(telling: Telling, id: string, around: Around): Ended {
  const ended = beginUnlessSkipped(telling, id, around);
  telling.ended.set(id, ended);
  const at = telling.order.indexOf(id);
  if (at >= 0) telling.order.splice(at, 1);
  telling.order.push(id);
  return ended;
}

const controls = new Set(["switch", "parallel", "loop", "condition"]);

function beginUnlessSkipped(telling: Telling, id: string, around: Around): Ended {
  const step = telling.links.steps[id] ?? {};
  if (typeof step.condition === "string" && step.type !== "condition" && step.type !== "switch") {
    const verdict = evaluateCondition(step.condition, scopeOf(telling, around));
    if (verdict === "failed") return failed;
    if (!verdict) return { kind: "condition" };
  }
  return controls.has(String(step.type)) ? doControl(telling, id, around) : doWork(telling, id, around);
}

/** What a child's failure means is for its controller to say. */
function unhandled({ links, ended }: Telling) {
  return [...ended].flatMap(([id, how]) => {
    if (how.kind !== "broken" || links.controllers.has(id) || id.endsWith("]")) return [];
    const handler = links.steps[id]?.on_error;
    const handling = typeof handler === "string" ? ended.get(handler) : undefined;
    return handling === undefined || handling.kind === "condition" ? [how.statuses] : [];
  });
}

function outputOfRun({ links, ended }: Telling): JsonValue {
  const outputOf = (id: string) => {
    const how = ended.get(id);
    return how?.kind === "met" ? how.output : undefined;
  };
  const last = lastSteps(links);
  if (last.length === 1) return outputOf(last[0] ?? "") ?? null;
  return Object.fromEntries(
    last.flatMap((id) => {
      const output = outputOf(id);
      return output === undefined ? [] : [[id, output]];
    }),
  );
}

function picturesOf({ links, ended, iffy }: Telling, isStuck: boolean): ReadonlyMap<string, StepPicture> {
  const ids = new Set([...Object.keys(links.steps), ...ended.keys()]);
  return new Map(
    [...ids].map((id) => {
      const how = ended.get(id) ?? { kind: "unbegun" as const };
      const allowed = statusesShown(how, isStuck, iffy.has(id));
      const isKnown = how.kind === "met" && how.isUnknown !== true && !iffy.has(id);
      return [id, isKnown ? { allowed, output: { value: how.output } } : { allowed }];
    }),
  );
}
