// Dead letters over HTTP: looking at them, retrying them, removing them.

import type { z } from "zod";
import type * as schemas from "../../api/dead-letter-routes.ts";
import type { LetterDetails } from "../../control/dead-letters/inspect-dead-letter.ts";
import type { Letter } from "../../domain/dead-letter.ts";
import { formatTime, parseTime } from "../../domain/engine/rfc3339.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import { letterPath } from "../../domain/why/explanation.ts";
import { type Asked, callerOf, type Handlers, type Reply, type Service } from "../handler.ts";
import { pageReply, readPage } from "../http-reply.ts";

type DeadLetterHandlers = Pick<
  Handlers,
  | "listDeadLetters"
  | "listDeadLetterPage"
  | "inspectDeadLetter"
  | "retryDeadLetter"
  | "removeDeadLetter"
  | "purgeDeadLetters"
>;

export const deadLetterHandlers: DeadLetterHandlers = {
  listDeadLetters: list,
  listDeadLetterPage: list,

  async inspectDeadLetter({ api }, { params, key }) {
    const answer = await api.inspectDeadLetter({ tenant: key.tenant, id: params.id });
    if (answer.kind !== "letter") return answer;
    return { status: 200, body: detailsView(answer) };
  },

  async retryDeadLetter({ api }, { params, key }) {
    const answer = await api.retryDeadLetter({ caller: callerOf(key), id: params.id });
    if (answer.kind !== "retrying") return answer;
    const { jobId, runId, step, already } = answer;
    const body = { job_id: jobId, run_id: runId, step_id: step, status: "retrying", already } as const;
    return { status: 200, body };
  },

  async removeDeadLetter({ api }, { params, key }) {
    const answer = await api.removeDeadLetter({ caller: callerOf(key), id: params.id });
    return answer.kind === "removed" ? { status: 204, body: undefined } : answer;
  },

  async purgeDeadLetters({ api }, { body, key }) {
    const { before, reason, state } = body;
    const beforeMs = before === undefined ? undefined : parseTime(before);
    const answer = await api.purgeDeadLetters({
      caller: callerOf(key),
      ...(beforeMs === undefined ? {} : { beforeMs }),
      ...(reason === undefined ? {} : { reason }),
      ...(state === undefined ? {} : { state }),
    });
    if (answer.kind !== "purged") return answer;
    return { status: 200, body: { purged: answer.purged, more: answer.more } };
  },
};

async function list(
  { api }: Service,
  { query, key: { tenant } }: Asked<"listDeadLetters">,
): Promise<Reply<"listDeadLetters">> {
  const { state, reason } = query;
  const name = { operation: "listDeadLetters", tenant, detail: `${state ?? ""} ${reason ?? ""}` } as const;
  const page = readPage(name, query);
  if (page.kind === "bad_cursor") return page.failure;
  const answer = await api.listDeadLetters({
    tenant,
    after: page.after ?? "",
    limit: page.limit,
    ...(state === undefined ? {} : { state }),
    ...(reason === undefined ? {} : { reason }),
  });
  if (answer.kind !== "listed") return answer;
  return pageReply(name, answer.letters.map(letterView), answer.next);
}

type LetterView = z.output<typeof schemas.deadLetter>;

function letterView(letter: Letter): LetterView {
  return {
    id: letter.id,
    reason: letter.reason,
    state: letter.state,
    at: formatTime(letter.writtenAtMs),
    ...(letter.runId === undefined ? {} : { run_id: letter.runId }),
    ...(letter.workflow === undefined ? {} : { workflow_id: letter.workflow }),
    ...(letter.step === undefined ? {} : { step_id: letter.step }),
    ...(letter.attempt === undefined ? {} : { attempt: letter.attempt }),
    ...(letter.jobId === undefined ? {} : { job_id: letter.jobId }),
    ...(letter.topic === undefined ? {} : { topic: letter.topic }),
    ...(letter.failures === undefined ? {} : { failures: letter.failures }),
    ...(letter.lostClaims === undefined ? {} : { lost_claims: letter.lostClaims }),
    ...(letter.error === undefined ? {} : { error: letter.error }),
    ...(letter.errorKey === undefined ? {} : { error_key: letter.errorKey }),
    ...(letter.because === undefined ? {} : { because: letter.because }),
    path: letterPath(letter.id),
  };
}

function detailsView(details: LetterDetails): z.output<typeof schemas.deadLetterDetails> {
  const { letter, error, input, header, verdict } = details;
  const workflow = letter.workflow ?? header?.workflow;
  const retryable = verdict.kind === "retryable" || verdict.kind === "deliverable";
  return {
    ...letterView(letter),
    ...(workflow === undefined ? {} : { workflow_id: workflow }),
    ...(error === undefined ? {} : { error }),
    ...(input === undefined ? {} : { input: JSON.parse(input) as JsonValue }),
    ...(letter.content === undefined ? {} : { content: letter.content }),
    ...(header === undefined ? {} : { run_status: header.status }),
    retryable,
    ...(verdict.kind === "not_retryable" ? { not_retryable_because: verdict.because } : {}),
    ...(verdict.kind === "already_retried" ? { not_retryable_because: "it was retried before" } : {}),
    ...(retryable ? { retry_path: `${letterPath(letter.id)}/retry` } : {}),
  };
}
