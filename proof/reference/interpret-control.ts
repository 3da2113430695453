// The reference for steps that decide about others: condition, switch, parallel and loop.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { makeUncertain } from "./interpret-work.ts";
import { casesOf, childrenOf, inputOf } from "./language.ts";
import { type Ended, type FailedStatus, isMet, isUnknown, statusSeen, worstStatuses } from "./picture.ts";
import { evaluateCondition, evaluateTemplates, evaluateText } from "./small-expressions.ts";
import { type Around, failed, scopeOf, type Telling } from "./telling.ts";

export function doControl(telling: Telling, id: string, around: Around): Ended {
  const step = telling.links.steps[id] ?? {};
  const ended = controlled(telling, id, around);
  // Whatever is stuck below is taken back when the time is over.
  return ended.kind === "stuck" && step.timeout_sec !== undefined
    ? { kind: "broken", statuses: ["timed_out"] }
    : ended;
}

function controlled(telling: Telling, id: string, around: Around): Ended {
  const step = telling.links.steps[id] ?? {};
  switch (String(step.type)) {
    case "switch":
      return choose(telling, id, around);
    case "parallel":
      return inputOf(step).max_parallel === 1
        ? oneAfterTheOther(telling, id, around)
        : sideBySide(telling, id, around);
    case "loop":
      return repeat(telling, id, around);
    default: {
      const verdict = evaluateCondition(String(step.condition), scopeOf(telling, around));
      return verdict === "failed" ? failed : { kind: "met", output: verdict };
    }
  }
}

function choose(telling: Telling, id: string, around: Around): Ended {
  const step = telling.links.steps[id] ?? {};
  const scope = scopeOf(telling, around);
  const asked = typeof step.condition === "string" ? evaluateText(step.condition, scope) : { value: true };
  if (typeof asked === "string") return failed;
  const { value } = asked;
  let matched: number | null = null;
  for (const [index, { when }] of casesOf(step).entries()) {
    const candidate = evaluateTemplates(when, scope);
    if (candidate === "failed") return failed;
    if (candidate === "nothing" || JSON.stringify(candidate.value) !== JSON.stringify(value)) continue;
    matched = index;
    break;
  }
  const otherwise = inputOf(step).default;
  const target = matched === null ? (otherwise ?? null) : (casesOf(step)[matched]?.next ?? null);
  telling.chosen.set(id, String(target ?? ""));
  return { kind: "met", output: { matched_case: matched, matched_value: value, target_step: target } };
}

type Wanted = {
  readonly children: readonly string[];
  readonly required: number;
  readonly continues: boolean;
};

function wantedBy({ links }: Telling, id: string): Wanted {
  const step = links.steps[id] ?? {};
  const { strategy, required, on_failure: onFailure } = inputOf(step);
  const children = childrenOf(step);
  const needed = { any: 1, n_of_m: Number(required) }[String(strategy)] ?? children.length;
  return { children, required: needed, continues: onFailure === "continue" };
}

function oneAfterTheOther(telling: Telling, id: string, around: Around): Ended {
  const { children, required, continues } = wantedBy(telling, id);
  const ends = new Map<string, Ended>();
  const broken: Array<readonly FailedStatus[]> = [];
  let met = 0;
  for (const child of children) {
    const ended = telling.story.begin(telling, child, around);
    ends.set(child, ended);
    if (ended.kind === "stuck") return ended;
    if (isMet(ended)) met += 1;
    if (ended.kind === "broken") broken.push(ended.statuses);
    if (met >= required) return together(children, ends);
    if (broken.length > children.length - required && !continues) break;
  }
  return { kind: "broken", statuses: worstStatuses(broken) };
}

/** All at once: where some may be taken back, their ends depend on who is first. */
function sideBySide(telling: Telling, id: string, around: Around): Ended {
  const { children, required, continues } = wantedBy(telling, id);
  const ends = new Map(children.map((child) => [child, telling.story.begin(telling, child, around)]));
  const all = [...ends.values()];
  const met = all.filter(isMet).length;
  const isStuck = all.some(({ kind }) => kind === "stuck");
  if (met >= required) {
    if (met === children.length && required === children.length) {
      return together(children, ends);
    }
    makeIffy(telling, children);
    return { kind: "met", isUnknown: true };
  }
  const broken = all.flatMap((ended) => (ended.kind === "broken" ? [ended.statuses] : []));
  const isHopeless = broken.length > children.length - required;
  if (isHopeless && !continues) {
    makeIffy(telling, children);
    return { kind: "broken", statuses: [...new Set(broken.flat())] };
  }
  return isStuck ? { kind: "stuck" } : { kind: "broken", statuses: worstStatuses(broken) };
}

function makeIffy(telling: Telling, children: readonly string[]): void {
  for (const child of children) {
    telling.iffy.add(child);
    for (const id of telling.ended.keys()) if (id.startsWith(`${child}[`)) telling.iffy.add(id);
    makeUncertain(telling.story, `${telling.path}/${child}@`);
    makeIffy(telling, childrenOf(telling.links.steps[child] ?? {}));
  }
}

function together(children: readonly string[], ends: ReadonlyMap<string, Ended>): Ended {
  const output: JsonValue = Object.fromEntries(
    children.map((child) => {
      const ended = ends.get(child);
      const status = ended === undefined ? "skipped" : statusSeen(ended);
      return [child, { status, output: ended?.kind === "met" ? (ended.output ?? null) : null }];
    }),
  );
  return [...ends.values()].some(isUnknown)
    ? { kind: "met", output, isUnknown: true }
    : { kind: "met", output };
}

function repeat(telling: Telling, id: string, around: Around): Ended {
  const own = inputOf(telling.links.steps[id] ?? {});
  const body = String(own.body);
  const max = Number(own.max_iterations);
  let last: JsonValue = null;
  let unknown: { readonly isUnknown?: true } = {};
  const asks = (condition: JsonValue | undefined, iteration: number) =>
    typeof condition === "string"
      ? evaluateCondition(condition, scopeOf(telling, { ...around, loop: { iteration, last_output: last } }))
      : undefined;
  for (let done = 0; ; done += 1) {
    const finished: Ended = { kind: "met", output: { iterations: done, last_output: last }, ...unknown };
    const isWanted = asks(own.while, done + 1);
    if (isWanted === "failed") return failed;
    if (isWanted === false) return finished;
    if (done === max) return own.while === undefined && own.until === undefined ? finished : failed;
    const ended = telling.story.begin(telling, body, {
      ...around,
      loop: { iteration: done + 1, last_output: last },
    });
    if (!isMet(ended)) return ended;
    last = ended.kind === "met" ? (ended.output ?? null) : null;
    unknown = isUnknown(ended) ? { isUnknown: true } : {};
    const isEnough = asks(own.until, done + 1);
    if (isEnough === "failed") return failed;
    if (isEnough === true) {
      return { kind: "met", output: { iterations: done + 1, last_output: last }, ...unknown };
    }
  }
}
