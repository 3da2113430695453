// The reference for steps that a worker or person does, or that end at once: work, approvals, notices, values, child runs.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import {
  type Around,
  failed,
  type Interpretation,
  type InterpretedRun,
  type Story,
  scopeOf,
} from "./interpretation.ts";
import { inputOf, retriesOf, type StepText } from "./language.ts";
import { childPath } from "./oracle.ts";
import type { Ended, FailedStatus } from "./picture.ts";
import { evaluateTemplates, evaluateText, type SmallScope } from "./small-expressions.ts";

export function doWork(interpretation: Interpretation, id: string, around: Around): Ended {
  const step = interpretation.links.steps[id] ?? {};
  switch (String(step.type)) {
    case "approval":
      return ask(interpretation, id);
    case "delay":
      return { kind: "met" };
    case "transform":
      return given(evaluateTemplates(step.input ?? null, scopeOf(interpretation, around)));
    case "storage":
      return store(step, scopeOf(interpretation, around));
    case "subworkflow":
      return runOther(interpretation, id, around);
    default:
      return typeof step.for_each === "string"
        ? workOnItems(interpretation, id, around)
        : work(interpretation, id, around);
  }
}

function given(evaluated: ReturnType<typeof evaluateTemplates>): Ended {
  if (evaluated === "failed") return failed;
  return { kind: "met", output: evaluated === "nothing" ? null : evaluated.value };
}

function store(step: StepText, scope: SmallScope): Ended {
  const { operation, key, value = null } = inputOf(step);
  if (operation === "write") return given(evaluateTemplates(value, scope));
  return operation === "delete"
    ? { kind: "met", output: null }
    : given(evaluateTemplates(`\${ctx.${key}}`, scope));
}

function nextAttempt(interpretation: Interpretation, id: string): number {
  const attempt = (interpretation.attempts.get(id) ?? 0) + 1;
  interpretation.attempts.set(id, attempt);
  return attempt;
}

function ask(interpretation: Interpretation, id: string): Ended {
  const attempt = nextAttempt(interpretation, id);
  switch (interpretation.story.oracle.decide({ run: interpretation.path, step: id, attempt })) {
    case "approved":
      return { kind: "met", output: { decision: "approved", decided_by: "ann", reason: "" } };
    case "rejected":
      return { kind: "broken", statuses: ["denied"] };
    case "expired":
      return { kind: "broken", statuses: ["timed_out"] };
    case "never":
      return { kind: "stuck" };
  }
}

/** The fifth worker that falls silent over the same step is the last. */
const lostMax = 5;

/** One job after the other until one is done, or none may follow. `id` may be an item of a for_each. */
function work(
  interpretation: Interpretation,
  id: string,
  around: Around,
  step = interpretation.links.steps[id] ?? {},
): Ended {
  const evaluated = evaluateTemplates(step.input ?? interpretation.input, scopeOf(interpretation, around));
  if (evaluated === "failed") return failed;
  const input =
    step.input === undefined ? interpretation.input : evaluated === "nothing" ? null : evaluated.value;
  if (!fitsInput(step, input)) return failed;
  const { oracle } = interpretation.story;
  let [failures, lost] = [0, 0];
  for (;;) {
    const attempt = { run: interpretation.path, step: id, attempt: nextAttempt(interpretation, id) };
    const answer = oracle.work(attempt, input);
    if (answer.kind === "never") return { kind: "stuck" };
    if (answer.kind === "failed") return failed;
    const output = answer.kind === "output" ? fittingOutput(step, answer.output) : undefined;
    if (output !== undefined) return { kind: "met", output };
    // A hundred of them cost nothing, and nobody draws so many in a row.
    if (answer.kind === "handed_back") continue;
    if (answer.kind === "lost") lost += 1;
    else failures += 1;
    if (lost < lostMax && failures <= retriesOf(step)) continue;
    // A timeout where nobody asked for retries leaves no letter.
    const hasLetter = answer.kind !== "timeout" || retriesOf(step) > 0;
    if (!hasLetter || oracle.isRetried?.(attempt) !== true) {
      return { kind: "broken", statuses: [answer.kind === "timeout" ? "timed_out" : "failed"] };
    }
    [failures, lost] = [0, 0];
  }
}

type SmallSchema = {
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, { readonly maximum?: number }>>;
};

