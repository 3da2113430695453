// The dispatch check behind a URL: one POST a question, bounded in size, never redirected; whatever is no clear answer is thrown.
import type { DispatchAnswer, DispatchJob } from "../domain/dispatch.ts";
import type { DispatchCheck } from "../ports/ports.ts";

type HttpCheckOptions = {
  readonly url: string;
  /** Sent as a bearer token; empty sends none. */
  readonly token?: string;
};

/** A verdict and a sentence; a page of an error has no place in memory. */
const answerBytesMax = 16_384;

export function createHttpDispatchCheck({ url, token = "" }: HttpCheckOptions): DispatchCheck {
  const headers = {
    "content-type": "application/json",
    accept: "application/json",
    ...(token === "" ? {} : { authorization: `Bearer ${token}` }),
  };
  return async (job, { signal }) => {
    const body = JSON.stringify(questionOf(job));
    const response = await post(url, { method: "POST", headers, body, redirect: "manual", signal });
    if (response.status !== 200) {
      await response.body?.cancel();
      throw new Error(`HTTP ${response.status}`);
    }
    return answerOf(await readBounded(response));
  };
}

/** The names of the error's own cause differ by platform and say too much: the address may hold a secret. */
async function post(url: string, request: RequestInit): Promise<Response> {
  try {
    return await fetch(url, request);
  } catch (error) {
    request.signal?.throwIfAborted();
    const cause =
      error instanceof Error ? (error.cause as { readonly code?: unknown } | undefined) : undefined;
    throw new Error(typeof cause?.code === "string" ? `no connection: ${cause.code}` : "no connection");
  }
}

function questionOf(job: DispatchJob): object {
  return {
    job_id: job.jobId,
    run_id: job.runId,
    workflow: job.workflow,
    step: job.step,
    attempt: job.attempt,
    topic: job.topic,
    tenant: job.tenant,
    risk: job.risk,
    input: job.input,
    requested_by: job.requestedBy,
  };
}

async function readBounded({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength;
    // Leaving the loop cancels the rest of the answer.
    if (bytes > answerBytesMax) throw new Error(`its answer is larger than ${answerBytesMax} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** The caller judges the fields; here they only get the names that functions use. */
function answerOf(text: string): DispatchAnswer {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("its answer is no JSON");
  }
  const { verdict, reason, retry_after_ms: retryAfterMs } = Object(value) as Record<string, unknown>;
  return { verdict, reason, retryAfterMs } as DispatchAnswer;
}
