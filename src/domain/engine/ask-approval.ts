// Puts a step before a person: what exactly is approved, by its canonical text and hash.
import { hash } from "node:crypto";
import canonicalize from "canonicalize";
import type { JsonValue } from "../fingerprint.ts";
import { inputOf } from "./begin-job.ts";
import { type Beginning, failToBegin } from "./beginning.ts";
import { bodyOf, type Draft, putPayload } from "./draft.ts";
import { approvalIdOf, approvalKey, factsRecordKey, stepTimer } from "./keys.ts";
import { readFacts } from "./records.ts";
import { wait } from "./wait.ts";

export function askForApproval(draft: Draft, beginning: Beginning): void {
  const { step, record } = beginning;
  const input = inputOf(draft, beginning);
  if (input.kind === "failed") {
    failToBegin(draft, beginning, input.message, input.code);
    return;
  }
  const name = { step: step.id, attempt: record.attempt + 1 };
  const shown = canonicalText({ run: draft.runId, ...name, payload: input.value });
  if (shown === undefined) {
    failToBegin(draft, beginning, "the input has no canonical form");
    return;
  }
  const facts = bodyOf(draft, factsRecordKey);
  const { separateDuties = false, requester = draft.actor } =
    typeof facts === "string" ? readFacts(facts) : {};
  const expiresAtMs = step.timeoutMs === undefined ? undefined : draft.nowMs + step.timeoutMs;
  putPayload(draft, approvalKey(name), shown);
  draft.approvals.push({
    approvalId: approvalIdOf(draft.runId, name),
    step: step.id,
    hash: hash("sha256", shown),
    payloadKey: approvalKey(name),
    // Through a run in between, nobody approves what they have asked for themselves.
    requester,
    separateDuties: step.separateDuties || separateDuties,
    ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
  });
  if (expiresAtMs !== undefined) {
    draft.timers.push({ timerId: stepTimer("expiry", name), dueAtMs: expiresAtMs });
  }
  wait(draft, { step, record: { ...record, attempt: name.attempt } }, "approval", expiresAtMs);
}

function canonicalText(value: JsonValue): string | undefined {
  try {
    return canonicalize(value);
  } catch {
    // Infinity, or half of a surrogate pair: nothing that a hash could stand for.
    return undefined;
  }
}
