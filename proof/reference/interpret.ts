// The reference: a workflow interpreted by plain recursion, without time, inbox or commits, from what everybody will answer.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { doControl } from "./interpret-control.ts";
import { doWork } from "./interpret-work.ts";
import {
  type Around,
  type AskedRun,
  failed,
  type Interpretation,
  type InterpretedRun,
  type Kept,
  type Story,
  scopeOf,
} from "./interpretation.ts";
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

export function interpret(
  library: ReadonlyMap<string, WorkflowText>,
  workflow: string,
  input: JsonValue,
  oracle: Oracle,
  kept?: Kept,
): ReadonlyMap<string, RunPicture> {
  const story: Story = {
    ...{ library, oracle, runs: new Map(), begin },
    interpretRun: (asked) => interpretRun(story, asked),
  };
  const first = { path: "", workflow, input };
  story.interpretRun(kept === undefined ? first : { ...first, kept });
  return story.runs;
}

function interpretRun(story: Story, { path, workflow, input, kept }: AskedRun): InterpretedRun {
  const text = story.library.get(workflow);
  if (text === undefined) throw new Error(`there is no workflow ${workflow}`);
  const links = linksOf(text);
  const interpretation: Interpretation = {
    ...{ story, links, path, input },
    ended: new Map(kept?.ended),
    attempts: new Map(),
    chosen: new Map(kept?.chosen),
    order: [...(kept?.ended.keys() ?? [])],
    iffy: new Set(),
  };
  for (const id of Object.keys(links.steps)) if (!links.controllers.has(id)) settle(interpretation, id);
  const isStuck = [...interpretation.ended].some(
    ([id, { kind }]) => kind === "stuck" && !links.controllers.has(id) && !id.endsWith("]"),
  );
  const failures = worstStatuses(unhandled(interpretation));
  const allowed: readonly string[] = isStuck
    ? ["cancelled"]
    : failures.length === 0
      ? ["succeeded"]
      : failures;
  const steps = picturesOf(interpretation, isStuck);
  const output = allowed.includes("succeeded") ? outputOfRun(interpretation) : null;
  const isOutputUnknown = lastSteps(links).some((id) => isUnknown(interpretation.ended.get(id) ?? failed));
  const picture: RunPicture = {
    workflow,
    allowed,
    steps,
    output,
    isOutputUnknown,
    isCertain: true,
    ended: interpretation.ended,
    chosen: interpretation.chosen,
  };
  story.runs.set(path, picture);
  return { picture, isStuck, interpretation };
}

function settle(interpretation: Interpretation, id: string): Ended {
  const known = interpretation.ended.get(id);
  if (known !== undefined) return known;
  const { links } = interpretation;
  const owner = links.owners.get(id);
  const ended =
    owner === undefined ? settleByDependencies(interpretation, id) : settleHandler(interpretation, id, owner);
  interpretation.ended.set(id, ended);
  return ended;
}

function settleHandler(interpretation: Interpretation, id: string, owner: string): Ended {
  let outermost = owner;
  for (
    let name: string | undefined = owner;
    name !== undefined;
    name = interpretation.links.controllers.get(name)
  ) {
    outermost = name;
  }
  settle(interpretation, outermost);
  if (interpretation.ended.get(owner)?.kind !== "broken") return { kind: "unbegun" };
  const ended = begin(interpretation, id, {});
  // The step that handles a failure is told of it, in words that are not predicted here.
  return ended.kind === "met" ? { ...ended, isUnknown: true } : ended;
}

function settleByDependencies(interpretation: Interpretation, id: string): Ended {
  const names = dependenciesOf(interpretation.links, id);
  const before = names.map((name) => settle(interpretation, name));
  const is = (...kinds: ReadonlyArray<Ended["kind"]>) => before.some(({ kind }) => kinds.includes(kind));
  if (is("broken", "dependency")) return { kind: "dependency" };
  if (is("unbegun", "stuck")) return { kind: "unbegun" };
  const choice = interpretation.links.switches.get(id);
  const isPassed =
    choice !== undefined &&
    interpretation.ended.get(choice)?.kind === "met" &&
    interpretation.chosen.get(choice) !== id;
  if (isPassed || (names.length > 0 && before.every(({ kind }) => kind === "branch")))
    return { kind: "branch" };
  return begin(interpretation, id, {});
}

/** Does a step whose turn it is. */
function begin(interpretation: Interpretation, id: string, around: Around): Ended {
  const ended = beginUnlessSkipped(interpretation, id, around);
  interpretation.ended.set(id, ended);
  const at = interpretation.order.indexOf(id);
  if (at >= 0) interpretation.order.splice(at, 1);
  interpretation.order.push(id);
  return ended;
}

const controls = new Set(["switch", "parallel", "loop", "condition"]);

function beginUnlessSkipped(interpretation: Interpretation, id: string, around: Around): Ended {
  const step = interpretation.links.steps[id] ?? {};
  if (typeof step.condition === "string" && step.type !== "condition" && step.type !== "switch") {
    const verdict = evaluateCondition(step.condition, scopeOf(interpretation, around));
    if (verdict === "failed") return failed;
    if (!verdict) return { kind: "condition" };
  }
  return controls.has(String(step.type))
    ? doControl(interpretation, id, around)
    : doWork(interpretation, id, around);
}

/** What a child's failure means is for its controller to say. */
function unhandled({ links, ended }: Interpretation) {
  return [...ended].flatMap(([id, how]) => {
    if (how.kind !== "broken" || links.controllers.has(id) || id.endsWith("]")) return [];
    const handler = links.steps[id]?.on_error;
    const handling = typeof handler === "string" ? ended.get(handler) : undefined;
    return handling === undefined || handling.kind === "condition" ? [how.statuses] : [];
  });
}

function outputOfRun({ links, ended }: Interpretation): JsonValue {
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

function picturesOf(
  { links, ended, iffy }: Interpretation,
  isStuck: boolean,
): ReadonlyMap<string, StepPicture> {
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
