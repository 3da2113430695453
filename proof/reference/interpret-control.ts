// The reference for steps that decide about others: condition, switch, parallel and loop.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { makeUncertain } from "./interpret-work.ts";
import { type Around, failed, type Interpretation, scopeOf } from "./interpretation.ts";
import { casesOf, childrenOf, inputOf } from "./language.ts";
import { type Ended, type FailedStatus, isMet, isUnknown, statusSeen, worstStatuses } from "./picture.ts";
import { evaluateCondition, evaluateTemplates, evaluateText } from "./small-expressions.ts";

export function doControl(interpretation: Interpretation, id: string, around: Around): Ended {
  const step = interpretation.links.steps[id] ?? {};
  const ended = controlled(interpretation, id, around);
  // Whatever is stuck below is taken back when the time is over.
  return ended.kind === "stuck" && step.timeout_sec !== undefined
    ? { kind: "broken", statuses: ["timed_out"] }
    : ended;
}

function controlled(interpretation: Interpretation, id: string, around: Around): Ended {
  const step = interpretation.links.steps[id] ?? {};
  switch (String(step.type)) {
    case "switch":
      return choose(interpretation, id, around);
    case "parallel":
      return inputOf(step).max_parallel === 1
        ? oneAfterTheOther(interpretation, id, around)
        : sideBySide(interpretation, id, around);
    case "loop":
      return repeat(interpretation, id, around);
    default: {
      const verdict = evaluateCondition(String(step.condition), scopeOf(interpretation, around));
      return verdict === "failed" ? failed : { kind: "met", output: verdict };
    }
  }
}

function choose(interpretation: Interpretation, id: string, around: Around): Ended {
  const step = interpretation.links.steps[id] ?? {};
  const scope = scopeOf(interpretation, around);
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
  interpretation.chosen.set(id, String(target ?? ""));
  return { kind: "met", output: { matched_case: matched, matched_value: value, target_step: target } };
}

type Wanted = {
  readonly children: readonly string[];
  readonly required: number;
  readonly continues: boolean;
};

function wantedBy({ links }: Interpretation, id: string): Wanted {
  const step = links.steps[id] ?? {};
  const { strategy, required, on_failure: onFailure } = inputOf(step);
  const children = childrenOf(step);
  const needed = { any: 1, n_of_m: Number(required) }[String(strategy)] ?? children.length;
  return { children, required: needed, continues: onFailure === "continue" };
}

function oneAfterTheOther(interpretation: Interpretation, id: string, around: Around): Ended {
  const { children, required, continues } = wantedBy(interpretation, id);
  const ends = new Map<string, Ended>();
  const broken: Array<readonly FailedStatus[]> = [];
  let met = 0;
  for (const child of children) {
    const ended = interpretation.story.begin(interpretation, child, around);
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
function sideBySide(interpretation: Interpretation, id: string, around: Around): Ended {
  const { children, required, continues } = wantedBy(interpretation, id);
  const ends = new Map(
    children.map((child) => [child, interpretation.story.begin(interpretation, child, around)]),
  );
  const all = [...ends.values()];
  const met = all.filter(isMet).length;
  const isStuck = all.some(({ kind }) => kind === "stuck");
  if (met >= required) {
    if (met === children.length && required === children.length) {
      return together(children, ends);
    }
    makeIffy(interpretation, children);
    return { kind: "met", isUnknown: true };
  }
  const broken = all.flatMap((ended) => (ended.kind === "broken" ? [ended.statuses] : []));
  const isHopeless = broken.length > children.length - required;
  if (isHopeless && !continues) {
    makeIffy(interpretation, children);
    return { kind: "broken", statuses: [...new Set(broken.flat())] };
  }
  return isStuck ? { kind: "stuck" } : { kind: "broken", statuses: worstStatuses(broken) };
}

function makeIffy(interpretation: Interpretation, children: readonly string[]): void {
  for (const child of children) {
    interpretation.iffy.add(child);
    for (const id of interpretation.ended.keys()) if (id.startsWith(`${child}[`)) interpretation.iffy.add(id);
    makeUncertain(interpretation.story, `${interpretation.path}/${child}@`);
    makeIffy(interpretation, childrenOf(interpretation.links.steps[child] ?? {}));
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

function repeat(interpretation: Interpretation, id: string, around: Around): Ended {
  const own = inputOf(interpretation.links.steps[id] ?? {});
  const body = String(own.body);
  const max = Number(own.max_iterations);
  let last: JsonValue = null;
  let unknown: { readonly isUnknown?: true } = {};
  const asks = (condition: JsonValue | undefined, iteration: number) =>
    typeof condition === "string"
      ? evaluateCondition(
          condition,
          scopeOf(interpretation, { ...around, loop: { iteration, last_output: last } }),
        )
      : undefined;
  for (let done = 0; ; done += 1) {
    const finished: Ended = { kind: "met", output: { iterations: done, last_output: last }, ...unknown };
    const isWanted = asks(own.while, done + 1);
    if (isWanted === "failed") return failed;
    if (isWanted === false) return finished;
    if (done === max) return own.while === undefined && own.until === undefined ? finished : failed;
    const ended = interpretation.story.begin(interpretation, body, {
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
