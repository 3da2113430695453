// Puts the outputs of a step's children together, some hundred in one commit, as long as they fit into one record.
import type { CompiledStep } from "../workflow/compiled.ts";
import { bodyOf, type Draft, putPayload, stepOf } from "./draft.ts";
import { childAt } from "./instances.ts";
import { outputRecordKey } from "./keys.ts";
import { type Children, readOutput, type StepRecord, untouched, type WorkItem } from "./records.ts";
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
  for (let index = item.from; index < end; index += 1) {
    const part = partOf(draft, step, index, record.children);
    if (part !== undefined) parts.push(part);
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

/** Undefined when a record is missing. */
function partOf(draft: Draft, step: CompiledStep, index: number, children: Children): string | undefined {
  const id = childAt(step, index);
  const mayHaveBegun = index < children.next || children.again === true;
  const record = mayHaveBegun ? stepOf(draft, id) : untouched;
  if (record === undefined) return undefined;
  const key = record.outputKey;
  const body = key === undefined ? undefined : bodyOf(draft, key);
  if (key !== undefined && body === undefined) return undefined;
  const output = JSON.stringify(typeof body === "string" ? readOutput(body) : null);
  if (step.parallel === undefined) return output;
  const status = record.status === "pending" ? "skipped" : record.status;
  return `${JSON.stringify(id)}:{"status":${JSON.stringify(status)},"output":${output}}`;
}
