// Puts the outputs of a step's children together, some hundred in one commit, as long as they fit into one record.
import type { CompiledStep } from "../workflow/compiled.ts";
import { bodyOf, type Draft, outputAt, payloadsPerRound, putPayload, stepOf } from "./draft.ts";
import { childAt } from "./instances.ts";
import { outputRecordKey } from "./keys.ts";
import { type Children, type StepRecord, untouched, type WorkItem } from "./records.ts";
import { callOffAttempt, succeed } from "./settle-step.ts";

/** As large as a worker's result may be. Beyond it the outputs stay with the children, and nobody reads them together. */
export const outputCharactersMax = 256 * 1024;

/** Two records each are read for so many children at once. */
const childrenPerCommit = 200;

type Collecting = WorkItem & { readonly kind: "collect" };

/** An item of a list for `for_each`, in the order of the items; a member by name for `parallel`. */
export function collect(draft: Draft, item: Collecting): void {
  const step = draft.compiled.steps.get(item.step);
  const record = step === undefined ? undefined : stepOf(draft, item.step);
  if (step === undefined || record?.children === undefined || record.waitingFor !== "children") return;
  const end = Math.min(record.children.total, item.from + childrenPerCommit);
  const parts: string[] = [];
  let characters = item.text.length;
  let unread = 0;
  for (let index = item.from; index < end; index += 1) {
    // Nobody reads the rest of what will not be kept.
    if (characters > outputCharactersMax || unread >= payloadsPerRound) break;
    const part = partOf(draft, step, index, record.children);
    if (part === "unread") unread += 1;
    if (part === undefined || part === "unread") continue;
    parts.push(part);
    characters += part.length;
  }
  if (draft.missing.size > 0) return;
  const text = [item.text, ...parts].filter((part) => part !== "").join(",");
  if (text.length > outputCharactersMax) {
    finish(draft, step, { ...record, omitted: true });
    return;
  }
  if (end < record.children.total) {
    // The next hundreds are read in the next commit.
    draft.isClosed = true;
    draft.queue.unshift({ ...item, from: end, text });
    return;
  }
  const key = outputRecordKey(step.id);
  putPayload(draft, key, `{"output":${step.parallel === undefined ? `[${text}]` : `{${text}}`}}`);
  finish(draft, step, record, key);
}

function finish(draft: Draft, step: CompiledStep, record: StepRecord, key?: string): void {
  callOffAttempt(draft, { step, record });
  succeed(draft, { step, record }, key);
}

/** Undefined when the child's record is missing, `unread` when its output is. */
function partOf(draft: Draft, step: CompiledStep, index: number, children: Children): string | undefined {
  const id = childAt(step, index);
  const mayHaveBegun = index < children.next || children.again === true;
  const record = mayHaveBegun ? stepOf(draft, id) : untouched;
  if (record === undefined) return undefined;
  const key = record.outputKey;
  if (key !== undefined && bodyOf(draft, key) === undefined) return "unread";
  const output = JSON.stringify(outputAt(draft, key));
  if (step.parallel === undefined) return output;
  const status = record.status === "pending" ? "skipped" : record.status;
  return `${JSON.stringify(id)}:{"status":${JSON.stringify(status)},"output":${output}}`;
}