function fitsInput({ input_schema: schema }: StepText, input: JsonValue): boolean {
  const { required = [] } = (schema ?? {}) as SmallSchema;
  return required.every((name) => input !== null && typeof input === "object" && Object.hasOwn(input, name));
}

/** The part of the result that was asked for; undefined when it is not there or does not fit. */
function fittingOutput(step: StepText, result: JsonValue): JsonValue | undefined {
  const whole = result as Readonly<Record<string, JsonValue>>;
  if (typeof step.result_data_path === "string") return whole[step.result_data_path];
  const { properties = {} } = (step.output_schema ?? {}) as SmallSchema;
  for (const [name, { maximum = Number.POSITIVE_INFINITY }] of Object.entries(properties)) {
    if (Number(whole[name]) > maximum) return undefined;
  }
  return result;
}

function workOnItems(interpretation: Interpretation, id: string, around: Around): Ended {
  const { for_each: text, max_parallel: openMax = 100, ...step } = interpretation.links.steps[id] ?? {};
  const items = evaluateText(String(text), scopeOf(interpretation, around));
  if (typeof items === "string" || !Array.isArray(items.value)) return failed;
  const isCancelling = step.for_each_on_failure !== "continue";
  const ends: Ended[] = [];
  const broken: FailedStatus[] = [];
  for (const [index, item] of items.value.entries()) {
    const name = `${id}[${index}]`;
    const ended = work(interpretation, name, { ...around, item, index }, step);
    interpretation.ended.set(name, ended);
    ends.push(ended);
    // Those that hang keep the others from beginning.
    if (ended.kind === "stuck" && ends.length === openMax) return ended;
    if (ended.kind === "broken") broken.push(...ended.statuses);
    if (ended.kind === "broken" && isCancelling && openMax === 1) break;
  }
  if (broken.length > 0 && isCancelling) {
    if (openMax !== 1) for (const index of items.value.keys()) interpretation.iffy.add(`${id}[${index}]`);
    return { kind: "broken", statuses: openMax === 1 ? [broken[0] as FailedStatus] : broken };
  }
  if (ends.some(({ kind }) => kind === "stuck")) return { kind: "stuck" };
  if (broken.length > 0) return { kind: "broken", statuses: [worst(broken)] };
  return { kind: "met", output: ends.map((ended) => (ended.kind === "met" ? (ended.output ?? null) : null)) };
}

function worst(statuses: readonly FailedStatus[]): FailedStatus {
  return (["failed", "denied", "timed_out"] as const).find((status) => statuses.includes(status)) ?? "failed";
}

function runOther(interpretation: Interpretation, id: string, around: Around): Ended {
  const step = interpretation.links.steps[id] ?? {};
  const { workflow_id: workflow, input_mapping: mapping, output_mapping: asked } = inputOf(step);
  const evaluated = evaluateTemplates(mapping ?? null, scopeOf(interpretation, around));
  if (evaluated === "failed" || !interpretation.story.library.has(String(workflow))) return failed;
  const input =
    mapping === undefined ? interpretation.input : evaluated === "nothing" ? null : evaluated.value;
  for (let failures = 1; ; failures += 1) {
    const attempt = nextAttempt(interpretation, id);
    const path = childPath({ run: interpretation.path, step: id, attempt });
    const told = interpretation.story.interpretRun({ path, workflow: String(workflow), input });
    const { allowed, output } = told.picture;
    if (told.isStuck && step.timeout_sec === undefined) return { kind: "stuck" };
    if (allowed.includes("succeeded")) {
      if (told.picture.isOutputUnknown) return { kind: "met", isUnknown: true };
      if (asked === undefined) return { kind: "met", output };
      return given(evaluateTemplates(asked, { ...scopeOf(interpretation, around), child: childSeen(told) }));
    }
    const statuses = told.isStuck ? (["timed_out"] as const) : (allowed as readonly FailedStatus[]);
    if (statuses.includes("denied") || failures > retriesOf(step)) return { kind: "broken", statuses };
  }
}

function childSeen({ picture, interpretation }: InterpretedRun): JsonValue {
  const { steps } = scopeOf(interpretation, {});
  return { status: "succeeded", output: picture.output, steps: steps ?? null };
}

/** Marks a child run as one that may not be there, or not come to its end. */
export function makeUncertain(story: Story, prefix: string): void {
  for (const [path, picture] of story.runs) {
    if (path.startsWith(prefix)) story.runs.set(path, { ...picture, isCertain: false });
  }
}
